"""Cluster trees: rows or columns of a matrix, halved repeatedly, so that neighbours share clusters.

Trees stand in the given order, or come from coordinates, or from the matrix itself: rows and columns are halved
together. The sizes of the entries, B = |M|, are the weights of a graph between rows and columns. With the sums of
its rows and columns as diagonal matrices D and E, the second singular vectors of D^(−1/2)·B·E^(−1/2) are a relaxed
normalised cut (Dhillon 2001): rows and columns of like sign belong together. The next vectors tell more of where
each line lies. Rows and columns are points in the space of a few of these, and are cut across the direction in
which they spread most, in the middle, so that halves have equal sizes. Then each half is cut in the same way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...linalg import frobenius
from ...runtime.session import Session
from ...runtime.threads import blas_threads
from ...typing import Array
from ...validation import as_numbers, require_finite

_DIRECTIONS = 3  # iterations for the direction in which points spread most
# Of rows and of columns, one point per line; None for lines that are clustered as they stand.
Coordinates: TypeAlias = tuple[Array | None, Array | None]

_RANGE = 1e100  # Squares of larger numbers may overflow.
_STEPS = 8  # Steps of subspace iteration, each with the matrix and its adjoint.
_VECTORS = 6  # Vectors of the subspace.
_PLACED = 2  # singular vectors that places are made of: as many as points in the plane need
_AROUND = 3  # lines that places are found from, over those of a cluster: beyond its ends, too
_WHOLE = 4  # clusters of at least this part of all lines are seen by themselves
_BEHIND, _EQUAL = 10.0, 1e-10  # a tail larger than these times and by this much is that of a worse order
_LOW_RANK = 0.01  # the energy beyond a rank of a quarter that blocks of low rank have at most, of all
_MOST_LINES = 256  # Lines that are sampled for it.


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


def bisected_together(
    shape: tuple[int, int], depth: int, arranged: Callable[[Array, Array], tuple[Array, Array]]
) -> tuple[Clusters, Clusters]:
    """Trees of rows and of columns: clusters of equal number are arranged together, and cut in the middle."""
    orders = [np.arange(count) for count in shape]
    bounds = [_bounds(count, depth) for count in shape]
    for level in range(depth):
        parts = [np.split(order, ends[level][1:-1]) for order, ends in zip(orders, bounds, strict=True)]
        pairs = [arranged(*lines) for lines in zip(*parts, strict=True)]
        orders = [np.concatenate(lines) for lines in zip(*pairs, strict=True)]
    rows, columns = (Clusters(order, ends) for order, ends in zip(orders, bounds, strict=True))
    return rows, columns


def _bounds(count: int, depth: int) -> tuple[Array, ...]:
    """Where the clusters of each level begin and end."""
    bounds = [np.array([0, count])]
    for _ in range(depth):
        ends = bounds[-1]
        middles = (ends[:-1] + ends[1:] + 1) // 2
        bounds.append(np.append(np.column_stack([ends[:-1], middles]).ravel(), count))
    return tuple(bounds)


def clusters_in_order(count: int, depth: int) -> Clusters:
    """Runs of neighbouring lines, as they stand."""
    return Clusters(np.arange(count), _bounds(count, depth))


def clusters_of_points(points: Array, depth: int, check: Callable[[], None] = lambda: None) -> Clusters:
    """Clusters of points (n, d), each cut across the direction in which it spreads most."""
    return clusters_of_both(points, points[:0], depth, check)[0]


def clusters_of_both(
    rows: Array, columns: Array, depth: int, check: Callable[[], None] = lambda: None
) -> tuple[Clusters, Clusters]:
    """Clusters of two sets of points in one space: pairs of clusters are cut across one direction.

    ``check`` is called now and then, and may raise.
    """
    points, m = np.concatenate([rows, columns]), len(rows)
    orders = [np.arange(m), np.arange(m, len(points))]
    bounds = [_bounds(m, depth), _bounds(len(columns), depth)]
    labels = np.zeros(len(points), np.int64)
    for level in range(depth):
        along = _along(points, labels, 1 << level, check)
        for side, ends in enumerate(bounds):
            order = orders[side]
            orders[side] = order[np.lexsort((along[order], labels[order]))]
            labels[orders[side]] = np.repeat(np.arange(2 << level), np.diff(ends[level + 1]))
    first, second = Clusters(orders[0], bounds[0]), Clusters(orders[1] - m, bounds[1])
    return first, second


def _along(points: Array, labels: Array, count: int, check: Callable[[], None]) -> Array:
    """The place of each point along the direction in which the points with its label spread most."""

    def sums(values: Array) -> Array:
        check()
        return np.stack([np.bincount(labels, each, count) for each in values.T], axis=1)

    centred = points - (sums(points) / np.maximum(np.bincount(labels, minlength=count), 1)[:, None])[labels]
    directions = np.sqrt(sums(centred**2))  # a start that leans to the widest axis
    directions[np.arange(count), np.argmax(directions, axis=1)] *= 2
    for _ in range(_DIRECTIONS if points.shape[1] > 1 else 0):
        directions = sums(centred * np.sum(centred * directions[labels], axis=1, keepdims=True))
        norms = np.linalg.norm(directions, axis=1, keepdims=True)
        directions /= np.where(norms > 0, norms, 1.0)
    return np.asarray(np.sum(centred * directions[labels], axis=1))


def widest_direction(centred: Array) -> Array:
    """The leading right singular vector of points around their mean, by a few iterations."""
    direction = np.sqrt(np.einsum("ij,ij->j", centred, centred))  # a start that leans to the widest axis
    direction[np.argmax(direction)] *= 2
    for _ in range(_DIRECTIONS if centred.shape[1] > 1 else 0):
        direction = centred.T @ (centred @ direction)
        direction /= np.linalg.norm(direction) or 1.0
    return direction


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
        raise ValueError(f"{name} must be given for rows and for columns for an implicit matrix")
    if rows.shape[1] != columns.shape[1]:
        raise ValueError(
            f"{name} must have points of one dimension, got {rows.shape[1]} for rows and {columns.shape[1]} "
            "for columns"
        )
    return rows, columns


def clusters_of_matrix(session: Session, matrix: Array, depth: int) -> tuple[Clusters, Clusters]:
    """Trees of rows and columns of a matrix, whose clusters of equal number belong together."""
    weights = np.abs(matrix).astype(np.float32)
    m, n = matrix.shape

    def arranged(rows: Array, columns: Array) -> tuple[Array, Array]:
        session.check()
        if min(rows.size, columns.size) < 2:
            return rows, columns
        around = rows, columns
        if _WHOLE * rows.size <= m and _WHOLE * columns.size <= n:
            around = (
                _with_neighbours(rows, weights[:, columns].sum(axis=1)),
                _with_neighbours(columns, weights[rows].sum(axis=0)),
            )
        block = weights if rows.size == m else weights[np.ix_(*around)]

        def work() -> tuple[Array, Array]:
            with blas_threads(_VECTORS * block.size):
                return places_of(block)

        places = session.wait(work, 2 * _STEPS * _VECTORS * block.size)
        points = np.concatenate([places[0][: rows.size], places[1][: columns.size]])
        points -= points.mean(axis=0)
        along = points @ widest_direction(points)
        return (
            rows[np.argsort(along[: rows.size], kind="stable")],
            columns[np.argsort(along[rows.size :], kind="stable")],
        )

    return bisected_together(matrix.shape, depth, arranged)


def _with_neighbours(lines: Array, weights: Array) -> Array:
    """Lines, followed by those others that have the largest weights, three times as many in all."""
    weights = weights.copy()
    weights[lines] = -1
    count = (_AROUND - 1) * lines.size
    return np.concatenate([lines, np.argpartition(-weights, count - 1)[:count]])


def places_of(weights: Array) -> tuple[Array, Array]:
    """Points for rows and columns: singular vectors of the normalised weights from the second on, unnormalised."""
    roots = [np.sqrt(np.maximum(weights.sum(axis=axis), np.finfo(np.float32).tiny)) for axis in (1, 0)]
    scaled = weights / roots[0][:, None]
    scaled /= roots[1]
    firsts = [root / np.linalg.norm(root) for root in roots]
    count = min(_VECTORS, *weights.shape)
    basis = np.random.default_rng(0).standard_normal((weights.shape[1], count), np.float32)
    for _ in range(_STEPS):
        left = _orthonormal(scaled @ basis, firsts[0])
        basis = _orthonormal(scaled.T @ left, firsts[1])
    U, sizes, V = np.linalg.svd(scaled @ basis, full_matrices=False)
    lengths = sizes[:_PLACED]
    return U[:, :_PLACED] * lengths / roots[0][:, None], (basis @ V[:_PLACED].T) * lengths / roots[1][:, None]


def _orthonormal(vectors: Array, first: Array) -> Array:
    """An orthonormal basis of vectors, without their part along the first singular vector."""
    return np.linalg.qr(vectors - np.multiply.outer(first, first @ vectors))[0]


class Tree(NamedTuple):
    """Clusters of rows and columns, of equal depth, and where they are from."""

    rows: Clusters
    columns: Clusters
    name: str


def trees_of(
    session: Session, matrix: Array, coordinates: Coordinates | None, depth: int
) -> list[Callable[[], Tree]]:
    """The trees to choose from; each is made when it is called."""
    m, n = matrix.shape

    def in_order() -> Tree:
        return Tree(clusters_in_order(m, depth), clusters_in_order(n, depth), "in order")

    def found() -> Tree:
        return Tree(*clusters_of_matrix(session, matrix, depth), "of rows and columns found together")

    if coordinates is not None:
        return [lambda: _tree_of_points(coordinates, matrix.shape, depth)]
    standing, together = _tails(matrix)
    if standing > _BEHIND * together + _EQUAL:
        return [found]
    return [in_order] if together > _BEHIND * standing + _EQUAL else [in_order, found]


def may_be_nested(matrix: Array) -> bool:
    """Whether halves of rows and columns have two blocks that are nearly of low rank: as they stand, or found.

    A quick test of some lines, which distinguishes kernels from noise and fast transforms.
    """
    return min(_tails(matrix)) < _LOW_RANK


def _tails(matrix: Array) -> tuple[float, float]:
    """The least energy beyond a low rank with lines as they stand, and as they are found to belong together."""
    rows, columns = (np.unique(np.linspace(0, count - 1, _MOST_LINES).astype(int)) for count in matrix.shape)
    some = matrix[np.ix_(rows, columns)]
    places = places_of(np.abs(some).astype(np.float32))
    found = [np.argsort(place[:, 0], kind="stable") for place in places]
    return _least_tail(some), _least_tail(some[np.ix_(*found)])


def _least_tail(matrix: Array) -> float:
    """The energy of two opposite quarters beyond a low rank, relative to all."""
    tails = []
    for half in np.array_split(matrix, 2):
        for block in np.array_split(half, 2, axis=1):
            energies = np.linalg.svd(block, compute_uv=False).astype(np.float64) ** 2
            tails.append(energies[energies.size // 4 :].sum())
    total = frobenius(matrix) ** 2
    return float(min(tails[0] + tails[3], tails[1] + tails[2]) / total) if total > 0 else 0.0


def _tree_of_points(coordinates: Coordinates, shape: tuple[int, int], depth: int) -> Tree:
    rows, columns = coordinates
    if rows is not None and columns is not None and rows.shape[1] == columns.shape[1]:
        return Tree(*clusters_of_both(rows, columns, depth), "from coordinates")
    sides = [
        clusters_in_order(count, depth) if points is None else clusters_of_points(points, depth)
        for points, count in zip(coordinates, shape, strict=True)
    ]
    return Tree(sides[0], sides[1], "from coordinates")
