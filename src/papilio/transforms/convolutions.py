"""Convolutions as exact fast products: circulant and Toeplitz matrices, also on grids.

The rows and columns of a matrix are the points of a grid, i = (i₁, i₂, …) and j = (j₁, j₂, …), and the matrix is
M_ij = t(i − j): Toeplitz in each level. A level is circulant if t is periodic along it. A reversed level has
j replaced by n − 1 − j: Hankel.

A periodic convolution on a grid is T⁻¹KT, where T is a Fourier or, for real matrices, a Hartley transform along
each level, and K is diagonal or couples ±k. Others are parts of periodic ones on larger grids.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import in_units, wide
from ..operators import SparseProduct
from ..operators.factors import joined, pruned, without_rounding
from ..typing import Array, ArrayLike
from ..validation import as_numbers, require_finite
from .known import dft, hartley, prime_factors

_PHASES = (3, 4, 5)
_LONGEST_IN_PHASES = 1 << 14  # rows and columns together; beyond, phases would save a few per cent of the entries
_SMALL_PRIMES = (2, 3, 5, 7)
_MODERATE_EXPONENT = 40  # kernels with values between 2^−40 and 2^40 are not rescaled


def circulant(c: ArrayLike) -> SparseProduct:
    """The circulant matrix with first column c, as a fast product: ``scipy.linalg.circulant(c)``.

    C_ij = c_{(i − j) mod n}, the circular convolution with c. C = F⁻¹ diag(Fc) F with the Fourier transform F; for
    real c, the Hartley transform takes its place, so that the product is real.

    Parameters
    ----------
    c : (n,) array
        Any length. If n has a large prime factor, the convolution is part of a longer one.

    Returns
    -------
    SparseProduct
        Of the dtype of c. Some 6·n·log₂ n entries if n is a power of two and c is real, some 4·n·log₂ n if it is
        complex; the matrix itself, as one factor, if that has no more entries.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.transforms.circulant([1, 2, 3]).toarray()
    array([[1., 3., 2.],
           [2., 1., 3.],
           [3., 2., 1.]])
    """
    column = _as_line("c", c)
    return _line(np.concatenate([column[1:], column]), column.size, column.size)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> SparseProduct:
    """The Toeplitz matrix with first column c and first row r, as a fast product: ``scipy.linalg.toeplitz(c, r)``.

    T_ij = c_{i−j} for i ≥ j, and r_{j−i} above the diagonal. It is part of a circulant matrix whose size has small
    prime factors and is at least the number of non-zero diagonals.

    Parameters
    ----------
    c : (m,) array
    r : (n,) array, optional
        Its first entry is ignored in favour of c₀. By default the conjugate of c.

    Returns
    -------
    SparseProduct
        m × n, of the common dtype of c and r: real for real ones. The matrix itself, as one factor, if that has no
        more entries, as band matrices have.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.transforms.toeplitz([1, 2, 3], [1, 4]).toarray()
    array([[1., 4.],
           [2., 1.],
           [3., 2.]])
    """
    column = _as_line("c", c)
    row = column.conj() if r is None else _as_line("r", r)
    return _line(np.concatenate([row[:0:-1], column]), column.size, row.size)


def _as_line(name: str, value: ArrayLike) -> Array:
    """``value`` as a vector of finite numbers."""
    line = as_numbers(name, value)
    if line.ndim != 1 or line.size == 0:
        raise ValueError(f"{name} must be a vector with at least one entry, got shape {line.shape}")
    require_finite(name, line)
    return line


def _line(kernel: Array, m: int, n: int) -> SparseProduct:
    """The m × n matrix t(i − j), from t(d) at d + n − 1; as one factor if that has no more entries."""
    lags = np.flatnonzero(kernel) - (n - 1)
    # Places (i, i − d) inside the matrix, for each lag d.
    places = np.minimum(m, n + lags) - np.maximum(0, lags)
    values, exponent = in_units(kernel.astype(wide(kernel.dtype)))
    if abs(exponent) <= _MODERATE_EXPONENT:
        values, exponent = kernel.astype(wide(kernel.dtype)), 0
    if lags.size and not _is_plain(places.sum(), m, n):
        form = Form((m,), (n,), (False,))
        factors = fast_factors(values, form, _repeats)
        if sum(factor.nnz for factor in factors) < places.sum():
            return SparseProduct(factors, 2.0**exponent).astype(kernel.dtype)
    diagonals = [np.full(count, kernel[lag + n - 1]) for lag, count in zip(lags, places, strict=True)]
    if not diagonals:
        return SparseProduct([sp.csr_array((m, n), dtype=kernel.dtype)])
    return SparseProduct([sp.diags_array(diagonals, offsets=-lags, shape=(m, n), format="csr")])


def _is_plain(n_entries: int, m: int, n: int) -> bool:
    """Whether a matrix has too few entries for a fast product to have fewer."""
    return bool(n_entries <= 4 * (m + n))


def _repeats(kernel: Array, form: "Form", level: int) -> bool:
    """Whether t(d) = t(d − n) along a level."""
    n = form.columns[level]
    lags = np.moveaxis(kernel, level, 0)
    return form.rows[level] == n and np.array_equal(lags[: n - 1], lags[n:])


# -- on grids ------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """The points of the grid along each level, for rows and columns, and the levels with columns reversed."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    reversed: tuple[bool, ...]

    def row_grid(self) -> Array:
        """The place of each row along each level, as (levels, rows)."""
        return np.indices(self.rows).reshape(len(self.rows), -1)

    def column_grid(self) -> Array:
        """The place of each column along each level, as (levels, columns)."""
        grid = np.indices(self.columns).reshape(len(self.columns), -1)
        for level, is_reversed in enumerate(self.reversed):
            if is_reversed:
                grid[level] = self.columns[level] - 1 - grid[level]
        return grid


