"""Samples in parts, which have the same borders wherever they are worked on.

Whoever adds up what comes of the parts, in their order, gets the same bits on any number of threads and processes.
"""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..typing import Array
from ..validation import working_dtype
from .readers import ArrayReader, Reader, ShardReader, memmap_reader, npy_reader

_PART_ROWS = 1 << 17  # a quarter of a second of coding: much more than it costs to hand a part out
_FEW_PARTS = 4  # that smaller data are cut into, for as many threads
_MOST_PARTS = 512  # so that what comes back of a pass does not grow with the samples
_BLOCK_BYTES = 1 << 23  # read and worked on at a time


class Part(NamedTuple):
    """Consecutive rows. Those of a Dask array come in chunks, and know only which these are."""

    start: int
    stop: int
    reader: Reader | None
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] = ()

    def blocks(self, loaded: Sequence[Any] = (), reuse: bool = False) -> Iterator[tuple[int, Array]]:
        """The number of the first row, and some rows: C-contiguous, in the working dtype, finite.

        With ``reuse``, the next rows may take the memory of these.
        """
        if self.reader is not None:
            step = _rows_at_once(self.reader.shape[1], self.dtype)
            for start in range(self.start, self.stop, step):
                rows = self.reader.read(start, min(start + step, self.stop), reuse)
                yield start, self._checked(rows, start, self.reader.place)
            return
        start = self.start
        for number, chunk in zip(self.chunks, loaded, strict=True):
            chunk = np.asarray(chunk)
            step = _rows_at_once(chunk.shape[1], self.dtype)
            for first in range(0, len(chunk), step):
                rows = chunk[first : first + step]
                place = _ChunkPlace(number, start)
                yield start + first, self._checked(rows, start + first, place)
            start += len(chunk)

    def _checked(self, rows: Array, start: int, place: Any) -> Array:
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            total = rows.sum()  # in a tenth of the time, and seldom not finite without a reason
        if not np.isfinite(total) and not np.isfinite(rows).all():
            bad = start + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"X must hold finite numbers only, got NaN or infinity in {place(bad)}")
        return rows


class _ChunkPlace(NamedTuple):
    chunk: int
    start: int

    def __call__(self, row: int) -> str:
        return f"chunk {self.chunk}, row {row - self.start} of it (row {row} of all)"


def _number_of_parts(count: int) -> int:
    few = min(_FEW_PARTS, ceil(8 * count / _PART_ROWS))
    return min(max(ceil(count / _PART_ROWS), few), _MOST_PARTS)


def _rows_at_once(n_features: int, dtype: np.dtype[Any]) -> int:
    return max(_BLOCK_BYTES // (n_features * dtype.itemsize), 1)


class Samples:
    """A matrix with one sample per row, in parts.

    Made by `as_samples`, `held` and `on_disk`.
    """

    ndim = 2

    def __init__(self, reader: Reader) -> None:
        self.reader: Reader | None = reader
        self.shape = reader.shape
        self.dtype = working_dtype("X", reader.dtype)
        self.is_shared = reader.is_shared

    @property
    def is_held(self) -> bool:
        """Whether all rows are a sound array in memory."""
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
        return [Part(start, stop, self._reader_of(start, stop), self.dtype) for start, stop in pairwise(borders)]

    def _reader_of(self, start: int, stop: int) -> Reader | None:
        return self.reader.within(start, stop) if isinstance(self.reader, ShardReader) else self.reader

    def load(self) -> Array:
        """All rows as one array."""
        if self.is_held and self.reader is not None:
            return np.ascontiguousarray(self.reader.read(0, len(self)), dtype=self.dtype)
        rows = np.empty(self.shape, self.dtype)
        for start, block in self.blocks():
            rows[start : start + len(block)] = block
        return rows

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """All rows in order, some at a time, with the number of the first; at once if they are in memory."""
        if self.is_held:
            yield 0, self.load()
            return
        for part in self.parts():
            yield from part.blocks()


class DaskSamples(Samples):
    """The rows of a Dask array; its chunks along samples make the parts."""

    def __init__(self, array: Any) -> None:
        if array.ndim != 2:
            raise ValueError(f"X must be a matrix (2 dimensions), got a Dask array of {array.ndim}")
        if any(np.isnan(side) for side in array.shape):
            raise ValueError("X must have known chunk sizes; call X.compute_chunk_sizes() first")
        self.array = array if len(array.chunks[1]) <= 1 else array.rechunk({1: -1})
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
        import dask

        for part in self.parts():
            yield from part.blocks(dask.compute(*self.chunks_of(part)))


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array; Dask itself is not loaded for that."""
    return type(X).__module__.startswith("dask.array") and hasattr(X, "to_delayed")


def is_large(X: Any) -> bool:
    """Whether X is of a kind that need not fit into memory."""
    return isinstance(X, Samples | np.memmap) or is_dask(X)


def held(rows: Array) -> Samples:
    """Rows in memory, known to be sound."""
    return Samples(ArrayReader(rows, is_sound=True))


def as_samples(X: Any) -> Samples:
    """A Dask array, a memory-mapped array, or what `on_disk` returns, as samples."""
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
    """Samples in a .npy file, or in a folder of them, that estimators read part by part.

    The files of a folder are taken in the order of their names, numbers in these by their value, and must agree in
    the number of columns. Workers of a cluster open them by themselves, and so must see them under the same path.

    Parameters
    ----------
    path : path
        A .npy file with one sample per row, or a folder with such files.

    Returns
    -------
    Samples
        With ``shape`` and ``dtype``; `papilio.FastDictionaryLearning` and the other estimators take it for X.

    Examples
    --------
    >>> import numpy as np, papilio as pp, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.ones((3, 4))), np.save(folder / "b.npy", np.ones((2, 4)))
    (None, None)
    >>> pp.datasets.on_disk(folder)
    <Samples: 5 rows of 4 features, float64>
    """
    path = Path(path).absolute()
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
    """A key that sorts 'part-10' after 'part-9'."""
    return [(0, int(piece)) if piece.isdecimal() else (1, piece) for piece in re.split(r"(\d+)", name) if piece]
