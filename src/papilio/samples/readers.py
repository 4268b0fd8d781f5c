"""Readers of rows: from an array, from a file, or from several of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..runtime.files import npy_header, open_regular
from ..runtime.threads import scratch
from ..typing import Array
from ..validation import working_dtype


class ArrayReader:
    """An array in memory, or a view of a file that only this process has; ``is_sound`` if known to be finite."""

    is_shared = False  # with other processes

    def __init__(self, array: Array, is_sound: bool) -> None:
        self._array = array
        self.is_sound = is_sound
        self.shape: tuple[int, int] = array.shape
        self.dtype = array.dtype

    def read(self, start: int, stop: int, reuse: bool = False) -> Array:
        """Some rows. With ``reuse``, they may lie in memory that the next such read of this thread overwrites."""
        return self._array[start:stop]

    def place(self, row: int) -> str:
        """The place of a row, for error messages."""
        return f"row {row}"


@dataclass(frozen=True)
class FileReader:
    """A matrix in a file, opened for each read: pages of a lasting map would count as memory of the process."""

    path: str
    offset: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    order: str
    is_shared: bool = True

    def read(self, start: int, stop: int, reuse: bool = False) -> Array:
        if self.order == "F":
            mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, "F")
            return np.array(mapped[start:stop], order="C")
        shape = stop - start, self.shape[1]
        rows = scratch("rows", (shape, self.dtype))[0] if reuse else np.empty(shape, self.dtype)
        view, done = rows.view(np.uint8).reshape(-1), 0
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset + start * rows.itemsize * self.shape[1])
            while done < view.size:
                count = file.readinto(view[done:].data)
                if not count:
                    raise ValueError(f"{self.path!r} must not become shorter while it is read, but it did")
                done += count
        return rows

    def place(self, row: int) -> str:
        return f"row {row} of {os.path.basename(self.path)!r}"


class ShardReader:
    """Several files, one after the other; ``borders`` are the indices of their first rows, and the end."""

    is_shared = True

    def __init__(self, shards: Sequence[FileReader], borders: Array | None = None) -> None:
        self._shards = shards
        self._borders = np.cumsum([0, *(shard.shape[0] for shard in shards)]) if borders is None else borders
        self.shape = (int(self._borders[-1]), shards[0].shape[1])
        self.dtype = np.result_type(*(shard.dtype for shard in shards))

    def read(self, start: int, stop: int, reuse: bool = False) -> Array:
        ranges = [
            (shard, max(start - first, 0), min(stop, last) - first)
            for shard, (first, last) in zip(self._shards, pairwise(self._borders.tolist()), strict=True)
            if max(start, first) < min(stop, last)
        ]
        if len(ranges) == 1:
            shard, first, last = ranges[0]
            return shard.read(first, last, reuse)
        return np.concatenate([shard.read(first, last) for shard, first, last in ranges])

    def within(self, start: int, stop: int) -> "ShardReader":
        """Only the shards with these rows, so that a task does not carry thousands of others."""
        first = int(np.searchsorted(self._borders, start, side="right")) - 1
        last = int(np.searchsorted(self._borders, stop, side="left"))
        return ShardReader(self._shards[first:last], self._borders[first : last + 1])

    def place(self, row: int) -> str:
        shard = int(np.searchsorted(self._borders, row, side="right")) - 1
        return self._shards[shard].place(row - int(self._borders[shard]))


Reader: TypeAlias = ArrayReader | FileReader | ShardReader


def memmap_reader(array: Any) -> Reader:
    """A reader of a memory-mapped array: from its file, if the file has the same content."""
    root = array
    while isinstance(root.base, np.memmap):
        root = root.base
    order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else ""
    # Changes to a copy-on-write map are in no file.
    if not order or not getattr(root, "filename", None) or root.mode == "c":
        return ArrayReader(array, is_sound=False)
    if root.flags.writeable:
        root.flush()
    where = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return FileReader(os.fspath(root.filename), root.offset + where, array.shape, array.dtype, order)


def npy_reader(path: Path) -> FileReader:
    """A reader of the matrix in a .npy file, after a check of its header and its length."""
    try:
        with open_regular(path) as file:
            header = npy_header(file)
            size = os.fstat(file.fileno()).st_size
        if len(header.shape) != 2:
            raise ValueError(f"it must hold a matrix, one sample per row, got shape {header.shape}")
        if header.n_bytes != size - header.offset:
            how = "shorter" if header.n_bytes > size - header.offset else "longer"
            raise ValueError(f"it is {how} than its header says")
        working_dtype("it", header.dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path.name!r} is not a sound .npy file of samples: {error}") from error
    return FileReader(os.fspath(path), header.offset, header.shape, header.dtype, header.order)
