"""Convolutions as exact fast products: circulant, Toeplitz and Hankel matrices, on a line or on a grid.

The rows and columns of a matrix are the points of a grid, i = (i₁, i₂, …) and j = (j₁, j₂, …), and the matrix is
M_ij = t(i − j): Toeplitz in each level. A level is circulant if t is periodic along it. A reversed level has
j replaced by n − 1 − j: Hankel.

A periodic convolution on a grid is T⁻¹KT, where T is a Fourier or, for real matrices, a Hartley transform along
each level, and K is diagonal or couples ±k. Others are parts of periodic ones on larger grids.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import chain, product
from math import prod
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius, wide
from ..transforms import dft, hartley, prime_factors
from ..typing import Array
from .curves import Curve
from .exact_products import divisors, joined, largest_error, product_curve, pruned, without_rounding

_SAMPLES = 256  # entries at which a form is tested before it is fitted
_FEW = 4  # entries per row and column, of a matrix that no fast product can beat
_NEAR = 0.1  # the largest error of a convolution that is near a matrix
_GRID = 1.5  # by this factor a grid has to be nearer than a line
_PHASES = (3, 4, 5)
_SMALL_PRIMES = (2, 3, 5, 7)


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


class Fit(NamedTuple):
    """A form, its kernel, t(d) at d + columns − 1, and its relative error."""

    form: Form
    kernel: Array
    error: float


def convolutions(matrix: Array) -> list[Curve]:
    """The fast product of a convolution matrix, or of one that is near, if that has fewer entries."""
    if min(matrix.shape) < 2 or np.count_nonzero(matrix) <= _FEW * sum(matrix.shape):
        return []
    samples = _samples(matrix)
    limit = 2 * largest_error(matrix) * frobenius(matrix)  # of the difference of two entries
    spreads: dict[Form, float] = {}
    for form in chain(_line_forms(matrix.shape), _grid_forms(matrix.shape)):
        differences, entries = _differences(matrix, form, samples)
        spreads[form] = frobenius(differences) / frobenius(entries) if entries.size else np.inf
        if np.abs(differences).max(initial=0.0) <= limit:
            fitted = _fitted(matrix, form)
            if fitted.error <= largest_error(matrix):
                return _curves(matrix, fitted, largest_error(matrix))
    # Whatever is a convolution on a line is one on grids, too.
    nearest = min(spreads, key=lambda form: spreads[form] * (1 if len(form.rows) == 1 else _GRID))
    if spreads[nearest] > _NEAR:
        return []
    fitted = _fitted(matrix, nearest)
    return _curves(matrix, fitted, _NEAR) if fitted.error <= _NEAR else []


# -- which form a matrix has ---------------------------------------------------------------------------


def _line_forms(shape: tuple[int, int]) -> Iterator[Form]:
    for is_reversed in (False, True):
        yield Form(shape[:1], shape[1:], (is_reversed,))


def _grid_forms(shape: tuple[int, int]) -> Iterator[Form]:
    """All grids of two levels with at least two points along each."""
    row_counts, column_counts = (divisors(n)[1:-1] for n in shape)
    for outer in product(row_counts, column_counts):
        rows, columns = ((count, n // count) for count, n in zip(outer, shape, strict=True))
        for reversals in product((False, True), repeat=2):
            yield Form(rows, columns, reversals)


def _samples(matrix: Array) -> tuple[Array, Array]:
    """The rows and columns of some entries that are not zero."""
    places = np.flatnonzero(matrix)
    rows, columns = np.unravel_index(np.random.default_rng(0).choice(places, _SAMPLES), matrix.shape)
    return rows, columns


def _differences(matrix: Array, form: Form, samples: tuple[Array, Array]) -> tuple[Array, Array]:
    """Differences of samples and their neighbours on the diagonals of each level, and these samples."""
    i, j = samples
    steps_down, steps_right = (np.cumprod([1, *counts[:0:-1]])[::-1] for counts in (form.rows, form.columns))
    neighbours, entries = [], []
    for level, is_reversed in enumerate(form.reversed):
        down, right = steps_down[level], steps_right[level]
        for row_step in (-1, 1):
            column_step = -row_step if is_reversed else row_step
            row = i // down % form.rows[level] + row_step
            column = j // right % form.columns[level] + column_step
            inside = (row >= 0) & (row < form.rows[level]) & (column >= 0) & (column < form.columns[level])
            neighbours.append(matrix[i[inside] + row_step * down, j[inside] + column_step * right])
            entries.append(matrix[i[inside], j[inside]])
    here = np.concatenate(entries)
    return np.concatenate(neighbours) - here, here


def _fitted(matrix: Array, form: Form) -> Fit:
    """The means along the diagonals, and the relative error of the matrix that they make."""
    shape = tuple(m + n - 1 for m, n in zip(form.rows, form.columns, strict=True))
    last = np.array(form.columns)[:, np.newaxis] - 1
    down = np.ravel_multi_index(tuple(form.row_grid()), shape)
    left = np.ravel_multi_index(tuple(last - form.column_grid()), shape)
    lags, entries = (down[:, np.newaxis] + left).ravel(), matrix.ravel()
    kernel = np.empty(prod(shape), wide(matrix.dtype))
    kernel[lags] = entries
    # The mean of many equal numbers would have rounding errors; that of zeros has none.
    differences = entries - kernel[lags]
    if differences.any():
        counts = np.bincount(lags)
        kernel += np.bincount(lags, differences.real) / counts
        if kernel.dtype.kind == "c":
            kernel += 1j * np.bincount(lags, differences.imag) / counts
    return Fit(form, kernel.reshape(shape), frobenius(entries - kernel[lags]) / frobenius(entries))


def _is_periodic(matrix: Array, fit: Fit, level: int) -> bool:
    """Whether t(d) = t(d − n) along a level, up to the error of the fit or rounding."""
    n = fit.form.columns[level]
    if fit.form.rows[level] != n:
        return False
    lags = np.moveaxis(fit.kernel, level, 0)
    # A value of the kernel stands at no more places than the matrix has rows.
    error = frobenius(lags[: n - 1] - lags[n:]) * np.sqrt(len(matrix))
    return error <= max(largest_error(matrix), fit.error) * frobenius(matrix)


def _described(form: Form, periodic: list[bool]) -> str:
    if len(periodic) > 1:
        grids = ["×".join(map(str, counts)) for counts in (form.rows, form.columns)]
        boundary = ", periodic" if all(periodic) else ""
        return f"2-D convolution, {' to '.join(dict.fromkeys(reversed(grids)))}{boundary}"
    names = {(True, False): "circulant", (True, True): "circulant, reversed", (False, True): "Hankel"}
    return names.get((periodic[0], form.reversed[0]), "Toeplitz")


# -- its product ---------------------------------------------------------------------------------------


def _curves(matrix: Array, fit: Fit, limit: float) -> list[Curve]:
    """The curve of the product of a fit, if it has fewer entries than the matrix and an error within the limit."""
    options = [_factors(matrix, each) for each in (fit, *_in_phases(fit))]
    factors = min(options, key=lambda chain: sum(factor.nnz for factor in chain))
    periodic = [_is_periodic(matrix, fit, level) for level in range(fit.kernel.ndim)]
    detail = _described(fit.form, periodic) + (", nearly" if fit.error > largest_error(matrix) else "")
    curve = product_curve("convolution", detail, matrix, factors)
    return [curve] if curve is not None and curve.errors[0] <= limit else []


def _in_phases(fit: Fit) -> Iterator[Fit]:
    """A real convolution on a line as one on grids whose inner level are p phases, i = p·i₁ + i₂.

    The product of the inner level, p×p blocks in the middle, may have fewer entries than more stages.
    """
    ((m, n), kernel) = (fit.form.rows[0], fit.form.columns[0]), fit.kernel
    if kernel.ndim == 1 and kernel.dtype.kind != "c":
        for p in (p for p in _PHASES if m % p == n % p == 0):
            lags = p * np.arange(1 - n // p, m // p)[:, np.newaxis] + np.arange(1 - p, p)
            form = Form((m // p, p), (n // p, p), fit.form.reversed * 2)
            yield Fit(form, kernel[lags + n - 1], fit.error)


def _factors(matrix: Array, fit: Fit) -> list[sp.csr_array]:
    kernel = fit.kernel
    for level in range(kernel.ndim):
        kernel = _wrapped(kernel, fit.form, level, _is_periodic(matrix, fit, level))
    return _fast_product(kernel, fit.form)


def _wrapped(kernel: Array, form: Form, level: int, is_periodic: bool) -> Array:
    """The kernel of a periodic convolution along a level that holds the one of the kernel."""
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
    """About the entries of a periodic convolution of size n: two transforms, with what is joined between them."""
    *outer, inner = prime_factors(n) or [1]
    if is_complex:
        return n * (2 * sum(outer) + inner)
    rows = 2 * sum(2.75 if p == 2 else 2 * p - 1 for p in outer) + 2 * inner
    # What rotations of a quarter and smaller stages in the middle save.
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
    # T is symmetric; so its transposed factors in reverse order are another fast form, in which permutations meet.
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
