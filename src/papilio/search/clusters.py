"""Clusters: rows or columns of a matrix, halved again and again, so that neighbours share clusters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..typing import Array
from ..validation import as_numbers, require_finite

_DIRECTIONS = 3  # iterations for the direction in which points spread most


class Clusters(NamedTuple):
    """A binary tree over lines, which are rows or columns.

    ``order`` lists the lines, and the clusters of each level are runs of it: cluster i of level l holds
    ``order[bounds[l][i]:bounds[l][i + 1]]``. Its halves are the clusters 2i and 2i + 1 of level l + 1. Level 0 is
    one cluster of all lines.
    """

    order: Array
    bounds: tuple[Array, ...]

    @property
    def depth(self) -> int:
        """The last level, that of the leaves."""
        return len(self.bounds) - 1

    def lines(self, level: int, i: int) -> Array:
        """The lines of cluster i of a level."""
        return self.order[self.bounds[level][i] : self.bounds[level][i + 1]]

    def sizes(self, level: int) -> Array:
        """The number of lines of each cluster of a level."""
        return np.diff(self.bounds[level])

    def until(self, depth: int) -> "Clusters":
        """The tree without the levels below ``depth``."""
        return Clusters(self.order, self.bounds[: depth + 1])


def bisected(count: int, depth: int, arranged: Callable[[Array], Array]) -> Clusters:
    """A tree of ``count`` lines: each cluster is arranged in some order, and cut in the middle."""
    order, bounds = np.arange(count), [np.array([0, count])]
    for _ in range(depth):
        order = np.concatenate([arranged(part) for part in np.split(order, bounds[-1][1:-1])])
        ends = bounds[-1]
        middles = (ends[:-1] + ends[1:] + 1) // 2
        bounds.append(np.append(np.column_stack([ends[:-1], middles]).ravel(), count))
    return Clusters(order, tuple(bounds))


def clusters_in_order(count: int, depth: int) -> Clusters:
    """Runs of neighbouring lines, as they stand."""
    return bisected(count, depth, lambda lines: lines)


def clusters_of_points(points: Array, depth: int) -> Clusters:
    """Clusters of points (n, d), one per line: each is cut across the direction in which it spreads most."""

    def arranged(lines: Array) -> Array:
        centred = points[lines] - points[lines].mean(axis=0)
        return lines[np.argsort(centred @ _widest_direction(centred), kind="stable")]

    return bisected(len(points), depth, arranged)


def _widest_direction(centred: Array) -> Array:
    """The leading right singular vector of points around their mean, by a few iterations."""
    direction = np.sqrt(np.einsum("ij,ij->j", centred, centred))  # a start that leans to the widest axis
    direction[np.argmax(direction)] *= 2
    for _ in range(_DIRECTIONS if centred.shape[1] > 1 else 0):
        direction = centred.T @ (centred @ direction)
        direction /= np.linalg.norm(direction) or 1.0
    return direction


def as_coordinates(name: str, value: Any, shape: tuple[int, int]) -> tuple[Array, Array]:
    """``value`` as the points of the rows and of the columns of a matrix, (m, d) and (n, d)."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (rows, columns) of arrays, got {type(value).__name__}")
    found = []
    for i, (points, count, lines) in enumerate(zip(value, shape, ("rows", "columns"), strict=True)):
        array = as_numbers(f"{name}[{i}]", points)
        if array.dtype.kind == "c":
            raise TypeError(f"{name}[{i}] must hold real numbers, got dtype {array.dtype}")
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or len(array) != count or array.shape[1] == 0:
            raise ValueError(
                f"{name}[{i}] must have shape ({count},) or ({count}, d), one point for each of {count} {lines}, "
                f"got {np.shape(points)}"
            )
        require_finite(f"{name}[{i}]", array)
        found.append(array.astype(np.float64))
    if found[0].shape[1] != found[1].shape[1]:
        raise ValueError(
            f"{name} must have points of one dimension, got {found[0].shape[1]} for rows and {found[1].shape[1]} "
            "for columns"
        )
    return found[0], found[1]
