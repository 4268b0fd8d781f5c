"""A chain of sparse factors times vectors, fused: a tile of vectors goes through all factors in cache.

Between two factors, the entries of a vector, or the rows of a tile, have *slots* in one piece of memory. A factor
is packed as groups of rows (`papilio.kernels.simd`), in one step for each height that occurs: a step reads slots
and writes slots. No group of a factor writes what another one reads, so groups of a step may run in any order, on
any thread.

``program`` begins with the number of steps and `FIELDS` integers for each, in the order of application; the
pointers of all groups follow. The fields of a step are

- the height of its groups, and their number;
- what applies to it: `READS_INPUT` if it reads the vectors themselves instead of slots, `WRITES_OUTPUT` if it
  writes the result, and `ADDS` if its sums are added to those of an earlier step with the same groups;
- where its pointers begin in ``program``;
- where its rows, and its columns, begin in ``indices``: the slots (or rows of input and output) of both;
- where its values begin in ``values``.

A *job* is an array of integers with all that a thread has to know: addresses, steps in bytes and sizes. It is done
in *parts*: some vectors each, through all factors; or, where few vectors are long, some groups of one step each.
"""

from typing import Any

import numpy as np
from numba import njit

from ..typing import Array
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
    word_at,
)

FIELDS = 7
READS_INPUT, WRITES_OUTPUT, ADDS = 1, 2, 4
ALIGNMENT = 64  # bytes of a line of cache

# The fields of a job: those of the program, which stay the same, and those of a call.
PROGRAM, INDICES, N_SLOTS, N_IN, N_OUT, ROW, IN_AT, OUT_AT, COPIES_IN, COPIES_OUT = range(10)
VALUES, X_AT, X_STEP, Y_AT, Y_STEP, ROOM, BY_ROWS, COUNT, PER_TILE, PER_PART, PER_STEP = range(10, 21)
JOB = 21  # fields in all

compiled = kernel(nogil=True)
inlined = njit(inline="always", nogil=True)


@inlined
def address_of(array: Array) -> Any:
    return np.int64(array.ctypes.data)  # signed: sums with unsigned integers would be floats


