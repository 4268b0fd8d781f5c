"""Where the rows and columns of a matrix lie, as far as users know it."""

from typing import Any, TypeAlias

import numpy as np

from ...typing import Array
from ...validation import as_numbers, require_finite

# Of rows and of columns, one point per line; None for lines that are clustered as they stand.
Coordinates: TypeAlias = tuple[Array | None, Array | None]

_RANGE = 1e100  # beyond it, squares are not far from the limits of the number range


def as_coordinates(name: str, value: Any, shape: tuple[int, int]) -> Coordinates | None:
    """A pair of arrays (m, d) and (n, d'), or (m,) and (n,), as float64; each may be None."""
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (rows, columns) of arrays, got {type(value).__name__}")
    rows, columns = (
        _as_points(f"{name}[{i}]", each, count, lines)
        for i, (each, count, lines) in enumerate(zip(value, shape, ("rows", "columns"), strict=True))
    )
    size = max((float(np.abs(points).max()) for points in (rows, columns) if points is not None), default=1.0)
    unit = 1.0 if size == 0 or 1 / _RANGE < size < _RANGE else size
    return None if rows is None else rows / unit, None if columns is None else columns / unit


def _as_points(name: str, value: Any, count: int, lines: str) -> Array | None:
    if value is None:
        return None
    points = as_numbers(name, value)
    if points.dtype.kind == "c":
        raise TypeError(f"{name} must hold real numbers, got dtype {points.dtype}")
    if points.ndim not in (1, 2) or points.size == 0 or len(points) != count:
        raise ValueError(
            f"{name} must have shape ({count},) or ({count}, d), one point for each of {count} {lines}, "
            f"got {points.shape}"
        )
    require_finite(name, points)
    return points.astype(np.float64).reshape(count, -1)


def in_one_space(name: str, coordinates: Coordinates | None) -> tuple[Array, Array] | None:
    """The points of rows and of columns, where distances between them are needed."""
    if coordinates is None:
        return None
    rows, columns = coordinates
    if rows is None or columns is None:
        raise ValueError(f"{name} must be given for rows and for columns where the matrix is not stored")
    if rows.shape[1] != columns.shape[1]:
        raise ValueError(
            f"{name} must have points of one dimension, got {rows.shape[1]} for rows and {columns.shape[1]} "
            "for columns"
        )
    return rows, columns
