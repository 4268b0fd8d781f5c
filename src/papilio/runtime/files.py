"""Files that are written whole or not at all, arrays in them, and the memory that content of files may take.

Only regular files are read and replaced: a pipe would wait for ever, and a device would become a file.
"""

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED

import numpy as np

from .. import typing as types
from ..typing import Array
from ..validation import memory

_VARIABLE = "PAPILIO_MAX_FILE_BYTES"
_CEILING = 1 << 30  # bytes that any file may unpack to
_RATIO = 4  # Files that grow no more than this are accepted: text of short numbers, packed measurements.


def as_path(name: str, value: Any) -> Path:
    """``value``, the argument ``name``, as a path."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} must be a path (str or os.PathLike), got {value!r}")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} must not hold a null character, got {os.fspath(value)!r}")
    return Path(value)


def as_regular(path: types.Path) -> Path:
    """``path``; ``OSError`` unless it is a regular file or a link to one."""
    place = as_path("path", path)
    mode = place.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(kind, "not a regular file", os.fspath(path))
    return place


# -- writing -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: types.Path, keep: bool = True, fresh: Path | None = None) -> Iterator[Path]:
    """A path in the same folder, ``fresh`` or a new one, to write to; on success its file replaces ``path``.

    A crash leaves the old file, or none, but never half of a new one; so does an error, which names ``path``. Only
    regular files are replaced. With ``keep=False`` the new file is removed: a test of whether it can be written.
    """
    target = Path(os.path.realpath(as_path("path", path)))  # a link keeps pointing to the file
    is_old = os.path.lexists(target)
    mode = stat.S_IMODE(as_regular(target).stat().st_mode) if is_old else None
    partial = fresh or target.with_name(f".{uuid.uuid4().hex}.partial{target.suffix}")
    try:
        with naming(path):
            yield partial
            if keep:
                with open(partial, "r+b") as file:  # Windows flushes only what is open for writing
                    os.fsync(file.fileno())
                if mode is not None:
                    partial.chmod(mode)
                os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: types.Path) -> Iterator[None]:
    """Let an error of the system name ``path``, and say what to do if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        is_full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None))
        more = "; make room there or choose another path" if is_full else ""
        raise OSError(error.errno, f"{error.strerror}{more}", os.fspath(path)) from error


# -- arrays --------------------------------------------------------------------------------------------


def write_arrays(path: types.Path, arrays: Mapping[str, Any]) -> None:
    """Write ``arrays`` to ``path`` as an npz file, all of them or nothing."""
    with replacing(path) as partial, open(partial, "xb") as file:
        np.savez(file, **arrays)


def read_arrays(path: types.Path) -> dict[str, Array]:
    """The arrays that `write_arrays` wrote to ``path``; ``ValueError`` if the file is damaged or anything else."""
    place = as_regular(path)
    try:
        with open_archive(place) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # A damaged archive may raise anything.
        raise ValueError(f"{os.fspath(path)!r} is not an intact papilio file: {error}") from error


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Any]:
    """The arrays in an .npz file, as `numpy.load` gives them; their checksums are compared as they are read."""
    with open(path, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile) or archive.zip is None:
            raise ValueError("it is not an .npz file")
        packed = [member.file_size for member in archive.zip.infolist() if member.compress_type != ZIP_STORED]
        if packed:
            require_room(sum(packed), path.stat().st_size)
        yield archive


# -- memory --------------------------------------------------------------------------------------------


class TooLarge(ValueError):
    """A file, perhaps intact, that takes more memory than it may."""


def require_room(n_bytes: int, held: int = 0) -> None:
    """Refuse to unpack ``held`` bytes of a file into ``n_bytes``, if these are too many.

    Accepted are 1 GiB, or four times ``held`` if that is more, up to the memory of this machine; or what the
    environment variable ``PAPILIO_MAX_FILE_BYTES`` says. A few bytes of a compressed, sparse or image file can
    stand for gigabytes.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted and not (wanted.isdecimal() and int(wanted) > 0):
        raise ValueError(f"the environment variable {_VARIABLE} must be a positive integer, got {wanted!r}")
    limit = int(wanted) if wanted else min(max(_CEILING, _RATIO * held), memory())
    if n_bytes > limit:
        raise TooLarge(
            f"it is too large: it unpacks to {n_bytes:,} bytes, and {limit:,} are accepted; "
            f"the environment variable {_VARIABLE} sets another limit"
        )
