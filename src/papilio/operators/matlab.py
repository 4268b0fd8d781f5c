"""Matrices in MATLAB's .mat files, versions 5 to 7, and cell arrays of them.

`scipy.io.loadmat` is not used because it crashes the process on some damaged files; a test tells when it no longer
does. This reader knows only numbers, dense and sparse, and takes every length from the bytes that are there.
"""

import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..runtime.unpacking import PER_LINE, require_room, require_sides
from ..typing import Array
from .factors import as_csr

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED, _CELLS, _SPARSE = 14, 15, 1, 5
_DENSE = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x800
_ORDERS = {b"IM": "<", b"MI": ">"}
_HDF = b"\x89HDF\r\n\x1a\n"
_TAG = 8  # bytes before a part: its kind and its length
_HEAD = 1 << 12  # bytes of a matrix that hold its kind, dimensions and name
_PER_ENTRY = 24  # bytes of an entry of a sparse matrix
_MOST_CELLS = 10_000
_MOST_PARTS = 7  # of a matrix of numbers: three that describe it, two of indices, two of values

_Parts = list[tuple[int, memoryview]]


class _Stored(NamedTuple):
    """A matrix as it is in the file."""

    part: memoryview
    is_packed: bool
    flags: int
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the entries, whatever type they are stored in."""
        dtype = np.dtype(_DENSE.get(self.flags & 0xFF, "f8"))
        return np.result_type(dtype, np.complex64) if self.flags & _COMPLEX else dtype

    @property
    def has_numbers(self) -> bool:
        return self.flags & 0xFF in _DENSE or self.flags & 0xFF == _SPARSE

    def unpacked(self, order: str, held: int) -> memoryview:
        """Its content, out of a file of ``held`` bytes."""
        return _unpacked(self.part, order, held) if self.is_packed else self.part


def is_mat(start: bytes) -> bool:
    """Whether a file that begins with these 128 bytes is a .mat file of any version."""
    return start[:8] == _HDF or (start[:2] != b"PK" and start[126:128] in _ORDERS)


def read_mat(content: bytes, choose: Callable[[list[str]], str]) -> Any:
    """The matrix of numbers that ``choose`` takes, by its name, of those in the bytes of a .mat file.

    Only that one is unpacked.
    """
    order = _order(content)
    stored = {name: each for name, each in _variables(content, order).items() if each.has_numbers}
    chosen = stored[choose(list(stored))]
    if chosen.flags & 0xFF == _SPARSE:
        require_sides(chosen.shape, len(content))
    else:
        require_room(prod(chosen.shape) * chosen.dtype.itemsize, len(content))
    return _matrix(chosen, list(_elements(chosen.unpacked(order, len(content)), order)), order, len(content))


def has_cells(content: bytes, name: str) -> bool:
    """Whether a .mat file has a cell array of this name."""
    found = _variables(content, _order(content)).get(name)
    return found is not None and found.flags & 0xFF == _CELLS


def read_cells(content: bytes, name: str) -> list[Any]:
    """The matrices of numbers in a cell array of a .mat file, column by column."""
    order, held = _order(content), len(content)
    found = _variables(content, order).get(name)
    if found is None or found.flags & 0xFF != _CELLS:
        raise ValueError(f"it has no cell array {name!r}")
    if min(found.shape, default=0) < 1 or prod(found.shape) > _MOST_CELLS:
        raise ValueError(f"the cell array {name!r} must have 1 to {_MOST_CELLS} members, got {found.shape}")
    count = prod(found.shape)
    members = list(islice(_elements(found.unpacked(order, held), order), 3, count + 4))
    if len(members) != count:
        raise ValueError(f"the cell array {name!r} of shape {found.shape} has not as many members")
    cells, needed = [], 0
    for i, (kind, part) in enumerate(members):
        parts = list(islice(_elements(part, order), _MOST_PARTS))
        stored = _Stored(part, False, *_described(parts, order)[:2])
        if kind != _MATRIX or not stored.has_numbers or min(stored.shape, default=0) < 1:
            raise ValueError(f"member {i} of the cell array {name!r} is not a matrix of numbers")
        if stored.flags & 0xFF == _SPARSE:
            require_sides(stored.shape, held)
            needed += PER_LINE * max(stored.shape) + _PER_ENTRY * _numbers(parts, 5, order).size
        else:
            needed += prod(stored.shape) * stored.dtype.itemsize
        require_room(needed, held)
        cells.append((stored, parts))
    return [_matrix(*cell, order, held) for cell in cells]


def _order(content: bytes) -> str:
    """The order of bytes in a .mat file."""
    if content.startswith(b"MATLAB 7.3") or content[:8] == _HDF:
        raise ValueError("files of MATLAB's version 7.3 cannot be read; save with -v7")
    if content[126:128] not in _ORDERS:
        raise ValueError("it does not begin as version 5 of the format does")
    return _ORDERS[content[126:128]]


def _variables(content: bytes, order: str) -> dict[str, _Stored]:
    """The matrices of numbers and the cell arrays by name; only the beginnings of compressed ones are unpacked."""
    stored: dict[str, _Stored] = {}
    for kind, part in _elements(memoryview(content)[128:], order):
        is_packed, head = kind == _COMPRESSED, part[:_HEAD]
        if is_packed:
            unpacked = memoryview(zlib.decompressobj().decompress(part, _TAG + _HEAD))
            kind, head = _tag(unpacked, order)[0], unpacked[_TAG:]
        if kind != _MATRIX:
            continue
        flags, shape, name = _described(list(islice(_elements(head, order), 3)), order)
        each = _Stored(part, is_packed, flags, shape)
        if (each.has_numbers or flags & 0xFF == _CELLS) and name:  # without a name: MATLAB's own notes
            if name in stored:
                raise ValueError(f"two of its matrices have the name {name!r}")
            stored[name] = each
    return stored


def _tag(content: memoryview, order: str) -> tuple[int, int]:
    """The kind and the length of a part."""
    kind, length = np.frombuffer(content, f"{order}u4", 2).tolist()
    return kind, length


def _unpacked(part: memoryview, order: str, held: int) -> memoryview:
    """The content of a compressed matrix, as long as it says."""
    stream = zlib.decompressobj()
    length = _tag(memoryview(stream.decompress(part, _TAG)), order)[1]
    require_room(length, held)
    content = stream.decompress(stream.unconsumed_tail, length + 1)
    if len(content) != length or not stream.eof:
        raise ValueError("a compressed part is damaged")
    return memoryview(content)


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The parts of a file or of a matrix. Each follows a tag with its kind and length; parts are padded."""
    place = 0
    while place + _TAG <= len(content):
        kind, length = _tag(content[place:], order)
        begin = place + _TAG
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


