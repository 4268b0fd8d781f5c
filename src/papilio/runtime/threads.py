"""Threads for kernels that release the GIL.

The kernels are plain functions on a range of work, and these are Python's own threads, so that any number of
Python threads may call them at once: numba's parallel loops would not survive that on its `workqueue` layer.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..typing import Array
from ..validation import as_integer

_KEPT_BYTES = 1 << 28  # Scratch memory that is kept for each thread and name.
_BLAS_WORK = 1 << 23  # multiplications in a product of matrices up to which BLAS gets one thread

T = TypeVar("T")

_count: int | None = None
_local = threading.local()


def get_num_threads() -> int:
    """How many threads a kernel may use.

    Returns
    -------
    int
        What `set_num_threads` said, else the environment variable ``PAPILIO_NUM_THREADS`` if it is a positive
        integer, else the number of cores that this process may use. Both are looked up once, and again after
        ``set_num_threads(None)``.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.get_num_threads() >= 1
    True
    """
    own: int | None = getattr(_local, "count", None)
    if own is not None:
        return own
    return _default_count() if _count is None else _count


@cache
def _default_count() -> int:
    """Asked for at every product, so that asking the system each time would take longer than a small one."""
    wanted = os.environ.get("PAPILIO_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_num_threads(n: int | None) -> None:
    """Let kernels use ``n`` threads from now on.

    Parameters
    ----------
    n : int or None
        At least one; None restores the default, as `get_num_threads` describes it.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.set_num_threads(2)
    >>> pp.get_num_threads()
    2
    >>> pp.set_num_threads(None)
    """
    global _count
    _count = None if n is None else as_integer("n", n, 1)
    _default_count.cache_clear()


_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_growing = threading.Lock()


def _helpers(count: int) -> ThreadPoolExecutor:
    """A pool of at least ``count`` threads; ``RuntimeError`` where the system starts no more.

    All of them run before it is used: a submission that failed to start a thread would leave its work in the
    queue, to be done at any later time.
    """
    global _pool, _pool_size
    with _growing:
        if _pool is None or _pool_size < count:
            pool = ThreadPoolExecutor(count, "papilio")
            ready = threading.Barrier(count + 1)
            try:
                for _ in range(count):
                    pool.submit(ready.wait)
                ready.wait()
            except BaseException:
                ready.abort()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool, _pool_size = pool, count
        return _pool


def split_work(run: Callable[[int, int], Any], size: int, grain: int, shares: int = 1) -> None:
    """run(start, stop) over range(size), on several threads in multiples of ``grain``.

    Each thread gets one range, or with ``shares`` about that many, taken when it is free: for uneven work. The
    calling thread does whatever no other has begun, so that calls may be nested. After an error, and after Ctrl-C,
    no more is begun.
    """
    threads = min(get_num_threads(), -(-size // grain))
    if threads <= 1:
        run(0, size)
        return
    length = -(-size // (threads * shares * grain)) * grain
    starts = iter(range(0, size, length))

    def work() -> None:
        try:
            for start in starts:
                run(start, min(start + length, size))
        except BaseException:
            deque(starts, 0)  # Leave no work for the others.
            raise

    others: list[Future[None]] = []
    # No thread starts when the interpreter shuts down, or where the system has no more: this one does it all.
    with suppress(RuntimeError):
        pool = _helpers(threads - 1)
        for _ in range(threads - 1):
            others.append(pool.submit(work))
    try:
        work()
    finally:
        try:
            for other in others:
                if not other.cancel():
                    other.result()
        except BaseException:
            deque(starts, 0)
            raise


def start_aside(call: Callable[[], T]) -> Future[T] | None:
    """Run a call on a thread that may be abandoned; None where no thread can be started.

    It has the caller's number of threads, and its context: NumPy's treatment of floating-point errors, for one.
    """
    future: Future[T] = Future()
    context, count = copy_context(), getattr(_local, "count", None)

    def run() -> None:
        _local.count = count
        try:
            future.set_result(context.run(call))
        except BaseException as error:
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="papilio aside", daemon=True).start()
    except RuntimeError:  # the interpreter shuts down, or the system has no more
        return None
    return future


class _OneBlasThread:
    """While any thread is within, BLAS uses one thread: for work that is split between threads already."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0  # Depth of all threads together; the thread's own is in `_local`.
        self._controller: Any = None
        self._limit: Any = None
        if hasattr(os, "register_at_fork"):  # a fork waits until no other thread holds the lock
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._forget_other_threads,
            )

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            _local.blas_depth = getattr(_local, "blas_depth", 0) + 1
            if self._depth == 1:
                if self._controller is None:
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                with _from_any_thread():
                    self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            _local.blas_depth = getattr(_local, "blas_depth", 0) - 1
            if self._depth == 0:
                self._restore()

    def _restore(self) -> None:
        with _from_any_thread():
            self._limit.restore_original_limits()

    def _forget_other_threads(self) -> None:
        """Those that were within when the process was forked are not in the child, and never leave."""
        self._lock.release()
        before, self._depth = self._depth, getattr(_local, "blas_depth", 0)
        if before and not self._depth and self._limit is not None:
            self._restore()


@contextmanager
def _from_any_thread() -> Iterator[None]:
    """Let this thread change the number of BLAS threads, and then any other.

    From version 3.7 on, threadpoolctl heeds only the first thread that changes it, until control is cleared. Here,
    the last thread to leave restores what the first one to enter changed.
    """
    from threadpoolctl import OpenBLASController

    clear = getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)
    clear(force=True)
    try:
        yield
    finally:
        clear(force=True)


one_blas_thread = _OneBlasThread()


def blas_threads(work: int) -> AbstractContextManager[None]:
    """One thread for BLAS where no product takes more than some million multiplications.

    More would mostly wait for each other, above all where the cores have other work, too.
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
    """At least ``n_bytes`` of scratch memory of this thread, the same at each call with the same name.

    Fresh memory would cost a page fault every 4 kB, which is as slow as the kernels themselves. What is larger
    than 256 MB is not kept.
    """
    rooms: dict[str, Array] = _local.__dict__.setdefault("rooms", {})
    room = rooms.get(name)
    if room is None or room.size < n_bytes:
        room = np.empty(n_bytes, dtype=np.uint8)
        if n_bytes <= _KEPT_BYTES:
            rooms[name] = room
    return room


def scratch(name: str, *wanted: tuple[tuple[int, ...], Any]) -> list[Array]:
    """Arrays of given shapes and dtypes in one piece of scratch memory of this thread; they hold anything."""
    sizes = [-(-prod(shape) * np.dtype(dtype).itemsize // 64) * 64 for shape, dtype in wanted]
    room, start, arrays = workspace(sum(sizes), name), 0, []
    for (shape, dtype), size in zip(wanted, sizes, strict=True):
        piece = room[start : start + prod(shape) * np.dtype(dtype).itemsize]
        arrays.append(piece.view(dtype).reshape(shape))
        start += size
    return arrays


def _forget_helpers() -> None:
    """Threads do not survive in a forked process."""
    global _pool, _growing
    _pool, _growing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
