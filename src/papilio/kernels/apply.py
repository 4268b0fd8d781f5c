"""A chain of sparse factors times vectors, fused: a tile of vectors goes through all factors in cache.

The factors are packed in the order of application (`papilio.operators.packing`). ``steps[f]`` is (rows, kind,
first, index, value) of factor f: its indices begin at ``indices[index]``, its values at ``values[value]``, and
``kind`` says how to read them:

- `PAIRS`: a butterfly. For each pair of rows (j, k) that have their entries in columns (j, k): two indices j, k
  and four values, row by row. Works in place, and reads and writes each row once.
- `QUADS`: two butterflies, one after the other, whose pairs form squares (i, j, k, m): four indices and the
  sixteen values of their product on these rows. As many operations as twice `PAIRS`, half the memory traffic.
- 1, 2, 3: the number of entries in every row, unrolled.
- `ANY`: row i has the entries from ``pointers[first + i]`` to ``pointers[first + i + 1]``, counted from the
  factor's beginning; they are taken four at a time.

Indices are unsigned, so that numba does not test each of them for a negative sign.
"""

import numpy as np
from numba import njit

from ..typing import Array

ANY, PAIRS, QUADS = 0, -1, -2

# Fused multiply-adds are welcome; sums keep their order, so that results do not depend on tiles and threads.
compiled = njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
inlined = njit(inline="always", nogil=True, fastmath={"contract", "nsz"})


@inlined
def _pairs(pairs: int, indices: Array, values: Array, block: Array, width: int) -> None:
    for p in range(pairs):
        j, k = indices[2 * p], indices[2 * p + 1]
        jj, jk, kj, kk = values[4 * p], values[4 * p + 1], values[4 * p + 2], values[4 * p + 3]
        for t in range(width):
            x, y = block[j, t], block[k, t]
            block[j, t] = jj * x + jk * y
            block[k, t] = kj * x + kk * y


@inlined
def _quads(quads: int, indices: Array, values: Array, block: Array, width: int) -> None:
    for q in range(quads):
        i, j, k, m = indices[4 * q], indices[4 * q + 1], indices[4 * q + 2], indices[4 * q + 3]
        v = values[16 * q : 16 * q + 16]
        ii, ij, ik, im, ji, jj, jk, jm = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
        ki, kj, kk, km, mi, mj, mk, mm = v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]
        for t in range(width):
            w, x, y, z = block[i, t], block[j, t], block[k, t], block[m, t]
            block[i, t] = ii * w + ij * x + ik * y + im * z
            block[j, t] = ji * w + jj * x + jk * y + jm * z
            block[k, t] = ki * w + kj * x + kk * y + km * z
            block[m, t] = mi * w + mj * x + mk * y + mm * z


@inlined
def _unrolled(
    rows: int, entries: int, indices: Array, values: Array, source: Array, result: Array, width: int
) -> None:
    if entries == 1:
        for i in range(rows):
            a, ja = values[i], indices[i]
            for t in range(width):
                result[i, t] = a * source[ja, t]
    elif entries == 2:
        for i in range(rows):
            a, b = values[2 * i], values[2 * i + 1]
            ja, jb = indices[2 * i], indices[2 * i + 1]
            for t in range(width):
                result[i, t] = a * source[ja, t] + b * source[jb, t]
    else:
        for i in range(rows):
            a, b, c = values[3 * i], values[3 * i + 1], values[3 * i + 2]
            ja, jb, jc = indices[3 * i], indices[3 * i + 1], indices[3 * i + 2]
            for t in range(width):
                result[i, t] = a * source[ja, t] + b * source[jb, t] + c * source[jc, t]


@inlined
def _any(
    rows: int, pointers: Array, indices: Array, values: Array, source: Array, result: Array, width: int
) -> None:
    for i in range(rows):
        n, end = pointers[i], pointers[i + 1]
        begun = False
        while end - n >= 4:
            a, b, c, d = values[n], values[n + 1], values[n + 2], values[n + 3]
            ja, jb, jc, jd = indices[n], indices[n + 1], indices[n + 2], indices[n + 3]
            if begun:
                for t in range(width):
                    result[i, t] += a * source[ja, t] + b * source[jb, t] + c * source[jc, t] + d * source[jd, t]
            else:
                for t in range(width):
                    result[i, t] = a * source[ja, t] + b * source[jb, t] + c * source[jc, t] + d * source[jd, t]
                begun = True
            n += 4
        if not begun:
            for t in range(width):
                result[i, t] = 0
        while n < end:
            a, ja = values[n], indices[n]
            for t in range(width):
                result[i, t] += a * source[ja, t]
            n += 1


