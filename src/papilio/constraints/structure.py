"""Sets with a structure: triangular, block diagonal, symmetric, Toeplitz, Hankel, and circulant.

All projections are exact. Those onto triangular and (block) diagonal matrices are those of `Support`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.linalg

from ..linalg import rescaled, wide
from ..typing import Array, ArrayLike
from ..validation import as_flag, as_integer, as_shape, is_series
from .base import UnitNorm, largest, slack_of
from .places import Grid, as_grid, as_places, require_places, sources
from .sparsity import Support


class Triangular(Support):
    """{A : A lower (or upper) triangular, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    n_nonzero : int, optional
        The largest number of non-zero entries; by default the whole triangle.
    lower : bool, default=True
        Whether members are lower triangular; upper triangular if False. The diagonal belongs to both triangles.

    Examples
    --------
    >>> from papilio.constraints import Triangular
    >>> Triangular(2).project([[2, 5], [1, 2]])
    array([[0.66666667, 0.        ],
           [0.33333333, 0.66666667]])
    """

    def __init__(self, shape: int | tuple[int, int], n_nonzero: int | None = None, *, lower: bool = True) -> None:
        full = np.ones(as_shape("shape", shape), dtype=bool)
        super().__init__(np.tril(full) if as_flag("lower", lower) else np.triu(full), n_nonzero)


class Diagonal(Support):
    """{A : A is zero off the diagonal, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    n_nonzero : int, optional
        The largest number of non-zero entries; by default the whole diagonal.

    Examples
    --------
    >>> from papilio.constraints import Diagonal
    >>> Diagonal(2).project([[3, 7], [7, 4]])
    array([[0.6, 0. ],
           [0. , 0.8]])
    """

    def __init__(self, shape: int | tuple[int, int], n_nonzero: int | None = None) -> None:
        super().__init__(np.eye(*as_shape("shape", shape), dtype=bool), n_nonzero)


class BlockDiagonal(Support):
    """{A : A is zero outside blocks along the diagonal, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}.

    Parameters
    ----------
    blocks : sequence of int or (int, int)
        Rows and columns of each block, from the upper left one on; one integer n stands for (n, n).
    n_nonzero : int, optional
        The largest number of non-zero entries; by default all entries of the blocks.

    Examples
    --------
    >>> from papilio.constraints import BlockDiagonal
    >>> BlockDiagonal([1, (1, 2)]).project([[2, 9, 9], [9, 1, 2]])
    array([[0.66666667, 0.        , 0.        ],
           [0.        , 0.33333333, 0.66666667]])
    """

    def __init__(self, blocks: Iterable[int | tuple[int, int]], n_nonzero: int | None = None) -> None:
        if not is_series(blocks):
            raise TypeError(f"blocks must be a sequence of block shapes, got {blocks!r}")
        shapes = [as_shape(f"blocks[{i}]", shape) for i, shape in enumerate(blocks)]
        if not shapes:
            raise ValueError("blocks must hold at least one block shape, got none")
        super().__init__(scipy.linalg.block_diag(*(np.ones(shape, dtype=bool) for shape in shapes)), n_nonzero)


class _Tied(UnitNorm):
    """Matrices whose entries are equal within groups; sparsity counts groups, the free parameters.

    For a group g of |g| places, the orthonormal coordinate is Σ_g a / √|g|. Signs and sparsity are therefore
    decided on the averages of groups, and of equal averages that of the larger group counts more.
    """

    free_on_support = False

    def __init__(self, labels: Array, name: str, count: int | None, most: int | None = None) -> None:
        """Group the places by ``labels``; groups are numbered by their first place in row-major order.

        ``count``, called ``name`` in errors, is the limit, by default ``most``, which is by default all groups.
        """
        _, first, groups = np.unique(labels.ravel(), return_index=True, return_inverse=True)
        self.shape = labels.shape
        self._groups: Array = np.argsort(np.argsort(first))[groups]
        self._sizes: Array = np.bincount(self._groups)
        most = most or self._sizes.size
        self._count = most if count is None else as_integer(name, count, 1, most)
        self.n_nonzero = int(np.sort(self._sizes)[-self._count :].sum())

    def _coordinates(self, matrix: Array) -> Array:
        matrix = rescaled(matrix)  # Otherwise sums could overflow.
        sums = np.bincount(self._groups, weights=matrix.real.ravel())
        if matrix.dtype.kind == "c":
            sums = sums + 1j * np.bincount(self._groups, weights=matrix.imag.ravel())
        return (sums / np.sqrt(self._sizes)).astype(matrix.dtype)

    def _matrix(self, coordinates: Array) -> Array:
        values = coordinates / np.sqrt(self._sizes).astype(coordinates.real.dtype)
        return values[self._groups].reshape(self.shape)

    def _select(self, score: Array) -> Array:
        return largest(score, self._count)

    def _describe(self) -> str:
        return f"{self.shape}, {self._count}"


class Toeplitz(_Tied):
    """{A : a_ij depends only on i − j, at most n_diagonals of these values non-zero, ‖A‖_F = 1}.

    The projection averages over each diagonal and keeps those whose averages, times the root of their length, are
    largest.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    n_diagonals : int, optional
        The largest number of non-zero diagonals; by default rows + columns − 1.

    Examples
    --------
    >>> from papilio.constraints import Toeplitz
    >>> Toeplitz((2, 5), n_diagonals=2).project([[4, 1, 0, 5, 0], [0, 2, 1, 0, 3]])
    array([[0.42426407, 0.        , 0.        , 0.56568542, 0.        ],
           [0.        , 0.42426407, 0.        , 0.        , 0.56568542]])
    """

    def __init__(self, shape: int | tuple[int, int], n_diagonals: int | None = None) -> None:
        rows, columns = as_shape("shape", shape)
        super().__init__(np.subtract.outer(np.arange(rows), np.arange(columns)), "n_diagonals", n_diagonals)


class Hankel(_Tied):
    """{A : a_ij depends only on i + j, at most n_antidiagonals of these values non-zero, ‖A‖_F = 1}.

    The projection averages over each antidiagonal and keeps those whose averages, times the root of their length,
    are largest.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    n_antidiagonals : int, optional
        The largest number of non-zero antidiagonals; by default rows + columns − 1.

    Examples
    --------
    >>> from papilio.constraints import Hankel
    >>> Hankel((2, 2), n_antidiagonals=1).project([[1, 3], [5, 0]])
    array([[0.        , 0.70710678],
           [0.70710678, 0.        ]])
    """

    def __init__(self, shape: int | tuple[int, int], n_antidiagonals: int | None = None) -> None:
        rows, columns = as_shape("shape", shape)
        super().__init__(np.add.outer(np.arange(rows), np.arange(columns)), "n_antidiagonals", n_antidiagonals)


class Symmetric(_Tied):
    """{A : A = Aᵀ, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}, for complex matrices too (Aᵀ, not Aᴴ).

    A pair of entries off the diagonal counts as two. The best support holds the largest a diagonal entries and the
    largest ⌊(n_nonzero − a)/2⌋ pairs, for the best a; of equally good values of a, the largest is taken.

    Parameters
    ----------
    n : int or (int, int)
        The number of rows and of columns.
    n_nonzero : int, optional
        The largest number of non-zero entries; by default n².

    Examples
    --------
    >>> from papilio.constraints import Symmetric
    >>> Symmetric(2, n_nonzero=2).project([[1, 2], [4, 0]])
    array([[0.        , 0.70710678],
           [0.70710678, 0.        ]])
    """

    def __init__(self, n: int | tuple[int, int], n_nonzero: int | None = None) -> None:
        side = as_side(n)
        row, column = np.indices((side, side))
        labels = np.minimum(row, column) * side + np.maximum(row, column)
        super().__init__(labels, "n_nonzero", n_nonzero, side * side)
        self.n_nonzero = self._count

    def _may_stand_alone(self) -> Array | None:
        return self._sizes <= self.n_nonzero

    def _select(self, score: Array) -> Array:
        diagonal = self._sizes == 1
        # Sums of what is lost, not of what is kept: beside large squares, small ones would be lost in rounding.
        lost_diagonal = _lost(score[diagonal])
        lost_pairs = _lost(score[~diagonal])
        n_diagonal = np.arange(min(lost_diagonal.size, self.n_nonzero + 1))
        n_pairs = np.minimum((self.n_nonzero - n_diagonal) // 2, lost_pairs.size - 1)
        lost = lost_diagonal[n_diagonal] + lost_pairs[n_pairs]
        n_diagonal = n_diagonal[lost <= lost.min() * (1 + slack_of(score))][-1]
        mask = np.zeros(score.shape, dtype=bool)
        mask[diagonal] = largest(score[diagonal], int(n_diagonal))
        mask[~diagonal] = largest(score[~diagonal], int(n_pairs[n_diagonal]))
        return mask


def _lost(score: Array) -> Array:
    """The sum of all squares but the k largest, for k = 0, 1, …"""
    squares = np.sort(np.square(score, dtype=np.float64))
    return np.concatenate([[0.0], np.cumsum(squares)])[::-1]


def as_side(n: Any) -> int:
    """The number of rows of a square matrix."""
    rows, columns = as_shape("n", n)
    if rows != columns:
        raise ValueError(f"n must be one integer or a square shape, got {n!r}")
    return rows


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
    papilio.convolution.convolution_chain : Finds kernels much faster than PALM with these sets.

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
        matrix = rescaled(matrix)  # Otherwise sums could overflow.
        sums = matrix.ravel()[self._places].sum(axis=1, dtype=wide(matrix.dtype))
        return (sums / np.sqrt(self.shape[0])).astype(matrix.dtype)

    def _matrix(self, coordinates: Array) -> Array:
        members = np.zeros(self.shape, coordinates.dtype)
        values = coordinates / coordinates.real.dtype.type(np.sqrt(self.shape[0]))
        members.ravel()[self._places] = values[:, None]
        return members

    def _select(self, score: Array) -> Array:
        return largest(score, self._count)

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
