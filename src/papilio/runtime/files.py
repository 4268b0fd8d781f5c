"""Files that are written whole or not at all, and the one reader of .npy and .npz files.

Only regular files are read and replaced: a pipe would wait for ever, and a device would become a file.

`numpy.load(allow_pickle=False)` unpickles nothing, but trusts a file otherwise: it allocates what a header claims
before it looks for the bytes, unpacks a small archive into a huge array, and ignores bytes after the values. Files
come from anywhere; the readers here compare sizes first.
"""

import contextlib
import errno
import os
import stat
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from .. import typing as types
from ..typing import Array
from .memory import require_memory

FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))  # errors of a disk that has no room
_CHUNK = 1 << 20  # bytes read at a time: what is compressed is unpacked in pieces no larger


def as_path(name: str, value: Any) -> Path:
    """``value``, the argument ``name``, as a path."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} must be a path (str or os.PathLike), got {value!r}")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} must not hold a null character, got {os.fspath(value)!r}")
    return Path(value)


@contextlib.contextmanager
def open_regular(path: types.Path) -> Iterator[IO[bytes]]:
    """``path``, opened to read its bytes; ``OSError`` unless it is a regular file or a link to one."""
    place = as_path("path", path)
    _require_regular(place, os.stat(place).st_mode)  # before it is opened, as that makes some devices act
    with open(place, "rb", opener=_without_waiting) as file:
        _require_regular(place, os.fstat(file.fileno()).st_mode)  # it may have been replaced meanwhile
        yield file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # not on Windows


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


@contextlib.contextmanager
def replacing(path: types.Path, keep: bool = True) -> Iterator[Path]:
    """A path in the same folder to write to; on success its file replaces ``path``.

    A crash leaves the old file, or none, but never half of a new one; so does an error, which names ``path``. Only
    regular files are replaced. With ``keep=False`` the new file is removed: a test of whether it can be written.
    """
    target = Path(os.path.realpath(as_path("path", path)))  # a link keeps pointing to the file
    _old_mode(target)
    partial = target.with_name(f".{uuid.uuid4().hex}.partial{target.suffix}")
    try:
        with naming(path):
            yield partial
            if keep:
                with open(partial, "rb") as file:
                    os.fsync(file.fileno())
                mode = _old_mode(target)
                if mode is not None:
                    partial.chmod(mode)
                os.replace(partial, target)
                flush_folder(target.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def _old_mode(target: Path) -> int | None:
    """The permissions of the file that is to be replaced; None if there is none."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return None
    _require_regular(target, mode)
    return stat.S_IMODE(mode)


@contextlib.contextmanager
def naming(path: types.Path) -> Iterator[None]:
    """Let an error of the system name ``path``, and say what to do if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        more = "; make room there or choose another path" if error.errno in FULL else ""
        raise OSError(error.errno, f"{error.strerror}{more}", os.fspath(path)) from error


def flush_folder(folder: Path) -> None:
    """Wait until the names of new files are on the disk, too, where a folder can be flushed."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_arrays(path: types.Path, arrays: Mapping[str, Any]) -> None:
    """Write ``arrays`` to ``path`` as an npz file, all of them or nothing."""
    with replacing(path) as partial, open(partial, "xb") as file:
        np.savez(file, **arrays)


class Header(NamedTuple):
    """What the header of a .npy file says."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    order: Literal["C", "F"]
    offset: int  # of the values, from the beginning of the file

    @property
    def n_bytes(self) -> int:
        """The size of the values. Python's integers: a hostile shape must not overflow."""
        return prod(self.shape) * self.dtype.itemsize


def npy_header(file: IO[bytes]) -> Header:
    """The header of the .npy file that begins here, in version 1.0 or 2.0; leaves ``file`` at the values.

    ``ValueError`` for anything but a plain array of numbers or strings.
    """
    start = file.tell()
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):  # later ones are for names of fields
        raise ValueError(f"it must have the .npy format's version 1.0 or 2.0, got {version}")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, is_fortran, dtype = read(file)
    except (SyntaxError, TokenError) as error:
        raise ValueError("its header cannot be read") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"it must have a shape without negative numbers, got {shape}")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if dtype.kind not in "biufcUS" or not dtype.itemsize:
        raise ValueError(f"it must hold real or complex numbers, got dtype {dtype}")
    return Header(shape, dtype, "F" if is_fortran else "C", file.tell() - start)


def read_npy(file: IO[bytes], size: int) -> Array:
    """The array of a .npy file of ``size`` bytes that begins here, and ends with its values."""
    header = npy_header(file)
    if header.offset + header.n_bytes != size:
        needed = f"{header.n_bytes} bytes for shape {header.shape} of {header.dtype}"
        raise ValueError(f"it must hold {needed}, got {size - header.offset}")
    require_memory(header.n_bytes)
    content = bytearray(header.n_bytes)
    view, done = memoryview(content), 0
    while done < len(content):
        piece = file.read(min(_CHUNK, len(content) - done))
        if not piece:
            raise ValueError(f"it ends {len(content) - done} bytes early")
        view[done : done + len(piece)] = piece
        done += len(piece)
    return np.ndarray(header.shape, header.dtype, content, order=header.order)


def read_arrays(path: types.Path) -> dict[str, Array]:
    """The arrays that `write_arrays` wrote to ``path``; ``ValueError`` if the file is damaged or anything else."""
    with open_regular(path) as file:
        try:
            return _read_archive(file)
        except Exception as error:  # whatever zipfile makes of a damaged archive
            raise ValueError(f"{os.fspath(path)!r} is not an intact papilio file: {error}") from error


def _read_archive(file: IO[bytes]) -> dict[str, Array]:
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = npy_members(archive)
        if sum(member.file_size for member in members.values()) > size:
            raise ValueError("its members are larger than the file")
        # A damaged directory may hide members. Its last record counts them, and zipfile does not compare.
        file.seek(size - len(archive.comment) - 12)
        if int.from_bytes(file.read(2), "little") != min(len(members), 0xFFFF):
            raise ValueError("some of its members are missing")
        for name, member in members.items():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"member {name!r} is compressed")
        return {name: read_member(archive, member) for name, member in members.items()}


def npy_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an .npz file by the names of their arrays."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name in members or name == member.filename:
            raise ValueError(f"member {member.filename!r} occurs twice or is not a .npy file")
        members[name] = member
    return members


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """The array in a member of an .npz file; its size is to be checked before."""
    try:
        # Read to its end, a member's checksum is compared, which finds flipped bits.
        with archive.open(member) as file:
            return read_npy(file, member.file_size)
    except ValueError as error:
        raise ValueError(f"member {member.filename!r} is not sound: {error}") from error
