"""Matrices made small enough to look at: no entry vanishes between the pixels."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .operators import SparseProduct
from .validation import Array

_MOST_ENTRIES = 1 << 22  # of a sparse matrix are looked at; of a larger one every second, third, …
_BLOCK_ENTRIES = 1 << 22  # of a product are formed at once


def thumbnail(matrix: Any, side: int) -> Array:
    """A dense picture of ``matrix`` with at most ``side`` rows and columns: real parts, cell by cell.

    Each cell shows the entry of largest magnitude of the rows and columns that it stands for, so that a single
    entry of a large sparse factor is still seen. A matrix that is small enough is shown entry by entry.

    Parameters
    ----------
    matrix : SparseProduct, sparse matrix or (m, n) array
        A product is formed in blocks of columns.
    side : int
    """
    rows, columns = matrix.shape
    if sp.issparse(matrix):
        return _of_sparse(sp.coo_array(matrix), min(rows, side), min(columns, side))
    if not isinstance(matrix, SparseProduct):
        return _pooled(np.asarray(matrix).real, min(rows, side), min(columns, side))
    if rows * columns <= _BLOCK_ENTRIES:
        return _pooled(matrix.toarray().real, min(rows, side), min(columns, side))
    edges = _edges(columns, min(columns, side))
    cells = range(0, len(edges) - 1, max(_BLOCK_ENTRIES * (len(edges) - 1) // (rows * columns), 1))
    blocks = []
    for first, last in zip(cells, [*cells[1:], len(edges) - 1], strict=True):
        block = matrix[:, edges[first] : edges[last]].toarray().real
        starts = edges[first:last] - edges[first]
        blocks.append(_extreme(_extreme(block, starts, 1), _edges(rows, min(rows, side))[:-1], 0))
    return np.concatenate(blocks, axis=1)


def _edges(length: int, cells: int) -> Array:
    """Where the cells begin, and where the last one ends."""
    return np.arange(cells + 1) * length // cells


def _pooled(values: Array, rows: int, columns: int) -> Array:
    if values.shape == (rows, columns):
        return values
    by_rows = _extreme(values, _edges(values.shape[0], rows)[:-1], 0)
    return _extreme(by_rows, _edges(values.shape[1], columns)[:-1], 1)


def _extreme(values: Array, starts: Array, axis: int) -> Array:
    """Of each run that begins at ``starts``, the value of largest magnitude."""
    largest = np.maximum.reduceat(values, starts, axis=axis)
    smallest = np.minimum.reduceat(values, starts, axis=axis)
    return np.where(-smallest > largest, smallest, largest)


def _of_sparse(matrix: sp.coo_array, rows: int, columns: int) -> Array:
    step = max(-(-matrix.nnz // _MOST_ENTRIES), 1)
    values = matrix.data[::step].real
    cell = [
        np.searchsorted(_edges(length, cells), coordinates[::step], side="right") - 1
        for length, cells, coordinates in zip(matrix.shape, (rows, columns), matrix.coords, strict=True)
    ]
    picture = np.zeros((rows, columns), values.dtype)
    order = np.argsort(np.abs(values), kind="stable")  # of several entries in a cell, the last one stays
    picture[cell[0][order], cell[1][order]] = values[order]
    return picture
