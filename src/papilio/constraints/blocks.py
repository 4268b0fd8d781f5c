"""Sets with few blocks: groups of rows that share their columns."""

from math import ceil
from typing import Any

import numpy as np

from ..typing import Array, ArrayLike
from ..validation import as_array, as_flag, as_integer, as_shape
from .base import UnitNorm
from .selection import largest, largest_with_columns
from .sparsity import between


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

    def _energies(self, worth: Array) -> Array:
        """The sum of the squares of ``worth`` over each block: groups of rows × groups of columns."""
        squares = np.square(worth, dtype=np.float64)
        return sums_of_groups(sums_of_groups(squares, self.row_groups).T, self.column_groups).T

    def _select(self, worth: Array) -> Array:
        norms = np.sqrt(self._energies(worth)).astype(worth.dtype)
        if self.every_column:
            kept = largest_with_columns(norms, self.n_blocks)
        else:
            kept = largest(norms.ravel(), self.n_blocks).reshape(norms.shape)
        return kept[self.row_groups[:, None], self.column_groups]

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
