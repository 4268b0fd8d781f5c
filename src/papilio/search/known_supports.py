"""Factors on supports that are known, level by level."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ..constraints import Support
from ..linalg import frobenius
from ..solvers.moments import Moments
from ..solvers.polish import polish
from ..typing import Array

_POWER_STEPS = 60

Matrix: TypeAlias = Array | sp.csr_array


def fitted(matrix: Matrix, masks: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """Factors on ``masks``, by cutting the chain in the middle, again and again.

    A cut is the best product of two matrices on the supports that the two halves of the chain allow, if the blocks
    of the cut do not overlap. The cut of a chain of L factors costs O(n²) for blocks of rank one; there are about
    log₂L levels of cuts, whose matrices get sparser by the level.
    """
    if len(masks) == 1:
        return [sp.csr_array(masks[0].multiply(matrix))]
    middle = len(masks) // 2
    left, right = _cut(matrix, _chained(masks[:middle]), _chained(masks[middle:]))
    return fitted(left, masks[:middle]) + fitted(right, masks[middle:])


def polished(matrix: Array, masks: Sequence[sp.csr_array], factors: Sequence[sp.csr_array]) -> list[Array]:
    """Least squares on the supports, factor after factor, from ``factors``."""
    dense = [factor.toarray() for factor in factors]
    sizes = [frobenius(factor) or 1.0 for factor in dense]
    units = [factor / factor.real.dtype.type(size) for factor, size in zip(dense, sizes, strict=True)]
    sets = [Support(mask) for mask in masks]
    better, scale = polish(Moments(matrix), sets, units, float(np.prod(sizes)), "right_to_left")
    share = abs(scale) ** (1 / len(better))
    signs = [np.sign(scale) or 1.0] + [1.0] * (len(better) - 1)
    return [factor * factor.real.dtype.type(sign * share) for factor, sign in zip(better, signs, strict=True)]


def _chained(masks: Sequence[sp.csr_array]) -> sp.csr_array:
    """Where a product of factors on ``masks`` may have entries."""
    product = masks[0].astype(np.float32)
    for mask in masks[1:]:
        product = sp.csr_array(product @ mask.astype(np.float32))
    return product.astype(bool)


def _cut(matrix: Matrix, left_mask: sp.csr_array, right_mask: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """The best left @ right on two supports whose blocks do not overlap.

    Inner indices with the same rows on the left and the same columns on the right share a block of the matrix,
    which gets its best approximation of as high a rank as they are many.
    """
    columns, rows = sp.csc_array(left_mask), sp.csr_array(right_mask)
    columns.sort_indices()
    rows.sort_indices()
    # The factors have their values where the masks have their entries, in the same order.
    left, right = np.zeros(columns.nnz, matrix.dtype), np.zeros(rows.nnz, matrix.dtype)
    for I, J, K in _blocks(columns, rows):  # noqa: E741
        U, V = _low_rank(_gathered(matrix, I, J), K.shape[1])
        inner = K[:, : U.shape[2], None]
        left[columns.indptr[inner] + np.arange(I.shape[1])] = U.transpose(0, 2, 1)
        right[rows.indptr[inner] + np.arange(J.shape[1])] = V
    return (
        sp.csr_array(sp.csc_array((left, columns.indices, columns.indptr), shape=columns.shape)),
        sp.csr_array((right, rows.indices, rows.indptr), shape=rows.shape),
    )


def _blocks(columns: sp.csc_array, rows: sp.csr_array) -> list[tuple[Array, Array, Array]]:
    """Rows (b, p), columns (b, q) and inner indices (b, r) of blocks, those of one size together."""
    shared: dict[tuple[bytes, bytes], list[int]] = {}
    for k in range(columns.shape[1]):
        down = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
        across = rows.indices[rows.indptr[k] : rows.indptr[k + 1]]
        shared.setdefault((down.tobytes(), across.tobytes()), []).append(k)
    alike: dict[tuple[int, int, int], list[list[int]]] = {}
    for line, inner in shared.items():
        if all(line):
            alike.setdefault((len(line[0]), len(line[1]), len(inner)), []).append(inner)
    found = []
    for inners in alike.values():
        K = np.array(inners)
        first = K[:, 0, None]
        p, q = (np.diff(mask.indptr)[first[0, 0]] for mask in (columns, rows))
        down = columns.indices[columns.indptr[first] + np.arange(p)]
        across = rows.indices[rows.indptr[first] + np.arange(q)]
        found.append((down, across, K))
    return found


def _gathered(matrix: Matrix, I: Array, J: Array) -> Array:  # noqa: E741
    """The blocks (b, p, q) at rows I (b, p) and columns J (b, q)."""
    down, across = np.broadcast_arrays(I[:, :, None], J[:, None, :])
    if isinstance(matrix, np.ndarray):
        return matrix[down, across]
    return np.asarray(matrix[down.ravel(), across.ravel()]).reshape(down.shape)


def _low_rank(blocks: Array, rank: int) -> tuple[Array, Array]:
    """Factors (b, p, r) and (b, r, q) of the best approximations of rank r of (b, p, q) blocks."""
    if rank == 1:
        found = _rank_one(blocks)
        if found is not None:
            return found
    U, sizes, V = np.linalg.svd(blocks, full_matrices=False)
    roots = np.sqrt(sizes[:, :rank])
    return U[:, :, :rank] * roots[:, None, :], roots[:, :, None] * V[:, :rank, :]


def _rank_one(blocks: Array) -> tuple[Array, Array] | None:
    """`_low_rank` for rank one by power iteration from the largest rows; None where it does not settle."""
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
