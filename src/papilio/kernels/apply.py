"""A chain of sparse factors times vectors, fused: a tile of vectors goes through all factors in cache.

The factors are packed in the order of application. ``steps[f]`` is (rows, width, first): factor f has ``rows``
rows, whose entries begin at ``pointers[first], pointers[first + 1], …`` in ``indices`` and ``data``; ``width`` is
the number of entries of every row where that is one of 1 to 4, which are unrolled, and 0 otherwise.
"""

import numpy as np
from numba import njit

from ..validation import Array

# Fused multiply-adds are welcome; sums keep their order, so that results do not depend on tiles and threads.
compiled = njit(cache=True, nogil=True, fastmath={"contract", "nsz"})


@njit(inline="always", nogil=True, fastmath={"contract", "nsz"})
def _factor(
    step: Array,
    pointers: Array,
    indices: Array,
    data: Array,
    source: Array,
    source_column: int,
    result: Array,
    result_column: int,
    width: int,
) -> None:
    """result[:, …] = factor @ source[:, …] for ``width`` columns."""
    rows, entries, first = step[0], step[1], step[2]
    s, r = source_column, result_column
    k = pointers[first]
    if entries == 1:
        for i in range(rows):
            a, ja = data[k], indices[k]
            for t in range(width):
                result[i, r + t] = a * source[ja, s + t]
            k += 1
    elif entries == 2:
        for i in range(rows):
            a, b = data[k], data[k + 1]
            ja, jb = indices[k], indices[k + 1]
            for t in range(width):
                result[i, r + t] = a * source[ja, s + t] + b * source[jb, s + t]
            k += 2
    elif entries == 3:
        for i in range(rows):
            a, b, c = data[k], data[k + 1], data[k + 2]
            ja, jb, jc = indices[k], indices[k + 1], indices[k + 2]
            for t in range(width):
                result[i, r + t] = a * source[ja, s + t] + b * source[jb, s + t] + c * source[jc, s + t]
            k += 3
    else:
        # Any number of entries, four at a time; with exactly four, one pass.
        for i in range(rows):
            k = pointers[first + i]
            end = pointers[first + i + 1]
            if end - k < 4:
                for t in range(width):
                    result[i, r + t] = 0
            else:
                a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
                ja, jb, jc, jd = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
                for t in range(width):
                    result[i, r + t] = (
                        a * source[ja, s + t]
                        + b * source[jb, s + t]
                        + c * source[jc, s + t]
                        + d * source[jd, s + t]
                    )
                k += 4
            while end - k >= 4:
                a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
                ja, jb, jc, jd = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
                for t in range(width):
                    result[i, r + t] += (
                        a * source[ja, s + t]
                        + b * source[jb, s + t]
                        + c * source[jc, s + t]
                        + d * source[jd, s + t]
                    )
                k += 4
            while k < end:
                a, ja = data[k], indices[k]
                for t in range(width):
                    result[i, r + t] += a * source[ja, s + t]
                k += 1


@compiled
def _longest(steps: Array) -> int:
    """The number of rows that a buffer between factors needs."""
    longest = 1
    for f in range(steps.shape[0] - 1):
        longest = max(longest, steps[f, 0])
    return longest


@compiled
def apply_rows(
    steps: Array,
    pointers: Array,
    indices: Array,
    data: Array,
    X: Array,
    Y: Array,
    start: int,
    stop: int,
    tile: int,
) -> None:
    """Y[:, start:stop] = chain @ X[:, start:stop] for row-major X and Y."""
    count = steps.shape[0]
    near = np.empty((_longest(steps), tile), Y.dtype)
    far = np.empty((_longest(steps), tile), Y.dtype)
    for begin in range(start, stop, tile):
        width = min(tile, stop - begin)
        if count == 1:
            _factor(steps[0], pointers, indices, data, X, begin, Y, begin, width)
            continue
        _factor(steps[0], pointers, indices, data, X, begin, near, 0, width)
        for f in range(1, count - 1):
            _factor(steps[f], pointers, indices, data, near, 0, far, 0, width)
            near, far = far, near
        _factor(steps[count - 1], pointers, indices, data, near, 0, Y, begin, width)


@compiled
def apply_columns(
    steps: Array,
    pointers: Array,
    indices: Array,
    data: Array,
    X: Array,
    Y: Array,
    start: int,
    stop: int,
    tile: int,
) -> None:
    """Y[start:stop] = X[start:stop] @ chainᵀ: the vectors are rows here, as in a column-major block."""
    count = steps.shape[0]
    size = max(X.shape[1], Y.shape[1], _longest(steps))
    near = np.empty((size, tile), Y.dtype)
    far = np.empty((size, tile), Y.dtype)
    for begin in range(start, stop, tile):
        width = min(tile, stop - begin)
        for t in range(width):
            for i in range(X.shape[1]):
                near[i, t] = X[begin + t, i]
        for f in range(count):
            _factor(steps[f], pointers, indices, data, near, 0, far, 0, width)
            near, far = far, near
        for t in range(width):
            for i in range(Y.shape[1]):
                Y[begin + t, i] = near[i, t]


@compiled
def apply_vector(steps: Array, pointers: Array, indices: Array, data: Array, x: Array, y: Array) -> None:
    """y = chain @ x."""
    count = steps.shape[0]
    near = np.empty(_longest(steps), y.dtype)
    far = np.empty(_longest(steps), y.dtype)
    for f in range(count):
        source = x if f == 0 else near
        result = y if f == count - 1 else far
        rows, entries, first = steps[f, 0], steps[f, 1], steps[f, 2]
        k = pointers[first]
        if entries == 2:
            for i in range(rows):
                result[i] = data[k] * source[indices[k]] + data[k + 1] * source[indices[k + 1]]
                k += 2
        else:
            for i in range(rows):
                end = pointers[first + i + 1]
                total = y.dtype.type(0)
                while k < end:
                    total += data[k] * source[indices[k]]
                    k += 1
                result[i] = total
        near, far = far, near
