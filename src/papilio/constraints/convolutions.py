"""Periodic convolutions: circulant matrices, on a line or on an image, with values at given places only."""

from typing import Any

import numpy as np

from ..linalg import rescaled, wide
from ..typing import Array, ArrayLike
from ..validation import as_integer
from .base import UnitNorm
from .places import Grid, as_grid, as_places, require_places, sources
from .selection import largest
from .structure import as_side


class Circulant(UnitNorm):
    """{A : a_ij depends only on i − j on a periodic grid, at most n_diagonals values non-zero, ‖A‖_F = 1}.

    A is the matrix of a periodic convolution with the kernel h: a_ij = h(i − j). On a line of n points, i − j is
    taken modulo n, and A is circulant. On a grid of rows and columns, i and j are points in row-major order, i − j
    is taken along each axis, and A is block circulant with circulant blocks. Each value of h stands on a
    (generalised) diagonal of n entries. The projection averages over each diagonal that ``support`` allows, and
    keeps the largest averages.

    Parameters
    ----------
    n : int or (int, int)
        The number of rows and of columns.
    n_diagonals : int, optional
        The largest number of non-zero diagonals, of n entries each; by default all that ``support`` allows.
    support : (n_places,) or (n_places, 2) array of int, optional
        Where h may be non-zero: values of i − j, in two dimensions pairs of rows and columns. Negative ones count
        from the end of the grid. By default everywhere.
    grid : int or (int, int), optional
        The sides of the grid, n points in all; by default a line of n points.

    See Also
    --------
    papilio.convolution_chain : Finds kernels much faster than PALM with these sets.

    Examples
    --------
    >>> from papilio.constraints import Circulant
    >>> Circulant(4, n_diagonals=1).project([[4, 1, 0, 0], [0, 5, 1, 0], [0, 0, 3, 1], [1, 0, 0, 4]])
    array([[0.5, 0. , 0. , 0. ],
           [0. , 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0. ],
           [0. , 0. , 0. , 0.5]])

    Kernels of 3×3 on an image of 16×16:

    >>> box = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)]
    >>> Circulant(256, support=box, grid=(16, 16)).n_nonzero
    2304
    """

    free_on_support = False

    def __init__(
        self,
        n: int | tuple[int, int],
        n_diagonals: int | None = None,
        *,
        support: ArrayLike | None = None,
        grid: int | tuple[int, int] | None = None,
    ) -> None:
        side = as_side(n)
        self.grid = (side,) if grid is None else _as_grid(grid, side)
        self.shape = (side, side)
        self._is_limited = support is not None
        self.support = _as_support(support, self.grid)
        most = len(self.support)
        self._count = most if n_diagonals is None else as_integer("n_diagonals", n_diagonals, 1, most)
        self.n_nonzero = self._count * side
        # The flat places of each diagonal, one row per diagonal.
        self._places: Array = (sources(self.support, self.grid) + side * np.arange(side)[:, None]).T.copy()

    def _coordinates(self, matrix: Array) -> Array:
        matrix = rescaled(matrix)  # or sums could overflow
        sums = matrix.ravel()[self._places].sum(axis=1, dtype=wide(matrix.dtype))
        return (sums / np.sqrt(self.shape[0])).astype(matrix.dtype)

    def _matrix(self, coordinates: Array) -> Array:
        members = np.zeros(self.shape, coordinates.dtype)
        values = coordinates / coordinates.real.dtype.type(np.sqrt(self.shape[0]))
        members.ravel()[self._places] = values[:, None]
        return members

    def _select(self, worth: Array) -> Array:
        return largest(worth, self._count)

    def _describe(self) -> str:
        places = self.support.ravel() if len(self.grid) == 1 else self.support
        support = f", support={places.tolist()}" if self._is_limited else ""
        grid = f", grid={self.grid}" if len(self.grid) > 1 else ""
        return f"{self.shape}, {self._count}{support}{grid}"


def _as_grid(grid: Any, n: int) -> Grid:
    sides = as_grid("grid", grid)
    if int(np.prod(sides)) != n:
        raise ValueError(f"grid must have n = {n} points, got {sides}, which has {int(np.prod(sides))}")
    return sides


def _as_support(support: Any, grid: Grid) -> Array:
    """The places, in the order in which their diagonals begin in row-major order."""
    if support is None:
        places = np.indices(grid).reshape(len(grid), -1).T
    else:
        places = as_places("support", support)
        if places.shape[1] != len(grid):
            raise ValueError(
                f"support must have places in {len(grid)} dimensions, as grid {grid} has, got {places.shape[1]}"
            )
        require_places("support", places, grid)
    return places[np.argsort(sources(places, grid)[0])] % np.array(grid)
