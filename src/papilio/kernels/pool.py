"""Worker threads for jobs of 10 to 200 µs, which those of Python are too slow for.

A thread of Python takes 20 to 40 µs to begin and to end: with `concurrent.futures`, 64×256 with 256 vectors takes
54 µs instead of 31. These threads look at a *box* of integers again and again for four tenths of a millisecond
after their last work, and then sleep until they are woken.

A job is done in parts, by whoever is free. ``STATE`` is the number of the job, times 2³², plus the number of the
next part: whoever raises it by one has taken that part. Each job has another number, so that a worker takes no
part of one that has been replaced meanwhile. The caller takes parts, too, and returns when all are done.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

# The words of the box: the first two have a line of cache each.
STATE, DONE, PARTS, JOB_AT, KIND, THREADS, ROOM_SIZE, AWAKE = 0, 8, *range(16, 22)
BOX, CLOSED = 32, (1 << 32) - 1  # its length; no part is left
LOOKS = 1_500_000  # Looks at the queue before a thread sleeps: about 0.4 ms.
_LOOKS_IN_A_ROW = 200_000  # while parts of others are awaited: some 60 µs
_BURST = 1e-3  # seconds: for short jobs, workers are woken at the second of two within this time, once in it
_WORD = ir.IntType(64)


def _on_word(emit: Callable[..., Any], n_values: int = 0) -> Any:
    """``emit(builder, word, *values)`` as a numba function: word n of those from an address on, and integers."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, given: Sequence[ir.Value]) -> Any:
        address = builder.add(given[0], builder.mul(given[1], ir.Constant(_WORD, 8)))
        return emit(builder, builder.inttoptr(address, _WORD.as_pointer()), *given[2:])

    typed = types.int64(*[types.int64] * (2 + n_values)), generate
    if n_values == 2:
        return intrinsic(lambda context, address, n, old, new: typed)
    return intrinsic((lambda context, address, n, value: typed) if n_values else lambda context, address, n: typed)


def _give_way(builder: ir.IRBuilder, word: ir.Value) -> ir.Value:
    """Let other threads and processes have this core: the system's own function, which takes no word."""
    name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
    function = get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), name)
    return builder.zext(builder.call(function, []), _WORD)


get = _on_word(lambda builder, word: builder.load(word))
put = _on_word(lambda builder, word, value: [builder.store(value, word), value][1], 1)
# The same for words that threads share; `exchange` writes ``new`` if the word is ``old``, and gives what it was.
load = _on_word(lambda builder, word: builder.load_atomic(word, "acquire", 8))
add = _on_word(lambda builder, word, value: builder.atomic_rmw("add", word, value, "acq_rel"), 1)
swap = _on_word(lambda builder, word, value: builder.atomic_rmw("xchg", word, value, "acq_rel"), 1)
exchange = _on_word(
    lambda b, word, old, new: b.extract_value(b.cmpxchg(word, old, new, "acq_rel", "acquire"), 0), 2
)
give_way = _on_word(_give_way)

inlined = njit(inline="always", nogil=True)


@inlined
def share(box: int, job: int, call: Any) -> None:
    """Put a job into the box; ``call`` are its kind, the numbers of parts and of threads, and the room of each."""
    opened = (load(box, STATE) >> 32) + 2 << 32
    swap(box, STATE, opened - (1 << 32) + CLOSED)
    put(box, JOB_AT, job)
    put(box, KIND, call[0])
    put(box, PARTS, call[1])
    put(box, THREADS, call[2])
    put(box, ROOM_SIZE, call[3])
    put(box, DONE, 0)
    swap(box, STATE, opened)


@inlined
def take(box: int, kind: int, index: int, looks: int) -> tuple[int, int]:
    """The next part for worker ``index``, -1 if none was there or only of another kind, and the looks left."""
    part = -1
    while part < 0 and looks > 0:
        looks -= 1
        state = load(box, STATE)
        found = state & CLOSED
        if found < load(box, PARTS) and index < load(box, THREADS):
            if load(box, KIND) != kind:
                break
            if exchange(box, STATE, state, state + 1) == state:
                part = found
    return part, looks


@inlined
def wait(box: int, count: int) -> None:
    """Wait until so many parts are done, and now and then let those who do them have this core."""
    looks = 0
    while load(box, DONE) < count:
        looks += 1
        if looks % _LOOKS_IN_A_ROW == 0:
            give_way(box, 0)


class Pool:
    """Threads beside the caller's, as many as papilio may use; they are started when they are first needed.

    ``work(box, job, call)`` does a job together with the workers, and ``help(box, kind, index)`` takes parts of
    jobs of one kind until none was there for a while; True if one of another kind was.
    """

    def __init__(self, work: Callable[..., Any], help: Callable[[int, int, int], bool]) -> None:
        self.box = np.zeros(BOX, np.int64)
        self.box[STATE] = CLOSED
        self._box = self.box.ctypes.data
        self._work, self._help = work, help
        self._lock, self._wake, self.n_workers = threading.Lock(), threading.Event(), 0
        self._last = self._woken = 0.0

    def run(self, job: Any, call: tuple[int, ...], is_long: bool) -> bool:
        """Share a job, see `share`; False if another Python thread is using the pool, and nothing was done.

        Workers that sleep are woken if the job ``is_long``, or one of many.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            begin, wanted = perf_counter(), call[2] - 1
            if self.box[AWAKE] < wanted and (is_long or begin - self._last < _BURST < begin - self._woken):
                self._woken = begin
                self._wake.set()
                with suppress(RuntimeError):  # the interpreter shuts down, or the system has no more threads
                    while self.n_workers < wanted:
                        args = (self.n_workers + 1,)
                        threading.Thread(target=self._serve, args=args, name="papilio", daemon=True).start()
                        self.n_workers += 1
            self._work(self._box, job, call)
            self._last = perf_counter()
        finally:
            self._lock.release()
        return True

    def _serve(self, index: int) -> None:
        while self._wake.wait():
            while self._help(self._box, int(self.box[KIND]), index):
                pass
            self._wake.clear()
