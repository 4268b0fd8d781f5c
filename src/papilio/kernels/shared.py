"""Products that several threads compute together, a part each at a time, without waiting to be woken.

Threads of Python need some ten microseconds to begin and to end a common piece of work; a small product is done by
then. Here assistants look at a *mailbox* again and again for a while, after the last work they found.

The mailbox is an array of integers: its `STATE` is the number of the job, times 2³², plus the number of the next
part. Whoever raises the state by one has taken that part. An assistant reads the job before it takes a part: as
any new job has another number, what it has read is then still true. The caller takes parts, too, and waits only
for those that others have taken and that are not `DONE`: assistants that get no time from the system delay nobody.

A part of a block are some vectors. A part of one vector are some groups of one step; it begins when the parts of
all earlier steps are done.
"""

import numpy as np
from numba import njit

from ..typing import Array
from .apply import _address, _job, _tiles_in, _vector_job, apply_groups, apply_tiles
from .atomic import add, exchange, load, store
from .cache import kernel

STATE, DONE = 0, 8  # a line of cache each, as they change often
PARTS, AWAKE, DTYPE, ROOM, LENGTH, PER_STEP, JOB = 16, 17, 18, 19, 20, 21, 22
MAILBOX = 40  # integers
CLOSED = (1 << 32) - 1  # no part is left
N_FIELDS = 12  # of the job of a block
N_VECTOR_FIELDS = 7  # of that of a vector

compiled = kernel(nogil=True)
inlined = njit(inline="always", nogil=True)


@inlined
def _begin(box: int, kind: int, n_parts: int, room: int, length: int, per_step: int) -> int:
    """Close the mailbox while a job is written, and return the state that opens it."""
    number = (load((box + 8 * STATE,)) >> 32) + 1
    store((box + 8 * STATE, (number << 32) + CLOSED))
    store((box + 8 * DTYPE, np.int64(kind)))
    store((box + 8 * PARTS, np.int64(n_parts)))
    store((box + 8 * ROOM, np.int64(room)))
    store((box + 8 * LENGTH, np.int64(length)))
    store((box + 8 * PER_STEP, np.int64(per_step)))
    store((box + 8 * DONE, np.int64(0)))
    return (number + 1) << 32


@inlined
def _take(box: int, n_parts: int) -> int:
    """The number of a part that is now the caller's; -1 if none is left."""
    while True:
        state = load((box + 8 * STATE,))
        if state & CLOSED >= n_parts:
            return -1
        if exchange((box + 8 * STATE, state, state + 1)) == state:
            return state & CLOSED


@compiled
def share_block(
    mailbox: Array,
    kind: int,
    program: Array,
    indices: Array,
    values: Array,
    X: Array,
    Y: Array,
    by_rows: bool,
    room: Array,
    count: int,
    per_tile: int,
    length: int,
) -> None:
    """All ``count`` vectors of `papilio.kernels.apply.apply_block`, with whichever assistants are awake.

    A part has ``length`` vectors, whole tiles. The product is done when `wait` says so. One thread at a time may
    use a mailbox. ``kind`` is the number of the values' dtype.
    """
    box, (near, far) = _address(mailbox), _tiles_in(room)
    job = _job(program, indices, values, X, Y, by_rows, count, per_tile)
    n_parts = -(-count // length)
    opened = _begin(box, kind, n_parts, room.size, length, 0)
    for field in range(N_FIELDS):
        store((box + 8 * (JOB + field), job[field]))
    store((box + 8 * STATE, opened))
    part = _take(box, n_parts)
    while part >= 0:
        apply_tiles(values, job, near, far, part * length, length)
        add((box + 8 * DONE, np.int64(1)))
        part = _take(box, n_parts)


@compiled
def share_vector(
    mailbox: Array,
    kind: int,
    program: Array,
    indices: Array,
    values: Array,
    x: Array,
    y: Array,
    buffers: Array,
    per_step: int,
) -> None:
    """`papilio.kernels.apply.apply_vector` with assistants, each step in ``per_step`` parts.

    ``buffers`` are two vectors as long as the longest one between factors.
    """
    box, job = _address(mailbox), _vector_job(program, indices, values, x, y, buffers)
    n_parts = program[0] * per_step
    opened = _begin(box, kind, n_parts, 0, 0, per_step)
    for field in range(N_VECTOR_FIELDS):
        store((box + 8 * (JOB + field), job[field]))
    store((box + 8 * STATE, opened))
    part = _take(box, n_parts)
    while part >= 0:
        _apply_part(values, box, job, part, per_step)
        part = _take(box, n_parts)


@inlined
def _apply_part(values: Array, box: int, job: tuple[int, ...], part: int, per_step: int) -> None:
    """A part of a vector's job; the parts of earlier steps are awaited."""
    step = part // per_step
    while load((box + 8 * DONE,)) < step * per_step:
        pass
    apply_groups(values, job, step, part % per_step, per_step)
    add((box + 8 * DONE, np.int64(1)))


@compiled
def wait(mailbox: Array, patience: int) -> bool:
    """Whether all parts are done, after up to ``patience`` looks."""
    box = _address(mailbox)
    while load((box + 8 * DONE,)) < load((box + 8 * PARTS,)) and patience:
        patience -= 1
    return patience > 0


@compiled
def assist(values: Array, mailbox: Array, kind: int, room: Array, patience: int) -> bool:
    """Take parts of jobs of one dtype, until none was found ``patience`` times in a row.

    True if it ended before that, because there is a job of another dtype, or one that needs more room.
    """
    box, (near, far), idle = _address(mailbox), _tiles_in(room), 0
    add((box + 8 * AWAKE, np.int64(1)))
    while idle < patience:
        idle += 1
        state = load((box + 8 * STATE,))
        part = state & CLOSED
        if part >= load((box + 8 * PARTS,)):
            continue
        if load((box + 8 * DTYPE,)) != kind or load((box + 8 * ROOM,)) > room.size:
            break
        length, per_step, at = load((box + 8 * LENGTH,)), load((box + 8 * PER_STEP,)), box + 8 * JOB
        first = (
            load((at,)),
            load((at + 8,)),
            load((at + 16,)),
            load((at + 24,)),
            load((at + 32,)),
            load((at + 40,)),
            load((at + 48,)),
        )
        others = load((at + 56,)), load((at + 64,)), load((at + 72,)), load((at + 80,)), load((at + 88,))
        if exchange((box + 8 * STATE, state, state + 1)) != state:
            continue
        if per_step:
            _apply_part(values, box, first, part, per_step)
        else:
            apply_tiles(values, first + others, near, far, part * length, length)
            add((box + 8 * DONE, np.int64(1)))
        idle = 0
    add((box + 8 * AWAKE, np.int64(-1)))
    return idle < patience
