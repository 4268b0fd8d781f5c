"""Sets with few entries: in all, per line, in blocks of rows that share their columns, or at given places."""

from math import ceil
from typing import Any

import numpy as np

from ..kernels.select import norms_of_blocks, spread
from ..typing import Array, ArrayLike, MatrixLike
from ..validation import as_array, as_flag, as_integer, as_real, as_shape, require_finite
from .base import UnitNorm, largest, largest_per_row_and_column, largest_with_columns


class Dense(UnitNorm):
    """{A : ‖A‖_F = 1}; the projection divides by the norm.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).

    Examples
    --------
    >>> from papilio.constraints import Dense
    >>> Dense((1, 2)).project([[3, -4]])
    array([[ 0.6, -0.8]])
    """

    def __init__(self, shape: int | tuple[int, int]) -> None:
        self.shape = as_shape("shape", shape)
        self.n_nonzero = self.shape[0] * self.shape[1]

    def _lines(self) -> tuple[int, int]:
        return 1, self.n_nonzero

    def _select(self, score: Array) -> Array:
        return score > 0


class Sparse(UnitNorm):
    """{A : ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}, the paper's set.

    The projection (appendix B) keeps the ``n_nonzero`` entries of largest magnitude and divides by their norm.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    n_nonzero : int
        The largest number of non-zero entries.
    every_column : bool
        Whether an entry of each column is spared: ‖A‖₀ is then at most ``n_nonzero`` less the number of columns of
        zeros. The projection keeps the largest entry of each column first, so that no column is lost to others,
        and with it an atom of a dictionary.

    Examples
    --------
    >>> from papilio.constraints import Sparse
    >>> Sparse((2, 3), 2).project([[3, 1, 0], [2, 0, -4]])
    array([[ 0.6,  0. ,  0. ],
           [ 0. ,  0. , -0.8]])
    >>> (Sparse((2, 3), 3, every_column=True).project([[3, 1, 0], [2, 0, -4]]) != 0).astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """

    def __init__(self, shape: int | tuple[int, int], n_nonzero: int, *, every_column: bool = False) -> None:
        self.shape = as_shape("shape", shape)
        self.every_column = as_flag("every_column", every_column)
        least = self.shape[1] if self.every_column else 1
        self.n_nonzero = as_integer("n_nonzero", n_nonzero, least, self.shape[0] * self.shape[1])

    def _lines(self) -> tuple[int, int] | None:
        return None if self.every_column else (1, self.n_nonzero)

    def _select(self, score: Array) -> Array:
        if self.every_column:
            return largest_with_columns(score, self.n_nonzero)
        return largest(score.ravel(), self.n_nonzero).reshape(self.shape)

    def relaxed(self, share: float) -> "Sparse":
        entries = between(self.n_nonzero, self.shape[0] * self.shape[1], share)
        return Sparse(self.shape, entries, every_column=self.every_column)

    def _describe(self) -> str:
        return f"{self.shape}, {self.n_nonzero}{', every_column=True' * self.every_column}"


class _SparseLines(UnitNorm):
    """At most k entries in each row, in each column, or in both."""

    def __init__(self, shape: int | tuple[int, int], k: int) -> None:
        self.shape = as_shape("shape", shape)
        self.k = as_integer("k", k, 1, self._length())
        self.n_nonzero = self.k * self.shape[0] * self.shape[1] // self._length()

    def _length(self) -> int:
        """The number of entries of the longest line: the largest k."""
        return max(self.shape)

    def relaxed(self, share: float) -> "_SparseLines":
        return type(self)(self.shape, between(self.k, self._length(), share))

    def _describe(self) -> str:
        return f"{self.shape}, {self.k}"


class SparseRows(_SparseLines):
    """{A : at most k entries in each row, ‖A‖_F = 1}.

    The projection is exact: it keeps the ``k`` entries of largest magnitude of each row.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    k : int
        The largest number of non-zero entries in a row.

    Examples
    --------
    >>> from papilio.constraints import SparseRows
    >>> SparseRows((2, 3), 1).project([[3, 1, 0], [2, 0, -4]])
    array([[ 0.6,  0. ,  0. ],
           [ 0. ,  0. , -0.8]])
    """

    def _length(self) -> int:
        return self.shape[1]

    def _lines(self) -> tuple[int, int]:
        return self.shape[0], self.k

    def _select(self, score: Array) -> Array:
        return largest(score, self.k)


class SparseColumns(_SparseLines):
    """{A : at most k entries in each column, ‖A‖_F = 1}.

    The projection is exact: it keeps the ``k`` entries of largest magnitude of each column.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    k : int
        The largest number of non-zero entries in a column.

    Examples
    --------
    >>> from papilio.constraints import SparseColumns
    >>> SparseColumns((3, 2), 1).project([[3, 1], [2, 0], [0, -4]])
    array([[ 0.6,  0. ],
           [ 0. ,  0. ],
           [ 0. , -0.8]])
    """

    def _length(self) -> int:
        return self.shape[0]

    def _select(self, score: Array) -> Array:
        return largest(score.T, self.k).T


