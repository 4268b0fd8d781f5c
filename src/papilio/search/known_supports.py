"""Factors on known supports: chains of Kronecker-sparse factors with a bound on the error, and any other masks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..constraints import Support
from ..kernels.blocks import multiply, orthonormalize, project, split
from ..linalg import exact_below, frobenius
from ..operators import SparseProduct
from ..runtime.session import Session
from ..solvers.moments import Moments
from ..solvers.polish import polish
from ..transforms.chains import Pattern, is_chainable, rank_between
from ..typing import Array
from .curves import relative_error

_LEAST_GAIN = 1e-3  # Relative fall of the squared error for which another sweep follows.
_SWEEPS = 8
_POLISH_SIDE = 256  # Size up to which factors on other masks are polished, as dense matrices.

Matrix: TypeAlias = Array | sp.csr_array


class KnownFit(NamedTuple):
    """Factors on known supports, their relative error, and the least that factors on these supports may have."""

    factors: list[sp.csr_array]
    error: float
    least_error: float = 0.0


# -- chains of Kronecker-sparse factors ----------------------------------------------------------------


def fit_chain(matrix: Array, chain: Sequence[Pattern], order: str = "auto", polish: bool = True) -> KnownFit:
    """Factors of a matrix in units on L chainable supports, whose error is at most √(L − 1) times the least.

    The chain is split at one cut after another, with orthonormal blocks, so that each split is the best one for
    the whole product. Then, with ``polish``, each factor in turn becomes the best one for all others.
    """
    first, last = chain[0], chain[-1]
    whole = Pattern(first.a, first.b * first.d // last.d, last.a * last.c // first.a, last.d)
    size, outside = _norm(matrix), 0.0
    W = np.ascontiguousarray(matrix)[None]
    if whole.a * whole.d > 1:
        W = whole.blocks(matrix)
        outside = _norm(matrix - whole.factor(W).toarray())
    solver = _ChainSolver(chain, W)
    missed = solver.solve(order, polish)
    error = float(np.hypot(outside, solver.distance()))
    least = min(float(np.hypot(outside, np.sqrt(missed))), error)
    factors = [pattern.factor(blocks) for pattern, blocks in zip(chain, solver.factors, strict=True)]
    return KnownFit(factors, error / size, least / size) if size > 0 else KnownFit(factors, 0.0)


class _ChainSolver:
    """Finds the dense blocks of all factors, for the blocks W of a matrix on the support of their product.

    Positions of factors count from the end where a pass over them begins: the left one, or the right one.
    """

    def __init__(self, chain: Sequence[Pattern], W: Array) -> None:
        self.factors: list[Array] = [W] * len(chain)
        self._chain, self._W, self._last = chain, W, len(chain) - 1
        self._ranks = [rank_between(left, right) for left, right in pairwise(chain)]

    def solve(self, order: str, polish: bool) -> float:
        """Find all factors; returns a squared error below which none can come."""
        # By default from the side of the smaller blocks. Halves leave what is left at the left end, too.
        from_left = self._chain[0].b <= self._chain[-1].c if order == "auto" else order == "left_to_right"
        rests, missed = self._halved() if order == "balanced" else self._in_turn(from_left)
        total, left = _norm(self._W) ** 2, sum(missed)
        kept = total - left
        if polish and self._last > 1 and left > exact_below(self._W.dtype) ** 2 * total:
            for _ in range(_SWEEPS):
                from_left = not from_left
                rests = self._sweep(rests[::-1], from_left)
                gain = _norm(rests[-1]) ** 2 - kept
                kept, left = kept + gain, left - gain
                if gain <= _LEAST_GAIN * left:
                    break
        return max(missed)

    def _in_turn(self, from_left: bool) -> tuple[list[Array], list[float]]:
        """Split off one factor after another.

        Returns the projections of W on all factors before each position, and the squared error of each split.
        """
        rests, missed = [self._W], [0.0]
        for position in range(self._last):
            factor, rest, lost = self._split(rests[-1], position, from_left)
            self.factors[self._at(position, from_left)] = factor
            rests.append(rest)
            missed.append(lost)
        self.factors[self._at(self._last, from_left)] = rests[-1]
        return rests, missed

    def _halved(self) -> tuple[list[Array], list[float]]:
        """Split in the middle, recursively; returns the same as `_in_turn` from the right."""
        rests, missed = [self._W], [0.0]
        self._halve(self._W, 0, self._last, missed)
        for position in range(self._last):
            rests.append(self._project(rests[-1], position, self._last, False))
        return rests, missed

    def _halve(self, W: Array, first: int, last: int, missed: list[float]) -> None:
        """Some factors of W, of which all but the first have orthonormal rows.

        The right half fits what the best split leaves for it, the left half the projection of W on the right one.
        """
        if first == last:
            self.factors[first] = W
            return
        middle = (first + last) // 2
        left, right = self._empty(first, middle), self._empty(middle + 1, last)
        missed.append(split(W, self._cut(first, middle, last), left, right, True))
        self._halve(right, middle + 1, last, missed)
        self._orthonormalize(middle + 1, False)
        for i in range(last, middle, -1):
            W = self._project(W, self._last - i, self._last - first, False)
        self._halve(W, first, middle, missed)

    def distance(self) -> float:
        """‖W − product‖."""
        product = self.factors[-1]
        for i in range(self._last - 1, -1, -1):
            rest, product = product, self._empty(i, self._last)
            multiply(self._cut(i, i, self._last), self.factors[i], rest, product)
        return _norm(np.subtract(product, self._W, out=product if self._last else None))

    def _sweep(self, rests: list[Array], from_left: bool) -> list[Array]:
        """The best factors, one after another, for what all others are at that time.

        ``rests`` are projections of W on all factors after each position. Returns those on all factors before.
        """
        for position in range(1, self._last + 1):
            self._orthonormalize(self._at(position - 1, from_left), from_left)
            before = [rests[position]]
            rests[position] = self._W  # This frees the memory.
            for i in range(position):
                before.append(self._project(before[-1], i, position, from_left))
            self.factors[self._at(position, from_left)] = before[-1]
        return before

    def _split(self, W: Array, position: int, from_left: bool) -> tuple[Array, Array, float]:
        """The factor at a position, what is left of W for those after it, and the squared error."""
        first, middle, last = self._span(position, self._last, from_left)
        X, Y = self._empty(first, middle), self._empty(middle + 1, last)
        missed = split(W, self._cut(first, middle, last), X, Y, from_left)
        return (X, Y, missed) if from_left else (Y, X, missed)

    def _project(self, W: Array, position: int, end: int, from_left: bool) -> Array:
        """The projection of W, on the positions up to ``end``, on the orthonormal factor at a position."""
        first, middle, last = self._span(position, end, from_left)
        factor = self.factors[first if from_left else last]
        rest = self._empty(middle + 1, last) if from_left else self._empty(first, middle)
        X, Y = (factor, rest) if from_left else (rest, factor)
        project(W, self._cut(first, middle, last), X, Y, from_left)
        return rest

    def _orthonormalize(self, i: int, from_left: bool) -> None:
        """Orthonormal columns, or rows, of the blocks of factor i at the next cut."""
        if from_left:
            columns = np.ascontiguousarray(self.factors[i].transpose(0, 2, 1))
            orthonormalize(columns, self._ranks[i], 1)
            self.factors[i] = np.ascontiguousarray(columns.transpose(0, 2, 1))
        else:
            self.factors[i] = self.factors[i].copy()
            orthonormalize(self.factors[i], self._ranks[i - 1], self._chain[i - 1].d // self._chain[i].d)

    def _at(self, position: int, from_left: bool) -> int:
        return position if from_left else self._last - position

    def _span(self, position: int, end: int, from_left: bool) -> tuple[int, int, int]:
        """The first factor, the one before the cut, and the last, where the factor at a position is cut off."""
        if from_left:
            return position, position, end
        last = self._last - position
        return self._last - end, last - 1, last

    def _cut(self, first: int, middle: int, last: int) -> tuple[int, ...]:
        """(a, k, l, d, p, m, q) of a cut, as kernels take it."""
        A, left, right, Z = (self._chain[i] for i in (first, middle, middle + 1, last))
        p, m = A.b * A.d // left.d, Z.a * Z.c // right.a
        return A.a, right.a // A.a, left.d // Z.d, Z.d, p, m, self._ranks[middle]

    def _empty(self, first: int, last: int) -> Array:
        """Room for the blocks of the product of some factors."""
        A, Z = self._chain[first], self._chain[last]
        return np.empty((A.a * Z.d, A.b * A.d // Z.d, Z.a * Z.c // A.a), self._W.dtype)


def _norm(blocks: Array) -> float:
    return float(np.linalg.norm(blocks))


# -- masks ---------------------------------------------------------------------------------------------


class Arranged(NamedTuple):
    """Supports that are chainable, with their rows, inner indices and columns in these orders, if any."""

    chain: Sequence[Pattern]
    orders: Sequence[Array] = ()

    def fit(self, matrix: Array, order: str, polish: bool) -> KnownFit:
        if not self.orders:
            return fit_chain(matrix, self.chain, order, polish)
        fit = fit_chain(matrix[np.ix_(self.orders[0], self.orders[-1])], self.chain, order, polish)
        factors = []
        for factor, (rows, columns) in zip(fit.factors, pairwise(self.orders), strict=True):
            moved = factor[np.argsort(rows)]
            moved.indices = columns[moved.indices].astype(moved.indices.dtype)
            moved.has_sorted_indices = False
            moved.sort_indices()
            factors.append(moved)
        return fit._replace(factors=factors)


def as_masks(supports: Sequence[Pattern | sp.csr_array]) -> list[sp.csr_array]:
    return [support.support() if isinstance(support, Pattern) else support for support in supports]


def arranged(supports: Sequence[Pattern | sp.csr_array]) -> Arranged | None:
    """Orders in which supports are chainable patterns; None if there are none.

    An inner index is known by the rows and by the columns that paths through it reach. Those with the same
    columns, and those with the same rows, get one number each, such that what is reached later is nested.
    """
    if is_chainable(supports):
        return Arranged(supports)
    masks = as_masks(supports)
    if any((np.diff(mask.indptr) == 0).any() or np.unique(mask.indices).size < mask.shape[1] for mask in masks):
        return None
    last = len(masks)
    random = np.random.RandomState(0)
    numbers = [mask.astype(np.uint64) for mask in masks]
    sizes = masks[0].shape[0], masks[-1].shape[1]
    # Sums of random numbers stand for sets.
    reached = tuple([random.randint(1 << 62, size=size).astype(np.uint64)] for size in sizes)
    for number, other in zip(numbers, reversed(numbers), strict=True):
        reached[0].append(number.T @ reached[0][-1])
        reached[1].insert(0, other @ reached[1][0])
    down = [mask.indices[mask.indptr[:-1]] for mask in masks]  # a column of each row
    up = [sp.csc_array(mask).indices[sp.csc_array(mask).indptr[:-1]] for mask in masks]  # a row of each column
    part = [_numbered(reached[1][0])]  # parts of the matrix that share no line
    a, d = [part[0]], [np.zeros(sizes[1], int)]
    for i in range(1, last):
        part.append(part[-1][up[i - 1]])
        a.append(_numbered(reached[1][i], a[-1][up[i - 1]]))
    for i in range(last - 1, 0, -1):
        outer = d[0][down[i]]
        n_outer = int(outer.max()) + 1
        inner = _numbered(reached[0][i], part[i] * n_outer + outer)
        siblings = max((int(inner.max()) + 1) // (n_outer * (int(part[0].max()) + 1)), 1)
        d.insert(0, inner % siblings * n_outer + outer)
    a.append(a[-1][up[-1]])
    d.insert(0, d[0][down[0]])
    orders, places = [], []
    for above, below in zip(a, d, strict=True):
        group = above * (below.max() + 1) + below
        order = np.argsort(group, kind="stable")
        begins = np.searchsorted(group[order], group)
        within = np.empty(group.size, int)
        within[order] = np.arange(group.size) - begins[order]
        orders.append(np.lexsort((below, within, above)))
        places.append(np.argsort(orders[-1]))
    chain = []
    for i, mask in enumerate(masks):
        n_above, n_below = int(a[i].max()) + 1, int(d[i + 1].max()) + 1
        b, c = (size // (n_above * n_below) for size in mask.shape)
        pattern = Pattern(n_above, b, c, n_below)
        if pattern.shape != mask.shape or pattern.nnz != mask.nnz:
            return None
        row = places[i][np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))]
        column = places[i + 1][mask.indices]
        fits = (row // (b * n_below) == column // (c * n_below)) & (row % n_below == column % n_below)
        if not fits.all():
            return None
        chain.append(pattern)
    return Arranged(chain, orders) if is_chainable(chain) else None


def _numbered(sets: Array, outer: Array | None = None) -> Array:
    """Numbers of equal sets, which rise with those of the sets around them."""
    own = np.unique(sets, return_inverse=True)[1]
    return own if outer is None else np.unique(outer * (own.max() + 1) + own, return_inverse=True)[1]


def fit_supports(
    matrix: Array,
    supports: Sequence[Pattern | sp.csr_array],
    chain: Arranged | None,
    order: str = "auto",
    polish: bool = True,
) -> KnownFit:
    """Factors on supports: on those that are `arranged` as a chain, else by cuts and least squares."""
    if chain is not None:
        return chain.fit(matrix, order, polish)
    masks = as_masks(supports)
    factors = _cut_in_halves(matrix, masks)
    error = relative_error(matrix, SparseProduct(factors))
    if polish and error > exact_below(matrix.dtype) and max(matrix.shape) <= _POLISH_SIDE:
        factors = [sp.csr_array(factor) for factor in polish_factors(matrix, masks, factors)]
        error = relative_error(matrix, SparseProduct(factors))
    return KnownFit(factors, error)


def _cut_in_halves(matrix: Matrix, masks: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """Factors on ``masks``, by cutting the chain in the middle, recursively.

    A cut is the best product of two matrices on the supports of the two halves of the chain, if the blocks of the
    cut do not overlap. It costs O(n²) for blocks of rank one. A chain of L factors has about log₂L levels of cuts,
    whose matrices get sparser from level to level.
    """
    if len(masks) == 1:
        return [sp.csr_array(masks[0].multiply(matrix))]
    middle = len(masks) // 2
    left, right = _cut(matrix, _product_support(masks[:middle]), _product_support(masks[middle:]))
    return _cut_in_halves(left, masks[:middle]) + _cut_in_halves(right, masks[middle:])


def polish_factors(
    target: Array | Moments, masks: Sequence[sp.csr_array], factors: Sequence[sp.csr_array]
) -> list[Array]:
    """``factors`` improved by least squares on their supports, one after another."""
    moments = target if isinstance(target, Moments) else Moments(target)
    dense = [factor.toarray() for factor in factors]
    sizes = [frobenius(factor) or 1.0 for factor in dense]
    units = [factor / factor.real.dtype.type(size) for factor, size in zip(dense, sizes, strict=True)]
    sets = [Support(mask) for mask in masks]
    better, scale = polish(moments, sets, units, float(np.prod(sizes)), "right_to_left")
    share = abs(scale) ** (1 / len(better))
    signs = [np.sign(scale) or 1.0] + [1.0] * (len(better) - 1)
    return [factor * factor.real.dtype.type(sign * share) for factor, sign in zip(better, signs, strict=True)]


def polished(session: Session, target: Array | Moments, operator: SparseProduct) -> tuple[SparseProduct, float]:
    """A product after least squares on its supports, if that lowers its error, else as it is; and its error."""
    moments = target if isinstance(target, Moments) else Moments(target)
    error = moments.error(operator.toarray())
    factors = [sp.csr_array(factor) for factor in operator.factors]
    parts = [factors[0] * factors[0].real.dtype.type(operator.scale), *factors[1:]]
    better = session.wait(lambda: polish_factors(moments, [factor != 0 for factor in factors], parts))
    other = SparseProduct([sp.csr_array(factor) for factor in better]).astype(operator.dtype)
    after = moments.error(other.toarray())
    return (other, after) if after < error and other.nnz <= operator.nnz else (operator, error)


def _product_support(masks: Sequence[sp.csr_array]) -> sp.csr_array:
    """Where a product of factors on ``masks`` may have entries."""
    product = masks[0].astype(np.float32)
    for mask in masks[1:]:
        product = sp.csr_array(product @ mask.astype(np.float32))
    return product.astype(bool)


def _cut(matrix: Matrix, left_mask: sp.csr_array, right_mask: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """The best left @ right on two supports whose blocks do not overlap.

    Inner indices with the same rows on the left and the same columns on the right share a block of the matrix. It
    gets its best approximation of a rank equal to their number.
    """
    left_mask, right_mask = sp.csc_array(left_mask), sp.csr_array(right_mask)
    left_mask.sort_indices()
    right_mask.sort_indices()
    # The factors have their values where the masks have their entries, in the same order.
    left, right = np.zeros(left_mask.nnz, matrix.dtype), np.zeros(right_mask.nnz, matrix.dtype)
    for rows, columns, inner in _blocks(left_mask, right_mask):
        U, V = _low_rank(_gather(matrix, rows, columns), inner.shape[1])
        used = inner[:, : U.shape[2], None]
        left[left_mask.indptr[used] + np.arange(rows.shape[1])] = U.transpose(0, 2, 1)
        right[right_mask.indptr[used] + np.arange(columns.shape[1])] = V
    return (
        sp.csr_array(sp.csc_array((left, left_mask.indices, left_mask.indptr), shape=left_mask.shape)),
        sp.csr_array((right, right_mask.indices, right_mask.indptr), shape=right_mask.shape),
    )


def _blocks(left_mask: sp.csc_array, right_mask: sp.csr_array) -> list[tuple[Array, Array, Array]]:
    """Rows (b, p), columns (b, q) and inner indices (b, r) of blocks, grouped by size (p, q, r)."""
    shared: dict[tuple[bytes, bytes], list[int]] = {}
    for k in range(left_mask.shape[1]):
        rows, columns = (mask.indices[mask.indptr[k] : mask.indptr[k + 1]] for mask in (left_mask, right_mask))
        shared.setdefault((rows.tobytes(), columns.tobytes()), []).append(k)
    by_size: dict[tuple[int, int, int], list[list[int]]] = {}
    for (rows, columns), indices in shared.items():
        if rows and columns:
            by_size.setdefault((len(rows), len(columns), len(indices)), []).append(indices)
    blocks = []
    for inner in map(np.array, by_size.values()):
        first = inner[:, 0, None]
        rows, columns = (
            mask.indices[mask.indptr[first] + np.arange(np.diff(mask.indptr)[first[0, 0]])]
            for mask in (left_mask, right_mask)
        )
        blocks.append((rows, columns, inner))
    return blocks


def _gather(matrix: Matrix, rows: Array, columns: Array) -> Array:
    """The blocks (b, p, q) at rows (b, p) and columns (b, q)."""
    down, across = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
    if isinstance(matrix, np.ndarray):
        return matrix[down, across]
    return np.asarray(matrix[down.ravel(), across.ravel()]).reshape(down.shape)


def _low_rank(blocks: Array, rank: int) -> tuple[Array, Array]:
    """Factors (b, p, r) and (b, r, q) of the best rank-r approximations of (b, p, q) blocks."""
    U, sizes, V = np.linalg.svd(blocks, full_matrices=False)
    roots = np.sqrt(sizes[:, :rank])
    return U[:, :, :rank] * roots[:, None, :], roots[:, :, None] * V[:, :rank, :]
