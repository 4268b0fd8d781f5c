"""Threads that help with products: awake for a moment after each, so that the next one finds them ready."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, sleep
from typing import Any

import numpy as np

from ..kernels.shared import AWAKE, DTYPE, MAILBOX, ROOM, assist, wait
from ..runtime.threads import allow_all_cores, get_num_threads, keep_off_this_core, workspace

_PATIENCE = 100_000  # looks at the mailbox, some two tenths of a millisecond
_BURST = 1e-3  # seconds: for short products, assistants are woken at the second of two within this time
_PAUSE = 1e-3  # seconds until they are woken again, which takes some microseconds, if they are still asleep
_DTYPES = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))


class Assistants:
    """Threads beside the caller's, as many as papilio may use; they are started when they are first needed."""

    def __init__(self) -> None:
        self._mailbox = np.zeros(MAILBOX, dtype=np.int64)
        self._lock = threading.Lock()
        self._wake = threading.Condition(threading.Lock())
        self._calls = 0
        self._threads: list[threading.Thread] = []
        self._last = self._called = 0.0

    def share(
        self, kernel: Callable[..., None], job: tuple[Any, ...], dtype: np.dtype[Any], n_parts: int, is_long: bool
    ) -> bool:
        """Run a kernel of `papilio.kernels.shared`; False if another thread is doing so, and nothing was done.

        Assistants that are asleep are woken if the job ``is_long``, or one of many: one for each of its parts, as
        far as there are any.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            now = perf_counter()
            missing = int(min(get_num_threads(), n_parts) - 1 - self._mailbox[AWAKE])
            is_burst = now - self._last < _BURST and now - self._called > _PAUSE
            if missing > 0 and (is_long or is_burst):
                self._called = now
                self._call(missing)
            kernel(self._mailbox, _DTYPES.index(dtype), *job)
            while not wait(self._mailbox, _PATIENCE):
                sleep(0)  # an assistant may be waiting for this core
            self._last = perf_counter()
        finally:
            self._lock.release()
        return True

    def _call(self, missing: int) -> None:
        """Wake some more assistants."""
        while len(self._threads) < get_num_threads() - 1:
            thread = threading.Thread(target=self._assist, name="papilio assistant", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter shuts down, or the system has no more
                break
            self._threads.append(thread)
        with self._wake:
            keep_off_this_core(self._threads)
            self._calls += 1
            self._wake.notify(missing)

    def _assist(self) -> None:
        answered, is_wanted = 0, False
        while True:
            if not is_wanted:
                with self._wake:
                    while answered == self._calls:
                        self._wake.wait()
                    answered = self._calls
                allow_all_cores()
            is_wanted, kind = False, int(self._mailbox[DTYPE])
            with suppress(MemoryError):  # the caller does it all
                room = workspace(int(self._mailbox[ROOM]))
                is_wanted = assist(np.empty(0, _DTYPES[kind]), self._mailbox, kind, room, _PATIENCE)


assistants = Assistants()


def _forget() -> None:
    """Threads do not survive in a forked process."""
    global assistants
    assistants = Assistants()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
