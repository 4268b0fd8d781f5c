"""Matrices made small enough to look at: no entry vanishes between the pixels."""

from math import ceil, sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..typing import Array

_MOST_ENTRIES = 1 << 22  # of a sparse matrix are looked at; of a larger one every second, third, …
_BLOCK_ENTRIES = 1 << 22  # of a product are formed at once


def thumbnail(matrix: Any, side: int) -> Array:
    """A dense picture of ``matrix`` with at most ``side`` rows and columns: real parts, cell by cell.

    Of a matrix that is mostly zero, each cell shows the entry of largest magnitude of the rows and columns that it
    stands for, so that a single entry of a large sparse factor is still seen. Of any other it shows the entry in
    its middle, as the largest ones alone would hide the signs of the rest. A matrix that is small enough is shown
    entry by entry.

    Parameters
    ----------
    matrix : SparseProduct, sparse matrix or (m, n) array
        A product is formed in blocks of columns.
    side : int
    """
    rows, columns = (_edges(length, min(length, side)) for length in matrix.shape)
    if sp.issparse(matrix):
        if 2 * matrix.nnz < matrix.shape[0] * matrix.shape[1]:
            return _of_sparse(sp.coo_array(matrix), rows, columns)
        matrix = SparseProduct([matrix])
    largest, middle, n_nonzero = [], [], 0
    per_cell = -(-matrix.shape[0] * matrix.shape[1] // (len(columns) - 1))
    step = max(_BLOCK_ENTRIES // per_cell, 1)
    for first in range(0, len(columns) - 1, step):
        edges = columns[first : first + step + 1]
        block = matrix[:, edges[0] : edges[-1]]
        values = (block.toarray() if isinstance(block, SparseProduct) else np.asarray(block)).real
        largest.append(_extreme(_extreme(values, rows[:-1], 0), edges[:-1] - edges[0], 1))
        middle.append(values[np.ix_(_middles(rows), _middles(edges) - edges[0])])
        n_nonzero += int(np.count_nonzero(values))
    is_sparse = 2 * n_nonzero < matrix.shape[0] * matrix.shape[1]
    return np.concatenate(largest if is_sparse else middle, axis=1)


def mosaic(columns: Array, height: int, width: int) -> Array:
    """Columns as patches side by side, each divided by its largest magnitude; between them is NaN."""
    count = columns.shape[1]
    across = ceil(sqrt(count))
    down = ceil(count / across)
    made = np.full((down * (height + 1) - 1, across * (width + 1) - 1), np.nan)
    for i, column in enumerate(columns.T):
        top, left = (i // across) * (height + 1), (i % across) * (width + 1)
        limit = float(np.abs(column).max()) or 1.0
        made[top : top + height, left : left + width] = column.reshape(height, width) / limit
    return made


def _edges(length: int, cells: int) -> Array:
    """Where the cells begin, and where the last one ends."""
    return np.arange(cells + 1) * length // cells


def _middles(edges: Array) -> Array:
    return (edges[:-1] + edges[1:] - 1) // 2


def _extreme(values: Array, starts: Array, axis: int) -> Array:
    """Of each run that begins at ``starts``, the value of largest magnitude."""
    largest = np.maximum.reduceat(values, starts, axis=axis)
    smallest = np.minimum.reduceat(values, starts, axis=axis)
    return np.where(-smallest > largest, smallest, largest)


def _of_sparse(matrix: sp.coo_array, rows: Array, columns: Array) -> Array:
    """The largest entry of each cell."""
    step = max(-(-matrix.nnz // _MOST_ENTRIES), 1)
    values = matrix.data[::step].real
    row, column = (
        np.searchsorted(edges, coordinates[::step], side="right") - 1
        for edges, coordinates in zip((rows, columns), matrix.coords, strict=True)
    )
    picture = np.zeros((len(rows) - 1, len(columns) - 1), values.dtype)
    order = np.argsort(np.abs(values), kind="stable")  # of several entries in a cell, the last one stays
    picture[row[order], column[order]] = values[order]
    return picture
