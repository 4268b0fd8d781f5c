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
from .atomic import load
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
def apply_tile(kind: Array, job: Any, near: int, far: int, begin: int) -> None:
    """A tile of the vectors of a `_job`, from ``begin`` on.

    ``near`` and ``far`` are addresses of room for a tile each, ``kind`` is an array of the factors' dtype.
    """
    program, indices, values, x, x_step, n_in, y, y_step, n_out, by_rows, stop = job
    item = kind.itemsize
    count = min(TILE // item, stop - begin)
    width = -(-count * item // REGISTER) * REGISTER  # what is computed behind the last vector is not kept
    is_whole = by_rows != 0 and width == count * item
    source, source_step = near, np.int64(TILE)
    if not by_rows:
        transpose_into_tile(kind, (x + begin * x_step, x_step, near, TILE, count, n_in))
    elif is_whole and load((program + 24,)) & DIRECT:
        source, source_step = x + begin * item, x_step
    else:
        copy(kind, (x + begin * item, x_step, near, TILE, n_in, count * item))
    for step in range(load((program,))):
        field = program + 8 * (1 + step * FIELDS)
        height, flags = load((field,)), load((field + 16,))
        result, result_step = far, np.int64(TILE)
        if flags & LAST and is_whole:
            result, result_step = y + begin * item, y_step
        elif flags & IN_PLACE or source != near:
            result = near
        arrays = _arrays_of(step, program, indices, values, item)
        lines = source, source_step, result, result_step, width
        if height == 4:
            groups_of_four(kind, arrays + lines)
        elif height == 2:
            groups_of_two(kind, arrays + lines)
        else:
            single_rows(kind, arrays + lines)
        if flags & ENDS:
            if result == far:
                near, far = far, near
            source, source_step = near, np.int64(TILE)
    if not by_rows:
        transpose_from_tile(kind, (near, TILE, y + begin * y_step, y_step, n_out, count))
    elif not is_whole:
        copy(kind, (near, TILE, y + begin * item, y_step, n_out, count * item))


@inlined
def _job(program: Array, indices: Array, values: Array, X: Array, Y: Array, by_rows: bool, stop: int) -> Any:
    """What `apply_tile` has to know: addresses, steps in bytes, and the lengths of vectors."""
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
    start: int,
    stop: int,
) -> None:
    """Vectors ``start`` to ``stop`` of Y = chain @ X.

    They are columns of X and Y if ``by_rows`` (row-major blocks), else rows (column-major blocks, transposed).
    ``room`` are the bytes of two tiles, each as long as the longest vector on the way, and `ALIGNMENT` more.
    """
    job, (near, far) = _job(program, indices, values, X, Y, by_rows, stop), _tiles_in(room)
    for begin in range(start, stop, TILE // values.itemsize):
        apply_tile(values, job, near, far, begin)


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
        arrays = _arrays_of(step, _address(program), _address(indices), _address(values), values.itemsize)
        ends = source, result
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
