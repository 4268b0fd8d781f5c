"""A chain of sparse factors times vectors, fused: a tile of vectors goes through all factors in cache.

A factor is packed as groups of rows (`papilio.kernels.simd`), in one step for each height that occurs. ``program``
begins with the number of steps and `FIELDS` integers for each, in the order of application; the pointers of all
groups follow. The fields of a step are

- the height of its groups, and their number;
- what applies to it: `ENDS` if it is the last step of its factor; `LAST` if its factor is the last one; `IN_PLACE`
  if each of its factor's groups reads those rows that it writes, and no others, so that the result may take the
  place of the source; `DIRECT` if the first factor reads so little that a copy of the tile would cost more;
- where its pointers begin in ``program``;
- where its rows, and then its columns, begin in ``indices``;
- where its values begin in ``values``.

Every row of a factor belongs to one of its groups; a group may be without strips.
"""

from typing import Any

import numpy as np
from numba import njit

from ..typing import Array
from .simd import (
    REGISTER,
    TILE,
    copy,
    groups_of_four,
    groups_of_two,
    single_rows,
    transpose_from_tile,
    transpose_into_tile,
    vector_groups_of_four,
    vector_groups_of_two,
    vector_single_rows,
)

FIELDS = 6
ENDS, LAST, IN_PLACE, DIRECT = 1, 2, 4, 8
ALIGNMENT = 64  # bytes of a line of cache

compiled = njit(cache=True, nogil=True)
inlined = njit(inline="always", nogil=True)


@inlined
def _address(array: Array) -> Any:
    return np.int64(array.ctypes.data)  # signed: sums with unsigned integers would be floats


@inlined
def _arrays_of(step: int, program: Array, indices: Array, values: Array) -> tuple[int, int, int, int, int]:
    """The addresses of a step's pointers, rows, columns and values, and its number of groups."""
    field = 1 + step * FIELDS
    height, groups = program[field], program[field + 1]
    pointers = _address(program) + 8 * program[field + 3]
    rows = _address(indices) + 4 * program[field + 4]
    own_values = _address(values) + values.itemsize * program[field + 5]
    return pointers, rows, rows + 4 * groups * height, own_values, groups


@compiled
def apply_block(
    program: Array,
    indices: Array,
    values: Array,
    X: Array,
    Y: Array,
    by_rows: bool,
    room: Array,
    start: int,
    stop: int,
) -> None:
    """Vectors ``start`` to ``stop`` of Y = chain @ X.

    They are columns of X and Y if ``by_rows`` (row-major blocks), else rows (column-major blocks, transposed).
    ``room`` are the bytes of two tiles, each as long as the longest vector on the way, and `ALIGNMENT` more.
    """
    item, x, y = values.itemsize, _address(X), _address(Y)
    x_step, y_step = X.strides[0], Y.strides[0]
    near = -(-_address(room) // ALIGNMENT) * ALIGNMENT
    far = near + (room.size - ALIGNMENT) // 2
    for begin in range(start, stop, TILE // item):
        count = min(TILE // item, stop - begin)
        width = (
            -(-count * item // REGISTER) * REGISTER
        )  # what lies behind the last vector is computed, but not kept
        is_whole = by_rows and width == count * item
        source, source_step = near, TILE
        if not by_rows:
            transpose_into_tile(values, (x + begin * x_step, x_step, near, TILE, count, X.shape[1]))
        elif is_whole and program[3] & DIRECT:
            source, source_step = x + begin * item, x_step
        else:
            copy(values, (x + begin * item, x_step, near, TILE, X.shape[0], count * item))
        for step in range(program[0]):
            height, flags = program[1 + step * FIELDS], program[3 + step * FIELDS]
            result, result_step = far, TILE
            if flags & LAST and is_whole:
                result, result_step = y + begin * item, y_step
            elif flags & IN_PLACE or source != near:
                result = near
            arrays = _arrays_of(step, program, indices, values)
            lines = source, source_step, result, result_step, width
            if height == 4:
                groups_of_four(values, arrays + lines)
            elif height == 2:
                groups_of_two(values, arrays + lines)
            else:
                single_rows(values, arrays + lines)
            if flags & ENDS:
                if result == far:
                    near, far = far, near
                source, source_step = near, TILE
        if not by_rows:
            transpose_from_tile(values, (near, TILE, y + begin * y_step, y_step, Y.shape[1], count))
        elif not is_whole:
            copy(values, (near, TILE, y + begin * item, y_step, Y.shape[0], count * item))


@compiled
def apply_vector(program: Array, indices: Array, values: Array, x: Array, y: Array, longest: int) -> None:
    """y = chain @ x; the vectors between factors have at most ``longest`` entries."""
    buffers = np.empty((2, longest), y.dtype)
    source, near, far = _address(x), _address(buffers[0]), _address(buffers[1])
    for step in range(program[0]):
        height, flags = program[1 + step * FIELDS], program[3 + step * FIELDS]
        result = far
        if flags & LAST:
            result = _address(y)
        elif flags & IN_PLACE or source != near:
            result = near
        arrays, ends = _arrays_of(step, program, indices, values), (source, result)
        if height == 4:
            vector_groups_of_four(values, arrays + ends)
        elif height == 2:
            vector_groups_of_two(values, arrays + ends)
        else:
            vector_single_rows(values, arrays + ends)
        if flags & ENDS:
            if result == far:
                near, far = far, near
            source = near
