"""Samples in parts, which have the same borders wherever they are processed.

Results of the parts that are added in their order have the same bits on any number of threads and processes.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..runtime.files import as_path, as_regular
from ..typing import Array
from ..validation import working_dtype
from .dask import computed, with_checked_chunks

_PART_ROWS = 1 << 17  # a quarter of a second of coding: much more than the overhead of a task
_FEW_PARTS = 4  # Parts of small data, for as many threads.
_MOST_PARTS = 512  # The results of a pass do not grow with the number of samples.
_BLOCK_BYTES = 1 << 23  # read and processed at a time


# -- readers -------------------------------------------------------------------------------------------


class ArrayReader:
    """An array in memory, or a view of a file that only this process has; ``is_sound`` if known to be finite."""

    is_shared = False  # Whether other processes share the rows.

    def __init__(self, array: Array, is_sound: bool) -> None:
        self._array = array
        self.is_sound = is_sound
        self.shape: tuple[int, int] = array.shape
        self.dtype = array.dtype

    def read(self, start: int, stop: int) -> Array:
        """Some rows."""
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

    def read(self, start: int, stop: int) -> Array:
        columns = self.shape[1]
        if self.order == "F":
            return np.array(
                np.memmap(self.path, self.dtype, "r", self.offset, self.shape, "F")[start:stop], order="C"
            )
        offset, count = self.offset + start * columns * self.dtype.itemsize, (stop - start) * columns
        found = np.fromfile(self.path, self.dtype, count, offset=offset)
        if found.size < count:
            raise ValueError(f"{self.path!r} must not become shorter while it is read, but it did")
        return found.reshape(-1, columns)

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

    def read(self, start: int, stop: int) -> Array:
        ranges = [
            (shard, max(start - first, 0), min(stop, last) - first)
            for shard, (first, last) in zip(self._shards, pairwise(self._borders.tolist()), strict=True)
            if max(start, first) < min(stop, last)
        ]
        if len(ranges) == 1:
            shard, first, last = ranges[0]
            return shard.read(first, last)
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
        found: Any = np.load(as_regular(path), mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.memmap) or found.ndim != 2:
            raise ValueError(f"it must hold a matrix, one sample per row, got shape {np.shape(found)}")
        if found.offset + found.nbytes != path.stat().st_size:
            raise ValueError("it is longer than its header says")
        working_dtype("it", found.dtype)
    except OSError:
        raise
    except Exception as error:  # A damaged header may raise anything.
        raise ValueError(f"{path.name!r} is not an intact .npy file of samples: {error}") from error
    order = "C" if found.flags.c_contiguous else "F"
    return FileReader(os.fspath(path), found.offset, found.shape, found.dtype, order)


# -- parts of samples ----------------------------------------------------------------------------------


class Part(NamedTuple):
    """Consecutive rows: those of a reader, or of some chunks of a Dask array."""

    start: int
    stop: int
    reader: Reader | None
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] = ()

    def blocks(self, loaded: Sequence[Any] = ()) -> Iterator[tuple[int, Array]]:
        """The index of the first row, and some rows: C-contiguous, in the working dtype, finite.

        ``loaded`` are the chunks of a Dask array.
        """
        if self.reader is not None:
            step = _rows_at_once(self.reader.shape[1], self.dtype)
            for start in range(self.start, self.stop, step):
                rows = self.reader.read(start, min(start + step, self.stop))
                yield start, self._checked(rows, start, self.reader.place)
            return
        start = self.start
        for number, chunk in zip(self.chunks, loaded, strict=True):
            chunk = np.asarray(chunk)
            step = _rows_at_once(chunk.shape[1], self.dtype)

            def place(row: int, number: int = number, start: int = start) -> str:
                return f"chunk {number}, row {row - start} of it (row {row} of all)"

            for first in range(0, len(chunk), step):
                yield start + first, self._checked(chunk[first : first + step], start + first, place)
            start += len(chunk)

    def _checked(self, rows: Array, start: int, place: Callable[[int], str]) -> Array:
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            total = rows.sum()  # ten times faster than isfinite, and finite if all rows are, unless it overflows
        if not np.isfinite(total) and not np.isfinite(rows).all():
            bad = start + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"X must hold finite numbers only, got NaN or infinity in {place(bad)}")
        return rows


def _number_of_parts(count: int) -> int:
    few = min(_FEW_PARTS, ceil(8 * count / _PART_ROWS))
    return min(max(ceil(count / _PART_ROWS), few), _MOST_PARTS)


def _rows_at_once(n_features: int, dtype: np.dtype[Any]) -> int:
    return max(_BLOCK_BYTES // (n_features * dtype.itemsize), 1)


class Samples:
    """A matrix with one sample per row, in parts.

    Made by `as_samples`, `held` and `on_disk`.

    Parameters
    ----------
    reader : Reader
        Reads rows from where they are.

    Examples
    --------
    >>> import numpy as np, papilio as pp, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "x.npy")
    ...     np.save(path, np.ones((100, 8)))
    ...     samples = pp.datasets.on_disk(path)
    >>> samples
    <Samples: 100 rows of 8 features, float64>
    """

    ndim = 2

    def __init__(self, reader: Reader) -> None:
        self.reader: Reader | None = reader
        self.shape = reader.shape
        self.dtype = working_dtype("X", reader.dtype)
        self.is_shared = reader.is_shared

    @property
    def is_held(self) -> bool:
        """Whether all rows are in memory, and known to be finite."""
        return isinstance(self.reader, ArrayReader) and self.reader.is_sound

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Samples: {self.shape[0]} rows of {self.shape[1]} features, {self.dtype}>"

    def parts(self) -> list[Part]:
        """All rows, in parts of nearly the same size."""
        count = self.shape[0]
        n_parts = _number_of_parts(count)
        borders = [count * i // n_parts for i in range(n_parts + 1)]
        within = self.reader.within if isinstance(self.reader, ShardReader) else lambda start, stop: self.reader
        return [Part(start, stop, within(start, stop), self.dtype) for start, stop in pairwise(borders)]

    def load(self) -> Array:
        """All rows as one array."""
        if self.is_held and self.reader is not None:
            return np.ascontiguousarray(self.reader.read(0, len(self)), dtype=self.dtype)
        rows = np.empty(self.shape, self.dtype)
        for start, block in self.blocks():
            rows[start : start + len(block)] = block
        return rows

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """All rows in order, some at a time, with the index of the first; in one piece if they are in memory."""
        if self.is_held:
            yield 0, self.load()
            return
        for part in self.parts():
            yield from part.blocks()


class DaskSamples(Samples):
    """The rows of a Dask array; its chunks along samples, small ones together, are the parts."""

    def __init__(self, array: Any) -> None:
        if array.ndim != 2:
            raise ValueError(f"X must be a matrix (2 dimensions), got a Dask array of {array.ndim}")
        if any(np.isnan(side) for side in array.shape):
            raise ValueError("X must have known chunk sizes; call X.compute_chunk_sizes() first")
        checked = with_checked_chunks(array)
        self.array = checked if len(array.chunks[1]) <= 1 else checked.rechunk({1: -1})
        self.reader = None
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = working_dtype("X", array.dtype)
        self.is_shared = True

    def parts(self) -> list[Part]:
        sizes = self.array.chunks[0]
        least = ceil(len(self) / _number_of_parts(len(self)))
        parts: list[Part] = []
        start = stop = 0
        own: list[int] = []
        for number, size in enumerate(sizes):
            if own and stop - start + size > least:
                parts.append(Part(start, stop, None, self.dtype, tuple(own)))
                start, own = stop, []
            own.append(number)
            stop += size
        parts.append(Part(start, stop, None, self.dtype, tuple(own)))
        return parts

    def chunks_of(self, part: Part) -> list[Any]:
        """The chunks of a part, as Dask's delayed values."""
        return [self._delayed[number] for number in part.chunks]

    @cached_property
    def _delayed(self) -> Any:
        return self.array.to_delayed().reshape(-1)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        for part in self.parts():
            yield from part.blocks(computed(self.chunks_of(part)))


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, without importing Dask."""
    return type(X).__module__.startswith("dask.array") and hasattr(X, "to_delayed")


def is_large(X: Any) -> bool:
    """Whether X is of a type that need not fit into memory."""
    return isinstance(X, Samples | np.memmap) or is_dask(X)


def held(rows: Array) -> Samples:
    """Rows in memory, known to be finite."""
    return Samples(ArrayReader(rows, is_sound=True))


def as_samples(X: Any) -> Samples:
    """A Dask array, a memory-mapped array or the result of `on_disk` as samples."""
    if isinstance(X, Samples):
        samples = X
    elif is_dask(X):
        samples = DaskSamples(X)
    else:
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix (2 dimensions), got an array of {X.ndim}")
        samples = Samples(memmap_reader(X))
    if 0 in samples.shape:
        raise ValueError(f"X must not be empty, got shape {samples.shape}")
    return samples


def on_disk(path: str | os.PathLike[str]) -> Samples:
    """Samples in a .npy file or in a folder of them, which estimators read part by part.

    The files of a folder are read in the natural order of their names (part-9 before part-10), and must have the
    same number of columns. Workers of a cluster open the files themselves, and must see them under the same path.

    Parameters
    ----------
    path : path
        A .npy file with one sample per row, or a folder with such files.

    Returns
    -------
    Samples
        A matrix that all estimators take for X.

    Raises
    ------
    OSError
        If a file cannot be read or is not a regular file; `FileNotFoundError` if there is none.
    ValueError
        If a file is damaged, or holds anything but a matrix of numbers.

    Examples
    --------
    >>> import numpy as np, papilio as pp, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.ones((3, 4))), np.save(folder / "b.npy", np.ones((2, 4)))
    (None, None)
    >>> pp.datasets.on_disk(folder)
    <Samples: 5 rows of 4 features, float64>
    """
    path = as_path("path", path).absolute()
    if not path.is_dir():
        return as_samples(Samples(npy_reader(path)))
    paths = sorted(path.glob("*.npy"), key=lambda each: (_natural(each.name), each.name))
    if not paths:
        raise ValueError(f"{os.fspath(path)!r} must hold .npy files, got a folder without one")
    shards = [npy_reader(each) for each in paths]
    for each, shard in zip(paths, shards, strict=True):
        if shard.shape[1] != shards[0].shape[1]:
            raise ValueError(
                f"{each.name!r} must have {shards[0].shape[1]} columns, as {paths[0].name!r} has, "
                f"got {shard.shape[1]}"
            )
    return as_samples(Samples(ShardReader(shards)))


def _natural(name: str) -> list[tuple[int, int | str]]:
    """A sort key that puts part-10 after part-9."""
    return [(0, int(piece)) if piece.isdecimal() else (1, piece) for piece in re.split(r"(\d+)", name) if piece]
