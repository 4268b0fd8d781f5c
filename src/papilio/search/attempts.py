"""The state of a search: the matrix, the conditions on its product, and what was tried so far."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from operator import attrgetter
from time import perf_counter

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Attempt, Factorization, History, Status
from ..runtime.session import Session
from ..runtime.threads import blas_threads
from ..typing import Array
from ..validation import as_real

METHODS = ("transform", "butterfly", "low_rank", "hierarchical")
EXACT = 1e-6  # an error below which nothing else is tried
_SVD_SIDE = 2048  # the short side up to which singular values are computed


class Search:
    """The attempts to factorize a matrix (see `in_units`) into ``n_factors``, or any number, by some methods."""

    def __init__(
        self, session: Session, matrix: Array, n_factors: int | None = None, methods: Sequence[str] = METHODS
    ) -> None:
        self.session, self.matrix = session, matrix
        self.n_factors, self.methods = n_factors, tuple(methods)
        self.attempts: list[Attempt] = []

    def allows(self, method: str) -> bool:
        """Whether a method may be tried; low rank needs singular values and has two factors."""
        if method == "low_rank" and (self.n_factors not in (None, 2) or self.svd is None):
            return False
        return method in self.methods

    @cached_property
    def svd(self) -> tuple[Array, Array, Array] | None:
        """The singular value decomposition; None for zero and very large matrices."""
        if min(self.matrix.shape) > _SVD_SIDE or not self.matrix.any():
            return None
        with blas_threads(self.matrix.size * min(self.matrix.shape)):
            U, values, V = np.linalg.svd(self.matrix, full_matrices=False)
        return U, values, V

    @cached_property
    def low_rank_errors(self) -> Array:
        """Relative errors of the best approximations of rank 1, 2, …; empty if low rank is not allowed."""
        if self.svd is None or not self.allows("low_rank"):
            return np.zeros(0)
        squares = self.svd[1] ** 2
        return np.sqrt(np.append(np.cumsum(squares[::-1])[::-1][1:], 0) / squares.sum())

    def rank_within(self, limit: float) -> int:
        """The lowest rank whose error is at most ``limit``."""
        return int(np.count_nonzero(self.low_rank_errors > limit)) + 1

    def best_of_rank(self, rank: int) -> Factorization:
        """The best approximation of a rank, as two dense factors."""
        assert self.svd is not None
        U, values, V = self.svd
        roots = np.sqrt(values[:rank])
        error = float(np.linalg.norm(values[rank:]) / np.linalg.norm(values))
        operator = SparseProduct([U[:, :rank] * roots, roots[:, None] * V[:rank]])
        return Factorization(operator.astype(self.matrix.dtype), error, 0, Status.CONVERGED, History())

    def low_rank(self, rank: int) -> list[Factorization]:
        """`best_of_rank`, recorded, if it is allowed and has fewer entries than the matrix."""
        if not 0 < rank * sum(self.matrix.shape) < self.matrix.size or not self.allows("low_rank"):
            return []
        begin = perf_counter()
        return [self.add("low_rank", f"rank {rank}", self.best_of_rank(rank), begin)]

    def itself(self, status: Status = Status.CONVERGED) -> Factorization:
        """The matrix as one factor, which has the status "no_structure" if nothing else was found."""
        return Factorization(SparseProduct([self.matrix]), 0.0, 0, status, History(), "itself")

    def itself_within(self, budget: int) -> list[Factorization]:
        """The matrix as one factor, if that is allowed and has at most ``budget`` entries."""
        is_allowed = self.n_factors is None and self.methods == METHODS
        return [self.itself()] if is_allowed and np.count_nonzero(self.matrix) <= budget else []

    def add(self, method: str, detail: str, fit: Factorization, begin: float) -> Factorization:
        """Record a fit that was started at ``begin``, and return it with its method."""
        self.attempts.append(Attempt(method, detail, fit.error, fit.operator.nnz, perf_counter() - begin))
        return replace(fit, method=method)

    def add_failure(self, method: str, detail: str, begin: float) -> None:
        """Record an attempt that found nothing."""
        self.attempts.append(Attempt(method, detail, inf, 0, perf_counter() - begin))


def in_units(given: Array) -> tuple[Array, float]:
    """``given`` divided by a power of two near its root mean square, and that power.

    The solvers start at scale 1; thus their results do not depend on the unit of the data.
    """
    if not given.any():
        return given, 1.0
    # No smaller than the smallest normal number, which would lose digits.
    rms = max(frobenius(given) / np.sqrt(given.size), float(np.finfo(given.dtype).tiny))
    unit = 2.0 ** round(np.log2(rms))
    return given / given.real.dtype.type(unit), unit


def least_entries(shape: tuple[int, int], n_factors: int) -> int:
    """The fewest entries of a product: with fewer, a factor would have empty rows or columns."""
    return max(shape) + (n_factors - 1) * min(shape)


def least_complexity(shape: tuple[int, int], n_factors: int | None) -> tuple[float, str]:
    """The lowest relative complexity, and why; without ``n_factors``, the dense matrix is a product, too."""
    least = least_entries(shape, n_factors or 2) / (shape[0] * shape[1])
    reason = f"one entry per row or column of each of {n_factors or 2} factors of a {shape[0]}×{shape[1]} matrix"
    return min(least, 1.0) if n_factors is None else least, reason


def as_complexity(name: str, value: float, shape: tuple[int, int], n_factors: int | None) -> float:
    complexity = as_real(name, value, 0.0, 1.0)
    least, reason = least_complexity(shape, n_factors)
    if (least - complexity) * shape[0] * shape[1] > 1e-9:
        raise ValueError(f"{name} must be at least {least:.4g}, {reason}, and at most 1, got {complexity:g}")
    return complexity


n_entries = attrgetter("operator.nnz")
error_of = attrgetter("error")
