"""Convolution matrices, found: circulant, Toeplitz and Hankel ones, on a line or on a grid.

The rows and columns of a matrix are the points of a grid, i = (i₁, i₂, …) and j = (j₁, j₂, …), and the matrix is
M_ij = t(i − j): Toeplitz in each level. A level is circulant if t is periodic along it. A reversed level has
j replaced by n − 1 − j: Hankel.

`papilio.transforms.convolutions` has their products.
"""

from collections.abc import Iterator
from itertools import chain, product
from math import prod
from typing import NamedTuple

import numpy as np

from ...linalg import frobenius, wide
from ...transforms.convolutions import Form, fast_factors
from ...typing import Array
from ..curves import Curve, divisors, exact_error, of_factors
from ..search import Method, Search

_SAMPLES = 256  # entries at which a form is tested before it is fitted
_FEW = 4  # entries per row and column, of a matrix that no fast product can beat
_NEAR = 0.1  # the largest error of a convolution that is near a matrix
_GRID = 1.5  # A grid must fit better than a line by this factor.


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
    limit = 2 * exact_error(matrix.dtype) * frobenius(matrix)  # Error of the difference of two entries.
    spreads: dict[Form, float] = {}
    for form in chain(_line_forms(matrix.shape), _grid_forms(matrix.shape)):
        differences, entries = _differences(matrix, form, samples)
        spreads[form] = frobenius(differences) / frobenius(entries) if entries.size else np.inf
        if np.abs(differences).max(initial=0.0) <= limit:
            fitted = _fitted(matrix, form)
            if fitted.error <= exact_error(matrix.dtype):
                return _curves(matrix, fitted, exact_error(matrix.dtype))
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
    return error <= max(exact_error(matrix.dtype), fit.error) * frobenius(matrix)


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
    factors = fast_factors(
        fit.kernel, fit.form, lambda kernel, form, level: _is_periodic(matrix, Fit(form, kernel, fit.error), level)
    )
    periodic = [_is_periodic(matrix, fit, level) for level in range(fit.kernel.ndim)]
    detail = _described(fit.form, periodic) + (", nearly" if fit.error > exact_error(matrix.dtype) else "")
    curve = of_factors("convolution", detail, matrix, factors)
    return [curve] if curve is not None and curve.errors[0] <= limit else []


def _of(search: Search) -> Iterator[Curve]:
    yield from search.session.wait(lambda: convolutions(search.problem.matrix))


METHOD = Method(
    "convolution",
    "circulant, Toeplitz and Hankel matrices, on a line or on an image grid, by fast Hartley or Fourier "
    "transforms",
    _of,
)
