"""Named arrays in one npz file: written whole or not at all, and believed only after a check.

The files are what ``numpy.savez`` writes: a zip archive of .npy members, not compressed. Reading refuses
compressed members, so that a small file cannot unpack into a large one, and compares every header with the
number of bytes that are really there before any memory is taken.
"""

import contextlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from .validation import Array

MAX_DIMENSIONS = 2
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# What a damaged archive makes zipfile and NumPy's header parser raise. RuntimeError is an encrypted member,
# NotImplementedError a compression that is not known here.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    SyntaxError,
    TypeError,
    ValueError,
    RuntimeError,
    OverflowError,
    IndexError,
    KeyError,
)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write ``arrays`` to ``path``; a crash leaves the old file, or none, but never half of a new one."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays in ``path`` by name; ``ValueError`` if the file is damaged, hostile or no such archive."""
    with open(path, "rb") as file:
        try:
            return _read_archive(file)
        except _DAMAGE as error:
            raise ValueError(f"{os.fspath(path)!r} is not an intact papilio file: {error}") from error


def _read_archive(file: IO[bytes]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in arrays or name == member.filename:
                raise ValueError(f"member {member.filename!r} is foreign or there twice")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"member {name!r} is compressed")
            # ZipFile.read checks the CRC, so that a flipped bit is seen.
            arrays[name] = _parse_npy(name, archive.read(member))
    return arrays


def _parse_npy(name: str, content: bytes) -> Array:
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"member {name!r} has .npy version {version}")
    shape, fortran_order, dtype = _READERS[version](stream)
    if dtype.hasobject or dtype.kind not in "biufcU" or len(shape) > MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(f"member {name!r} is an array of dtype {dtype} and shape {shape}")
    values = content[stream.tell() :]
    count = 1
    for length in shape:  # Python's integers: a hostile shape must not overflow
        count *= length
    if count * dtype.itemsize != len(values):
        raise ValueError(f"member {name!r} holds {len(values)} bytes for shape {shape} of {dtype}")
    return np.frombuffer(values, dtype=dtype).reshape(shape, order="F" if fortran_order else "C").copy()
