"""A matrix that is known by a function: its blocks, checked and counted, and samples of its lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ...linalg import in_units, shifted
from ...runtime.session import Session
from ...typing import Array
from ...validation import as_array, working_dtype
from ..nested.clusters import Clusters

EntriesFunction = Callable[[Array, Array], Any]

CHUNK = 1 << 20  # entries that are asked for at a time: the function may need several times their memory
_MODERATE = 60  # bits of a number whose square is far from the limits of the number range
_PROBED = 16  # rows and columns of the block that shows the dtype


def is_function(value: object) -> TypeGuard[EntriesFunction]:
    """Whether a matrix is given by a function; operators, which may be called too, are none."""
    return callable(value) and not isinstance(value, LinearOperator) and not hasattr(value, "__array__")


class Entries:
    """M[rows, columns] from a function of two index arrays, each block checked; ``touched`` counts entries.

    Very large and very small numbers are divided by 2^unit, so that their squares stay in the number range.
    """

    def __init__(self, function: EntriesFunction, shape: tuple[int, int], session: Session) -> None:
        self._function, self.shape, self._session = function, shape, session
        self.touched, self.unit, self._can_stop = 0, 0, False
        self.dtype: np.dtype[Any] | None = None
        rows, columns = (np.unique(np.linspace(0, size - 1, _PROBED).astype(np.int64)) for size in shape)
        probe = self(rows, columns)
        self.dtype, self._can_stop = probe.dtype, True
        unit = in_units(probe)[1]
        self.unit = unit if abs(unit) > _MODERATE else 0

    @contextmanager
    def without_stopping(self) -> Iterator[None]:
        """Let a short step end, whatever the session says: there must be a result."""
        self._can_stop = False
        try:
            yield
        finally:
            self._can_stop = True

    @property
    def is_complex(self) -> bool:
        return self.dtype is not None and self.dtype.kind == "c"

    @property
    def is_single(self) -> bool:
        return self.dtype is not None and self.dtype.char in "fF"

    def __call__(self, rows: Array, columns: Array) -> Array:
        """The block of some rows and columns."""
        if self._can_stop:
            self._session.check()
        wanted = (rows.size, columns.size)
        if 0 in wanted:
            return np.zeros(wanted, self.dtype)
        try:
            result = self._function(rows.copy(), columns.copy())  # which the function may change
        except Exception as error:
            error.add_note(
                f"raised by entries(rows, columns), which factorize called with {wanted[0]} rows and {wanted[1]} "
                f"columns: rows[0] = {rows[0]}, columns[0] = {columns[0]}"
            )
            raise
        block = as_array("entries(rows, columns)", result)
        if block.shape != wanted:
            raise ValueError(
                "entries(rows, columns) must return an array of shape (len(rows), len(columns)) = "
                f"{wanted}, as from rows[:, None] and columns[None, :], got {block.shape}"
            )
        dtype = working_dtype("entries(rows, columns)", block.dtype)
        if self.dtype is not None and dtype.kind == "c" and self.dtype.kind != "c":
            raise ValueError(
                "entries(rows, columns) must return numbers of one kind, got complex numbers after real ones"
            )
        block = np.asarray(block, self.dtype or dtype)
        if not np.isfinite(block).all():
            raise ValueError("entries(rows, columns) must return finite numbers only, got NaN or infinity")
        self.touched += block.size
        return shifted(block, -self.unit) if self.unit else block


def in_chunks(entries: Entries, rows: Array, columns: Array) -> Array:
    """A block, asked for in parts if it is large."""
    if rows.size * columns.size <= CHUNK:
        return entries(rows, columns)
    block = np.empty((rows.size, columns.size), entries.dtype)
    height = max(CHUNK // max(columns.size, 1), 1)
    width = max(CHUNK // min(height, max(rows.size, 1)), 1)
    for top in range(0, rows.size, height):
        for left in range(0, columns.size, width):
            some, others = rows[top : top + height], columns[left : left + width]
            block[top : top + height, left : left + width] = entries(some, others)
    return block


def sampled_lines(
    clusters: Clusters,
    level: int,
    i: int,
    count: int,
    random: np.random.RandomState,
    points: Array | None = None,
) -> Array:
    """Some lines of a cluster, or all if it has no more: half of them spread evenly, half denser at its ends.

    Each is drawn at random from a stretch of its own. Functions that are smooth, or oscillate evenly, over the
    cluster are determined by such samples. Points in the plane or in space have no two ends: there, the outermost
    ones in random directions are among the sample.
    """
    lines = clusters.lines(level, i)
    if count >= lines.size:
        return lines
    if points is None or points.shape[1] == 1:
        return lines[spread(lines.size, count, random)]
    directions = random.standard_normal((points.shape[1], count // 2))
    outer = np.unique(np.argmax(points[lines] @ directions, axis=0))
    return lines[np.union1d(outer, spread(lines.size, count - outer.size, random))]


def spread(size: int, count: int, random: np.random.RandomState) -> Array:
    """``count`` different places of ``size``, in order: half of them spread evenly, half denser at the ends."""
    if count >= size:
        return np.arange(size)
    half = count // 2
    even = (np.arange(count - half) + random.random_sample(count - half)) / (count - half)
    dense = (1 - np.cos(np.pi * (np.arange(half) + random.random_sample(half)) / max(half, 1))) / 2
    places = np.unique((np.concatenate([even, dense]) * size).astype(np.int64))
    missing = count - places.size
    if missing > 0:
        others = np.setdiff1d(random.randint(size, size=4 * missing), places)
        places = np.sort(np.concatenate([places, random.permutation(others)[:missing]]))
    return places
