"""What is factorized, as methods see it: a matrix in memory, with the singular vectors of its blocks, in units."""

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius, shifted
from ..operators import SparseProduct
from ..runtime.session import Session
from ..runtime.threads import blas_threads
from ..solvers.moments import Moments
from ..typing import Array
from .curves import relative_error
from .nested.cluster_trees import Coordinates

_MOST_RANK = 256  # singular vectors of large matrices
SVD_SIDE = 2048  # the short side up to which all singular values are computed
_SPARE = 10  # more columns than singular vectors in subspace iteration
_STEPS = 4  # Number of these steps.
_AT_ONCE = 1 << 22  # entries of a sparse matrix that are filled in at a time

_ROOM = 32  # bits between the unit and the largest number, with which nothing can overflow
_MOST_LOOKED_AT = 1 << 24  # Products with more entries are only sampled.
_SHIFT = 24  # bits of the unit that the last factor takes over otherwise


class Block(NamedTuple):
    """Rows and columns of a block, its singular vectors (m, r) and (r, n), and its singular values (r,)."""

    rows: Array
    columns: Array
    left: Array
    values: Array
    right: Array

    @property
    def is_whole(self) -> bool:
        """Whether all singular values are there."""
        return self.values.size == min(self.rows.size, self.columns.size)


