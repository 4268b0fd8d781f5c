"""Norms of sparse products, which are never formed whole."""

from collections.abc import Iterator

import numpy as np
from scipy.sparse.linalg import svds

from ..linalg import frobenius, product_of, wide
from ..typing import Array
from .csr import entries
from .product import SparseProduct

_BLOCK_ENTRIES = 1 << 22  # of the matrix are formed at once: 32 MB of float64
_TINY, _LIFT = 1e-100, 2.0**800
_NAMES = (1, 2, np.inf, "fro")
_FEW = 8  # rows or columns up to which the matrix is formed: Lanczos iteration needs more of them than of vectors


def norm_of(op: SparseProduct, ord: float | str) -> float:
    """The norm of this name; see `SparseProduct.norm`."""
    if not isinstance(ord, str | int | float | np.integer) or isinstance(ord, bool) or ord not in _NAMES:
        raise ValueError(f"ord must be 1, 2, numpy.inf or 'fro', got {ord!r}")
    # The scale and the factors' sizes stand apart, so that products do not leave the number range.
    sizes = [frobenius(entries(factor)) for factor in op.factors]
    if 0.0 in sizes:
        return 0.0
    unit = SparseProduct([f.astype(wide(op.dtype)) / size for f, size in zip(op.factors, sizes, strict=True)])
    if ord in (1, np.inf):
        turned, measure = unit if ord == 1 else unit.T, _largest_column_sum
    else:
        turned = unit if op.shape[0] >= op.shape[1] else unit.T
        measure = _spectral if ord == 2 and min(op.shape) > 1 else _frobenius
    norm, lift = measure(turned), 1.0
    if norm < _TINY:  # factors that nearly cancel: digits were lost
        norm, lift = measure(turned * _LIFT), 1 / _LIFT
    return product_of([norm, lift, abs(op.scale), *sizes])


def _spectral(op: SparseProduct) -> float:
    """By Lanczos iteration on the factors; on the matrix itself if it has few columns."""
    if op.shape[1] <= _FEW:
        values = op.toarray()
        size = frobenius(values)
        return size * float(np.linalg.norm(values / size, 2)) if size > 0 else 0.0
    start = np.random.default_rng(0).standard_normal(op.shape[1])
    size = frobenius(op @ start)  # zero only for the zero operator; else of the norm's order
    if size < _TINY:
        return size
    unit = size if size > 1 / _TINY else 1.0  # Lanczos iteration squares the operator
    return unit * float(svds(op / unit, k=1, v0=start, return_singular_vectors=False)[0])


def _frobenius(op: SparseProduct) -> float:
    return frobenius(np.array([frobenius(block) for block in _blocks(op)]))


def _largest_column_sum(op: SparseProduct) -> float:
    return max(float(np.abs(block).sum(axis=0).max()) for block in _blocks(op))


def _blocks(op: SparseProduct) -> Iterator[Array]:
    """The matrix, by blocks of columns."""
    width = max(1, _BLOCK_ENTRIES // op.shape[0])
    for start in range(0, op.shape[1], width):
        yield op[:, start : start + width].toarray()
