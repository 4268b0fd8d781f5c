"""A chain of factors that is visited one by one, with the products on both sides of the visited one."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..kernels.steps import (
    LEAST_WEIGHT,
    count_entries,
    fill_entries,
    gradient_step,
    norm_squared,
    weighted_gradient_step,
    weighted_step,
)
from ..linalg import column_norms, frobenius, inner, largest_eigenvalue, probe, writeable
from ..operators import SparseProduct
from ..typing import Array
from .moments import CANCELLING, Moments

Matrix: TypeAlias = Array | SparseProduct

_SMALL_SPARSE = 128  # up to this side, a sparse product is not worth its overhead
_SMALL_DENSE = 200  # up to this side, BLAS is not worth its overhead for vectors
_LARGE = 1 << 17  # entries from which a sparse product is worth its overhead
_IMAGES = 3  # factors whose products with the Gram matrix are kept: now, before, and at the next step


class Target(NamedTuple):
    """What a factor moves to before it is projected, in which entries count as much as ``score`` says."""

    point: Array
    score: Array | None = None


class Chain:
    """The factors S₁, …, S_M of a fit to `Moments`, and a sweep over them.

    The data are those of `Moments.compressed`: a plain matrix X, and for moments one more fixed factor on the
    right. During a sweep, ``left`` = L and ``right`` = R are the products on the two sides of the visited factor
    (None for the identity), and the visitor may replace ``factors[j]``. Each product is computed once: those ahead
    from the old factors, those behind from the new ones.
    """

    def __init__(self, moments: Moments, factors: Sequence[Array], order: str, tolerance: float = 1e-7) -> None:
        target, tail, self._rest = moments.compressed
        dtype = np.result_type(target, *factors)
        self.factors = [writeable(factor.astype(dtype, copy=False)) for factor in factors]
        self.target = writeable(target.astype(dtype, copy=False))
        self._end: Any = None if tail is None else writeable(tail.astype(dtype, copy=False))
        self._start(moments, order, dtype, tolerance)

    def _start(self, moments: Moments, order: str, dtype: np.dtype[Any], tolerance: float) -> None:
        self.rounding = 100 * float(np.finfo(dtype).eps)
        self.rightwards = order == "left_to_right"
        self._size = moments.norm or 1.0
        self._tolerance = tolerance
        self._vectors: dict[tuple[str, int], Array | None] = {}
        self._sweeps = 0
        longest = max(*self.target.shape, *(max(factor.shape) for factor in self.factors))
        self._is_small = longest <= _SMALL_DENSE
        if self._is_small:  # The kernels take start vectors with a probe, and a placeholder for the identity.
            self._none = self.target[:0]
            self._starts = np.zeros((len(self.factors), 3, longest), dtype)
            self._starts[:, 2] = probe(longest, dtype)

    def rescale(self, unit: float) -> None:
        """Divide the data by ``unit``; relative errors do not change."""
        self.target = self.target / self.target.real.dtype.type(unit)
        self._rest /= unit
        self._size /= unit

    def sweep(self, scale: float = 1.0) -> Iterator[int]:
        """Visit all factors in order; `product` is that of the whole chain at any time."""
        self._goal = self._divided(scale)
        self._sweeps += 1
        # Late sweeps change singular vectors little: a smaller perturbation is enough to find them again.
        self._push = max(0.1 / self._sweeps**2, 1e-3)
        count = len(self.factors)
        self._blocks = [compact(factor) for factor in self.factors]
        # lefts[j] is the product of the blocks before j, rights[j] of those from j on.
        lefts: list[Any] = [None] * (count + 1)
        rights: list[Any] = [None] * count + [self._end]
        if self.rightwards:
            for j in range(count - 1, 0, -1):
                rights[j] = self._with_factor(j, rights[j + 1])
        else:
            for j in range(count - 1):
                lefts[j + 1] = times(lefts[j], self._blocks[j])
        for j in range(count) if self.rightwards else range(count - 1, -1, -1):
            self.visited, self.left, self.right = j, lefts[j], rights[j + 1]
            self._known = rights[j] if self.rightwards else lefts[j + 1]
            before = self.factors[j]
            yield j
            if self.factors[j] is not before:
                self._blocks[j] = compact(self.factors[j])
            if self.rightwards and j < count - 1:
                lefts[j + 1] = times(lefts[j], self._blocks[j])
            elif not self.rightwards and j > 0:
                rights[j] = self._with_factor(j, rights[j + 1])
            self._known = None

    def _divided(self, scale: float) -> Array:
        return self.target / self.target.real.dtype.type(scale)

    def _with_factor(self, j: int, right: Any) -> Any:
        """What stands right of factor j − 1, given what stands right of factor j."""
        return times(self._blocks[j], right)

    def product(self) -> Array:
        """S₁…S_M (times the tail) at the visited factor."""
        if self._known is None:
            return self._product_with(self._blocks[self.visited])
        return dense(times(self._known, self.right) if not self.rightwards else times(self.left, self._known))

    def _product_with(self, factor: Matrix) -> Array:
        return dense(times(self.left, times(factor, self.right)))

    def ahead(self, before: Array, inertia: float) -> Array:
        """S + inertia·(S − S_before) for the visited factor S."""
        factor = self.factors[self.visited]
        if inertia == 0:
            return factor
        return factor + (factor - before) * factor.real.dtype.type(inertia)

    def gradient(self, point: Array) -> Array:
        """Lᴴ(L P R − X/scale)Rᴴ: where the error falls from P in the place of the visited factor."""
        is_visited = point is self.factors[self.visited]
        product = self.product() if is_visited else self._product_with(compact(point))
        return dense(times(times(adjoint(self.left), product - self._goal), adjoint(self.right)))

    def gradient_step(self, point: Array, margin: float, exact: bool) -> Target:
        """P − gradient/(margin·‖L‖₂²‖R‖₂²), where ‖L‖₂²‖R‖₂² is the Lipschitz constant of the gradient."""
        if self._is_small and not exact:
            return Target(self._small_step(point, margin))
        c = margin * self._norm_squared("left", self.left, exact)
        c *= self._norm_squared("right", self.right, exact)
        return Target(point if c == 0 else point - self.gradient(point) / point.real.dtype.type(c))

    def _small_step(self, point: Array, margin: float) -> Array:
        """The same as one call of a kernel."""
        j, none = self.visited, self._none
        left = none if self.left is None else self.left
        right = none if self.right is None else self.right
        if self._known is None or point is not self.factors[j]:
            head, rest = (point if left is none else left.dot(point)), right
        elif self.rightwards:
            head, rest = (self._known, none) if left is none else (left, self._known)
        else:
            head, rest = self._known, right
        result = np.empty(point.shape, point.dtype)
        vectors, goal, tol = self._starts[j], self._goal, self._tolerance
        gradient_step(head, rest, goal, left, right, point, vectors, self._push, tol, margin, result)
        return result

    def _norm_squared(self, side: str, matrix: Matrix | None, exact: bool) -> float:
        if matrix is None:
            return 1.0
        if exact:
            return float(np.linalg.norm(dense(matrix), 2)) ** 2
        key = side, self.visited
        start = self._vectors.get(key)
        value, self._vectors[key] = spectral_norm_squared(matrix, start, self._tolerance, self._push)
        return value

    def fit_scale(self, scale: float) -> tuple[float, float]:
        """scale = Re⟨X, X̂⟩/‖X̂‖² after a sweep, and the error with it; with a zero product the scale stays."""
        product = self.product()
        size = frobenius(product)
        if size > 0:
            scale = inner(self.target, product / product.real.dtype.type(size)) / size
        return scale, self.error_of(product, scale)

    def whole(self) -> Array:
        """S₁…S_M (times the tail) outside of a sweep."""
        return multiplied(self.factors, self._end)

    def error(self, scale: float) -> float:
        """The relative error outside of a sweep."""
        return self.error_of(self.whole(), scale)

    def error_of(self, product: Array, scale: float) -> float:
        """‖X − scale·X̂‖ / ‖X‖."""
        return self.relative(frobenius(self.target - product * product.real.dtype.type(scale)))

    def relative(self, misfit: float) -> float:
        """The relative error if ``misfit`` is the norm of the residual of the compressed data."""
        return math.hypot(misfit, self._rest) / self._size


class Reduced(NamedTuple):
    """The data as a factor sees them: K = R A Rᴴ (None for an identity) and B Rᴴ, with R right of the factor."""

    gram: Array | None
    cross: Array


class ChainOnMoments(Chain):
    """The same on B = XΓᴴ and A = ΓΓᴴ themselves, for sets that restrict nothing but supports.

    The error is a quadratic function of each factor S,

        ½‖X − scale·L S R Γ‖² = ½ scale²·tr(H S K Sᴴ) − scale·Re tr(Sᴴ Lᴴ B Rᴴ) + ½‖X‖²,

    H = LᴴL and K = R A Rᴴ; the largest product is that of the last factor and A. The diagonal of A holds the
    energies of the codes, which differ by orders of magnitude from atom to atom: a step that is safe for the
    largest moves the others little. Steps are therefore taken in the metric of the diagonals v² of H and w² of K.
    The gradient's entries are divided by c·v_i²·w_j², where c = ‖H'‖₂‖K'‖₂ for H and K scaled to unit diagonals,
    and the entries with the largest |s_ij|·v_i·w_j are kept.
    """

    def __init__(self, moments: Moments, factors: Sequence[Array], order: str, tolerance: float) -> None:
        dtype = np.result_type(moments.cross, *factors)
        self.factors = [writeable(factor.astype(dtype, copy=False)) for factor in factors]
        assert moments.gram is not None
        self._moments, self._gram = moments, moments.gram.astype(dtype, copy=False)
        self.target = writeable(moments.cross.astype(dtype, copy=False) / dtype.type(moments.norm or 1.0))
        self._start(moments, order, dtype, tolerance)
        self._end = Reduced(self._gram, self.target)
        self._images: list[tuple[Array, Array]] = []
        self._next: tuple[Array | None, Any] = (None, None)
        self._norm_of_gram: float | None = None

    def _divided(self, scale: float) -> Array:
        self._unit = self.target.real.dtype.type(scale / self._size)
        return self.target

    def _with_factor(self, j: int, right: Reduced) -> Reduced:
        factor, image = self._blocks[j], self._times_gram(self.factors[j], right)
        if isinstance(factor, SparseProduct):
            gram, cross = (dense(factor @ matrix.conj().T).conj().T for matrix in (image, right.cross))
            return Reduced(gram, cross)
        turned = adjoint(factor)
        return Reduced(image @ turned, right.cross @ turned)

    def _times_gram(self, factor: Array, right: Reduced) -> Array:
        """S K; with A itself, the products of the last few factors are kept."""
        if right.gram is not self._gram:
            return np.asarray(factor @ right.gram)
        for known, image in self._images:
            if known is factor:
                return image
        image = dense(times(compact(factor), right.gram))
        self._images = [*self._images[1 - _IMAGES :], (factor, image)]
        return image

    def ahead(self, before: Array, inertia: float) -> Array:
        factor, gram = self.factors[self.visited], self.right.gram
        point = super().ahead(before, inertia)
        if gram is self._gram and point is not factor and not self._is_small:
            # Both images are known, so no product is needed.
            image = self._times_gram(factor, self.right)
            change = image - self._times_gram(before, self.right)
            self._next = point, image + change * change.real.dtype.type(inertia)
        return point

    def gradient(self, point: Array) -> Array:
        """Lᴴ(L P K − B Rᴴ/scale)."""
        known, image = self._next
        if known is not point:
            image = self._times_gram(point, self.right)
        misfit = dense(times(self.left, image)) - self.right.cross / self._unit
        return dense(times(adjoint(self.left), misfit))

    def gradient_step(self, point: Array, margin: float, exact: bool) -> Target:
        """P − gradient/(margin·c·v_i²·w_j²), with the score |p_ij|·v_i·w_j."""
        kind, score = point.real.dtype, np.empty(point.shape, point.real.dtype)
        if self._is_small and not exact:
            result, gram, left = np.empty(point.shape, point.dtype), self.right.gram, self.left
            settings = self._starts[self.visited], self._unit, self._push, self._tolerance, margin
            data = writeable(gram), writeable(self.right.cross), self._none if left is None else left
            weighted_gradient_step(*data, writeable(point), *settings, result, score)
            return Target(result, score)
        v, of_left = self._metric_of_left(self.left, exact)
        w, of_right = self._metric_of_right(self.right.gram, exact)
        c = margin * of_left * of_right
        rows = 1 / (c * v * v) if c > 0 else np.zeros(v.size)
        scales = (each.astype(kind) for each in (rows, 1 / (w * w), v, w))
        result = point.copy("C")
        weighted_step(result, np.ascontiguousarray(self.gradient(point)), *scales, score)
        return Target(result, score)

    def _metric_of_left(self, left: Matrix | None, exact: bool) -> tuple[Array, float]:
        """The weights v of the rows of the factor, and ‖H'‖₂."""
        if left is None:
            return np.ones(self.factors[self.visited].shape[0]), 1.0
        weights = _weights(column_norms(dense(left)))
        if exact:
            return weights, float(np.linalg.norm(dense(left) / weights, 2)) ** 2
        turned = adjoint(left)
        return weights, self._norm("left", lambda x: turned @ (left @ x), weights)

    def _metric_of_right(self, gram: Array, exact: bool) -> tuple[Array, float]:
        """The weights w of the columns of the factor, and ‖K'‖₂."""
        weights = _weights(np.sqrt(np.maximum(gram.diagonal().real, 0.0)))
        if exact:
            return weights, float(np.linalg.norm(gram / weights / weights[:, None], 2))
        if gram is self._gram and self._norm_of_gram is not None:
            return weights, self._norm_of_gram
        norm = self._norm("right", lambda x: gram @ x, weights)
        if gram is self._gram:
            self._norm_of_gram = norm
        return weights, norm

    def _norm(self, side: str, apply: Callable[[Array], Array], weights: Array) -> float:
        key, dtype = (side, self.visited), self.target.dtype
        scaling = (1 / weights).astype(self.target.real.dtype)
        norm, self._vectors[key] = largest_eigenvalue(
            lambda x: scaling * apply(scaling * x), weights.size, dtype, self._vectors.get(key), self._tolerance
        )
        return norm

    def fit_scale(self, scale: float) -> tuple[float, float]:
        factor, right = self.factors[self.visited], self.right
        product = dense(times(self.left, self._blocks[self.visited]))
        image = dense(times(self.left, self._times_gram(factor, right)))
        along, square = inner(product, right.cross), inner(product, image)
        if square <= 0.0:
            return scale, self.error(scale)
        scale = self._size * (along / square)
        error = float(np.sqrt(max(1.0 - along * (along / square), 0.0)))
        return scale, error if error > CANCELLING else self.error(scale)

    def error(self, scale: float) -> float:
        whole = multiplied(self.factors)
        return self._moments.error(whole * whole.real.dtype.type(scale))