Periodic = Callable[[Array, Form, int], bool]


def fast_factors(kernel: Array, form: Form, is_periodic: Periodic) -> list[sp.csr_array]:
    """The factors of a convolution, in the form that has the fewest entries.

    ``kernel`` has t(d) at d + columns − 1, along each level. ``is_periodic(kernel, form, level)`` says whether
    t(d) and t(d − columns) count as equal along a level.
    """
    options = []
    for values, each in ((kernel, form), *_in_phases(kernel, form)):
        periodic = [is_periodic(values, each, level) for level in range(values.ndim)]
        for level, repeats in enumerate(periodic):
            values = _wrapped(values, each, level, repeats)
        options.append(_fast_product(values, each))
    return min(options, key=lambda chain: sum(factor.nnz for factor in chain))


def _in_phases(kernel: Array, form: Form) -> Iterator[tuple[Array, Form]]:
    """A real convolution on a line as one on grids whose inner level are p phases, i = p·i₁ + i₂.

    The product of the inner level, p×p blocks in the middle, may have fewer entries than more stages.
    """
    m, n = form.rows[0], form.columns[0]
    if kernel.ndim == 1 and kernel.dtype.kind != "c" and m + n <= _LONGEST_IN_PHASES:
        for p in (p for p in _PHASES if m % p == n % p == 0):
            lags = p * np.arange(1 - n // p, m // p)[:, np.newaxis] + np.arange(1 - p, p)
            yield kernel[lags + n - 1], Form((m // p, p), (n // p, p), form.reversed * 2)


def _wrapped(kernel: Array, form: Form, level: int, is_periodic: bool) -> Array:
    """The kernel of a periodic convolution along a level that contains the given one."""
    m, n = form.rows[level], form.columns[level]
    lags = np.moveaxis(kernel, level, 0)
    sizes = np.abs(lags).max(axis=tuple(range(1, lags.ndim)), initial=0.0)
    filled = np.flatnonzero(sizes > np.finfo(np.float64).eps * sizes.max()) - (n - 1)
    first, last = int(filled[0]), int(filled[-1])
    # Lags d and d − size must not both be inside unless they are zero.
    size = _fast_size(max(m, n, m - first, n + last), kernel.dtype.kind == "c")
    if is_periodic and _cost(n, kernel.dtype.kind == "c") <= _cost(size, kernel.dtype.kind == "c"):
        first, last, size = 0, n - 1, n
        # The mean over all places of t(d) and t(d − n), exact where they are equal.
        shares = (np.arange(n) / n).reshape(-1, *[1] * (lags.ndim - 1))
        lags = np.concatenate([lags[: n - 1], lags[n - 1 :] + shares * (np.roll(lags[:n], 1, 0) - lags[n - 1 :])])
    periodic = np.zeros((size, *lags.shape[1:]), kernel.dtype)
    periodic[np.arange(first, last + 1) % size] = lags[first + n - 1 : last + n]
    return np.moveaxis(periodic, 0, level)


def _cost(n: int, is_complex: bool) -> float:
    """About the entries of a periodic convolution of size n: two transforms and the joined factors between."""
    *outer, inner = prime_factors(n) or [1]
    if is_complex:
        return n * (2 * sum(outer) + inner)
    rows = 2 * sum(2.75 if p == 2 else 2 * p - 1 for p in outer) + 2 * inner
    # The second term is what rotations by a quarter and smaller stages in the middle save.
    return n * (rows - {2: 5.5, 3: 2.5}.get(inner, 1.5))


def _fast_size(least: int, is_complex: bool) -> int:
    """The size, at least ``least``, whose transform has the fewest entries."""
    sizes = {1}
    for p in _SMALL_PRIMES:
        sizes |= {
            size * p**k for size in sizes for k in range(1, (2 * least).bit_length()) if size * p**k < 2 * least
        }
    return min((size for size in sizes if size >= least), key=lambda size: (_cost(size, is_complex), size))


def _fast_product(kernel: Array, form: Form) -> list[sp.csr_array]:
    """T⁻¹KT for a kernel on a periodic grid, with the rows and columns of the form."""
    transform = dft if kernel.dtype.kind == "c" else hartley
    stages: list[sp.csr_array] = []
    # A level with the lag 0 only is left alone: along it, the convolution is the identity.
    levels = [level for level in range(kernel.ndim) if np.moveaxis(kernel, level, 0)[1:].any()]
    for level in levels:
        before, after = (sp.eye_array(prod(part)) for part in (kernel.shape[:level], kernel.shape[level + 1 :]))
        stages += [
            sp.kron(sp.kron(before, stage), after, "csr") for stage in transform(kernel.shape[level]).factors
        ]
    core = _diagonal(kernel) if kernel.dtype.kind == "c" else _coupling(kernel)
    # T is symmetric, so its transposed factors in reverse order are a fast form, too; there, permutations meet.
    core = core / prod(kernel.shape[level] for level in levels)
    factors = [*(stage.conj() for stage in stages), core, *(stage.T for stage in reversed(stages))]
    factors = [sp.csr_array(factor) for factor in factors]
    factors[0] = factors[0][np.ravel_multi_index(tuple(form.row_grid()), kernel.shape)]
    factors[-1] = factors[-1][:, np.ravel_multi_index(tuple(form.column_grid()), kernel.shape)]
    return joined(pruned([without_rounding(factor) for factor in factors]))


def _diagonal(kernel: Array) -> sp.csr_array:
    return sp.diags_array(np.fft.fftn(kernel).ravel(), format="csr")


def _coupling(kernel: Array) -> sp.csr_array:
    """K in the Hartley domain: Σ_d t(d) (cos(2πdk/n) X_k + sin(2πdk/n) X_{−k}), and so along each level."""
    parts = [(kernel, np.arange(kernel.size).reshape(kernel.shape))]
    for level in range(kernel.ndim):
        mirrored = -np.arange(kernel.shape[level])
        spectra = [(np.fft.fft(values, axis=level), columns) for values, columns in parts]
        parts = [(spectrum.real, columns) for spectrum, columns in spectra]
        parts += [(-spectrum.imag, np.take(columns, mirrored, axis=level)) for spectrum, columns in spectra]
    rows = np.arange(kernel.size)
    terms = [sp.csr_array((values.ravel(), (rows, columns.ravel()))) for values, columns in parts]
    return sp.csr_array(reduce(lambda left, right: left + right, terms))
