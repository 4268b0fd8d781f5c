"""Turns of processes that need the same kernel at the same time: one compiles it, the others wait for its file."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ..runtime.lock import Lock
from ..runtime.notice import compilation

PATIENCE = 60.0  # seconds; whoever has waited for so long compiles the kernel itself
_PAUSE = 0.02  # seconds between two looks


class Turn:
    """The right to compile one kernel, as the lock of a file, or nothing where there are no such files."""

    def __init__(self) -> None:
        self._lock: Lock | None = None

    def wait_for(self, path: Path, load: Callable[[], Any]) -> Any:
        """What ``load`` finds before it is this process's turn; None if it finds nothing until then.

        Kernels that contain each other are locked from the outer one to the inner one: nobody waits in a circle.
        """
        end = monotonic() + PATIENCE
        compilation.begin()  # it takes as long
        try:
            while self._is_another(path) and monotonic() < end:
                sleep(_PAUSE)
                if (found := load()) is not None:
                    return found
            return load()
        finally:
            compilation.end()

    def end(self) -> None:
        """Let others have their turn."""
        if self._lock is not None:
            with suppress(OSError):
                self._lock.release()

    def _is_another(self, path: Path) -> bool:
        """Whether another process has the lock; else this one has it from now on, where there are locks."""
        try:
            self._lock = Lock(path, "a kernel")
        except BlockingIOError:
            return True
        except OSError:  # no lock, no turns
            return False
        return False
