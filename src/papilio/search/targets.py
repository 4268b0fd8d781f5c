"""What a search looks for: few entries, a low error, or the best compromise."""

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..typing import Array
from ..validation import as_real

if TYPE_CHECKING:
    from .pricing import Pricing

EXACT = 1e-6  # an error at which a longer search is not worth its time
_WORTHWHILE = 0.99  # Relative to the entries of the dense matrix; products with more are not useful.


class Target(NamedTuple):
    """The lowest error within ``budget`` entries, the fewest entries within the error ``limit``, or neither.

    Without both, the lowest sum of error and relative complexity, where the sum of a product with at most half of
    the dense matrix's entries counts half if it is exact, or misses no more than noise explains, and where the
    dense matrix itself has the sum 1.
    """

    size: int  # entries of the dense matrix
    budget: int | None = None
    limit: float | None = None
    is_single: bool = False  # whether its numbers have single precision
    n_factors: int | None = None
    blocks: tuple[tuple[int, int] | None, ...] = (None,)  # sizes of blocks for PALM; None for single entries
    pricing: "Pricing | None" = None  # costs in time; None for costs in entries

    @property
    def rounding(self) -> float:
        """An error below which all are equal."""
        return 5e-6 if self.is_single else 1e-14

    @property
    def exact(self) -> float:
        """An error at which a product is exact."""
        return 1e-5 if self.is_single else 1e-9

    def ranks(self, entries: Array, errors: Array, noise: float = 0.0) -> Array:
        """How good products are, the lower the better; infinite for those that miss the target.

        Errors up to ``noise`` are explained by noise in the matrix.
        """
        if self.limit is not None:
            return np.where((errors <= self.limit) & (entries <= _WORTHWHILE * self.size), entries, np.inf)
        if self.budget is not None:
            return np.where(entries <= self.budget, np.maximum(errors, self.rounding), np.inf)
        is_fast_and_exact = (errors <= max(self.exact, noise)) & (2 * entries <= self.size)
        sums = (errors + entries / self.size) * np.where(is_fast_and_exact, 0.5, 1.0)
        is_better = (sums < 1) | (self.n_factors is not None)  # than the dense matrix as one factor
        return np.where(is_better & (entries <= _WORTHWHILE * self.size), sums, np.inf)

    def estimated(self, errors: Array) -> Array:
        """Errors before a product is built, with what rounding may add to them."""
        return np.where(errors > 0, errors * (1 + 100 * self.rounding) + self.rounding, 0.0)

    def rank(self, entries: float, error: float, noise: float = 0.0) -> float:
        """`ranks` of one product."""
        return float(self.ranks(np.array(entries), np.array(error), noise))

    def distance(self, entries: float, error: float) -> tuple[float, float]:
        """An order of products that puts those first that meet the target, and then those that nearly do."""
        rank = self.rank(entries, error)
        return (rank, 0.0) if rank < np.inf else (np.inf, entries if self.budget is not None else error)


def least_entries(shape: tuple[int, int], n_factors: int, block: tuple[int, int] | None = None) -> int:
    """The fewest entries of a product: with fewer, a factor would have empty rows or columns."""
    long, short = max(shape), min(shape)
    if block is None:
        return long + (n_factors - 1) * short
    lines = [max(ceil(m / block[0]), ceil(n / block[1])) for m, n in (shape, (short, short))]
    return block[0] * block[1] * (lines[0] + (n_factors - 1) * lines[1])


def least_complexity(shape: tuple[int, int], n_factors: int | None) -> tuple[float, str]:
    """The lowest relative complexity, and why; without ``n_factors``, the dense matrix is a product, too."""
    least = least_entries(shape, n_factors or 2) / (shape[0] * shape[1])
    reason = f"one entry per row or column of each of {n_factors or 2} factors of a {shape[0]}×{shape[1]} matrix"
    return min(least, 1.0) if n_factors is None else least, reason


def as_speedup(name: str, value: float) -> float:
    speedup = as_real(name, value)
    if not speedup > 1:
        raise ValueError(f"{name} must be a finite number above 1, got {value}")
    return speedup


def as_complexity(name: str, value: float, shape: tuple[int, int], n_factors: int | None) -> float:
    complexity = as_real(name, value, 0.0, 1.0)
    least, reason = least_complexity(shape, n_factors)
    if (least - complexity) * shape[0] * shape[1] > 1e-9:
        raise ValueError(f"{name} must be at least {least:.4g}, {reason}, and at most 1, got {complexity:g}")
    return complexity
