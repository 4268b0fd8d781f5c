"""A chain of sparse factors times vectors, fused: a tile of vectors goes through all factors in cache.

A factor is packed as groups of rows (`papilio.kernels.simd`), in one step for each height that occurs. ``program``
begins with the number of steps and `FIELDS` integers for each, in the order of application; the pointers of all
groups follow. The fields of a step are

- the height of its groups, and their number;
- what applies to it: `ENDS` if it is the last step of its factor; `LAST` if its factor is the last one, and is
  written into the result at once; `IN_PLACE` if each of its factor's groups reads those rows that it writes, and
  no others, so that the result may take the place of the source; `DIRECT` if the first factor reads so little that
  a copy of the tile would cost more; `ADDS` if its sums are added to those of an earlier step with the same
  groups;
- where its pointers begin in ``program``;
- where its rows, and then its columns, begin in ``indices``;
- where its values begin in ``values``.

Every row of a factor belongs to one of its groups; a group may be without strips.
"""

from typing import Any

import numpy as np
from numba import njit

from ..typing import Array
from .atomic import load
from .cache import kernel
from .simd import (
    REGISTER,
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
ENDS, LAST, IN_PLACE, DIRECT, ADDS = 1, 2, 4, 8, 16
ALIGNMENT = 64  # bytes of a line of cache

compiled = kernel(nogil=True)
inlined = njit(inline="always", nogil=True)


@inlined
def _address(array: Array) -> Any:
    return np.int64(array.ctypes.data)  # signed: sums with unsigned integers would be floats


@inlined
def _arrays_of(step: int, program: int, indices: int, values: int, item: int) -> tuple[int, int, int, int, int]:
    """The addresses of a step's pointers, rows, columns and values, and its number of groups."""
    field = program + 8 * (1 + step * FIELDS)
    height, groups = load((field,)), load((field + 8,))
    rows = indices + 4 * load((field + 32,))
    return (
        program + 8 * load((field + 24,)),
        rows,
        rows + 4 * groups * height,
        values + item * load((field + 40,)),
        groups,
    )


@compiled
def apply_tile(kind: Array, job: Any, near: int, far: int, begin: int, end: int) -> None:
    """The vectors of a `_job` from ``begin`` to ``end``, no more than a tile holds.

    ``near`` and ``far`` are addresses of room for a tile each, ``kind`` is an array of the factors' dtype.
    """
    program, indices, values, x, x_step, n_in, y, y_step, n_out, by_rows, _, per_tile = job
    item = kind.itemsize
    count = end - begin
    width = -(-count * item // REGISTER) * REGISTER  # what is computed behind the last vector is not kept
    is_whole = by_rows != 0 and width == count * item
    is_done = False  # whether the last step wrote into the result
    row = -(-per_tile * item // ALIGNMENT) * ALIGNMENT  # the step within tiles
    source, source_step = near, row
    if not by_rows:
        transpose_into_tile(kind, (x + begin * x_step, x_step, near, row, count, n_in))
    elif is_whole and load((program + 24,)) & DIRECT:
        source, source_step = x + begin * item, x_step
    else:
        copy(kind, (x + begin * item, x_step, near, row, n_in, count * item))
    for step in range(load((program,))):
        field = program + 8 * (1 + step * FIELDS)
        height, flags = load((field,)), load((field + 16,))
        result, result_step = far, row
        is_done = flags & LAST != 0 and is_whole
        if is_done:
            result, result_step = y + begin * item, y_step
        elif flags & IN_PLACE or source != near:
            result = near
        arrays = _arrays_of(step, program, indices, values, item)
        lines = source, source_step, result, result_step, width, flags & ADDS
        if height == 4:
            groups_of_four(kind, arrays + lines)
        elif height == 2:
            groups_of_two(kind, arrays + lines)
        else:
            single_rows(kind, arrays + lines)
        if flags & ENDS:
            if result == far:
                near, far = far, near
            source, source_step = near, row
    if not by_rows:
        transpose_from_tile(kind, (near, row, y + begin * y_step, y_step, n_out, count))
    elif not is_done:
        copy(kind, (near, row, y + begin * item, y_step, n_out, count * item))


@inlined
def apply_tiles(kind: Array, job: Any, near: int, far: int, begin: int, length: int) -> None:
    """``length`` vectors from ``begin`` on, as far as there are any, tile by tile."""
    stop, per_tile = job[-2:]
    stop = min(begin + length, stop)
    for start in range(begin, stop, per_tile):
        apply_tile(kind, job, near, far, start, min(start + per_tile, stop))


@inlined
def _job(
    program: Array, indices: Array, values: Array, X: Array, Y: Array, by_rows: bool, stop: int, per_tile: int
) -> Any:
    """What `apply_tile` has to know: addresses, steps in bytes, the lengths of vectors, how many are in a tile."""
    n_in, n_out = (X.shape[0], Y.shape[0]) if by_rows else (X.shape[1], Y.shape[1])
    return (
        _address(program),
        _address(indices),
        _address(values),
        _address(X),
        X.strides[0],
        n_in,
        _address(Y),
        Y.strides[0],
        n_out,
        np.int64(by_rows),
        np.int64(stop),
        np.int64(per_tile),
    )


@inlined
def _tiles_in(room: Array) -> tuple[int, int]:
    """The addresses of two tiles of equal size."""
    near = -(-_address(room) // ALIGNMENT) * ALIGNMENT
    return near, near + (room.size - ALIGNMENT) // 2


@compiled
def apply_block(
    program: Array,
    indices: Array,
    values: Array,
    X: Array,
    Y: Array,
    by_rows: bool,
    room: Array,
    count: int,
    per_tile: int,
) -> None:
    """All ``count`` vectors of Y = chain @ X, ``per_tile`` at a time: at most as many as fill `TILE` bytes.

    They are columns of X and Y if ``by_rows`` (row-major blocks), else rows (column-major blocks, transposed).
    ``room`` are the bytes of two tiles, each as long as the longest vector on the way, and `ALIGNMENT` more.
    """
    job, (near, far) = _job(program, indices, values, X, Y, by_rows, count, per_tile), _tiles_in(room)
    apply_tiles(values, job, near, far, 0, count)


@inlined
def _vector_job(program: Array, indices: Array, values: Array, x: Array, y: Array, buffers: Array) -> Any:
    """What `apply_groups` has to know: addresses, those of two vectors between factors, too."""
    return (
        _address(program),
        _address(indices),
        _address(values),
        _address(x),
        _address(y),
        _address(buffers[0]),
        _address(buffers[1]),
    )


@compiled
def apply_groups(kind: Array, job: Any, step: int, part: int, n_parts: int) -> None:
    """One of ``n_parts`` equal parts of a step's groups, for one vector, when all steps before it are done."""
    program, indices, values, source, y, near, far = job
    for earlier in range(step):
        flags = load((program + 8 * (3 + earlier * FIELDS),))
        if flags & ENDS:
            if not flags & IN_PLACE and source == near:
                near, far = far, near
            source = near
    height, flags = load((program + 8 * (1 + step * FIELDS),)), load((program + 8 * (3 + step * FIELDS),))
    result = far
    if flags & LAST:
        result = y
    elif flags & IN_PLACE or source != near:
        result = near
    pointers, rows, columns, entries, groups = _arrays_of(step, program, indices, values, kind.itemsize)
    begin, end = groups * part // n_parts, groups * (part + 1) // n_parts
    arrays = pointers + 8 * begin, rows + 4 * height * begin, columns, entries, end - begin
    ends = source, result, flags & ADDS
    if height == 4:
        vector_groups_of_four(kind, arrays + ends)
    elif height == 2:
        vector_groups_of_two(kind, arrays + ends)
    else:
        vector_single_rows(kind, arrays + ends)


@compiled
def apply_vector(program: Array, indices: Array, values: Array, x: Array, y: Array, longest: int) -> None:
    """y = chain @ x; the vectors between factors have at most ``longest`` entries."""
    job = _vector_job(program, indices, values, x, y, np.empty((2, longest), y.dtype))
    for step in range(program[0]):
        apply_groups(values, job, step, 0, 1)