class SparseRowsAndColumns(_SparseLines):
    """{A : at most k entries in each row and in each column, ‖A‖_F = 1}.

    The projection is not exact. The best support is a maximum-weight b-matching, which is approximated greedily,
    from the largest entry down, and improved by exchanges. For Gaussian matrices, compared with the optimum of a
    linear program, the support loses this share of ‖A‖²:

    ====== == ======== =======
    shape  k  mean     largest
    ====== == ======== =======
    8×8    2  0.4 %    6 %
    16×16  2  0.8 %    4 %
    32×32  2  1.2 %    2.4 %
    32×32  16 0.1 %    0.3 %
    ====== == ======== =======

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    k : int
        The largest number of non-zero entries in a row or column.

    Examples
    --------
    >>> from papilio.constraints import SparseRowsAndColumns
    >>> SparseRowsAndColumns(2, 1).project([[3, 1], [2, -4]])
    array([[ 0.6,  0. ],
           [ 0. , -0.8]])
    """

    exact = False

    def _select(self, score: Array) -> Array:
        return largest_per_row_and_column(score, self.k)


class Support(UnitNorm):
    """{A : A is zero outside ``mask``, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}.

    The projection is exact: it keeps the ``n_nonzero`` entries of largest magnitude within the mask.

    Parameters
    ----------
    mask : matrix of booleans
        Where entries may be non-zero, dense or sparse. Numbers other than zero count as True.
    n_nonzero : int, optional
        The largest number of non-zero entries; by default the whole mask.

    Examples
    --------
    >>> from papilio.constraints import Support
    >>> Support([[True, False], [True, True]]).project([[2, 5], [1, 2]])
    array([[0.66666667, 0.        ],
           [0.33333333, 0.66666667]])
    """

    def __init__(self, mask: MatrixLike, n_nonzero: int | None = None) -> None:
        array = as_array("mask", mask)
        if array.ndim != 2 or array.dtype.kind not in "biufc":
            raise ValueError(
                f"mask must be a matrix of booleans, got {array.ndim} dimensions of dtype {array.dtype}"
            )
        require_finite("mask", array)
        self._mask: Array = array.astype(bool)
        self.shape = self._mask.shape
        available = int(np.count_nonzero(self._mask))
        if available == 0:
            raise ValueError(f"mask must allow at least one entry, got none in shape {self.shape}")
        self.n_nonzero = available if n_nonzero is None else as_integer("n_nonzero", n_nonzero, 1, available)

    def _coordinates(self, matrix: Array) -> Array:
        return matrix[self._mask]

    def _matrix(self, coordinates: Array) -> Array:
        matrix = np.zeros(self.shape, dtype=coordinates.dtype)
        matrix[self._mask] = coordinates
        return matrix

    def _select(self, score: Array) -> Array:
        return largest(score, self.n_nonzero)

    def _describe(self) -> str:
        return f"{self.shape}, {self.n_nonzero} of {np.count_nonzero(self._mask)} places"


def between(entries: int, places: int, share: float) -> int:
    """entries^(1 − share) · places^share, rounded down."""
    share = as_real("share", share, 0.0, 1.0)
    return int(entries ** (1 - share) * places**share + 1e-9)


