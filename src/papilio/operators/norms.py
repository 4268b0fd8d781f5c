"""Norms of sparse products, which are never formed whole."""

from math import prod

import numpy as np
from scipy.sparse.linalg import svds

from ..linalg import frobenius, wide
from .csr import entries
from .product import SparseProduct

_BLOCK_ENTRIES = 1 << 22  # of the matrix are formed at once: 32 MB of float64


def norm_of(op: SparseProduct, ord: int | str) -> float:
    """The spectral norm (``ord=2``) or the Frobenius norm (``ord="fro"``); see `SparseProduct.norm`."""
    if ord not in (2, "fro"):
        raise ValueError(f"ord must be 2 or 'fro', got {ord!r}")
    # The scale and the factors' sizes stand apart, so that products do not leave the number range.
    sizes = [frobenius(entries(factor)) for factor in op.factors]
    if 0.0 in sizes:
        return 0.0
    unit = SparseProduct([f.astype(wide(op.dtype)) / size for f, size in zip(op.factors, sizes, strict=True)])
    tall = unit if op.shape[0] >= op.shape[1] else unit.T
    norm = _spectral(tall) if ord == 2 and min(op.shape) > 1 else _frobenius(tall)
    return abs(prod(sizes, start=norm * op.scale))


def _spectral(op: SparseProduct) -> float:
    """By Lanczos iteration on the factors."""
    start = np.random.default_rng(0).standard_normal(op.shape[1])
    size = frobenius(op @ start)  # zero only for the zero operator; else of the norm's order
    if size == 0.0:
        return 0.0
    return size * float(svds(op / size, k=1, v0=start, return_singular_vectors=False)[0])


def _frobenius(op: SparseProduct) -> float:
    """By blocks of columns."""
    width = max(1, _BLOCK_ENTRIES // op.shape[0])
    blocks = range(0, op.shape[1], width)
    return frobenius(np.array([frobenius(op[:, start : start + width].toarray()) for start in blocks]))
