"""Low rank: the best products of two dense factors, from singular values."""

from typing import TypeAlias

import numpy as np

from ..operators import SparseProduct
from ..results import Factorization, History, Status
from ..runtime.threads import blas_threads
from ..typing import Array

Svd: TypeAlias = tuple[Array, Array, Array]


def svd_of(matrix: Array) -> Svd:
    """The thin singular value decomposition."""
    with blas_threads(matrix.size * min(matrix.shape)):
        U, values, V = np.linalg.svd(matrix, full_matrices=False)
    return U, values, V


def low_rank(matrix: Array, svd: Svd, rank: int) -> Factorization:
    """The best approximation of a rank, as two dense factors."""
    U, values, V = svd
    roots = np.sqrt(values[:rank])
    error = float(np.linalg.norm(values[rank:]) / np.linalg.norm(values))
    operator = SparseProduct([U[:, :rank] * roots, roots[:, None] * V[:rank]])
    return Factorization(operator.astype(matrix.dtype), error, 0, Status.CONVERGED, History())


def errors_by_rank(svd: Svd) -> Array:
    """Relative errors of the best approximations of rank 1, 2, …"""
    squares = svd[1] ** 2
    return np.sqrt(np.append(np.cumsum(squares[::-1])[::-1][1:], 0) / squares.sum())


def rank_within(limit: float, errors: Array) -> int:
    """The lowest rank whose error is at most ``limit``."""
    return int(np.count_nonzero(errors > limit)) + 1
