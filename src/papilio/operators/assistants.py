"""Threads that help with small products: awake for a moment after each, so that the next one finds them ready."""

import os
import threading
from time import perf_counter
from typing import Any

import numpy as np

from ..kernels.shared import AWAKE, MAILBOX, assist, share_block
from ..runtime.threads import get_num_threads
from ..typing import Array

_PATIENCE = 100_000  # looks at the mailbox, some two tenths of a millisecond
_BURST = 1e-3  # seconds: assistants are woken for the second of two products within this time
_PAUSE = 1e-3  # seconds until they are woken again, which takes some microseconds, if they are still asleep
_ROOM = 1 << 22  # bytes that each assistant has for its tiles
_MOST = 7  # assistants
_DTYPES = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))


class Assistants:
    """Threads beside the caller's, as many as papilio may use; they are started when they are first needed."""

    def __init__(self) -> None:
        self._mailbox = np.zeros(MAILBOX, dtype=np.int64)
        self._lock = threading.Lock()
        self._wake = threading.Condition(threading.Lock())
        self._wanted: np.dtype[Any] = _DTYPES[1]
        self._calls = 0
        self._count = 0
        self._last = self._called = 0.0

    def apply(self, arrays: tuple[Array, ...], X: Array, Y: Array, by_rows: bool, room: Array, count: int) -> bool:
        """`share_block`; False if another thread is using it, and nothing was done."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            now = perf_counter()
            is_burst = now - self._last < _BURST
            if is_burst and now - self._called > _PAUSE and not self._mailbox[AWAKE]:
                self._called = now
                self._call(X.dtype)
            program, indices, values = arrays
            kind = _DTYPES.index(X.dtype)
            share_block(self._mailbox, kind, program, indices, values, X, Y, by_rows, room, count)
            self._last = perf_counter()
        finally:
            self._lock.release()
        return True

    def _call(self, dtype: np.dtype[Any]) -> None:
        """Wake the assistants for products of a dtype."""
        while self._count < min(get_num_threads() - 1, _MOST):
            try:
                threading.Thread(target=self._assist, name="papilio assistant", daemon=True).start()
            except RuntimeError:  # the interpreter shuts down, or the system has no more
                return
            self._count += 1
        with self._wake:
            self._wanted = dtype
            self._calls += 1
            self._wake.notify_all()

    def _assist(self) -> None:
        room, answered = np.empty(_ROOM, dtype=np.uint8), 0
        while True:
            with self._wake:
                while answered == self._calls:
                    self._wake.wait()
                answered, dtype = self._calls, self._wanted
            assist(np.empty(0, dtype), self._mailbox, _DTYPES.index(dtype), room, _PATIENCE)


assistants = Assistants()


def _forget() -> None:
    """Threads do not survive in a forked process."""
    global assistants
    assistants = Assistants()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
