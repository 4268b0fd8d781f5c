"""Matrices in MATLAB's .mat files, versions 5 to 7.

`scipy.io.loadmat` is not used because it crashes the process on some damaged files; a test tells when it no longer
does. This reader knows only numbers, dense and sparse, and takes every length from the bytes that are there.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..operators.csr import as_csr
from ..typing import Array
from .limits import check_sides, memory

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED, _SPARSE = 14, 15, 5
_DENSE = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x800


def read_mat(content: bytes) -> dict[str, Any]:
    """The matrices of numbers by name; ``content`` holds the bytes of a .mat file."""
    limit = memory()
    if content.startswith(b"MATLAB 7.3") or content[:8] == b"\x89HDF\r\n\x1a\n":
        raise ValueError("files of MATLAB's version 7.3 cannot be read; save with -v7")
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("it does not begin as version 5 of the format does")
    matrices = {}
    for kind, part in _elements(content[128:], order):
        if kind == _COMPRESSED:
            unpacked = zlib.decompressobj().decompress(part, limit)
            limit -= len(unpacked)
            if limit <= 0:
                raise ValueError("it unpacks to more than this machine's memory")
            kind, part = next(_elements(unpacked, order))
        if kind == _MATRIX:
            name, value = _matrix(part, order)
            if value is not None:
                matrices[name] = value
    return matrices


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The parts of a file or of a matrix. Each follows a tag with its kind and length; parts are padded."""
    place = 0
    while place + 8 <= len(content):
        kind, length = (int(number) for number in np.frombuffer(content, f"{order}u4", 2, place))
        begin = place + 8
        if kind >> 16:  # a short part: kind and length share four bytes, the next four hold the content
            kind, length, begin = kind & 0xFFFF, kind >> 16, place + 4
            if length > 4:
                raise ValueError("a part is damaged")
        if begin + length > len(content):
            raise ValueError("a part is longer than the file")
        yield kind, content[begin : begin + length]
        place = begin + length
        if kind != _COMPRESSED:
            place += -place % 8


def _matrix(content: bytes, order: str) -> tuple[str, Any]:
    """The name and value of a matrix; None for one that holds no numbers."""
    parts = list(_elements(content, order))
    flags, dimensions = _numbers(parts, 0, order), _numbers(parts, 1, order)
    name = parts[2][1].decode("ascii", "replace") if len(parts) > 2 else ""
    kind, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) & _COMPLEX)
    if kind not in _DENSE and kind != _SPARSE:
        return name, None
    shape = tuple(int(side) for side in dimensions)
    first = 5 if kind == _SPARSE else 3  # where the values are
    values = _numbers(parts, first, order)
    if is_complex:
        values = values + 1j * _numbers(parts, first + 1, order)
    if kind == _SPARSE:
        rows, starts = _numbers(parts, 3, order), _numbers(parts, 4, order)
        count = int(starts[-1]) if starts.size else 0
        check_sides(shape)
        form = sp.csc_array((values[:count], rows[:count].astype(np.int64), starts.astype(np.int64)), shape=shape)
        return name, as_csr(name, form)
    dtype = np.result_type(_DENSE[kind], values) if is_complex else np.dtype(_DENSE[kind])
    return name, values.astype(dtype).reshape(shape, order="F")


def _numbers(parts: list[tuple[int, bytes]], i: int, order: str) -> Array:
    if i >= len(parts) or parts[i][0] not in _TYPES:
        raise ValueError("a matrix lacks its numbers")
    kind, content = parts[i]
    dtype = np.dtype(order + _TYPES[kind])
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