class SparseBlocks(UnitNorm):
    """{A : at most n_blocks blocks of a grid are non-zero, ‖A‖_F = 1}.

    The grid cuts A into blocks of p × q entries; those at the lower and right edge are smaller where p or q does
    not divide the sides of A. The projection is exact: it keeps the ``n_blocks`` blocks of largest Frobenius norm.

    With orders of rows and columns, the grid is that of A with its lines in these orders: block (I, J) consists of
    the rows r_{Ip}, …, r_{Ip+p−1} and the columns c_{Jq}, …, c_{Jq+q−1}, wherever these are.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).
    n_blocks : int
        The largest number of non-zero blocks.
    block : int or (int, int), default=(4, 4)
        Rows p and columns q of a block; one integer b stands for (b, b).
    row_order, column_order : sequence of int, optional
        The numbers of all rows (columns), group by group: the first p rows share their blocks, then the next p. By
        default the natural order.
    every_column : bool
        Whether a block of each group of columns is spared, so that there are at most ``n_blocks`` blocks less the
        groups of columns of zeros. The projection keeps the largest block of each group first.

    Examples
    --------
    >>> from papilio.constraints import SparseBlocks
    >>> SparseBlocks((2, 4), 1, block=(2, 2)).project([[5, 0, 0, 4], [0, 0, 4, 0]])
    array([[0.        , 0.        , 0.        , 0.70710678],
           [0.        , 0.        , 0.70710678, 0.        ]])
    >>> SparseBlocks((2, 4), 1, block=(2, 2), column_order=[0, 3, 1, 2]).project([[3, 0, 0, 0], [0, 4, 0, 4]])
    array([[0.6, 0. , 0. , 0. ],
           [0. , 0. , 0. , 0.8]])
    """

    def __init__(
        self,
        shape: int | tuple[int, int],
        n_blocks: int,
        block: int | tuple[int, int] = (4, 4),
        *,
        row_order: ArrayLike | None = None,
        column_order: ArrayLike | None = None,
        every_column: bool = False,
    ) -> None:
        self.shape = as_shape("shape", shape)
        self.block = as_block(block, self.shape)
        self.every_column = as_flag("every_column", every_column)
        least = ceil(self.shape[1] / self.block[1]) if self.every_column else 1
        self.n_blocks = as_integer("n_blocks", n_blocks, least, n_blocks_of(self.shape, self.block))
        self.row_order = _as_order("row_order", row_order, self.shape[0])
        self.column_order = _as_order("column_order", column_order, self.shape[1])
        self.row_groups = _groups(self.row_order, self.block[0])
        self.column_groups = _groups(self.column_order, self.block[1])
        heights, widths = np.bincount(self.row_groups), np.bincount(self.column_groups)
        sizes = np.sort(np.multiply.outer(heights, widths), axis=None)
        self.n_nonzero = int(sizes[-self.n_blocks :].sum())

    def _select(self, score: Array) -> Array:
        keep = np.empty(score.shape, dtype=bool)
        norms = np.empty((self.row_groups.max() + 1, self.column_groups.max() + 1), score.dtype)
        norms_of_blocks(score, self.row_groups, self.column_groups, norms)
        if self.every_column:
            kept = largest_with_columns(norms, self.n_blocks)
        else:
            kept = largest(norms.ravel(), self.n_blocks).reshape(norms.shape)
        spread(kept, self.row_groups, self.column_groups, keep)
        return keep

    def relaxed(self, share: float) -> "SparseBlocks":
        return self._like(
            between(self.n_blocks, n_blocks_of(self.shape, self.block), share), self.row_order, self.column_order
        )

    def regrouped(self, row_order: ArrayLike | None, column_order: ArrayLike | None) -> "SparseBlocks":
        """The set with as many blocks of the same size, and these orders of rows and columns.

        Parameters
        ----------
        row_order, column_order : sequences of int, optional
            As for the set itself.
        """
        return self._like(self.n_blocks, row_order, column_order)

    def _like(self, n_blocks: int, row_order: Any, column_order: Any) -> "SparseBlocks":
        orders = {"row_order": row_order, "column_order": column_order}
        return SparseBlocks(self.shape, n_blocks, self.block, **orders, every_column=self.every_column)

    def _describe(self) -> str:
        natural = all((np.diff(groups) >= 0).all() for groups in (self.row_groups, self.column_groups))
        options = f"{', every_column=True' * self.every_column}{'' if natural else ', regrouped'}"
        return f"{self.shape}, {self.n_blocks}, block={self.block}{options}"


def as_block(value: Any, shape: tuple[int, int]) -> tuple[int, int]:
    """``value`` as the rows and columns of a block of a matrix of this shape."""
    try:
        rows, columns = as_shape("block", value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"block must be one or two integers of at least 1, got {value!r}") from None
    if rows > shape[0] or columns > shape[1]:
        raise ValueError(f"block must not be larger than the matrix, {shape}, got {value!r}")
    return rows, columns


def n_blocks_of(shape: tuple[int, int], block: tuple[int, int]) -> int:
    """The number of blocks of the grid, those at the edges included."""
    return ceil(shape[0] / block[0]) * ceil(shape[1] / block[1])


def sums_of_groups(matrix: Array, groups: Array) -> Array:
    """The sum of the rows of each group."""
    begins = np.cumsum(np.bincount(groups)) - np.bincount(groups)
    return np.add.reduceat(matrix[np.argsort(groups, kind="stable")], begins, axis=0)


def _as_order(name: str, order: Any, count: int) -> Array:
    if order is None:
        return np.arange(count)
    lines = as_array(name, order).copy()
    if lines.shape != (count,) or lines.dtype.kind not in "iu" or (np.sort(lines) != np.arange(count)).any():
        raise ValueError(f"{name} must hold the integers from 0 to {count - 1}, each once, got {order!r}")
    return lines


def _groups(order: Array, size: int) -> Array:
    """The group of each line: ``size`` lines that follow each other in ``order``; numbered by first lines."""
    groups = np.empty(order.size, dtype=int)
    groups[order] = np.arange(order.size) // size
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups]