def _weights(roots: Array) -> Array:
    """``roots`` of a diagonal, none of them far smaller than the others."""
    return np.maximum(roots, LEAST_WEIGHT * (roots.max() or 1.0))


# -- products of dense and sparse factors, each in the form that is cheaper to multiply with -----------


def compact(matrix: Array) -> Matrix:
    """``matrix`` as a SparseProduct if that is cheaper to multiply with, else as it is.

    A SparseProduct has to be packed first, which takes longer than a few dense products of small matrices.
    """
    if matrix.size < _LARGE:
        return matrix
    matrix = np.ascontiguousarray(matrix)
    pointers = count_entries(matrix)
    if pointers[-1] > 0.25 * matrix.size:
        return matrix
    indices, values = fill_entries(matrix, pointers)
    return SparseProduct._trusted([sp.csr_array((values, indices, pointers), shape=matrix.shape)], 1.0)


def times(left: Matrix | None, right: Matrix | None) -> Any:
    """left @ right, where None is the identity. A product of SparseProducts stays a chain of factors."""
    if left is None:
        return right
    if right is None:
        return left
    # The method has less overhead than the operator, which counts for small matrices.
    is_dense = type(left) is np.ndarray and type(right) is np.ndarray
    return left.dot(right) if is_dense else left @ right


