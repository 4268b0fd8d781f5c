"""A search: the matrix, what its product may look like, and what was tried so far."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from time import perf_counter

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Attempt, Factorization, History, Status
from ..runtime.session import Session
from ..typing import Array
from .low_rank import Svd, errors_by_rank, low_rank, svd_of

METHODS = ("transform", "butterfly", "low_rank", "hierarchical")
EXACT = 1e-6  # an error below which nothing else is tried
_SVD_SIDE = 2048  # the short side up to which singular values are computed


class Search:
    """The attempts to factorize one matrix.

    Parameters
    ----------
    session : Session
        Its random numbers are used, and its callback and time budget end the search.
    matrix : (m, n) array
        In units of about its root mean square (see `in_units`).
    n_factors : int, optional
        The number of factors; any number by default.
    methods : sequence of str
        The methods that may be tried.

    Attributes
    ----------
    attempts : list of Attempt
        What was tried so far, and what it gave.
    """

    def __init__(
        self,
        session: Session,
        matrix: Array,
        n_factors: int | None = None,
        methods: Sequence[str] = METHODS,
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
    def svd(self) -> Svd | None:
        """The singular value decomposition; None for the zero matrix and for very large ones."""
        if min(self.matrix.shape) > _SVD_SIDE or not self.matrix.any():
            return None
        return svd_of(self.matrix)

    @cached_property
    def low_rank_errors(self) -> Array:
        """Relative errors of the best approximations of rank 1, 2, …; empty where low rank is not allowed."""
        return errors_by_rank(self.svd) if self.allows("low_rank") and self.svd is not None else np.zeros(0)

    def low_rank(self, rank: int) -> Factorization | None:
        """The best approximation of a rank, if it is allowed and has fewer entries than the matrix."""
        if not 0 < rank * sum(self.matrix.shape) < self.matrix.size or not self.allows("low_rank"):
            return None
        assert self.svd is not None
        begin = perf_counter()
        return self.add("low_rank", f"rank {rank}", low_rank(self.matrix, self.svd, rank), begin)

    def itself(self, status: Status = Status.CONVERGED) -> Factorization:
        """The matrix as one factor; with the status "no_structure" where no attempt gave anything."""
        return Factorization(SparseProduct([self.matrix]), 0.0, 0, status, History(), "itself")

    def itself_within(self, budget: int) -> list[Factorization]:
        """The matrix as one factor, where that is allowed and has no more than ``budget`` entries."""
        is_allowed = self.n_factors is None and self.methods == METHODS
        return [self.itself()] if is_allowed and np.count_nonzero(self.matrix) <= budget else []

    def add(self, method: str, detail: str, fit: Factorization, begin: float) -> Factorization:
        """``fit`` with its method, after an entry in the list of attempts; ``begin`` is when it was started."""
        self.attempts.append(Attempt(method, detail, fit.error, fit.operator.nnz, perf_counter() - begin))
        return replace(fit, method=method)

    def add_failure(self, method: str, detail: str, begin: float) -> None:
        """An entry in the list of attempts for one that found nothing."""
        self.attempts.append(Attempt(method, detail, inf, 0, perf_counter() - begin))


def in_units(given: Array) -> tuple[Array, float]:
    """``given`` in a unit near its root mean square, and that unit, a power of two.

    The solvers start at scale 1: with this, their results do not depend on the matrix's own unit.
    """
    if not given.any():
        return given, 1.0
    # At least the smallest number that the dtype holds with all its digits: the matrix keeps the rest.
    rms = max(frobenius(given) / np.sqrt(given.size), float(np.finfo(given.dtype).tiny))
    unit = 2.0 ** round(np.log2(rms))
    return given / given.real.dtype.type(unit), unit


def least_entries(shape: tuple[int, int], n_factors: int) -> int:
    """The fewest entries of a product: with fewer, a factor would have empty rows or columns."""
    return max(shape) + (n_factors - 1) * min(shape)


def n_entries(fit: Factorization) -> int:
    return fit.operator.nnz


def error_of(fit: Factorization) -> float:
    return fit.error