def _described(parts: _Parts, order: str) -> tuple[int, tuple[int, ...], str]:
    """Flags, shape and name of a matrix."""
    flags, dimensions = _numbers(parts, 0, order), _numbers(parts, 1, order)
    if flags.size == 0 or any(numbers.dtype.kind == "f" for numbers in (flags, dimensions)):
        raise ValueError("a matrix lacks its flags or its dimensions")
    name = bytes(parts[2][1]).decode("ascii", "replace") if len(parts) > 2 else ""
    return int(flags[0]), tuple(dimensions.tolist()), name


def _matrix(stored: _Stored, parts: _Parts, order: str, held: int) -> Any:
    """The value of a matrix from a file of ``held`` bytes."""
    is_sparse, shape = stored.flags & 0xFF == _SPARSE, stored.shape
    first = 5 if is_sparse else 3  # where the values are
    values = _numbers(parts, first, order)
    if is_sparse:
        require_room(_PER_ENTRY * values.size, held)
    elif min(shape, default=0) < 0 or prod(shape) != values.size:
        raise ValueError(f"a matrix of shape {shape} must hold as many numbers, got {values.size}")
    dtype = stored.dtype
    if is_sparse and values.dtype.kind == "f":  # MATLAB's are double; those of others may be single
        dtype = np.result_type(values.dtype.newbyteorder("="), *[np.complex64] * (dtype.kind == "c"))
    if stored.flags & _COMPLEX:
        joined = np.zeros(values.size, dtype)
        joined.real, joined.imag = values, _numbers(parts, first + 1, order)
        values = joined
    values = values.astype(dtype)
    if is_sparse:
        return _sparse(values, _integers(parts, 3, order), _integers(parts, 4, order), shape)
    return values.reshape(shape, order="F")


def _sparse(values: Array, rows: Array, starts: Array, shape: tuple[int, ...]) -> sp.csr_array:
    count = int(starts[-1]) if starts.size else 0
    return as_csr("it", sp.csc_array((values[:count], rows[:count], starts), shape=shape))


def _integers(parts: _Parts, i: int, order: str) -> Array:
    numbers = _numbers(parts, i, order)
    if numbers.dtype.kind == "f":
        raise ValueError("the indices of a sparse matrix must be integers")
    return numbers.astype(np.int64)


def _numbers(parts: _Parts, i: int, order: str) -> Array:
    if i >= len(parts) or parts[i][0] not in _TYPES:
        raise ValueError("a matrix lacks its numbers")
    kind, content = parts[i]
    return np.frombuffer(content, order + _TYPES[kind])