def multiplied(factors: Sequence[Array], end: Any = None) -> Array:
    """S₁…S_M, or S₁…S_M·end, as a dense matrix."""
    return dense(reduce(lambda product, factor: times(compact(factor), product), reversed(factors), end))


def dense(matrix: Matrix) -> Array:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def adjoint(matrix: Any) -> Any:
    if matrix is None or isinstance(matrix, np.ndarray):
        return None if matrix is None else matrix.conj().T if matrix.dtype.kind == "c" else matrix.T
    return matrix.H


def spectral_norm_squared(
    matrix: Matrix, start: Array | None = None, tol: float = 1e-7, push: float = 0.1
) -> tuple[float, Array | None]:
    """‖matrix‖₂², and a singular vector to start from next time.

    Small matrices take a compiled power iteration, the others one by their products with vectors.
    """
    is_tall = matrix.shape[0] >= matrix.shape[1]
    is_sparse = isinstance(matrix, SparseProduct)
    if max(matrix.shape) <= _SMALL_SPARSE if is_sparse else math.prod(matrix.shape) <= _SMALL_DENSE**2:
        array = writeable(dense(matrix) if is_tall else dense(matrix).T)
        vector = np.zeros(array.shape[1], array.dtype) if start is None else start
        return norm_squared(array, probe(array.shape[1], array.dtype), push, vector, tol), vector
    adjoined = adjoint(matrix)
    if not is_tall:
        matrix, adjoined = adjoined, matrix
    return largest_eigenvalue(
        lambda x: adjoined @ (matrix @ x), matrix.shape[1], matrix.dtype, start, tol, push=push
    )
