"""Butterfly factorizations: supports that are known, or found under unknown permutations."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..constraints import Support
from ..linalg import frobenius
from ..moments import Moments
from ..operators import SparseProduct
from ..results import Factorization, History, Status
from ..validation import Array, as_matrix, as_random
from .pairing import best_split, leading
from .polish import polish

_HOPELESS = 0.2  # the share of the energy that the first split may miss; a Gaussian matrix misses about 0.4
_POLISH_SIDE = 1024  # up to which factors are polished, as dense matrices
_EXACT = 1e-12


def butterfly(M: Any, supports: Sequence[Any] | None = None, random_state: Any = None) -> Factorization:
    """Factorize a matrix into butterfly factors.

    The search splits the matrix level by level. Its rows pair up and its columns split into halves so that each
    block of a pair and a half has nearly rank one; each block gives two entries of the left factor and a row of
    the residual, which falls apart into two problems of half the size.

    Parameters
    ----------
    M : (m, n) matrix
        Without ``supports``, square, of a size that is a power of two.
    supports : sequence of boolean matrices, optional
        Where the factors may have entries, left to right, such that each cut of the chain has blocks of low rank,
        as those of fast Fourier and Hadamard transforms. By default they are found: M may be a product of
        butterfly factors with its rows and columns permuted in any way.
    random_state : int, RandomState or None
        Of the rows from which the search starts.

    Returns
    -------
    Factorization
        With two entries in each row and column of each factor where supports were found. A matrix without such
        structure comes back as one factor, with ``status`` "no structure".

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> H = pp.transforms.hadamard(16).toarray()
    >>> shuffled = H[np.random.default_rng(0).permutation(16)]
    >>> fit = pp.butterfly(shuffled, random_state=0)
    >>> fit.operator.nnz, bool(fit.error < 1e-12)
    (128, True)
    """
    matrix = as_matrix("M", M)
    if supports is not None:
        return _fit_on(matrix, _as_masks(supports, matrix.shape))
    random = as_random(random_state)
    best: Factorization | None = None
    # Lines of equal size let small entries have their say, which without noise is what they should have.
    for balanced in (False, True):
        masks = found_supports(matrix, random, balanced)
        if masks is not None:
            fit = _fit_on(matrix, masks)
            best = fit if best is None or fit.error < best.error else best
        if best is not None and best.error <= _EXACT:
            break
    if best is None:
        return Factorization(SparseProduct([matrix]), 0.0, 0, Status.NO_STRUCTURE, History())
    return best


def _fit_on(matrix: Array, masks: Sequence[sp.csr_array]) -> Factorization:
    factors: Sequence[Any] = _fitted(matrix, masks)
    error = _error(matrix, factors)
    if error > _EXACT and max(matrix.shape) <= _POLISH_SIDE:
        factors = _polished(matrix, masks, factors)
        error = _error(matrix, factors)
    return Factorization(SparseProduct(factors), error, 0, Status.CONVERGED, History())


def _as_masks(supports: Any, shape: tuple[int, int]) -> list[sp.csr_array]:
    if isinstance(supports, str) or not isinstance(supports, Iterable):
        raise TypeError(f"supports must be a sequence of boolean matrices, got {supports!r}")
    masks = []
    for i, support in enumerate(supports):
        mask = sp.csr_array(as_matrix(f"supports[{i}]", support) != 0)
        if not mask.nnz:
            raise ValueError(f"supports[{i}] must allow at least one entry, got none")
        masks.append(mask)
    for i, (left, right) in enumerate(pairwise(masks)):
        if left.shape[1] != right.shape[0]:
            raise ValueError(
                f"supports must chain: supports[{i}] has {left.shape[1]} columns but supports[{i + 1}] has "
                f"{right.shape[0]} rows"
            )
    if not masks or (masks[0].shape[0], masks[-1].shape[1]) != shape:
        raise ValueError(f"supports must chain to the shape {shape} of M")
    return masks


# -- known supports ------------------------------------------------------------------------------------


def _fitted(matrix: Array, masks: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """Factors on ``masks``, by cutting the chain in the middle, again and again."""
    if len(masks) == 1:
        return [sp.csr_array(masks[0].multiply(matrix))]
    middle = len(masks) // 2
    left, right = _cut(matrix, _chained(masks[:middle]), _chained(masks[middle:]))
    return _fitted(left, masks[:middle]) + _fitted(right, masks[middle:])


def _chained(masks: Sequence[sp.csr_array]) -> sp.csr_array:
    """Where a product of factors on ``masks`` may have entries."""
    product = masks[0].astype(np.int64)
    for mask in masks[1:]:
        product = sp.csr_array(product @ mask.astype(np.int64))
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


def _rank_one(blocks: Array, max_iter: int = 60) -> tuple[Array, Array] | None:
    """`_low_rank` for rank one by power iteration from the largest rows; None where it does not settle."""
    largest = np.argmax((np.abs(blocks) ** 2).sum(axis=2), axis=1)
    v = blocks[np.arange(len(blocks)), largest].conj()[:, :, None]
    eps = np.finfo(blocks.dtype).eps
    previous = np.zeros(len(blocks))
    adjoint = blocks.conj().transpose(0, 2, 1)
    for _ in range(max_iter):
        u = blocks @ _unit(v)
        u = _unit(u)
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


def _error(matrix: Array, factors: Sequence[sp.csr_array]) -> float:
    size = frobenius(matrix)
    return frobenius(matrix - SparseProduct(factors).toarray()) / size if size > 0 else 0.0


def _polished(matrix: Array, masks: Sequence[sp.csr_array], factors: Sequence[sp.csr_array]) -> list[Array]:
    """Least squares on the supports, factor after factor."""
    dense = [factor.toarray() for factor in factors]
    sizes = [frobenius(factor) or 1.0 for factor in dense]
    units = [factor / factor.real.dtype.type(size) for factor, size in zip(dense, sizes, strict=True)]
    sets = [Support(mask) for mask in masks]
    better, scale = polish(Moments(matrix), sets, units, float(np.prod(sizes)), "right_to_left")
    share = abs(scale) ** (1 / len(better))
    signs = [np.sign(scale) or 1.0] + [1.0] * (len(better) - 1)
    return [factor * factor.real.dtype.type(sign * share) for factor, sign in zip(better, signs, strict=True)]


# -- unknown supports ----------------------------------------------------------------------------------


def found_supports(matrix: Array, random: np.random.RandomState, balanced: bool) -> list[sp.csr_array] | None:
    """Supports of log₂n factors with two entries a line, level by level; None where there is no such structure.

    The structure does not change when rows and columns are multiplied by numbers; with ``balanced``, all lines are
    brought to one size before each split.
    """
    n = len(matrix)
    levels = n.bit_length() - 1
    if matrix.shape != (n, n) or n != 1 << levels or levels < 2 or not matrix.any():
        return None
    masks = []
    nodes = [(np.arange(n), np.arange(n), matrix / frobenius(matrix))]  # rows, columns and their block
    for level in range(levels - 1):
        rows, columns, children = [], [], []
        offset = 0
        for own_rows, own_columns, block in nodes:
            if balanced:
                block = _balanced(block)
            split = best_split(block, random)
            if level == 0 and split.cost > _HOPELESS * frobenius(block) ** 2:
                return None
            half = len(block) // 2
            for h, inside in enumerate(split.halves):
                inner = offset + h * half + np.arange(half)  # one for each pair
                rows.append(own_rows[split.pairs].ravel())
                columns.append(np.repeat(inner, 2))
                first, second = block[np.ix_(split.pairs[:, 0], inside)], block[np.ix_(split.pairs[:, 1], inside)]
                u = leading(first, second)
                residual = u[0].conj()[:, None] * first + u[1].conj()[:, None] * second
                children.append((inner, own_columns[inside], residual))
            offset += len(block)
        masks.append(_mask(rows, columns, n))
        nodes = children
    rows = [np.repeat(own_rows, 2) for own_rows, _, _ in nodes]
    columns = [np.tile(own_columns, 2) for _, own_columns, _ in nodes]
    masks.append(_mask(rows, columns, n))
    return masks


def _balanced(block: Array) -> Array:
    """``block`` with its rows and columns divided by numbers so that they have nearly equal norms."""
    for axis in (1, 0, 1):
        sizes = np.linalg.norm(block, axis=axis, keepdims=True)
        block = block / np.where(sizes > 0, sizes, 1).astype(block.real.dtype)
    return block


def _mask(rows: Sequence[Array], columns: Sequence[Array], n: int) -> sp.csr_array:
    places = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((np.ones(places[0].size, bool), places), shape=(n, n))
