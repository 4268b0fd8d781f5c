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

A *job* is a row of integers with all that a thread has to know: addresses, steps in bytes and sizes. It is done
in *parts*: some vectors each, through all factors; or, where few vectors are long, some groups of one step each.

All of that is one function for blocks and vectors, as each function that contains the instructions of groups
compiles them again.
"""

import os
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

from ..typing import Array
from ..validation import DTYPES
from .cache import kernel
from .simd import REGISTER, copy, groups, transpose_from_tile, transpose_into_tile, vector_groups

FIELDS = 7
READS_INPUT, WRITES_OUTPUT, ADDS = 1, 2, 4
ALIGNMENT = 64  # bytes of a line of cache

# The fields of a job: those of the program, which stay the same, and those of a call.
PROGRAM, INDICES, N_SLOTS, N_IN, N_OUT, ROW, IN_AT, OUT_AT, COPIES_IN, COPIES_OUT = range(10)
VALUES, X_AT, X_STEP, Y_AT, Y_STEP, ROOM, BY_ROWS, COUNT, PER_TILE, PER_PART, PER_STEP = range(10, 21)
JOB_BYTES = 192  # Size of the job at the beginning of the memory: whole cache lines.

ALONE, SHARES, HELPS = 0, 1, 2  # The kinds of work of a thread: see `work`.
_NO_CALL = (0, 0, 0, 0)
_NUMBERS = {dtype: number for number, dtype in enumerate(DTYPES)}

compiled = kernel(nogil=True)
inlined = njit(inline="always", nogil=True)


# -- worker threads ------------------------------------------------------------------------------------
#
# Jobs take 10 to 200 µs, and a thread of Python 20 to 40 µs to begin and to end: with `concurrent.futures`, 64×256
# with 256 vectors takes 54 µs instead of 31. These threads look at a *box* of integers again and again for four
# tenths of a millisecond after their last work, and then sleep until they are woken.
#
# A job is done in parts, by whoever is free. ``STATE`` is the number of the job, times 2³², plus the number of the
# next part: whoever raises it by one has taken that part. Each job has another number, so that a worker takes no
# part of one that has been replaced meanwhile. The caller takes parts, too, and returns when all are done.

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


# -- jobs ----------------------------------------------------------------------------------------------


@inlined
def _address_of(array: Array) -> Any:
    return np.int64(array.ctypes.data)  # signed: sums with unsigned integers would be floats


@compiled
def apply_vector(template: Array, values: Array, x: Array, y: Array) -> None:
    """y = chain @ x, on this thread."""
    slots = np.empty(template[N_SLOTS], y.dtype)
    program, indices, values_at = template[PROGRAM], template[INDICES], _address_of(values)
    slots_at, x_at, y_at = _address_of(slots), _address_of(x), _address_of(y)
    for step in range(get(program, 0)):
        field = 1 + step * FIELDS
        height, flags = get(program, field), get(program, field + 2)
        source = x_at if flags & READS_INPUT else slots_at
        result = y_at if flags & WRITES_OUTPUT else slots_at
        arrays = (
            height,
            program + 8 * get(program, field + 3),
            indices + 4 * get(program, field + 4),
            indices + 4 * get(program, field + 5),
            values_at + values.itemsize * get(program, field + 6),
            get(program, field + 1),
        )
        vector_groups(values, (*arrays, source, result, flags & ADDS))


@inlined
def _do_part(box: int, job: int, room: int, part: int, values: Array) -> None:
    """One part of a job, whose slots and copies of vectors are in the ``room``."""
    item = values.itemsize
    # A part of a step waits for those of earlier steps.
    count, per_tile, per_step = get(job, COUNT), get(job, PER_TILE), get(job, PER_STEP)
    program, indices = get(job, PROGRAM), get(job, INDICES)
    n_steps = get(program, 0)
    earlier = 0
    if per_step:
        earlier = part // per_step
        wait(box, earlier * per_step)

    # All stages of some vectors, or a part of one stage. Stage 0 copies the vectors into the tile, and the
    # last one copies the results out of it, where that is needed; those between are the steps.
    n_stages, n_parts = n_steps + 2, 1
    first, last, start = 0, n_stages, part * get(job, PER_PART)
    stop = min(start + get(job, PER_PART), count)
    if per_step and count:
        first, start = earlier % n_stages, earlier // n_stages * per_tile
        last, stop = first + 1, min(start + per_tile, count)
    elif per_step:
        first, start = earlier + 1, 0
        last, stop = first + 1, 1
    if per_step:
        part, n_parts, room = part % per_step, per_step, get(job, ROOM)
    else:
        part = 0
    by_rows, x_step, y_step = get(job, BY_ROWS), get(job, X_STEP), get(job, Y_STEP)
    row = get(job, ROW)
    near_x, near_y = room + row * get(job, IN_AT), room + row * get(job, OUT_AT)
    for begin in range(start, stop, per_tile):
        bytes_in = (min(begin + per_tile, stop) - begin) * item
        width = -(-bytes_in // REGISTER) * REGISTER  # Values beyond the last vector are not kept.
        is_whole = by_rows != 0 and width == bytes_in
        copies_in = count and (not is_whole or get(job, COPIES_IN))
        copies_out = count and (not is_whole or get(job, COPIES_OUT))
        x = get(job, X_AT) + begin * (item if by_rows else x_step)
        y = get(job, Y_AT) + begin * (item if by_rows else y_step)
        for stage in range(first, last):
            if stage == 0:
                i, j = get(job, N_IN) * part // n_parts, get(job, N_IN) * (part + 1) // n_parts
                if copies_in and by_rows:
                    copy(values, (x + i * x_step, x_step, near_x + i * row, row, j - i, bytes_in))
                elif copies_in:
                    lines = x + i * item, x_step, near_x + i * row, row, bytes_in // item, j - i
                    transpose_into_tile(values, lines)
                continue
            if stage > n_steps:
                i, j = get(job, N_OUT) * part // n_parts, get(job, N_OUT) * (part + 1) // n_parts
                if copies_out and by_rows:
                    copy(values, (near_y + i * row, row, y + i * y_step, y_step, j - i, bytes_in))
                elif copies_out:
                    lines = near_y + i * row, row, y + i * item, y_step, j - i, bytes_in // item
                    transpose_from_tile(values, lines)
                continue
            field = 1 + (stage - 1) * FIELDS
            height, n_groups, flags = get(program, field), get(program, field + 1), get(program, field + 2)
            i, j = n_groups * part // n_parts, n_groups * (part + 1) // n_parts
            pointers = program + 8 * (get(program, field + 3) + i)
            rows = indices + 4 * (get(program, field + 4) + height * i)
            columns = indices + 4 * get(program, field + 5)
            numbers = get(job, VALUES) + item * get(program, field + 6)
            arrays = height, pointers, rows, columns, numbers, j - i
            source, source_step, result, result_step = room, row, room, row
            if flags & READS_INPUT:
                source, source_step = (near_x, row) if copies_in else (x, x_step)
            if flags & WRITES_OUTPUT:
                result, result_step = (near_y, row) if copies_out else (y, y_step)
            if count:
                sides = source, source_step, result, result_step
                groups(values, (*arrays, *sides, width, flags & ADDS))
            else:
                vector_groups(values, (*arrays, source, result, flags & ADDS))


@compiled
def work(
    box: int,
    role: int,
    call: Any,
    template: Array,
    values: Array,
    X: Array,
    Y: Array,
    own: Array,
    by_rows: int,
    count: int,
    per_tile: int,
    per_part: int,
    per_step: int,
) -> int:
    """A thread at work: `ALONE` on a job of one part, as the caller who `SHARES` a job, or as one who `HELPS`.

    ``box`` is the pool's, and ``call`` that of `share`; for a worker, the number of the
    dtype, its own index, and how often it looks for work in vain. All others are what a job needs: the template,
    the values, vectors and results (one vector each where there are none to count), room, and the fields from
    `BY_ROWS` on. For a worker, they are empty. The result is how often it would have looked again.
    """
    looks = 0
    job = -(-_address_of(own) // ALIGNMENT) * ALIGNMENT
    room = job + JOB_BYTES
    if role == HELPS:
        add(box, AWAKE, 1)
    else:
        for field in range(template.size):
            put(job, field, template[field])
        put(job, VALUES, _address_of(values))
        put(job, X_AT, _address_of(X))
        put(job, X_STEP, X.strides[0])
        put(job, Y_AT, _address_of(Y))
        put(job, Y_STEP, Y.strides[0])
        put(job, ROOM, room)
        put(job, BY_ROWS, by_rows)
        put(job, COUNT, count)
        put(job, PER_TILE, per_tile)
        put(job, PER_PART, per_part)
        put(job, PER_STEP, per_step)
    if role == SHARES:
        share(box, job, call)
    while True:
        part = 0
        if role == SHARES:
            part = add(box, STATE, 1) & CLOSED
            if part >= call[1]:
                break
        elif role == HELPS:
            part, looks = take(box, call[0], call[1], call[2])
            if part < 0:
                break
            job = get(box, JOB_AT)
            room = get(job, ROOM) + call[1] * get(box, ROOM_SIZE)
        _do_part(box, job, room, part, values)
        if role == ALONE:
            return 0
        add(box, DONE, 1)
    if role == SHARES:
        wait(box, call[1])
    else:
        add(box, AWAKE, -1)
    return looks


def apply_alone(*job: Any) -> None:
    """A job of one part, on this thread: ``job`` are the arguments of `work` from the template on."""
    work(0, ALONE, _NO_CALL, *job)


def apply_shared(job: tuple[Any, ...], call: tuple[int, int, int], is_long: bool) -> bool:
    """A job of several parts; False if another Python thread is using the pool, and nothing was done.

    ``call`` are the numbers of parts and of threads, and the bytes of room of each thread.
    """
    return pool.run(job, (_NUMBERS[job[1].dtype], *call), is_long)


def _help(box: int, kind: int, index: int, looks: int = LOOKS) -> bool:
    """Take parts of jobs of one dtype until there is none for a while; True if there is one of another dtype."""
    nothing, vector = np.empty((0, 0), DTYPES[kind]), np.empty(0, DTYPES[kind])
    job = np.empty(0, np.int64), vector, nothing, nothing, np.empty(0, np.uint8), 0, 0, 0, 0, 0
    return work(box, HELPS, (kind, index, looks, 0), *job) > 0


class Pool:
    """Threads beside the caller's, as many as papilio may use; they are started when they are first needed."""

    def __init__(self) -> None:
        self.box = np.zeros(BOX, np.int64)
        self.box[STATE] = CLOSED
        self._box = self.box.ctypes.data
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
            work(self._box, SHARES, call, *job)
            self._last = perf_counter()
        finally:
            self._lock.release()
        return True

    def _serve(self, index: int) -> None:
        while self._wake.wait():
            while _help(self._box, int(self.box[KIND]), index):
                pass
            self._wake.clear()


pool = Pool()
if hasattr(os, "register_at_fork"):  # Threads do not survive a fork.
    os.register_at_fork(after_in_child=pool.__init__)  # type: ignore[misc]
