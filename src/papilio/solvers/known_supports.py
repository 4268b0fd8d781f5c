"""Factors on supports that are known, level by level."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..constraints import Support
from ..linalg import frobenius
from ..moments import Moments
from ..validation import Array
from .polish import polish

_POWER_STEPS = 60


def fitted(matrix: Array, masks: Sequence[sp.csr_array]) -> list[sp.csr_array]:
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


def _cut(matrix: Array, left_mask: sp.csr_array, right_mask: sp.csr_array) -> tuple[Array, Array]:
    """The best left @ right on two supports whose blocks do not overlap.

    Inner indices with the same rows on the left and the same columns on the right share a block of the matrix,
    which gets its best approximation of as high a rank as they are many.
    """
    columns, rows = sp.csc_array(left_mask), sp.csr_array(right_mask)
    columns.sort_indices()
    rows.sort_indices()
    blocks: dict[tuple[bytes, bytes], list[int]] = {}
    for k in range(columns.shape[1]):
        down = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
        across = rows.indices[rows.indptr[k] : rows.indptr[k + 1]]
        blocks.setdefault((down.tobytes(), across.tobytes()), []).append(k)
    left = np.zeros((matrix.shape[0], columns.shape[1]), matrix.dtype)
    right = np.zeros((columns.shape[1], matrix.shape[1]), matrix.dtype)
    kind = columns.indices.dtype
    alike: dict[tuple[int, int, int], list[tuple[Array, Array, list[int]]]] = {}
    for (down, across), inner in blocks.items():
        place = np.frombuffer(down, kind), np.frombuffer(across, rows.indices.dtype), inner
        if place[0].size and place[1].size:
            alike.setdefault((place[0].size, place[1].size, len(inner)), []).append(place)
    for (_, _, rank), places in alike.items():
        I = np.stack([place[0] for place in places])  # noqa: E741
        J = np.stack([place[1] for place in places])
        K = np.stack([place[2] for place in places])
        U, V = _low_rank(matrix[I[:, :, None], J[:, None, :]], rank)
        width = U.shape[2]
        left[I[:, :, None], K[:, None, :width]] = U
        right[K[:, :width, None], J[:, None, :]] = V
    return left, right


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
