"""Factors on known supports, by hierarchical cuts and low-rank blocks."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ..constraints import Support
from ..linalg import frobenius
from ..operators import SparseProduct
from ..runtime.session import Session
from ..solvers.moments import Moments
from ..solvers.polish import polish
from ..typing import Array
from .curves import relative_error

_POWER_STEPS = 60

Matrix: TypeAlias = Array | sp.csr_array


def fit_factors(matrix: Matrix, masks: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """Factors on ``masks``, by cutting the chain in the middle, recursively.

    A cut is the best product of two matrices on the supports of the two halves of the chain, if the blocks of the
    cut do not overlap. It costs O(n²) for blocks of rank one. A chain of L factors has about log₂L levels of cuts,
    whose matrices get sparser from level to level.
    """
    if len(masks) == 1:
        return [sp.csr_array(masks[0].multiply(matrix))]
    middle = len(masks) // 2
    left, right = _cut(matrix, _product_support(masks[:middle]), _product_support(masks[middle:]))
    return fit_factors(left, masks[:middle]) + fit_factors(right, masks[middle:])


def polish_factors(matrix: Array, masks: Sequence[sp.csr_array], factors: Sequence[sp.csr_array]) -> list[Array]:
    """``factors`` improved by least squares on their supports, one after another."""
    dense = [factor.toarray() for factor in factors]
    sizes = [frobenius(factor) or 1.0 for factor in dense]
    units = [factor / factor.real.dtype.type(size) for factor, size in zip(dense, sizes, strict=True)]
    sets = [Support(mask) for mask in masks]
    better, scale = polish(Moments(matrix), sets, units, float(np.prod(sizes)), "right_to_left")
    share = abs(scale) ** (1 / len(better))
    signs = [np.sign(scale) or 1.0] + [1.0] * (len(better) - 1)
    return [factor * factor.real.dtype.type(sign * share) for factor, sign in zip(better, signs, strict=True)]


def polished(session: Session, matrix: Array, operator: SparseProduct) -> tuple[SparseProduct, float]:
    """A product after least squares on its supports, if that lowers its error, else as it is; and its error."""
    error = relative_error(matrix, operator)
    factors = [sp.csr_array(factor) for factor in operator.factors]
    parts = [factors[0] * factors[0].real.dtype.type(operator.scale), *factors[1:]]
    better = session.wait(lambda: polish_factors(matrix, [factor != 0 for factor in factors], parts))
    other = SparseProduct([sp.csr_array(factor) for factor in better]).astype(matrix.dtype)
    after = relative_error(matrix, other)
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
    if rank == 1:
        found = _rank_one(blocks)
        if found is not None:
            return found
    U, sizes, V = np.linalg.svd(blocks, full_matrices=False)
    roots = np.sqrt(sizes[:, :rank])
    return U[:, :, :rank] * roots[:, None, :], roots[:, :, None] * V[:, :rank, :]


def _rank_one(blocks: Array) -> tuple[Array, Array] | None:
    """`_low_rank` for rank one, by power iteration from the largest rows; None if it does not converge."""
    largest = np.argmax((np.abs(blocks) ** 2).sum(axis=2), axis=1)
    v = blocks[np.arange(len(blocks)), largest].conj()[:, :, None]
    eps = np.finfo(blocks.dtype).eps
    previous = np.zeros(len(blocks))
    adjoint = blocks.conj().transpose(0, 2, 1)
    for _ in range(_POWER_STEPS):
        u = _unit(blocks @ _unit(v))
        v = adjoint @ u
        size = np.linalg.norm(v, axis=1)[:, 0]
        if (np.abs(size - previous) <= 4 * eps * size).all():
            root = np.sqrt(np.linalg.norm(v, axis=1, keepdims=True))
            return u * root, (_unit(v) * root).conj().transpose(0, 2, 1)
        previous = size
    return None


def _unit(vectors: Array) -> Array:
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(sizes > 0, sizes, 1).astype(vectors.real.dtype)
