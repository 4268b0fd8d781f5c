"""Clusters: rows or columns of a matrix, halved again and again, so that neighbours share clusters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...typing import Array

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
    return bisected_together((count, 0), depth, lambda lines, _: (arranged(lines), _))[0]


def bisected_together(
    shape: tuple[int, int], depth: int, arranged: Callable[[Array, Array], tuple[Array, Array]]
) -> tuple[Clusters, Clusters]:
    """Trees of rows and of columns: clusters of equal number are arranged together, and cut in the middle."""
    orders = [np.arange(count) for count in shape]
    bounds = [[np.array([0, count])] for count in shape]
    for _ in range(depth):
        parts = [np.split(order, ends[-1][1:-1]) for order, ends in zip(orders, bounds, strict=True)]
        pairs = [arranged(*lines) for lines in zip(*parts, strict=True)]
        orders = [np.concatenate(lines) for lines in zip(*pairs, strict=True)]
        for own, count in zip(bounds, shape, strict=True):
            ends = own[-1]
            middles = (ends[:-1] + ends[1:] + 1) // 2
            own.append(np.append(np.column_stack([ends[:-1], middles]).ravel(), count))
    rows, columns = (Clusters(order, tuple(own)) for order, own in zip(orders, bounds, strict=True))
    return rows, columns


def clusters_in_order(count: int, depth: int) -> Clusters:
    """Runs of neighbouring lines, as they stand."""
    return bisected(count, depth, lambda lines: lines)


def clusters_of_points(points: Array, depth: int) -> Clusters:
    """Clusters of points (n, d), one per line: each is cut across the direction in which it spreads most."""

    def arranged(lines: Array) -> Array:
        if lines.size < 2:
            return lines
        centred = points[lines] - points[lines].mean(axis=0)
        return lines[np.argsort(centred @ widest_direction(centred), kind="stable")]

    return bisected(len(points), depth, arranged)


def clusters_of_both(rows: Array, columns: Array, depth: int) -> tuple[Clusters, Clusters]:
    """Clusters of two sets of points in one space: pairs of clusters are cut across one direction."""

    def arranged(own: Array, others: Array) -> tuple[Array, Array]:
        if own.size + others.size < 2:
            return own, others
        points = np.concatenate([rows[own], columns[others]])
        centred = points - points.mean(axis=0)
        along = centred @ widest_direction(centred)
        places = along[: own.size], along[own.size :]
        return own[np.argsort(places[0], kind="stable")], others[np.argsort(places[1], kind="stable")]

    return bisected_together((len(rows), len(columns)), depth, arranged)


def widest_direction(centred: Array) -> Array:
    """The leading right singular vector of points around their mean, by a few iterations."""
    direction = np.sqrt(np.einsum("ij,ij->j", centred, centred))  # a start that leans to the widest axis
    direction[np.argmax(direction)] *= 2
    for _ in range(_DIRECTIONS if centred.shape[1] > 1 else 0):
        direction = centred.T @ (centred @ direction)
        direction /= np.linalg.norm(direction) or 1.0
    return direction
