"""Threads for kernels that release the GIL.

The kernels are plain functions on a range of work, and these are Python's own threads, so that any number of
Python threads may call them at once: numba's parallel loops would not survive that on its `workqueue` layer.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ..validation import Array, as_integer

_pool: ThreadPoolExecutor | None = None
_count: int | None = None
_local = threading.local()


def get_num_threads() -> int:
    """How many threads a kernel may use: `set_num_threads`, else ``PAPILIO_NUM_THREADS``, else all cores.

    A value of the variable that is no positive integer counts as none.
    """
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
    _forget_pool()


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # threads do not live on in a forked process


def split_work(run: Callable[[int, int], Any], size: int, grain: int) -> None:
    """run(start, stop) over range(size), on several threads in multiples of ``grain``."""
    global _pool
    threads = min(get_num_threads(), -(-size // grain))
    if threads <= 1:
        run(0, size)
        return
    share = -(-size // (threads * grain)) * grain
    pool = _pool
    if pool is None:
        pool = _pool = ThreadPoolExecutor(get_num_threads(), thread_name_prefix="papilio")
    others: list[Future[Any]] = []
    try:
        for begin in range(share, size, share):
            others.append(pool.submit(run, begin, min(begin + share, size)))
    except RuntimeError:
        # No thread starts when the interpreter shuts down, or where the system has no more. This one does the
        # rest; the pool is given up, as it may still hold a share that must not be done later.
        pool.shutdown(wait=True, cancel_futures=True)
        _forget_pool()
        run(0, size)
        return
    run(0, min(share, size))
    for other in others:
        other.result()


def workspace(n_bytes: int) -> Array:
    """``n_bytes`` of scratch memory of this thread, the same at each call.

    Fresh memory would cost a page fault every 4 kB, which is as slow as the kernels themselves.
    """
    room: Array | None = getattr(_local, "room", None)
    if room is None or room.size < n_bytes:
        room = _local.room = np.empty(n_bytes, dtype=np.uint8)
    return room[:n_bytes]
