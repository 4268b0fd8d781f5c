"""Threads that help with products of 10 to 200 µs, where Python's own take 20 to 40 µs to begin and to end.

Without it, 64×256 with 256 vectors takes 54 µs instead of 31. A helper looks at a *box* again and again for four
tenths of a millisecond after its last work, and then sleeps until it is woken. The box is an array of integers.
Its `STATE` is the number of the job, times 2³², plus the number of the next part: whoever raises it by one has
taken that part. A helper reads the job before it takes a part; any new job has another number, so what it has read
is then still true. The caller takes parts, too, and waits only for those that helpers have begun.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit

from ..typing import Array
from ..validation import DTYPES
from .cache import kernel
from .product import COUNT, JOB, PER_STEP, ROOM, address_of, block_part, fill_block, fill_vector, get, vector_part
from .simd import add, exchange, give_way, load, swap

STATE, DONE = 0, 8  # a line of cache each
PARTS, JOB_AT, KIND, THREADS, ROOM_SIZE, AWAKE = range(16, 22)
BOX, CLOSED = 32, (1 << 32) - 1  # its length; no part is left
LOOKS = 1_500_000  # at the box: some four tenths of a millisecond
LOOKS_IN_A_ROW = 200_000  # while parts of others are awaited: some 60 µs
_BURST = 1e-3  # seconds: for short products, helpers are woken at the second of two within this time, once in it
_NUMBERS = {dtype: number for number, dtype in enumerate(DTYPES)}
compiled, inlined = kernel(nogil=True), njit(inline="always", nogil=True)


@compiled
def wait(box: int, count: int) -> None:
    """Wait until so many parts are done; now and then, let others have this core, which they may need for that."""
    looks = 0
    while load((box + 8 * DONE,)) < count:
        looks += 1
        if looks % LOOKS_IN_A_ROW == 0:
            give_way((box,))


@inlined
def _run(kind: Array, box: int, job: int, part: int, room: int) -> None:
    """A part that was taken; a part of a step waits for those of earlier steps."""
    per_step = get(job, PER_STEP)
    if per_step:
        wait(box, part // per_step * per_step)
    if get(job, COUNT):
        block_part(kind, job, part, room)
    else:
        vector_part(kind, job, part)
    add((box + 8 * DONE, np.int64(1)))


@inlined
def _offer(kind: Array, box: Array, job: Array, call: Any) -> None:
    """Offer a job, and take its parts until none is left."""
    at, job_at = address_of(box), address_of(job)
    opened = (load((at + 8 * STATE,)) >> 32) + 2 << 32
    swap((at + 8 * STATE, opened - (1 << 32) + CLOSED))
    box[JOB_AT], (box[KIND], box[PARTS], box[THREADS], box[ROOM_SIZE]) = job_at, call
    swap((at + 8 * DONE, np.int64(0)))
    swap((at + 8 * STATE, opened))
    part = add((at + 8 * STATE, np.int64(1))) & CLOSED
    while part < box[PARTS]:
        _run(kind, at, job_at, part, job[ROOM])
        part = add((at + 8 * STATE, np.int64(1))) & CLOSED


@compiled
def share_block(box: Array, job: Array, call: Any, values: Array, arrays: Any, sizes: Any) -> None:
    """Do a block's job with the helpers that are awake; they may still have parts to do: `wait`."""
    template, X, Y, room = arrays
    fill_block(job, template, values, X, Y, room, sizes)
    _offer(values, box, job, call)


@compiled
def share_vector(box: Array, job: Array, call: Any, values: Array, arrays: Any, per_step: int) -> None:
    """The same for one vector."""
    template, x, y, slots = arrays
    fill_vector(job, template, values, x, y, slots, per_step)
    _offer(values, box, job, call)


@compiled
def serve(kind: Array, box: Array, number: int, index: int, looks: int) -> bool:
    """Take parts of jobs of one dtype until none was there ``looks`` times; True if one of another dtype is."""
    at, idle = address_of(box), 0
    add((at + 8 * AWAKE, np.int64(1)))
    while idle < looks:
        idle += 1
        state = load((at + 8 * STATE,))
        if state & CLOSED >= load((at + 8 * PARTS,)) or index >= load((at + 8 * THREADS,)):
            continue
        if load((at + 8 * KIND,)) != number:
            break
        job, room_size = load((at + 8 * JOB_AT,)), load((at + 8 * ROOM_SIZE,))
        if exchange((at + 8 * STATE, state, state + 1)) == state:
            _run(kind, at, job, state & CLOSED, get(job, ROOM) + index * room_size)
            idle = 0
    add((at + 8 * AWAKE, np.int64(-1)))
    return idle < looks


class Pool:
    """Threads beside the caller's, as many as papilio may use; they are started when they are first needed."""

    def __init__(self) -> None:
        self._box, self._job = np.zeros(BOX, np.int64), np.zeros(JOB, np.int64)
        self._box[STATE] = CLOSED
        self._lock, self._wake, self._n_helpers = threading.Lock(), threading.Event(), 0
        self._last = self._woken = 0.0

    def run(self, share: Callable[..., None], job: tuple[Any, ...], call: tuple[int, ...], is_long: bool) -> bool:
        """Let ``share`` do a job; False if another Python thread is using the pool, and nothing was done.

        ``call`` are the numbers of parts and of threads, and the bytes of room of each thread. Helpers that sleep
        are woken if the job ``is_long``, or one of many.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            begin, wanted = perf_counter(), call[1] - 1
            if self._box[AWAKE] < wanted and (is_long or begin - self._last < _BURST < begin - self._woken):
                self._woken = begin
                self._wake.set()
                with suppress(RuntimeError):  # the interpreter shuts down, or the system has no more threads
                    while self._n_helpers < wanted:
                        args = self._box, self._wake, self._n_helpers + 1
                        threading.Thread(target=_help, args=args, name="papilio helper", daemon=True).start()
                        self._n_helpers += 1
            share(self._box, self._job, (_NUMBERS[job[0].dtype], *call), *job)
        finally:  # after Ctrl-C, too: helpers must not write into memory that is no longer there
            wait(self._box.ctypes.data, int(self._box[PARTS]))
            self._last = perf_counter()
            self._lock.release()
        return True


def _help(box: Array, wake: threading.Event, index: int) -> None:
    while wake.wait():
        while serve(np.empty(0, DTYPES[number := int(box[KIND])]), box, number, index, LOOKS):
            pass
        wake.clear()


pool = Pool()
if hasattr(os, "register_at_fork"):  # in a forked process, no thread survives
    os.register_at_fork(after_in_child=lambda: pool.__init__())  # type: ignore[misc]
