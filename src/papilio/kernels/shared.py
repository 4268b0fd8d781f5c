"""Blocks of vectors that several threads apply together, a tile each at a time, without waiting to be woken.

Threads of Python need some ten microseconds to begin and to end a common piece of work; a small product is done by
then. Here assistants look at a *mailbox* again and again for a while, after the last work they found.

The mailbox is an array of integers: its `STATE` is the number of the job, times 2³², plus the number of the next
tile. Whoever raises the state by one has taken that tile. An assistant reads the job before it takes a tile: as
any new job has another number, what it has read is then still true. The caller takes tiles, too, and waits only
for those that others have taken and that are not `DONE`: assistants that get no time from the system delay nobody.
"""

import numpy as np
from numba import njit

from ..typing import Array
from .apply import _address, _job, _tiles_in, apply_tile
from .atomic import add, exchange, load, store
from .simd import TILE

STATE, DONE, TILES, AWAKE, DTYPE, ROOM, JOB = 0, 8, 16, 17, 18, 19, 20  # a line of cache for what changes often
MAILBOX = 32  # integers
CLOSED = (1 << 32) - 1  # no tile is left
N_FIELDS = 11  # of a job

compiled = njit(cache=True, nogil=True)


@compiled
def share_block(
    mailbox: Array,
    dtype: int,
    program: Array,
    indices: Array,
    values: Array,
    X: Array,
    Y: Array,
    by_rows: bool,
    room: Array,
    count: int,
) -> None:
    """All ``count`` vectors of `papilio.kernels.apply.apply_block`, with whichever assistants are awake.

    One thread at a time may use a mailbox. ``dtype`` is the number of the values' dtype.
    """
    box, job, (near, far) = (
        _address(mailbox),
        _job(program, indices, values, X, Y, by_rows, count),
        _tiles_in(room),
    )
    width = TILE // values.itemsize
    n_tiles = -(-count // width)
    number = (load((box + 8 * STATE,)) >> 32) + 1
    store((box + 8 * STATE, (number << 32) + CLOSED))
    for field in range(N_FIELDS):
        store((box + 8 * (JOB + field), job[field]))
    store((box + 8 * TILES, n_tiles))
    store((box + 8 * DTYPE, np.int64(dtype)))
    store((box + 8 * ROOM, np.int64(room.size)))
    store((box + 8 * DONE, np.int64(0)))
    store((box + 8 * STATE, (number + 1) << 32))
    while True:
        state = load((box + 8 * STATE,))
        tile = state & CLOSED
        if tile >= n_tiles:
            break
        if exchange((box + 8 * STATE, state, state + 1)) == state:
            apply_tile(values, job, near, far, tile * width)
            add((box + 8 * DONE, np.int64(1)))
    while load((box + 8 * DONE,)) < n_tiles:
        pass


@compiled
def assist(values: Array, mailbox: Array, dtype: int, room: Array, patience: int) -> None:
    """Take tiles of jobs of one dtype, until none was found ``patience`` times in a row."""
    box, (near, far) = _address(mailbox), _tiles_in(room)
    width, idle = TILE // values.itemsize, 0
    add((box + 8 * AWAKE, np.int64(1)))
    while idle < patience:
        idle += 1
        state = load((box + 8 * STATE,))
        tile = state & CLOSED
        if tile >= load((box + 8 * TILES,)):
            continue
        if load((box + 8 * DTYPE,)) != dtype or load((box + 8 * ROOM,)) > room.size:
            continue
        at = box + 8 * JOB
        job = (
            load((at,)),
            load((at + 8,)),
            load((at + 16,)),
            load((at + 24,)),
            load((at + 32,)),
            load((at + 40,)),
            load((at + 48,)),
            load((at + 56,)),
            load((at + 64,)),
            load((at + 72,)),
            load((at + 80,)),
        )
        if exchange((box + 8 * STATE, state, state + 1)) == state:
            apply_tile(values, job, near, far, tile * width)
            add((box + 8 * DONE, np.int64(1)))
            idle = 0
    add((box + 8 * AWAKE, np.int64(-1)))
