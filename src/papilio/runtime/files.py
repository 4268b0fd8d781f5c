"""Named arrays in one npz file: written whole or not at all, and believed only after a check.

The files are what ``numpy.savez`` writes: a zip archive of .npy members, not compressed. Reading accepts nothing
else: no compressed member, so that a small file cannot unpack into a large one, no array of objects, no header
that is not of the plain form which NumPy writes, and no member that claims more bytes than there are.
"""

import contextlib
import io
import os
import re
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..typing import Array

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biufcU]\d{1,6})', 'fortran_order': (False|True), 'shape': \(([0-9, ]{0,60})\), \} *\n"
)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], keep: bool = True) -> Iterator[Path]:
    """A path in the same folder to write to, which takes the place of ``path`` if all goes well.

    A crash leaves the old file, or none, but never half of a new one. Without ``keep`` nothing is left: a trial.
    """
    target = Path(os.path.realpath(path))  # a link goes on to point to the file
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


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write ``arrays`` to ``path``, all of them or nothing."""
    with replacing(path) as partial, open(partial, "xb") as file:
        np.savez(file, **arrays)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays in ``path`` by name; ``ValueError`` if the file is damaged, hostile or no such archive."""
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
        # A damaged directory may hide members; its end tells how many there are, and zipfile does not compare.
        end = len(content) - len(archive.comment)
        if int.from_bytes(content[end - 12 : end - 10], "little") != min(len(members), 0xFFFF):
            raise ValueError("some of its members are missing")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays or name == member.filename:
                raise ValueError(f"member {member.filename!r} is foreign or there twice")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"member {name!r} is compressed")
            # ZipFile.read checks the CRC, so that a flipped bit is seen.
            arrays[name] = _parse_npy(name, archive.read(member))
    return arrays


def _parse_npy(name: str, content: bytes) -> Array:
    """The array of a .npy file; its header is matched, not evaluated."""
    length = int.from_bytes(content[len(_MAGIC) : len(_MAGIC) + 2], "little")
    begin = len(_MAGIC) + 2
    header = _HEADER.fullmatch(content[begin : begin + length])
    if not content.startswith(_MAGIC) or header is None:
        raise ValueError(f"member {name!r} is no plain array")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(number) for number in header[3].split(b",") if number.strip())
    values = content[begin + length :]
    count = 1
    for side in shape:  # Python's integers: a hostile shape must not overflow
        count *= side
    if len(shape) > 2 or count * dtype.itemsize != len(values):
        raise ValueError(f"member {name!r} holds {len(values)} bytes for shape {shape} of {dtype}")
    fortran_order = header[2] == b"True"
    return np.frombuffer(values, dtype=dtype).reshape(shape, order="F" if fortran_order else "C").copy("K")
