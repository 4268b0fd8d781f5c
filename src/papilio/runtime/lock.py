"""Locks of files: one run at a time. The system ends a lock with the process that holds it, however that ends."""

import errno
import json
import os
import socket
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
_FAR = 1 << 30  # the byte that Windows locks, where it keeps nobody from reading the text


class Lock:
    """The lock of the file ``path``, held until `release`; ``BlockingIOError`` says who holds it.

    The text in the file only says who that is. After a kill, the file stays and the lock does not: the next one
    takes it over. On a file system without locks, a text of a process that still runs on this machine counts.
    ``what`` is what the lock protects, for the message.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        while True:
            # Without a buffer: what a full disk does not take must not be written again when the file is closed.
            file = open(path, "a+b", buffering=0)  # noqa: SIM115
            try:
                if not _is_free(file):
                    raise BlockingIOError(
                        f"{what} is in use by {_described(_holder(file))}: wait until it has ended, or choose "
                        "another path"
                    )
                if _is_at(file, path):
                    break
            except BaseException:
                file.close()
                raise
            file.close()  # its last holder has just removed it
        self._file = file
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(" ", "seconds")}
        with suppress(OSError):  # a lock on a full disk does not say who holds it
            file.truncate(0)
            file.write(json.dumps(me).encode())

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


def _is_free(file: IO[bytes]) -> bool:
    """Lock an open file; False if another one holds it."""
    try:
        if sys.platform == "win32":
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                return False
            raise
        return not _is_running(_holder(file))
    return True


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether ``path`` is this file, and not removed or another one."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(file: IO[bytes]) -> dict[str, Any]:
    """What the text in the file says; nothing if it is not written yet."""
    file.seek(0)
    try:
        found = json.loads(file.read(1000))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _described(holder: dict[str, Any]) -> str:
    if not holder.keys() >= {"pid", "host", "since"}:
        return "another process"
    return f"process {holder['pid']} on {holder['host']} since {holder['since']}"


def _is_running(holder: dict[str, Any]) -> bool:
    """Whether the holder is another process of this machine that runs: only where there are no better locks."""
    pid = holder.get("pid")
    if sys.platform == "win32" or not isinstance(pid, int) or pid <= 0 or pid == os.getpid():
        return False
    if holder.get("host") != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)  # asks, and sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
