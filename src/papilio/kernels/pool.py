"""Threads that help with products of some 50 µs and more, where Python's own need 20 to 40 µs to begin and to end.

Why it is here: without it, products of 64×128 to 256×1024 with 256 vectors are slower by a third. A helper looks at a *box*
again and again for some tenths of a millisecond after its last work, and then sleeps until it is woken.

The box is an array of integers. Its `STATE` is the number of the job, times 2³², plus the number of the next part: whoever
raises it by one has taken that part. A helper reads the job before it takes a part; any new job has another number, so what
it has read is then still true. The caller takes parts, too, and waits only for those that helpers have begun: a helper that
gets no time from the system delays nobody.
"""

import os
import threading
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import numpy as np
from numba import njit

from ..typing import Array
from ..validation import DTYPES
from .cache import kernel
from .product import COUNT, JOB, PER_STEP, ROOM, address_of, block_part, fill_block, fill_vector, get, vector_part
from .simd import on_word

STATE, DONE = 0, 8  # a line of cache each, as they change often
PARTS, JOB_AT, KIND, THREADS, ROOM_SIZE, AWAKE = range(16, 22)
BOX = 32  # integers
CLOSED = (1 << 32) - 1  # no part is left
LOOKS = 100_000  # at the box, some two tenths of a millisecond
_BURST = 1e-3  # seconds: for short products, helpers are woken at the second of two within this time, once in it
_NUMBERS = {dtype: number for number, dtype in enumerate(DTYPES)}

compiled = kernel(nogil=True)
inlined = njit(inline="always", nogil=True)


load = on_word(lambda builder, word: builder.load_atomic(word, "acquire", 8), 1)
add = on_word(lambda builder, word, value: builder.atomic_rmw("add", word, value, "acq_rel"), 2)
swap = on_word(lambda builder, word, value: builder.atomic_rmw("xchg", word, value, "acq_rel"), 2)
exchange = on_word(  # (address, old, new): writes ``new`` if the word is ``old``, and gives what it was
    lambda builder, word, old, new: builder.extract_value(builder.cmpxchg(word, old, new, "acq_rel", "acquire"), 0), 3
)


@compiled
def is_done(box: Array, looks: int) -> bool:
    """Whether all parts are done, after up to so many ``looks``."""
    at = address_of(box)
    while load((at + 8 * DONE,)) < box[PARTS] and looks:
        looks -= 1
    return looks > 0


@inlined
def _run(kind: Array, box: int, job: int, part: int, room: int) -> None:
    """A part that was taken; a part of a step waits for those of earlier steps."""
    per_step = get(job, PER_STEP)
    if per_step:
        while load((box + 8 * DONE,)) < part // per_step * per_step:
            pass
    if get(job, COUNT):
        block_part(kind, job, part, room)
    else:
        vector_part(kind, job, part)
    add((box + 8 * DONE, np.int64(1)))


@inlined
def _offer(kind: Array, box: Array, job: Array, call: Any) -> bool:
    """Offer a job, take its parts until none is left, and wait for the others; False if they take long."""
    number, n_parts, threads, room_size = call
    at, job_at = address_of(box), address_of(job)
    opened = (load((at + 8 * STATE,)) >> 32) + 2 << 32
    swap((at + 8 * STATE, opened - (1 << 32) + CLOSED))
    box[KIND], box[PARTS], box[JOB_AT], box[THREADS], box[ROOM_SIZE] = number, n_parts, job_at, threads, room_size
    swap((at + 8 * DONE, np.int64(0)))
    swap((at + 8 * STATE, opened))
    part = add((at + 8 * STATE, np.int64(1))) & CLOSED
    while part < n_parts:
        _run(kind, at, job_at, part, job[ROOM])
        part = add((at + 8 * STATE, np.int64(1))) & CLOSED
    return is_done(box, LOOKS)


