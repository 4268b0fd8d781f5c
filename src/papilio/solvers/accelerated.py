"""PALM's iteration for large problems: on the moments themselves, with inertia, in a metric of its own."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..constraints import Constraint, Fixed
from ..constraints.selection import slack_of
from ..kernels import descent as kernel
from ..kernels import steps
from ..linalg import column_norms, frobenius, inner, largest_eigenvalue
from ..operators import SparseProduct
from ..typing import Array
from .descent import Descent, groups_of, kind_of, limit_of
from .moments import CANCELLING, Moments
from .products import Matrix, adjoint, compact, dense, times

_TOLERANCE = 1e-3  # of squared spectral norms: a step that is too long is seen when the error rises
_LEAST_WEIGHT = 1e-3  # relative to the largest
_IMAGES = 3  # factors whose products with the Gram matrix are kept: now, before, and at the next step


class Surroundings(NamedTuple):
    """What stands around a factor: L, K = R A Rᴴ and B Rᴴ; None for an identity."""

    left: Matrix | None
    gram: Array | None
    cross: Array


class AcceleratedDescent(Descent):
    """PALM with inertia on B = XΓᴴ and A = ΓΓᴴ, for sets that restrict nothing but supports.

    With L and R the products left and right of a factor S, the error is a quadratic function of S,

        ½‖X − scale·L S R Γ‖² = ½ scale²·tr(H S K Sᴴ) − scale·Re tr(Sᴴ Lᴴ B Rᴴ) + ½‖X‖²,

    H = LᴴL and K = R A Rᴴ; the largest product is that of the last factor and A. On data, the diagonal of A holds
    the energies of the codes, which differ by orders of magnitude from atom to atom: a step that is safe for the
    largest moves the others little. Steps are therefore taken in the metric of the diagonals v² of H and w² of K.
    The gradient's entries are divided by c·v_i²·w_j², where c = ‖H'‖₂‖K'‖₂ for H and K scaled to unit diagonals,
    and the entries with the largest |s_ij|·v_i·w_j are kept. A plain matrix has no such energies: its metric is
    that of `palm`.
    """

    def __init__(
        self, moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], rightwards: bool
    ) -> None:
        dtype = np.result_type(moments.cross, *factors)
        self._factors = [factor.astype(dtype, copy=False) for factor in factors]
        super().__init__(self._factors, sets, inertia=True)
        self._moments, self._rightwards = moments, rightwards
        self._size = moments.norm or 1.0
        self._cross = moments.cross.astype(dtype, copy=False) / dtype.type(self._size)
        self._gram = None if moments.gram is None else moments.gram.astype(dtype, copy=False)
        longest = max(max(constraint.shape) for constraint in sets)
        self._groups = [groups_of(constraint, longest) for constraint in sets]
        self._guesses = [0.0] * len(sets)
        self._images: list[tuple[Array, Array]] = []
        self._eigenvectors: dict[tuple[str, int], Array] = {}
        self._norm_of_gram: float | None = None

    @property
    def factors(self) -> list[Array]:
        return list(self._factors)

    def _return_to(self, factors: list[Array]) -> None:
        self._factors = list(factors)

    def error(self, scale: float) -> float:
        product: Matrix = self._factors[-1]
        for factor in reversed(self._factors[:-1]):
            product = compact(factor) @ product
        return self._moments.error(dense(product) * self._factors[0].real.dtype.type(scale))

    def _iterate(self, scale: float, exact_norms: bool) -> tuple[float, float]:
        for j, around in self._sweep():
            if not isinstance(self._sets[j], Fixed):
                goal = around.cross / around.cross.real.dtype.type(scale / self._size)
                self._factors[j] = self._step(j, around._replace(cross=goal), exact_norms)
        left, _, cross = around  # of the factor that was visited last
        product = dense(times(left, compact(self._factors[j])))
        along = inner(product, cross)
        image = product  # of the product by the Gram matrix
        if around.gram is not None:
            image = dense(times(left, self._times_gram(j, self._factors[j], around)))
        square = inner(product, image)
        if square <= 0.0:
            return scale, self.error(scale)
        scale = self._size * (along / square)
        error = float(np.sqrt(max(1.0 - along * (along / square), 0.0)))
        return scale, error if error > CANCELLING else self.error(scale)

    def _sweep(self) -> Iterator[tuple[int, Surroundings]]:
        """Visit all factors in order: those ahead are the old ones, those behind the new ones."""
        count = len(self._factors)
        lefts: list[Matrix | None] = [None] * (count + 1)
        rights = [Surroundings(None, self._gram, self._cross)] * (count + 1)  # of factor j: number j + 1
        if self._rightwards:
            for j in reversed(range(1, count)):
                rights[j] = self._beyond(j, rights[j + 1])
        else:
            for j in range(count - 1):
                lefts[j + 1] = times(lefts[j], compact(self._factors[j]))
        for j in range(count) if self._rightwards else reversed(range(count)):
            yield j, rights[j + 1]._replace(left=lefts[j])
            if self._rightwards:
                lefts[j + 1] = times(lefts[j], compact(self._factors[j]))
            elif j > 0:
                rights[j] = self._beyond(j, rights[j + 1])

    def _beyond(self, j: int, around: Surroundings) -> Surroundings:
        """K and B Rᴴ with factor j in R, too."""
        factor = compact(self._factors[j])
        image = self._times_gram(j, self._factors[j], around)
        if isinstance(factor, SparseProduct):
            gram, cross = (dense(factor @ matrix.conj().T).conj().T for matrix in (image, around.cross))
            return Surroundings(None, gram, cross)
        turned = adjoint(factor)
        return Surroundings(None, image @ turned, around.cross @ turned)

    def _times_gram(self, j: int, factor: Array, around: Surroundings) -> Array:
        """S K; with A itself, the products of the last few factors are kept."""
        if around.gram is None:
            return factor
        if j < len(self._factors) - 1:
            return factor @ around.gram
        for known, image in self._images:
            if known is factor:
                return image
        image = dense(times(compact(factor), around.gram))
        self._images = [*self._images[1 - _IMAGES :], (factor, image)]
        return image

    def _step(self, j: int, around: Surroundings, exact_norms: bool) -> Array:
        """The projection of S − (H S K − Lᴴ B Rᴴ/scale)/(1.001·c·v²w²), in the metric of the weights v and w."""
        old, before, left = self._factors[j], self._before[j], around.left
        point = self._ahead(old, before)
        if around.gram is None:
            image = point
        elif around.gram is self._gram:  # which costs no product, as both are known
            image = self._ahead(self._times_gram(j, old, around), self._times_gram(j, before, around))
        else:
            image = point @ around.gram
        v, of_left = self._metric_of_left(j, left, exact_norms)
        w, of_right = self._metric_of_right(j, around.gram, exact_norms)
        modulus = kernel.MARGIN * of_left * of_right
        gradient = dense(times(adjoint(left), dense(times(left, image)) - around.cross))
        kind = old.real.dtype
        rows = 1 / (modulus * v * v) if modulus > 0 else np.zeros(v.size)
        worth = np.empty(point.shape, kind)
        scales = (each.astype(kind) for each in (rows, 1 / (w * w), v, w))
        steps.step(point, np.ascontiguousarray(gradient), *scales, worth)
        return self._projected(j, point, worth)

    def _ahead(self, new: Array, before: Array) -> Array:
        """A new array: ``new``, further along the way from ``before`` by inertia."""
        point = np.empty(new.shape, new.dtype)
        new, before = np.ascontiguousarray(new), np.ascontiguousarray(before)
        steps.ahead_of(new, before, new.real.dtype.type(self._inertia), point)
        return point

    def _metric_of_left(self, j: int, left: Matrix | None, exact: bool) -> tuple[Array, float]:
        """The weights v of the rows of factor j, and ‖H'‖₂."""
        if left is None:
            return np.ones(self._factors[j].shape[0]), 1.0
        weights = self._weights(column_norms(dense(left)) if self._gram is not None else np.ones(left.shape[1]))
        if exact:
            return weights, float(np.linalg.norm(dense(left) / weights, 2)) ** 2
        turned = adjoint(left)
        return weights, self._norm(("left", j), lambda x: turned @ (left @ x), weights)

    def _metric_of_right(self, j: int, gram: Array | None, exact: bool) -> tuple[Array, float]:
        """The weights w of the columns of factor j, and ‖K'‖₂."""
        if gram is None:
            return np.ones(self._factors[j].shape[1]), 1.0
        diagonal = gram.diagonal().real if self._gram is not None else np.ones(len(gram))
        weights = self._weights(np.sqrt(np.maximum(diagonal, 0.0)))
        if exact:
            return weights, float(np.linalg.norm(gram / weights / weights[:, None], 2))
        if gram is self._gram and self._norm_of_gram is not None:
            return weights, self._norm_of_gram
        norm = self._norm(("right", j), lambda x: gram @ x, weights)
        if gram is self._gram:
            self._norm_of_gram = norm
        return weights, norm

    def _norm(self, key: tuple[str, int], apply: Callable[[Array], Array], weights: Array) -> float:
        scaling = (1 / weights).astype(self._factors[0].real.dtype)
        norm, self._eigenvectors[key] = largest_eigenvalue(
            lambda x: scaling * apply(scaling * x),
            weights.size,
            self._factors[0].dtype,
            self._eigenvectors.get(key),
            _TOLERANCE,
        )
        return norm

    @staticmethod
    def _weights(roots: Array) -> Array:
        """``roots`` of a diagonal, none of them far smaller than the others."""
        return np.maximum(roots, _LEAST_WEIGHT * (roots.max() or 1.0))

    def _projected(self, j: int, point: Array, worth: Array) -> Array:
        """The entries of ``point`` with the largest ``worth`` that the set admits, at unit norm, in its place."""
        constraint = self._sets[j]
        if not worth.any():
            return constraint._project(point, nonnegative=False)
        keep = np.empty(point.shape, dtype=bool)
        limits = kind_of(constraint), limit_of(constraint), self._groups[j], slack_of(worth)
        self._guesses[j] = kernel.selected(*limits, self._guesses[j], worth, keep)
        steps.keep_only(point, keep)
        point /= worth.dtype.type(frobenius(point))
        return point
