"""Files that are written whole or not at all, and the one reader of .npy and .npz files.

`numpy.load(allow_pickle=False)` unpickles nothing, but trusts a file otherwise: it allocates what a header claims
before it looks for the bytes, unpacks a small archive into a huge array, ignores bytes after the values, and does
not notice that a damaged directory lost a member. Files come from anywhere; the readers here check all this.
"""

import contextlib
import io
import os
import re
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from .. import typing as types
from ..typing import Array

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000  # bytes, as in NumPy
_HEADER = re.compile(
    rb"\{ *'descr': *('[^'\n]*'|[\[(][^\n]*[\])]), *'fortran_order': *(False|True), *"
    rb"'shape': *\(([0-9, ]{0,60})\),? *\} *\n?"
)
_PLAIN_DTYPE = re.compile(r"'[<>|=][biufcUS]\d{1,6}'")


@contextlib.contextmanager
def replacing(path: types.Path, keep: bool = True) -> Iterator[Path]:
    """A path in the same folder to write to; on success its file replaces ``path``.

    A crash leaves the old file, or none, but never half of a new one. With ``keep=False`` the new file is removed:
    a test of whether it can be written.
    """
    target = Path(os.path.realpath(path))  # a link keeps pointing to the file
    partial = target.with_name(f".{uuid.uuid4().hex}.partial{target.suffix}")
    try:
        yield partial
        if keep:
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            if target.exists():
                partial.chmod(target.stat().st_mode)
            os.replace(partial, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


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
    """The header of the .npy file that begins here, in version 1.0, 2.0 or 3.0; leaves ``file`` at the values.

    The text is matched, never evaluated. ``ValueError`` for anything but a plain array of numbers or strings.
    """
    start = file.read(8)
    version = tuple(start[6:])
    if start[:6] != _MAGIC or version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"it must begin with the .npy format's version 1.0, 2.0 or 3.0, got {start!r}")
    size = 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(size), "little")
    text = file.read(min(length, _LONGEST_HEADER))
    match = _HEADER.fullmatch(text)
    if len(text) != length or match is None:
        raise ValueError(f"its .npy header must be as NumPy writes it, got {text[:80]!r}")
    described = match[1].decode("utf-8", "replace")
    if described == "'|O'":
        raise ValueError("it holds Python objects, which are never loaded")
    if not _PLAIN_DTYPE.fullmatch(described):
        raise ValueError(f"it must hold real or complex numbers, got dtype {described}")
    try:
        dtype = np.dtype(described[1:-1])
    except TypeError as error:
        raise ValueError(f"its dtype is unknown: {error}") from None
    shape = tuple(int(side) for side in match[3].split(b",") if side.strip())
    return Header(shape, dtype, "F" if match[2] == b"True" else "C", 8 + size + length)


def read_npy(file: IO[bytes], size: int) -> Array:
    """The array of a .npy file of ``size`` bytes that begins here, and ends with its values; read-only."""
    header = npy_header(file)
    if header.offset + header.n_bytes != size:
        needed = f"{header.n_bytes} bytes for shape {header.shape} of {header.dtype}"
        raise ValueError(f"it must hold {needed}, got {size - header.offset}")
    return np.frombuffer(file.read(), header.dtype).reshape(header.shape, order=header.order)


def read_arrays(path: types.Path) -> dict[str, Array]:
    """The arrays that `write_arrays` wrote to ``path``; ``ValueError`` if the file is damaged or anything else."""
    content = Path(path).read_bytes()
    try:
        return _read_archive(content)
    except Exception as error:  # whatever zipfile makes of a damaged archive
        raise ValueError(f"{os.fspath(path)!r} is not an intact papilio file: {error}") from error


def _read_archive(content: bytes) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("its members are larger than the file")
        # A damaged directory may hide members. Its last record counts them, and zipfile does not compare.
        end = len(content) - len(archive.comment)
        if int.from_bytes(content[end - 12 : end - 10], "little") != min(len(members), 0xFFFF):
            raise ValueError("some of its members are missing")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays or name == member.filename:
                raise ValueError(f"member {member.filename!r} occurs twice or is not a .npy file")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"member {name!r} is compressed")
            try:
                # Read to its end, a member's checksum is compared, which finds flipped bits.
                with archive.open(member) as file:
                    arrays[name] = read_npy(file, member.file_size).copy("K")
            except ValueError as error:
                raise ValueError(f"member {name!r} is not sound: {error}") from error
    return arrays