@compiled
def apply_block(
    steps: Array,
    pointers: Array,
    indices: Array,
    values: Array,
    X: Array,
    Y: Array,
    by_rows: bool,
    near: Array,
    far: Array,
    start: int,
    stop: int,
) -> None:
    """Vectors ``start`` to ``stop`` of Y = chain @ X.

    They are columns of X and Y if ``by_rows`` (row-major blocks), else rows (column-major blocks, transposed).
    ``near`` and ``far`` are room for a tile, as long as the longest vector on the way.
    """
    tile = near.shape[1]
    for begin in range(start, stop, tile):
        width = min(tile, stop - begin)
        # Through slices: an index begin + t would be tested for its sign, and the loops not be vectorised.
        if by_rows:
            for i in range(X.shape[0]):
                source, result = X[i, begin : begin + width], near[i]
                for t in range(width):
                    result[t] = source[t]
        else:
            for t in range(width):
                source = X[begin + t]
                for i in range(source.size):
                    near[i, t] = source[i]
        for f in range(steps.shape[0]):
            rows, kind = steps[f, 0], steps[f, 1]
            own_indices, own_values = indices[steps[f, 3] :], values[steps[f, 4] :]
            if kind == PAIRS:
                _pairs(rows // 2, own_indices, own_values, near, width)
                continue
            if kind == QUADS:
                _quads(rows // 4, own_indices, own_values, near, width)
                continue
            if kind == ANY:
                _any(rows, pointers[steps[f, 2] :], own_indices, own_values, near, far, width)
            else:
                _unrolled(rows, kind, own_indices, own_values, near, far, width)
            near, far = far, near
        if by_rows:
            for i in range(Y.shape[0]):
                result, source = Y[i, begin : begin + width], near[i]
                for t in range(width):
                    result[t] = source[t]
        else:
            for t in range(width):
                result = Y[begin + t]
                for i in range(result.size):
                    result[i] = near[i, t]


@compiled
def apply_vector(steps: Array, pointers: Array, indices: Array, values: Array, x: Array, y: Array) -> None:
    """y = chain @ x."""
    count = steps.shape[0]
    longest = 1
    for f in range(count - 1):
        longest = max(longest, steps[f, 0])
    near = np.empty(longest, y.dtype)
    far = np.empty(longest, y.dtype)
    for f in range(count):
        rows, kind = steps[f, 0], steps[f, 1]
        own_indices, own_values = indices[steps[f, 3] :], values[steps[f, 4] :]
        source = x if f == 0 else near
        if f == count - 1:
            result = y
        elif kind in (PAIRS, QUADS):
            result = near
        else:
            result, near, far = far, far, near
        if kind == QUADS:
            for q in range(rows // 4):
                own = own_indices[4 * q : 4 * q + 4]
                v = own_values[16 * q : 16 * q + 16]
                a, b, c, d = source[own[0]], source[own[1]], source[own[2]], source[own[3]]
                result[own[0]] = v[0] * a + v[1] * b + v[2] * c + v[3] * d
                result[own[1]] = v[4] * a + v[5] * b + v[6] * c + v[7] * d
                result[own[2]] = v[8] * a + v[9] * b + v[10] * c + v[11] * d
                result[own[3]] = v[12] * a + v[13] * b + v[14] * c + v[15] * d
        elif kind == PAIRS:
            for p in range(rows // 2):
                j, k = own_indices[2 * p], own_indices[2 * p + 1]
                a, b = source[j], source[k]
                result[j] = own_values[4 * p] * a + own_values[4 * p + 1] * b
                result[k] = own_values[4 * p + 2] * a + own_values[4 * p + 3] * b
        elif kind == 1:
            for i in range(rows):
                result[i] = own_values[i] * source[own_indices[i]]
        elif kind == 2:
            for i in range(rows):
                a, b = source[own_indices[2 * i]], source[own_indices[2 * i + 1]]
                result[i] = own_values[2 * i] * a + own_values[2 * i + 1] * b
        elif kind == ANY:
            own_pointers = pointers[steps[f, 2] :]
            for i in range(rows):
                n, end = own_pointers[i], own_pointers[i + 1]
                # Four sums at a time: each addition of one would wait for the one before.
                a = b = c = d = y.dtype.type(0)
                while end - n >= 4:
                    own, v = own_indices[n : n + 4], own_values[n : n + 4]
                    a += v[0] * source[own[0]]
                    b += v[1] * source[own[1]]
                    c += v[2] * source[own[2]]
                    d += v[3] * source[own[3]]
                    n += 4
                while n < end:
                    a += own_values[n] * source[own_indices[n]]
                    n += 1
                result[i] = (a + b) + (c + d)
        else:
            for i in range(rows):
                a, b = source[own_indices[3 * i]], source[own_indices[3 * i + 1]]
                c = source[own_indices[3 * i + 2]]
                result[i] = own_values[3 * i] * a + own_values[3 * i + 1] * b + own_values[3 * i + 2] * c
