"""Singular vectors of a matrix, in each of its blocks, and products of low rank."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..runtime.session import Session
from ..runtime.threads import blas_threads
from ..typing import Array
from .curves import Curve

_SVD_SIDE = 2048  # the short side up to which all singular values are computed
_SPARE = 10  # more columns than singular vectors in subspace iteration


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


def blocks_of(matrix: Array) -> list[tuple[Array, Array]]:
    """The rows and columns of each block of a matrix that is block-diagonal up to the order of its lines."""
    m, n = matrix.shape
    if matrix.all():
        return [(np.arange(m), np.arange(n))]
    pattern = sp.csr_array(matrix != 0)
    graph = sp.block_array([[None, pattern], [pattern.T, None]])
    labels = sp.csgraph.connected_components(graph, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [(g[g < m], g[g >= m] - m) for g in groups if (g < m).any() and (g >= m).any()]


def low_rank(blocks: Sequence[Block], shape: tuple[int, int], energy: float) -> Curve:
    """The best approximations of low rank, in each block: those triplets first that save most per entry.

    ``energy`` is the squared norm of the matrix, of which large blocks may have lost a part.
    """
    owners = np.concatenate([np.full(block.values.size, b) for b, block in enumerate(blocks)])
    costs = np.array([block.rows.size + block.columns.size for block in blocks])[owners]
    gains = np.concatenate([block.values.astype(np.float64) ** 2 for block in blocks])
    order = np.argsort(-gains / costs, kind="stable")
    entries, ordered = np.cumsum(costs[order]), gains[order]
    outside = 0.0 if all(block.is_whole for block in blocks) else max(energy - gains.sum(), 0.0)
    missed = np.append(np.cumsum(ordered[::-1])[::-1][1:], 0.0) + outside
    useful = entries < shape[0] * shape[1]

    def build(place: int) -> SparseProduct:
        counts = np.bincount(owners[order[: place + 1]], minlength=len(blocks))
        return assembled(blocks, counts, shape)

    def detail(place: int) -> str:
        return f"rank {place + 1}" + (f" in {len(blocks)} blocks" if len(blocks) > 1 else "")

    return Curve("low_rank", entries[useful], np.sqrt(missed[useful] / energy), build, detail)


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


def decomposed(session: Session, matrix: Array, rows: Array, columns: Array, rank: int) -> Block:
    """Singular vectors of a block; of a large one only the leading ones, up to ``rank``."""
    block = matrix if (rows.size, columns.size) == matrix.shape else matrix[np.ix_(rows, columns)]
    short = min(block.shape)

    def decompose() -> tuple[Array, Array, Array]:
        with blas_threads(block.size * short):
            if short <= _SVD_SIDE:
                U, values, V = np.linalg.svd(block, full_matrices=False)
                return U, values, V
            count = min(rank + _SPARE, short)
            basis = np.random.default_rng(0).standard_normal((block.shape[1], count)).astype(block.dtype)
            left, right = leading_subspace(block, basis, 4)
            U, values, V = np.linalg.svd(right, full_matrices=False)
            return left @ U[:, :-_SPARE], values[:-_SPARE], V[:-_SPARE]

    U, values, V = session.wait(decompose, block.size * short, "singular values")
    return Block(rows, columns, U, values, V)
