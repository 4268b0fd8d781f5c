"""A lock of a file: one run at a time. The system ends it with the process that holds it, however that ends."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Lock:
    """The lock of the file ``path``, held until `release`; ``BlockingIOError`` if another run has it.

    ``what`` is what the lock protects, for the message. After a kill, the file stays and the lock does not.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        while True:
            file = open(path, "a+b", buffering=0)  # noqa: SIM115
            if not _acquire(file):
                file.close()
                raise BlockingIOError(
                    f"{what} is in use by another run: wait until it has ended, or choose another path"
                )
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    break
            file.close()  # its last holder has just removed it
        self._file = file

    def release(self) -> None:
        """Remove the file, which ends the lock."""
        if self._file.closed:
            return
        # While it is locked: nobody else can have taken it. Windows removes no file that is open.
        with suppress(OSError):
            self._path.unlink()
        self._file.close()
        if sys.platform == "win32":
            with suppress(OSError):
                self._path.unlink()


def _acquire(file: IO[bytes]) -> bool:
    """Lock an open file; False if another process has it. On file systems without locks, nobody is kept away."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True