@compiled
def share_block(
    box: Array, job: Array, call: Any, template: Array, values: Array, X: Array, Y: Array, room: Array, sizes: Any
) -> bool:
    """Do a block's job with whichever helpers are awake; False if parts that they have taken are not done yet.

    ``call`` are the number of the dtype, that of the parts and of the threads, and the bytes of room of each.
    """
    fill_block(job, template, values, X, Y, room, sizes)
    return _offer(values, box, job, call)


@compiled
def share_vector(
    box: Array, job: Array, call: Any, steps: Array, indices: Array, values: Array, x: Array, y: Array, slots: Array
) -> bool:
    """The same for one vector."""
    fill_vector(job, steps, indices, values, x, y, slots, call[1] // steps[0])
    return _offer(values, box, job, call)


@compiled
def serve(kind: Array, box: Array, number: int, index: int, looks: int) -> bool:
    """Take parts of jobs of one dtype until none was there ``looks`` times; True if there is a job of another one."""
    at, idle = address_of(box), 0
    add((at + 8 * AWAKE, np.int64(1)))
    while idle < looks:
        idle += 1
        state = load((at + 8 * STATE,))
        part = state & CLOSED
        if part >= load((at + 8 * PARTS,)) or index >= load((at + 8 * THREADS,)):
            continue
        if load((at + 8 * KIND,)) != number:
            break
        job = load((at + 8 * JOB_AT,))
        room_size = load((at + 8 * ROOM_SIZE,))
        if exchange((at + 8 * STATE, state, state + 1)) == state:
            _run(kind, at, job, part, get(job, ROOM) + index * room_size)
            idle = 0
    add((at + 8 * AWAKE, np.int64(-1)))
    return idle < looks


class Pool:
    """Threads beside the caller's, as many as papilio may use; they are started when they are first needed."""

    def __init__(self) -> None:
        self._box = np.zeros(BOX, np.int64)
        self._box[STATE] = CLOSED
        self._job = np.zeros(JOB, np.int64)
        self._lock = threading.Lock()
        self._wake = threading.Condition()
        self._calls = 0
        self._threads: list[threading.Thread] = []
        self._last = self._called = 0.0

    def run(
        self, share: Callable[..., bool], arrays: tuple[Any, ...], dtype: Any, n_parts: int, threads: int, room_size: int, is_long: bool
    ) -> bool:
        """Let ``share`` do a job; False if another Python thread is using the pool, and nothing was done.

        Helpers that sleep are woken if the job ``is_long``, or one of many. Each of the ``threads`` has
        ``room_size`` bytes of the job's room.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            missing = min(threads, n_parts) - 1 - int(self._box[AWAKE])
            if missing > 0:
                now = perf_counter()
                if is_long or now - self._last < _BURST < now - self._called:
                    self._called = now
                    self._call(threads - 1, missing)
            is_done_now = share(self._box, self._job, (_NUMBERS[dtype], n_parts, threads, room_size), *arrays)
            while not is_done_now:
                sleep(0)  # a helper may be waiting for this core
                is_done_now = is_done(self._box, LOOKS)
            self._last = perf_counter()
        finally:
            self._lock.release()
        return True

    def _call(self, wanted: int, missing: int) -> None:
        """Wake the ``missing`` ones of the helpers that are ``wanted``."""
        while len(self._threads) < wanted:
            index = len(self._threads) + 1
            thread = threading.Thread(target=self._help, args=(index,), name="papilio helper", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter shuts down, or the system has no more
                break
            self._threads.append(thread)
        with self._wake:
            self._calls += 1
            self._wake.notify(missing)

    def _help(self, index: int) -> None:
        answered = 0
        while True:
            with self._wake:
                while answered == self._calls:
                    self._wake.wait()
                answered = self._calls
            while serve(np.empty(0, DTYPES[number := int(self._box[KIND])]), self._box, number, index, LOOKS):
                pass


pool = Pool()


def _renew() -> None:
    """Threads do not survive in a forked process."""
    global pool
    pool = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