@inlined
def _aligned(room: Array) -> Any:
    return -(-address_of(room) // ALIGNMENT) * ALIGNMENT


@inlined
def get(job: int, field: int) -> int:
    return word_at((job + 8 * field,))


@inlined
def _part_of(job: int, step: int, part: int, n_parts: int, item: int) -> tuple[int, int, tuple[int, ...]]:
    """Height and flags of a step; addresses of the pointers, rows, columns and values of a part; its groups."""
    program, indices = get(job, PROGRAM), get(job, INDICES)
    field = program + 8 * (1 + step * FIELDS)
    height, groups = get(field, 0), get(field, 1)
    begin, end = groups * part // n_parts, groups * (part + 1) // n_parts
    pointers = program + 8 * (get(field, 3) + begin)
    rows, columns = indices + 4 * (get(field, 4) + height * begin), indices + 4 * get(field, 5)
    values = get(job, VALUES) + item * get(field, 6)
    return height, get(field, 2), (pointers, rows, columns, values, end - begin)


# -- blocks --------------------------------------------------------------------------------------------


@compiled
def apply_stage(
    kind: Array, job: int, room: int, begin: int, end: int, stage: int, part: int, n_parts: int
) -> None:
    """One of ``n_parts`` parts of a stage, for the vectors from ``begin`` to ``end``, no more than a tile holds.

    Stage 0 copies the vectors into the tile, and the last one copies the results out of it, where that is needed;
    those between are the steps. ``room`` is the address of the tile: slots, then the copies of input and output.
    """
    item, count, n_steps = kind.itemsize, end - begin, get(get(job, PROGRAM), 0)
    by_rows, x_step, y_step = get(job, BY_ROWS), get(job, X_STEP), get(job, Y_STEP)
    x, y = get(job, X_AT), get(job, Y_AT)
    x += begin * (item if by_rows else x_step)
    y += begin * (item if by_rows else y_step)
    row = get(job, ROW)
    near_x, near_y = room + row * get(job, IN_AT), room + row * get(job, OUT_AT)
    width = -(-count * item // REGISTER) * REGISTER  # what is computed behind the last vector is not kept
    is_whole = by_rows != 0 and width == count * item
    copies_in, copies_out = not is_whole or get(job, COPIES_IN) != 0, not is_whole or get(job, COPIES_OUT) != 0
    if stage == 0:
        first, last = get(job, N_IN) * part // n_parts, get(job, N_IN) * (part + 1) // n_parts
        if copies_in and by_rows:
            copy(kind, (x + first * x_step, x_step, near_x + first * row, row, last - first, count * item))
        elif copies_in:
            transpose_into_tile(kind, (x + first * item, x_step, near_x + first * row, row, count, last - first))
    elif stage > n_steps:
        first, last = get(job, N_OUT) * part // n_parts, get(job, N_OUT) * (part + 1) // n_parts
        if copies_out and by_rows:
            copy(kind, (near_y + first * row, row, y + first * y_step, y_step, last - first, count * item))
        elif copies_out:
            transpose_from_tile(kind, (near_y + first * row, row, y + first * item, y_step, last - first, count))
    else:
        height, flags, arrays = _part_of(job, stage - 1, part, n_parts, item)
        source, source_step, result, result_step = room, row, room, row
        if flags & READS_INPUT:
            source, source_step = (near_x, row) if copies_in else (x, x_step)
        if flags & WRITES_OUTPUT:
            result, result_step = (near_y, row) if copies_out else (y, y_step)
        lines = source, source_step, result, result_step, width, flags & ADDS
        if height == 4:
            groups_of_four(kind, arrays + lines)
        elif height == 2:
            groups_of_two(kind, arrays + lines)
        else:
            single_rows(kind, arrays + lines)


@compiled
def block_part(kind: Array, job: int, part: int, room: int) -> None:
    """One part of a block's job, in the ``room`` of the calling thread."""
    count, per_tile, per_step = get(job, COUNT), get(job, PER_TILE), get(job, PER_STEP)
    n_stages = get(get(job, PROGRAM), 0) + 2
    if per_step:
        stage = part // per_step
        begin = stage // n_stages * per_tile
        end = min(begin + per_tile, count)
        apply_stage(kind, job, get(job, ROOM), begin, end, stage % n_stages, part % per_step, per_step)
        return
    start = part * get(job, PER_PART)
    stop = min(start + get(job, PER_PART), count)
    for begin in range(start, stop, per_tile):
        for stage in range(n_stages):
            apply_stage(kind, job, room, begin, min(begin + per_tile, stop), stage, 0, 1)


@inlined
def fill_block(job: Array, template: Array, values: Array, X: Array, Y: Array, room: Array, sizes: Any) -> None:
    """Fill in a job from that of the program, the arrays of a call, and the fields from `BY_ROWS` on."""
    for field in range(VALUES):
        job[field] = template[field]
    job[VALUES], job[X_AT], job[Y_AT], job[ROOM] = address_of(values), address_of(X), address_of(Y), _aligned(room)
    job[X_STEP], job[Y_STEP] = X.strides[0], Y.strides[0]
    for i in range(len(sizes)):
        job[BY_ROWS + i] = sizes[i]


@compiled
def apply_block(template: Array, values: Array, X: Array, Y: Array, room: Array, sizes: Any) -> None:
    """The product of a chain with a block, whose vectors are in one part, on this thread."""
    job = np.empty(JOB, np.int64)
    fill_block(job, template, values, X, Y, room, sizes)
    block_part(values, address_of(job), 0, job[ROOM])


# -- one vector ----------------------------------------------------------------------------------------


@compiled
def vector_part(kind: Array, job: int, part: int) -> None:
    """One part of a vector's job: some groups of a step."""
    per_step, slots = get(job, PER_STEP), get(job, ROOM)
    height, flags, arrays = _part_of(job, part // per_step, part % per_step, per_step, kind.itemsize)
    source, result = slots, slots
    if flags & READS_INPUT:
        source = get(job, X_AT)
    if flags & WRITES_OUTPUT:
        result = get(job, Y_AT)
    ends = source, result, flags & ADDS
    if height == 4:
        vector_groups_of_four(kind, arrays + ends)
    elif height == 2:
        vector_groups_of_two(kind, arrays + ends)
    else:
        vector_single_rows(kind, arrays + ends)


@inlined
def fill_vector(
    job: Array, template: Array, values: Array, x: Array, y: Array, slots: Array, per_step: int
) -> None:
    """Fill in the job of y = chain @ x, each step of which has ``per_step`` parts."""
    job[PROGRAM], job[INDICES], job[VALUES] = template[PROGRAM], template[INDICES], address_of(values)
    job[X_AT], job[Y_AT], job[ROOM] = address_of(x), address_of(y), address_of(slots)
    job[PER_STEP], job[COUNT] = per_step, 0


@compiled
def apply_vector(template: Array, values: Array, x: Array, y: Array) -> None:
    """y = chain @ x, on this thread."""
    job, slots = np.empty(JOB, np.int64), np.empty(template[N_SLOTS], y.dtype)
    fill_vector(job, template, values, x, y, slots, 1)
    at = address_of(job)
    for step in range(get(template[PROGRAM], 0)):
        vector_part(values, at, step)