def blocks_of(matrix: Array | sp.csr_array) -> list[tuple[Array, Array]]:
    """The rows and columns of each block of a matrix that is block-diagonal up to the order of its lines."""
    m, n = matrix.shape
    if not sp.issparse(matrix) and matrix.all():
        return [(np.arange(m), np.arange(n))]
    pattern = sp.csr_array(matrix != 0)
    graph = sp.block_array([[None, pattern], [pattern.T, None]])
    labels = sp.csgraph.connected_components(graph, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [(g[g < m], g[g >= m] - m) for g in groups if (g < m).any() and (g >= m).any()]


def assembled(blocks: Sequence[Block], counts: Array, shape: tuple[int, int]) -> SparseProduct:
    """The product of two factors that hold the leading ``counts`` triplets of each block."""
    dtype = blocks[0].left.dtype
    left, right = np.zeros((shape[0], counts.sum()), dtype), np.zeros((counts.sum(), shape[1]), dtype)
    begin = 0
    for block, count in zip(blocks, counts, strict=True):
        inner, roots = np.arange(begin, begin + count), np.sqrt(block.values[:count])
        left[np.ix_(block.rows, inner)] = block.left[:, :count] * roots
        right[np.ix_(inner, block.columns)] = roots[:, None] * block.right[:count]
        begin += count
    return SparseProduct([left, right])


def leading_subspace(matrix: Array, basis: Array, n_iter: int) -> tuple[Array, Array]:
    """Orthonormal columns Q that nearly span the leading left singular vectors, and QᴴM, by subspace iteration.

    ``basis`` (n, r) is a guess for the right singular vectors.
    """
    for _ in range(n_iter):
        left = np.linalg.qr(matrix @ basis)[0]
        basis = (left.conj().T @ matrix).conj().T
        right = basis
        basis = np.linalg.qr(basis)[0]
    return left, right.conj().T


def decomposed(
    session: Session, matrix: Array | sp.csr_array, rows: Array, columns: Array, rank: int, is_quick: bool = False
) -> Block:
    """Singular vectors of a block; if it is large, or ``is_quick``, only the leading ones, up to ``rank``."""
    block: Any = matrix if (rows.size, columns.size) == matrix.shape else matrix[np.ix_(rows, columns)]
    short, is_whole = min(block.shape), min(block.shape) <= SVD_SIDE and not is_quick
    if sp.issparse(block) and is_whole:
        block = block.toarray()
    count = short if is_whole else min(rank + _SPARE, short)
    work = (block.nnz if sp.issparse(block) else block.size) * count

    def decompose() -> tuple[Array, Array, Array]:
        with blas_threads(work):
            if is_whole:
                U, values, V = np.linalg.svd(block, full_matrices=False)
                return U, values, V
            basis = np.random.default_rng(0).standard_normal((block.shape[1], count)).astype(block.dtype)
            left, right = leading_subspace(block, basis, 1 if is_quick else _STEPS)
            U, values, V = np.linalg.svd(right, full_matrices=False)
            return left @ U[:, :-_SPARE], values[:-_SPARE], V[:-_SPARE]

    U, values, V = session.wait(decompose, work, "singular values")
    return Block(rows, columns, U, values, V)


# -- problems ------------------------------------------------------------------------------------------


class Problem(Protocol):
    """A matrix as a search sees it, whatever is known of it."""

    session: Session
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool  # whether it is in memory as a large sparse matrix

    def error_of(self, operator: SparseProduct) -> float:
        """The relative Frobenius error of a product, or an estimate of it."""
        ...


class Stored:
    """A matrix in memory, in units, with the coordinates of its lines where users know them.

    `papilio.search.weighted.Weighted` is one whose errors are those of its outputs for certain inputs.

    Where `is_sparse`, it is a csr_array, too large to fill it in: only some methods take it.
    """

    is_weighted = False
    weights: Array | None = None  # Of the columns, in the squared error of single entries.

    def __init__(
        self, session: Session, matrix: Array | sp.csr_array, coordinates: Coordinates | None = None
    ) -> None:
        self.session, self.coordinates = session, coordinates
        self.matrix: Any = matrix
        self.is_sparse = sp.issparse(matrix)
        self.shape, self.dtype = matrix.shape, matrix.dtype
        self._blocks: list[Block] = []
        self._rank = 0  # up to which singular vectors are known

    def error_of(self, operator: SparseProduct) -> float:
        if not self.is_sparse:
            return relative_error(self.matrix, operator)
        first, *others = operator.factors
        missed, step = [0.0], max(_AT_ONCE // self.shape[1], 1)
        for begin in range(0, self.shape[0], step):
            rows = slice(begin, begin + step)
            image = reduce(lambda left, right: left @ right, others, first[rows] * operator.scale)
            difference = image - self.matrix[rows]
            missed.append(frobenius(difference.data if sp.issparse(difference) else difference))
        return frobenius(np.array(missed)) / np.sqrt(self.energy) if self.energy > 0 else 0.0

    @cached_property
    def moments(self) -> Moments:
        """What PALM fits."""
        return Moments(self.matrix)

    def part(self, lines: Array) -> tuple[Array, Moments]:
        """Some columns of a wide matrix, or some rows of another one, and what PALM fits there."""
        some = self.matrix[:, lines] if self.shape[0] < self.shape[1] else self.matrix[lines]
        return some, Moments(some)

    def fitted(self, matrix: Array, kept: sp.csr_array) -> sp.csr_array:
        """Some entries of a matrix, with the values that are best for the errors."""
        return kept

    def turned(self, matrix: Array) -> Array:
        """A matrix whose norm is the error of ``matrix``."""
        return matrix

    def turned_back(self, right: Array) -> Array:
        """The matrix that is ``right`` when it is turned."""
        return right

    def weights_in(self, transform: SparseProduct) -> Array | None:
        """The same of the columns of M T^H, for an orthonormal transform T."""
        return None

    @cached_property
    def is_zero(self) -> bool:
        return self.nnz == 0

    @cached_property
    def nnz(self) -> int:
        return int(self.matrix.nnz if self.is_sparse else np.count_nonzero(self.matrix))

    @cached_property
    def energy(self) -> float:
        """The squared norm."""
        return frobenius(self.matrix.data if self.is_sparse else self.matrix) ** 2

    def blocks(self, budget: int | None = None) -> list[Block]:
        """The leading singular vectors and values of each block of the matrix; none for zeros.

        Of a large block, they are those that twice a budget of entries has room for.
        """
        rank = _MOST_RANK if budget is None else 2 * budget // sum(self.shape)
        if rank > self._rank:
            lines = [] if self.is_zero else blocks_of(self.matrix)
            self._blocks = [decomposed(self.session, self.matrix, *each, rank) for each in lines]
            are_whole = all(
                block.values.size == min(block.rows.size, block.columns.size) for block in self._blocks
            )
            self._rank = min(self.shape) if are_whole else rank
        return self._blocks

    def of_rank(self, rank: int) -> SparseProduct:
        """The best approximation of a rank, as two factors."""
        blocks = self.blocks(rank * sum(self.shape))
        values = np.concatenate([block.values for block in blocks])
        owners = np.concatenate([np.full(block.values.size, b) for b, block in enumerate(blocks)])
        counts = np.bincount(owners[np.argsort(-values, kind="stable")[:rank]], minlength=len(blocks))
        return assembled(blocks, counts, self.shape)

    def beside_identities(
        self, n_factors: int | None, matrix: Array | sp.csr_array | None = None
    ) -> SparseProduct:
        """The matrix, or another one, as one of ``n_factors`` with identities; as the only one without them."""
        matrix = self.matrix if matrix is None else matrix
        others = [sp.eye_array(min(self.shape))] * ((n_factors or 1) - 1)
        is_wide = self.shape[0] < self.shape[1]
        return SparseProduct([*others, matrix] if is_wide else [matrix, *others]).astype(self.dtype)


# -- products in the unit of the matrix that was given, the way back from `papilio.linalg.in_units` ---------


def in_unit_of(name: str, operator: SparseProduct, exponent: int) -> SparseProduct:
    """``operator`` times 2^exponent; an error that names the matrix if this overflows."""
    if -1000 < exponent < np.finfo(operator.dtype).maxexp - _ROOM:
        return operator * 2.0**exponent
    factors = list(operator.factors)
    # The scale might overflow, and so might the first factor, which is multiplied by it.
    if exponent > 0:
        factors[-1] = factors[-1] * factors[-1].real.dtype.type(2**_SHIFT)
        exponent -= _SHIFT
    scale = float(shifted(np.array([operator.scale]), exponent)[0])
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(scale):
            scaled = SparseProduct(factors, scale)
            if np.isfinite(_looked_at(scaled)).all():
                return scaled
    raise ValueError(
        f"{name} must leave room for rounding below the largest number of {operator.dtype}, got entries for which "
        f"the product overflows: divide {name} by a power of two"
    )


def _looked_at(operator: SparseProduct) -> Array:
    """All entries of a product, or sums of those of each row with random signs if there are many."""
    if operator.shape[0] * operator.shape[1] <= _MOST_LOOKED_AT:
        return operator.toarray()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], operator.shape[1])
    return np.asarray(operator @ signs.astype(operator.dtype))
