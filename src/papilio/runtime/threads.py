"""Threads for kernels that release the GIL.

The kernels are plain functions on a range of work, and these are Python's own threads, so that any number of
Python threads may call them at once: numba's parallel loops would not survive that on its `workqueue` layer.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import prod
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..typing import Array
from ..validation import as_integer

_BLAS_WORK = 1 << 23  # multiplications in a product of matrices up to which BLAS gets one thread

_count: int | None = None
_local = threading.local()


def get_num_threads() -> int:
    """How many threads a kernel may use: `set_num_threads`, else ``PAPILIO_NUM_THREADS``, else all cores.

    A value of the variable that is no positive integer counts as none.
    """
    own: int | None = getattr(_local, "count", None)
    if own is not None:
        return own
    if _count is not None:
        return _count
    wanted = os.environ.get("PAPILIO_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_num_threads(n: int | None) -> None:
    """Let kernels use ``n`` threads from now on; None is the default again."""
    global _count
    _count = None if n is None else as_integer("n", n, 1)


class _Helpers:
    """Threads that wait for work. A plain queue wakes one in half the time that `concurrent.futures` needs."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Share] = SimpleQueue()
        self._started = 0
        self._starting = threading.Lock()

    def give(self, share: "_Share", threads: int) -> None:
        """Let one of ``threads`` helpers do a share; raises RuntimeError where none can be started."""
        if self._started < threads:
            with self._starting:
                while self._started < threads:
                    threading.Thread(target=self._serve, name="papilio", daemon=True).start()
                    self._started += 1
        self._queue.put(share)

    def _serve(self) -> None:
        while True:
            self._queue.get().do()


class _Share:
    """Part of some work that a helper may do, unless it is taken back first."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._claim, self._running = threading.Lock(), threading.Lock()
        self._running.acquire()
        self._error: BaseException | None = None

    def do(self) -> None:
        if self._work is not None and self._claim.acquire(blocking=False):
            try:
                self._work()
            except BaseException as error:
                self._error = error
            self._running.release()
        self._work = None  # an idle helper must not keep arrays alive

    def settle(self) -> None:
        """Take the share back, or wait for its end if it has begun."""
        if self._claim.acquire(blocking=False):
            self._work = None
            return
        self._running.acquire()
        if self._error is not None:
            raise self._error


def split_work(run: Callable[[int, int], Any], size: int, grain: int, shares: int = 1) -> None:
    """run(start, stop) over range(size), on several threads in multiples of ``grain``.

    Each thread gets one range, or with ``shares`` about that many, taken when it is free: for work that is
    uneven.
    """
    threads = min(get_num_threads(), -(-size // grain))
    if threads <= 1:
        run(0, size)
        return
    length = -(-size // (threads * shares * grain)) * grain
    starts = iter(range(0, size, length))

    def work() -> None:
        for start in starts:
            run(start, min(start + length, size))

    others: list[_Share] = []
    # No thread starts when the interpreter shuts down, or where the system has no more: this one does it all.
    with suppress(RuntimeError):
        for _ in range(threads - 1):
            share = _Share(work)
            _helpers.give(share, threads - 1)
            others.append(share)
    try:
        work()
    finally:
        for share in others:
            share.settle()


class _OneBlasThread:
    """While any thread is within, BLAS uses one thread: for work that is split between threads already."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                if self._controller is None:
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._limit.restore_original_limits()


one_blas_thread = _OneBlasThread()


def blas_threads(work: int) -> AbstractContextManager[None]:
    """One thread for BLAS where no product takes more than some million multiplications.

    Several would mostly wait for each other, above all where the cores have other work, too.
    """
    return one_blas_thread if work <= _BLAS_WORK else nullcontext()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for the kernels that this Python thread calls within, and for BLAS.

    For work that runs side by side in several processes, or on several threads of one.
    """
    before, _local.count = getattr(_local, "count", None), 1
    try:
        with one_blas_thread:
            yield
    finally:
        _local.count = before


def workspace(n_bytes: int, name: str = "apply") -> Array:
    """``n_bytes`` of scratch memory of this thread, the same at each call with the same name.

    Fresh memory would cost a page fault every 4 kB, which is as slow as the kernels themselves.
    """
    rooms: dict[str, Array] = _local.__dict__.setdefault("rooms", {})
    room = rooms.get(name)
    if room is None or room.size < n_bytes:
        room = rooms[name] = np.empty(n_bytes, dtype=np.uint8)
    return room[:n_bytes]


def scratch(name: str, *wanted: tuple[tuple[int, ...], Any]) -> list[Array]:
    """Arrays of given shapes and dtypes in one piece of scratch memory of this thread; they hold anything."""
    sizes = [-(-prod(shape) * np.dtype(dtype).itemsize // 64) * 64 for shape, dtype in wanted]
    room, start, arrays = workspace(sum(sizes), name), 0, []
    for (shape, dtype), size in zip(wanted, sizes, strict=True):
        piece = room[start : start + prod(shape) * np.dtype(dtype).itemsize]
        arrays.append(piece.view(dtype).reshape(shape))
        start += size
    return arrays


_helpers = _Helpers()


def _forget_helpers() -> None:
    """Threads do not live on in a forked process."""
    global _helpers
    _helpers = _Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
