"""Butterfly factorizations, on known supports or on supports found under unknown permutations."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius, in_units
from ..operators import SparseProduct
from ..operators.factors import as_csr
from ..results import Factorization, History, Status
from ..runtime.session import Interrupted, Session
from ..runtime.threads import blas_threads
from ..typing import Array, MatrixLike, RandomState
from ..validation import as_matrix, is_series
from .known_supports import fit_factors, polish_factors
from .supports import HOPELESS, RADICES, Effort, find_supports
from .units import in_unit_of

_WAYS = ((False, False), (False, True), (True, False), (True, True))  # balanced, transposed
_SHARES = (0.4, 0.2, 0.2, 0.2)  # of the time, by estimate
_EVEN = 1.25  # the largest ratio of norms of lines that scaling them would hardly change
_POLISH_SIDE = 256  # the size up to which factors are polished, as dense matrices; it takes some 70 ms there
_EXACT = 1e-12


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
    matrix, unit = in_units(as_matrix("M", M))
    masks = None if supports is None else _as_masks(supports, matrix.shape)
    session = Session(random_state=random_state)
    try:
        fit = find_butterfly(session, matrix) if masks is None else _fit_on(matrix, masks)
    except Interrupted:  # by Ctrl-C, where this is part of something else that it stops
        fit = replace(_itself(matrix), status=Status.STOPPED)
    return replace(fit, operator=in_unit_of("M", fit.operator, unit))


def butterfly_entries(shape: tuple[int, int]) -> float:
    """n·Σr for the prime factors r of n: the entries of an n×n butterfly; infinity for other shapes and primes."""
    n, left, total = shape[0], shape[0], 0
    for radix in RADICES:
        while left % radix == 0 and left > radix:
            left, total = left // radix, total + radix
    return float(n * (total + left)) if shape == (n, n) and total else inf


def find_butterfly(session: Session, matrix: Array, largest_error: float = 1.0) -> Factorization:
    """The best fit on supports found in up to four ways, until one cannot be far from the best.

    For white noise of energy e, the first split into r parts misses e·(1 − 1/r), and all levels together miss less
    than e. If a fit misses more, another way is tried: neither transposing the matrix nor scaling its rows and
    columns changes the structure, and with lines of equal norm, small entries count as much as large ones. Once
    the session is stopped, the best fit so far is returned; without one, `Interrupted` is raised. Fits that would
    miss more than ``largest_error`` are not finished.
    """
    best: Factorization | None = None
    noise, is_demanding = inf, largest_error**2 < HOPELESS
    is_even, is_quick = _is_balanced(matrix), False
    try:
        for (balanced, transposed), share in zip(_WAYS, _SHARES, strict=True):
            # Without structure in its rows, a matrix has none in its columns. Scaling does nothing for lines of
            # the same norm, is for structure with noise, and helps little where splits miss far too much.
            is_vain = is_even or is_quick or (best is None and is_demanding)
            if (best is None and transposed) or (balanced and is_vain):
                continue
            with session.part(share):
                effort = Effort(balanced, inf if balanced else largest_error**2)
                masks = find_supports(session, matrix.T if transposed else matrix, effort)
                if masks is not None:
                    masks = [sp.csr_array(mask.T) for mask in reversed(masks)] if transposed else masks
                    fit = session.wait(partial(_fit_on, matrix, masks), len(masks) * matrix.size)
                    best = fit if best is None or fit.error < best.error else best
                    noise = noise if balanced else min(noise, effort.share)
                is_quick |= effort.is_quick
            if best is not None and (best.error <= _EXACT or best.error**2 <= noise):
                break
    except Interrupted:
        if best is None:
            raise
    if best is None or best.error**2 > HOPELESS:
        return _itself(matrix)
    return best


def _itself(matrix: Array) -> Factorization:
    return Factorization(SparseProduct([matrix]), 0.0, 0, Status.NO_STRUCTURE, History())


def _is_balanced(matrix: Array) -> bool:
    """Whether all rows, and all columns, have nearly the same norm."""
    norms = [np.linalg.norm(matrix, axis=axis) for axis in (0, 1)]
    return all(size.max() <= _EVEN * size.min() for size in norms)


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
    if not is_series(supports):
        raise TypeError(f"supports must be a sequence of boolean matrices, got {supports!r}")
    masks = []
    for i, support in enumerate(supports):
        # Sparse ones are not filled in.
        mask = as_csr(f"supports[{i}]", support).astype(bool)
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
