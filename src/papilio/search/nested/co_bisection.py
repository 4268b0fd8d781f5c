"""Clusters of rows and columns from the matrix itself: both are halved together, again and again.

The sizes of the entries, B = |M|, are the weights of a graph between rows and columns. With the sums of its rows
and columns as diagonal matrices D and E, the second singular vectors of D^(−1/2)·B·E^(−1/2) are a relaxed
normalised cut (Dhillon 2001): rows and columns of like sign belong together. The next vectors tell more of where
each line lies. Rows and columns are points in the space of a few of these, and are cut across the direction in
which they spread most, in the middle, so that halves have equal sizes. Then each half is cut in the same way.
"""

import numpy as np

from ...runtime.session import Session
from ...typing import Array
from .clusters import Clusters, bisected_together, widest_direction

_STEPS = 8  # of subspace iteration, each with the matrix and its adjoint
_VECTORS = 6  # of the subspace
_PLACED = 2  # singular vectors that places are made of: as many as points in the plane need
_AROUND = 3  # lines that places are found from, over those of a cluster: beyond its ends, too
_WHOLE = 4  # clusters of at least this part of all lines are seen by themselves


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
        places = session.wait(lambda: places_of(block), 2 * _STEPS * _VECTORS * block.size)
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
