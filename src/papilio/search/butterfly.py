"""Butterfly factorizations, on known supports or on supports found under unknown permutations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Factorization, History, Status
from ..runtime.threads import blas_threads
from ..typing import Array, MatrixLike, RandomState
from ..validation import as_matrix, as_random
from .known_supports import fit_factors, polish_factors
from .splitting import best_split, leading_vectors

_HOPELESS = 0.2  # the share of the energy that the first split may miss; a Gaussian matrix misses about 0.4
_POLISH_SIDE = 256  # the size up to which factors are polished, as dense matrices; it takes some 70 ms there
_EXACT = 1e-12
_RADICES = (2, 3, 5, 7)  # by which a matrix is split; what remains stays a block


def butterfly(
    M: MatrixLike, supports: Sequence[MatrixLike] | None = None, random_state: RandomState = 0
) -> Factorization:
    """Factorize a matrix into butterfly factors, M ≈ S₁S₂…S_L.

    The search splits the matrix level by level. For radix r, its rows are put into groups of r and its columns
    into r parts such that each block of a group and a part has nearly rank one. A block gives r entries of the
    left factor and a row of the residual, which separates into r problems of 1/r of the size.

    Parameters
    ----------
    M : (m, n) matrix
        Without ``supports``, structure is found only in square matrices of a size n > r that is divisible by
        r = 2, 3, 5 or 7.
    supports : sequence of boolean matrices, optional
        Where the factors may have entries, left to right, such that each cut of the chain has blocks of low rank,
        like those of fast Fourier and Hadamard transforms. By default they are searched for: M may be a product
        of butterfly factors with its rows and columns permuted in any way.
    random_state : int, RandomState, Generator or None, default=0
        The source of random numbers: it chooses the rows from which the search starts.

    Returns
    -------
    Factorization
        If supports were found, the factors of an n×n matrix have r entries in each row and column, where r runs
        over the prime factors of n: n·Σr entries in all, 2n·log₂n for powers of two. A matrix without such
        structure is returned as one factor, with ``status`` "no_structure".

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> H = pp.transforms.hadamard(16).toarray()
    >>> shuffled = H[np.random.default_rng(0).permutation(16)]
    >>> fit = pp.butterfly(shuffled, random_state=0)
    >>> fit.operator.nnz, bool(fit.error < 1e-12)
    (128, True)
    """
    given = as_matrix("M", M)
    # A power of two: division is exact, and squares of large and small data stay in range.
    unit = 2.0 ** int(np.frexp(np.abs(given).max())[1])
    matrix = given / given.real.dtype.type(unit)
    masks = None if supports is None else _as_masks(supports, matrix.shape)
    random = as_random(random_state)
    fit = find_butterfly(matrix, random) if masks is None else _fit_on(matrix, masks)
    return replace(fit, operator=fit.operator * unit)


def butterfly_entries(shape: tuple[int, int]) -> float:
    """n·Σr for the prime factors r of n: the entries of an n×n butterfly; infinity for other shapes and primes."""
    n, left, total = shape[0], shape[0], 0
    for radix in _RADICES:
        while left % radix == 0 and left > radix:
            left, total = left // radix, total + radix
    return float(n * (total + left)) if shape == (n, n) and total else inf


def find_butterfly(
    matrix: Array, random: np.random.RandomState, should_stop: Callable[[], bool] = lambda: False
) -> Factorization:
    """The best fit on supports found in up to four ways, until one cannot be far from the best.

    For white noise of energy e, the first split into r parts misses e·(1 − 1/r), and all levels together miss less
    than e. If a fit misses more, another way is tried: neither transposing the matrix nor scaling its rows and
    columns changes the structure, and with lines of equal norm, small entries count as much as large ones.
    """
    best: Factorization | None = None
    noise = inf
    for balanced, transposed in ((False, False), (False, True), (True, False), (True, True)):
        if best is None and transposed:
            continue  # without structure in its rows, a matrix has none in its columns
        found = find_supports(matrix.T if transposed else matrix, random, balanced, should_stop)
        if found is not None:
            masks, share = found
            fit = _fit_on(matrix, [sp.csr_array(mask.T) for mask in reversed(masks)] if transposed else masks)
            best = fit if best is None or fit.error < best.error else best
            noise = noise if balanced else min(noise, share)
        if should_stop() or (best is not None and (best.error <= _EXACT or best.error**2 <= noise)):
            break
    if best is None or best.error**2 > _HOPELESS:
        return Factorization(SparseProduct([matrix]), 0.0, 0, Status.NO_STRUCTURE, History())
    return best


def _fit_on(matrix: Array, masks: Sequence[sp.csr_array]) -> Factorization:
    with blas_threads(max(matrix.shape) ** 3 // 2):
        factors: Sequence[Any] = fit_factors(matrix, masks)
        error = _error(matrix, factors)
        if error > _EXACT and max(matrix.shape) <= _POLISH_SIDE:
            factors = polish_factors(matrix, masks, factors)
            error = _error(matrix, factors)
    return Factorization(SparseProduct(factors), error, 0, Status.CONVERGED, History())


def _error(matrix: Array, factors: Sequence[Any]) -> float:
    size = frobenius(matrix)
    return frobenius(matrix - SparseProduct(factors).toarray()) / size if size > 0 else 0.0


def _as_masks(supports: Any, shape: tuple[int, int]) -> list[sp.csr_array]:
    if isinstance(supports, str) or not isinstance(supports, Iterable):
        raise TypeError(f"supports must be a sequence of boolean matrices, got {supports!r}")
    masks = []
    for i, support in enumerate(supports):
        # Booleans, as most are, need no check and are not filled in where they are sparse.
        if np.dtype(getattr(support, "dtype", None)).kind != "b" or support.ndim != 2:
            support = as_matrix(f"supports[{i}]", support) != 0
        mask = sp.csr_array(support, copy=True)
        mask.eliminate_zeros()
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


# -- unknown supports ----------------------------------------------------------------------------------


class Node(NamedTuple):
    """A block of the residual, and where its rows and columns are in it."""

    rows: Array
    columns: Array
    block: Array


def find_supports(
    matrix: Array, random: np.random.RandomState, balanced: bool, should_stop: Callable[[], bool]
) -> tuple[list[sp.csr_array], float] | None:
    """Supports with a prime number of entries per line, level by level; None if there are none, or if stopped.

    With ``balanced``, all lines are scaled to equal norm before each split. With them comes the share of white
    noise in the energy, as estimated from the first split.
    """
    n = len(matrix)
    if matrix.shape != (n, n) or not matrix.any() or not _radices(n):
        return None
    masks: list[sp.csr_array] = []
    nodes = [Node(np.arange(n), np.arange(n), matrix / frobenius(matrix))]
    first_noise = 0.0
    while radices := _radices(len(nodes[0].block)):
        if balanced:
            nodes = [node._replace(block=_balance(node.block)) for node in nodes]
        energy = sum(frobenius(node.block) ** 2 for node in nodes)
        expected = first_noise / n**2 if masks and not balanced else None
        noise = inf
        for radix in radices:
            level = _split(nodes, radix, random, expected, should_stop)
            if should_stop():
                return None
            share = level[2] / (energy * (1 - 1 / radix))
            if share < noise:
                (mask, below, missed), noise = level, share
            if noise <= 1e-14:
                break
        if not masks:
            first_noise = noise
            if missed > _HOPELESS * energy:
                return None
        masks.append(mask)
        nodes = below
    rows = np.concatenate([np.repeat(node.rows, len(node.columns)) for node in nodes])
    columns = np.concatenate([np.tile(node.columns, len(node.rows)) for node in nodes])
    return [*masks, _mask(rows, columns, n)], first_noise


def _radices(n: int) -> list[int]:
    """The numbers by which a matrix of size n may be split into parts of more than one row."""
    return [radix for radix in _RADICES if n % radix == 0 and n > radix]


def _split(
    nodes: Sequence[Node],
    radix: int,
    random: np.random.RandomState,
    noise: float | None,
    should_stop: Callable[[], bool],
) -> tuple[sp.csr_array, list[Node], float]:
    """The support of the left factor, the nodes below, and the energy missed by splitting all nodes."""
    rows, columns, below = [], [], []
    offset, missed = 0, 0.0
    for node in nodes:
        with blas_threads(len(node.block) ** 3 // 2):
            split = best_split(node.block, radix, random, noise, should_stop)
        count = len(split.groups)
        for p, part in enumerate(split.parts):
            inner = offset + p * count + np.arange(count)  # one for each group
            rows.append(node.rows[split.groups].ravel())
            columns.append(np.repeat(inner, radix))
            residual = leading_vectors(node.block, split.groups, part)[1][:, part]
            below.append(Node(inner, node.columns[part], residual))
        offset += len(node.block)
        missed += split.cost
    return _mask(np.concatenate(rows), np.concatenate(columns), offset), below, missed


def _balance(block: Array) -> Array:
    """``block`` with its rows and columns scaled to nearly equal norms."""
    for axis in (1, 0, 1):
        sizes = np.linalg.norm(block, axis=axis, keepdims=True)
        block = block / np.where(sizes > 0, sizes, 1).astype(block.real.dtype)
    return block


def _mask(rows: Array, columns: Array, n: int) -> sp.csr_array:
    return sp.csr_array((np.ones(rows.size, bool), (rows, columns)), shape=(n, n))
