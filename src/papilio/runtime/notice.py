"""A notice that kernels are being compiled: the first use of the library may otherwise look as if it hung."""

import os
import sys
import threading
from contextlib import suppress
from time import perf_counter

from .progress import is_rewritable, write_line

_SECONDS = 2.0
_TEXT = "papilio: compiling kernels on their first use, which may take 20 seconds or more; later runs load them"


class CompilationNotice:
    """One line on the standard error, once per process, after so many seconds of compilation in all.

    The environment variable ``PAPILIO_QUIET`` and `silence` keep it back.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._left = seconds
        self._is_due = True
        self._depth = 0  # compiling one kernel may compile others that it calls
        self._begin = 0.0
        self._timer: threading.Timer | None = None

    def silence(self) -> None:
        """Never give it."""
        self._is_due = False

    def begin(self) -> None:
        """Note that a compilation begins."""
        self._depth += 1
        if self._depth > 1 or not self._is_due or os.environ.get("PAPILIO_QUIET"):
            return
        self._begin = perf_counter()
        self._timer = threading.Timer(max(self._left, 0.0), self._give)
        self._timer.daemon = True
        with suppress(RuntimeError):  # no thread starts when the interpreter shuts down
            self._timer.start()

    def end(self) -> None:
        """Note that a compilation ends."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= perf_counter() - self._begin

    def forget(self) -> None:
        """Forget compilations that are under way: they are, in the process that this one was forked from."""
        self._depth, self._timer = 0, None

    def _give(self) -> None:
        if self._is_due:
            self._is_due = False
            write_line(sys.stderr, f"\r{_TEXT.ljust(110)}\n" if is_rewritable(sys.stderr) else f"{_TEXT}\n")


compilation = CompilationNotice()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=compilation.forget)
