"""Trees of rows and columns for nested low rank: as lines stand, from coordinates, or found from the matrix."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...linalg import frobenius
from ...runtime.session import Session
from ...typing import Array
from .clusters import Clusters, clusters_in_order, clusters_of_both, clusters_of_points
from .co_bisection import clusters_of_matrix, places_of
from .coordinates import Coordinates

_BEHIND, _EQUAL = 10.0, 1e-10  # a tail larger than these times and by this much is that of a worse order
_LOW_RANK = 0.01  # the energy beyond a rank of a quarter that blocks of low rank have at most, of all
_MOST_LINES = 256  # that are looked at for it


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

    A quick look at some lines, to tell noise and fast transforms from kernels.
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
