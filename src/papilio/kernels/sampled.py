"""Products on fixed supports: values in the order of the kernels, transposes, and gradients.

The gradient by the values of a factor is a product of two dense matrices, left · rightᵀ, sampled on its support.
Only these entries are computed, for groups of rows as in `papilio.kernels.simd`; ``places`` says where the entries
of each strip belong among the values, and is negative for those that only fill up a group.
"""

import numpy as np

from ..typing import Array
from .cache import kernel
from .simd import REGISTER, transpose_into_tile

compiled = kernel(nogil=True)
# Sums in any order, so that they are vectors; NaN and infinity stay what they are.
summing = kernel(nogil=True, fastmath={"reassoc", "contract", "nsz"})

_NEAR = 512  # numbers of a row at a time, so that rows stay in the first cache


@compiled
def gather(values: Array, places: Array, packed: Array) -> None:
    """packed[i] = values[places[i]], and zero where the place is negative."""
    for i in range(places.size):
        place = places[i]
        if place >= 0:
            packed[i] = values[place]
        else:
            packed[i] = 0


@compiled
def transpose(X: Array, Y: Array, begin: int, end: int) -> None:
    """Y[:, begin:end] = X[begin:end].T, for row-major X and Y."""
    band = REGISTER // X.itemsize  # whole lines of memory are read and written
    source, result = np.int64(X.ctypes.data), np.int64(Y.ctypes.data)
    for i in range(begin, end, band):
        count = min(band, end - i)
        target = result + i * Y.strides[1]
        transpose_into_tile(X, (source + i * X.strides[0], X.strides[0], target, Y.strides[0], count, X.shape[1]))


@summing
def sample_fours(
    rows: Array,
    pointers: Array,
    columns: Array,
    places: Array,
    left: Array,
    right: Array,
    sums: Array,
    begin: int,
    end: int,
) -> None:
    """Add the entries of left @ right.T in groups of four rows, from ``begin`` to ``end``, to ``sums``."""
    zero = np.zeros(1, left.dtype)[0]
    for start in range(0, left.shape[1], _NEAR):
        stop = min(start + _NEAR, left.shape[1])
        for g in range(begin, end):
            a, b = left[rows[g, 0], start:stop], left[rows[g, 1], start:stop]
            c, d = left[rows[g, 2], start:stop], left[rows[g, 3], start:stop]
            last = pointers[g + 1] - 1
            for n in range(pointers[g], last + 1, 2):  # two strips at a time: fewer reads for each product
                m = min(n + 1, last)
                x, y = right[columns[n], start:stop], right[columns[m], start:stop]
                ax, bx, cx, dx, ay, by, cy, dy = zero, zero, zero, zero, zero, zero, zero, zero
                for k in range(stop - start):
                    ax += a[k] * x[k]
                    bx += b[k] * x[k]
                    cx += c[k] * x[k]
                    dx += d[k] * x[k]
                    ay += a[k] * y[k]
                    by += b[k] * y[k]
                    cy += c[k] * y[k]
                    dy += d[k] * y[k]
                for i, total in enumerate((ax, bx, cx, dx)):
                    if places[n, i] >= 0:
                        sums[places[n, i]] += total
                if m > n:
                    for i, total in enumerate((ay, by, cy, dy)):
                        if places[m, i] >= 0:
                            sums[places[m, i]] += total


@summing
def sample_few(
    rows: Array,
    pointers: Array,
    columns: Array,
    places: Array,
    left: Array,
    right: Array,
    sums: Array,
    begin: int,
    end: int,
) -> None:
    """The same for groups of any height, one entry at a time."""
    zero = np.zeros(1, left.dtype)[0]
    for start in range(0, left.shape[1], _NEAR):
        stop = min(start + _NEAR, left.shape[1])
        for g in range(begin, end):
            for n in range(pointers[g], pointers[g + 1]):
                x = right[columns[n], start:stop]
                for i in range(rows.shape[1]):
                    if places[n, i] >= 0:
                        a, total = left[rows[g, i], start:stop], zero
                        for k in range(stop - start):
                            total += a[k] * x[k]
                        sums[places[n, i]] += total
