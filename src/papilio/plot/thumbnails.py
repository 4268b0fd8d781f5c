"""Matrices as small images: fewer cells, and PNG in data URLs, which a page shows without loading anything."""

import base64
import struct
import zlib
from math import ceil, sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..typing import Array, MatrixLike
from .common import NEGATIVE, POSITIVE

_MOST_ENTRIES = 1 << 22  # With more stored entries, only every second or third is looked at.
_BLOCK_ENTRIES = 1 << 22  # Entries of a product that are computed at a time.


def thumbnail(matrix: Any, side: int) -> Array:
    """The real part of ``matrix``, reduced to at most ``side`` rows and columns.

    Each cell stands for a block of rows and columns. If most of the matrix is zero, it shows the entry of largest
    magnitude in its block, so that even a single entry of a large factor is seen. Otherwise it shows the entry in
    the middle: the largest ones alone would hide the mix of signs.
    """
    # Where the cells begin, and where the last one ends.
    rows, columns = (np.arange(min(n, side) + 1) * n // min(n, side) for n in matrix.shape)
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
    """Columns as patches side by side, each divided by its largest magnitude.

    Between them is NaN, and after the last one, to the end of its line, infinity.
    """
    count = columns.shape[1]
    across = ceil(sqrt(count))
    down = ceil(count / across)
    made = np.full((down * (height + 1) - 1, across * (width + 1) - 1), np.nan)
    for i, column in enumerate(columns.T):
        top, left = (i // across) * (height + 1), (i % across) * (width + 1)
        limit = float(np.abs(column).max()) or 1.0
        made[top : top + height, left : left + width] = column.reshape(height, width) / limit
    if count < down * across:
        made[top:, left + width :] = np.inf
        made[top : top + height, left + width] = np.nan  # A gap closes the last patch, too.
    return made


def _middles(edges: Array) -> Array:
    return (edges[:-1] + edges[1:] - 1) // 2


def _extreme(values: Array, starts: Array, axis: int) -> Array:
    """The value of largest magnitude in each run that begins at ``starts``."""
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
    order = np.argsort(np.abs(values), kind="stable")  # The last entry written to a cell remains: the largest.
    picture[row[order], column[order]] = values[order]
    return picture


_LEVELS = 15  # Per sign.
_SHADES = 100  # Per sign; a mosaic needs more, because its values change gradually.
_NEGATIVE, _POSITIVE = (bytes.fromhex(colour[1:]) for colour in (NEGATIVE, POSITIVE))


def signed_png(matrix: MatrixLike, side: int) -> str:
    """Signs and magnitudes in colour, at most ``side`` pixels along each side; zero is transparent."""
    values = thumbnail(matrix, side).astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    # Every entry except zero is visible: its level is at least 1.
    levels = np.ceil(np.abs(values / largest) * _LEVELS).astype(np.uint8)
    levels[values > 0] += _LEVELS
    opacities = [round(255 * (0.25 + 0.75 * level / _LEVELS)) for level in range(1, _LEVELS + 1)]
    palette = bytes(3) + _NEGATIVE * _LEVELS + _POSITIVE * _LEVELS
    return _data_url(levels, palette, bytes([0, *opacities, *opacities]))


def mosaic_png(tiles: Array) -> str:
    """A `mosaic`: values from −1 to 1 in the colours of their signs, stronger if larger; gaps are grey."""
    gap, outside = np.isnan(tiles), np.isinf(tiles)
    values = np.where(gap | outside, 0, tiles)
    levels = np.rint(np.abs(values) * _SHADES).astype(np.uint8)
    levels[values > 0] += _SHADES
    levels[(values > 0) & (levels == _SHADES)] = 0  # Values that round to zero.
    levels[gap] = 2 * _SHADES + 1
    opacities = [round(255 * level / _SHADES) for level in range(1, _SHADES + 1)]
    palette = bytes(3) + _NEGATIVE * _SHADES + _POSITIVE * _SHADES + b"\x80\x80\x80"
    return _data_url(levels, palette, bytes([0, *opacities, *opacities, 110]))


def _data_url(pixels: Array, palette: bytes, opacities: bytes) -> str:
    height, width = pixels.shape
    lines = np.zeros((height, width + 1), np.uint8)  # Each line begins with the number of its filter: 0, none.
    lines[:, 1:] = pixels
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", opacities),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
    png = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
