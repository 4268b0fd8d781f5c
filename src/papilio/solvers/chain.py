"""A chain of factors that is visited one by one, with the products on both sides of the visited one."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..linalg import frobenius, inner
from ..typing import Array
from .moments import Moments
from .products import Matrix, compact, dense, times


class Chain:
    """The factors S₁, …, S_M of a fit to `Moments`, and a sweep over them.

    During a sweep, ``left`` and ``right`` are the products on the two sides of the visited factor (None for the
    identity; the moments' fixed tail belongs to the right), and the visitor may replace ``factors[j]``. Each
    product is computed once: those ahead from the old factors, those behind from the new ones.
    """

    left: Matrix | None
    right: Matrix | None

    def __init__(self, moments: Moments, factors: Sequence[Array], order: str) -> None:
        problem = moments.compressed
        dtype = np.result_type(problem.target, *factors)
        self.target = problem.target.astype(dtype, copy=False)
        self.factors = [factor.astype(dtype, copy=False) for factor in factors]
        self.rounding = 100 * float(np.finfo(dtype).eps)
        self.tail = None if problem.tail is None else problem.tail.astype(dtype, copy=False)
        self._rest = problem.rest
        self._size = moments.norm or 1.0
        self.rightwards = order == "left_to_right"

    def rescale(self, unit: float) -> None:
        """Divide the data by ``unit``; relative errors do not change."""
        self.target = self.target / self.target.real.dtype.type(unit)
        self._rest /= unit
        self._size /= unit

    def sweep(self) -> Iterator[int]:
        """Visit all factors in order; `product` is that of the whole chain at any time."""
        blocks = [compact(factor) for factor in self.factors]
        count = len(blocks)
        # prefix[j] is the product of the blocks before j, suffix[j] of those from j on.
        prefix: list[Matrix | None] = [None] * (count + 1)
        suffix: list[Matrix | None] = [None] * count + [self.tail]
        if self.rightwards:
            for j in reversed(range(count)):
                suffix[j] = times(blocks[j], suffix[j + 1])
        else:
            for j in range(count):
                prefix[j + 1] = times(prefix[j], blocks[j])
        for j in range(count) if self.rightwards else reversed(range(count)):
            self.left, self.right = prefix[j], suffix[j + 1]
            cut = j if self.rightwards else j + 1  # block j is still the old one on this side of the cut
            self._halves = prefix[cut], suffix[cut]
            before = self.factors[j]
            yield j
            if self.factors[j] is not before:
                blocks[j] = compact(self.factors[j])
            if self.rightwards:
                prefix[j + 1] = times(prefix[j], blocks[j])
            else:
                suffix[j] = times(blocks[j], suffix[j + 1])
        end = count if self.rightwards else 0
        self._halves = prefix[end], suffix[end]

    def whole(self) -> Array:
        """S₁…S_M (times the tail) outside of a sweep."""
        product: Matrix | None = self.tail
        for factor in reversed(self.factors):
            product = times(compact(factor), product)
        return dense(times(None, product))

    def product(self) -> Array:
        """S₁…S_M (times the tail), with the visited factor as it was when its visit began."""
        return dense(times(*self._halves))

    def fit_scale(self, product: Array, scale: float) -> tuple[float, float]:
        """scale = Re⟨X, X̂⟩/‖X̂‖² and the relative error with it; with a zero product the scale stays."""
        size = frobenius(product)
        if size > 0:
            scale = inner(self.target, product / product.real.dtype.type(size)) / size
        return scale, self.error(product, scale)

    def error(self, product: Array, scale: float) -> float:
        """‖X − scale·X̂‖ / ‖X‖."""
        return self.relative(frobenius(self.target - product * product.real.dtype.type(scale)))

    def relative(self, misfit: float) -> float:
        """The relative error if ``misfit`` is the norm of the residual of the compressed data."""
        return float(np.hypot(misfit, self._rest)) / self._size
