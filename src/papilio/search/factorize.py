"""The front door: a matrix and one wish."""

from dataclasses import replace
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Attempt, Factorization, History, Status
from ..solvers.hierarchical import hierarchical
from ..solvers.palm import Callback
from ..typing import Array, RandomState
from ..validation import as_choice, as_integer, as_matrix, as_random, as_real
from .butterfly import butterfly_entries, found_butterfly
from .candidates import (
    Watch,
    candidates,
    decomposed,
    even_schedule,
    least_entries,
    low_rank,
    planned_steps,
    searched,
)
from .known_transforms import recognised

METHODS = ("auto", "transform", "butterfly", "low_rank", "hierarchical")
_LADDER = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)  # complexities among which the knee is looked for
_QUICK_STEPS = 50
EXACT = 1e-6  # an error below which no other road is tried
_SVD_SIDE = 2048  # the short side up to which singular values are computed
_HALVINGS = 6  # of the interval in which the fewest entries lie


def factorize(
    M: Any,
    *,
    n_factors: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    method: str = "auto",
    time_budget: float | None = None,
    callback: Callback | None = None,
    random_state: RandomState = 0,
) -> Factorization:
    """Approximate a matrix by a product of sparse factors, with at most one wish to state.

    Several attempts are tried, and the best result is returned: cosine and Haar transforms whose rows and columns may
    be permuted and scaled, which are recognised at once; butterfly factors under unknown permutations, which are
    found or not within a short time; low rank, dense or sparse; and the hierarchical strategy from either side
    with two and three factors. The last two end with annealing, which loosens and tightens the sets of the factors
    to get out of local minima.

    Parameters
    ----------
    M : (m, n) matrix
    n_factors : int, optional
        The number of factors; as many as give the lowest error by default.
    complexity : float, optional
        The largest relative complexity: entries of all factors over m·n, above 0 and at most 1. The result has the
        lowest error that was found within it.
    max_error : float, optional
        The largest relative error. The result has the fewest entries that were found to reach it; if no product
        does, M itself is returned as one factor. Excludes ``complexity``.
    method : {"auto", "transform", "butterfly", "low_rank", "hierarchical"}
        The road to take; all by default. Where the only road leads nowhere, M itself is returned, with ``status``
        "no_structure".
    time_budget : float, optional
        Seconds after which the best result so far is returned. With it, results depend on the machine's speed.
    callback : callable, optional
        Called with a `Step` after each iteration of PALM; a true result ends the search as the time budget does.
    random_state : int, RandomState or None
        Of the searches. None is a fixed seed here: results repeat.

    Returns
    -------
    Factorization
        ``method`` says which road was taken, ``attempts`` what all of them gave. Without a wish for complexity or
        error, it is the knee: where error + relative complexity is lowest, so that one percent more entries would
        save less than one percent of error.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.factorize(pp.transforms.hadamard(16).toarray()).operator
    <SparseProduct 16×16 float64: 4 factors (16×16×16×16×16), 128 entries, relative complexity 0.5>
    """
    matrix, unit = in_units(as_matrix("M", M))
    as_choice("method", method, METHODS)
    if n_factors is not None:
        n_factors = as_integer("n_factors", n_factors, 2)
        if method == "low_rank" and n_factors != 2:
            raise ValueError(f"n_factors must be 2 for low rank, got {n_factors}")
    if complexity is not None and max_error is not None:
        raise ValueError("complexity and max_error exclude each other: give one of them")
    if complexity is not None:
        complexity = _as_complexity(complexity, matrix.shape, n_factors)
    if max_error is not None:
        max_error = as_real("max_error", max_error, 0.0)
    if time_budget is not None:
        time_budget = as_real("time_budget", time_budget, 0.0)
    watch = Watch(callback, time_budget)
    random = as_random(random_state)
    search = Search(matrix, n_factors, METHODS[1:] if method == "auto" else (method,), random, watch)
    if max_error is not None:
        result = search.reaching(max_error)
    elif complexity is not None:
        result = search.within(int(complexity * matrix.size + 1e-9))
    else:
        result = search.knee()
    status = Status.STOPPED if watch.stopped else result.status
    return replace(result, operator=result.operator * unit, status=status, attempts=tuple(watch.attempts))


def in_units(given: Array) -> tuple[Array, float]:
    """``given`` in a unit near its root mean square, and that unit, a power of two.

    The solvers start at scale 1: with this, their results do not depend on the matrix's own unit.
    """
    if not given.any():
        return given, 1.0
    # Not below what the dtype holds with all its digits: of smaller numbers, the rest stays in the matrix.
    rms = max(frobenius(given) / np.sqrt(given.size), float(np.finfo(given.dtype).tiny))
    unit = 2.0 ** round(np.log2(rms))
    return given / given.real.dtype.type(unit), unit


class Search:
    """The attempts to one matrix."""

    def __init__(
        self,
        matrix: Array,
        n_factors: int | None,
        methods: tuple[str, ...],
        random: np.random.RandomState,
        watch: Watch,
    ) -> None:
        self.matrix, self.n_factors, self.methods = matrix, n_factors, methods
        self.random, self.watch = random, watch
        self.size = matrix.size
        self.least = least_entries(matrix.shape, n_factors or 2)
        self._svd: Any = None

    def within(self, budget: int) -> Factorization:
        """The lowest error with at most ``budget`` entries."""
        structured = [fit for fit in self.structured(budget) if fit.operator.nnz <= budget]
        structured += self.itself_within(budget)
        exact = [fit for fit in structured if fit.error <= EXACT]
        if exact:
            return min(exact, key=_entries)
        self.watch.planned = planned_steps(self.matrix)
        return min([*structured, *self._approximations(budget)], key=_error, default=self.nothing())

    def reaching(self, limit: float) -> Factorization:
        """The fewest entries with an error of at most ``limit``."""
        options = [self.itself(), *(fit for fit in self.structured(0) if fit.error <= limit)]
        low_rank = self.low_rank(int(np.count_nonzero(self._missed() > limit)) + 1)
        if low_rank is not None and low_rank.error <= limit:
            options.append(low_rank)
        fewest = min(options, key=_entries)
        low, high = self.least, fewest.operator.nnz
        self.watch.planned = _HALVINGS * planned_steps(self.matrix, 0.5)
        for _ in range(_HALVINGS):
            if low >= high or self.watch.stopped or not self.matrix.any():
                break
            budget = int(np.sqrt(low * high))
            fit = self._annealed(budget, 0.5)
            if fit is not None and fit.error <= limit:
                fewest = min(fewest, fit, key=_entries)
                high = min(budget, fit.operator.nnz)
            else:
                low = budget + 1
        return fewest

    def knee(self) -> Factorization:
        """The lowest sum of error and relative complexity."""
        structured = self.structured(self.size)
        exact = [fit for fit in structured if fit.error <= EXACT and fit.operator.nnz <= self.size]
        if exact:
            return min(exact, key=_entries)
        options = [fit for fit in structured if fit.operator.nnz < self.size]
        self.watch.planned = len(_LADDER) * _QUICK_STEPS * 2 + planned_steps(self.matrix)
        budget = self._budget_at_knee()
        if budget is None:
            return min(options, key=_worth, default=self.itself())
        return min([*options, *self._approximations(budget)], key=_worth, default=self.nothing())

    def _budget_at_knee(self) -> int | None:
        """Entries with the lowest sum of error and complexity, by quick fits; None where no product saves any."""
        if not self.matrix.any():
            return None
        if self.least >= self.size:
            return None if self.n_factors is None else self.least
        sums: dict[int, float] = {}
        side = "right" if self.matrix.shape[0] < self.matrix.shape[1] else "left"
        for budget in sorted({max(int(step * self.size), self.least) for step in _LADDER}):
            error = inf
            rank = budget // sum(self.matrix.shape)
            if self._is_open("low_rank") and rank > 0:
                error = float(self._missed()[min(rank, min(self.matrix.shape)) - 1])
            if self._is_open("hierarchical"):
                schedule = even_schedule(self.matrix.shape, self.n_factors or 2, budget, side)
                quick = hierarchical(
                    self.matrix,
                    schedule,
                    inertia=True,
                    max_iter=_QUICK_STEPS,
                    callback=self.watch.on("looking for the knee"),
                )
                error = min(error, quick.error)
            sums[budget] = error + budget / self.size
            if self.watch.stopped:
                break
        return min(sums, key=lambda budget: sums[budget])

    def _is_open(self, method: str) -> bool:
        if method == "low_rank":
            return method in self.methods and self.n_factors in (None, 2) and self.decomposed() is not None
        return method in self.methods

    def structured(self, enough: int) -> list[Factorization]:
        """What is found without a budget: a sparse matrix, low rank, known transforms, and butterflies.

        Butterflies, which take longest, are not looked for where something else is exact with at most ``enough``
        entries, or with no more than they would have.
        """
        nonzero = int(np.count_nonzero(self.matrix))
        found = []
        if nonzero <= self.size // 2 and self.n_factors is None:
            found.append(self.watch.note("itself", "sparse as it is", self.itself(), perf_counter()))
        missed = self._missed()
        if missed.size:
            exact = self.low_rank(int(np.count_nonzero(missed > missed.size * np.finfo(missed.dtype).eps)) + 1)
            found += [] if exact is None else [exact]
        if "transform" in self.methods:
            begin = perf_counter()
            known = recognised(self.matrix)
            if known is None:
                self.watch.attempts.append(
                    Attempt("transform", "no known transform", inf, 0, perf_counter() - begin)
                )
            elif self.n_factors in (None, len(known[1].operator.factors)):
                found.append(self.watch.note("transform", known[0], known[1], begin))
        fewest = min([fit.operator.nnz for fit in found if fit.error <= EXACT], default=self.size + 1)
        expected = butterfly_entries(self.matrix.shape)
        if "butterfly" in self.methods and fewest > enough and expected < min(fewest, nonzero):
            begin = perf_counter()
            fit = found_butterfly(self.matrix, self.random, self.watch.is_over)
            if fit.status is Status.NO_STRUCTURE:
                self.watch.attempts.append(Attempt("butterfly", "no structure", inf, 0, perf_counter() - begin))
            elif self.n_factors in (None, len(fit.operator.factors)):
                detail = f"{len(fit.operator.factors)} factors"
                found.append(self.watch.note("butterfly", detail, fit, begin))
        return found

    def _approximations(self, budget: int) -> list[Factorization]:
        """Low rank, and what annealing finds, with at most ``budget`` entries."""
        fits = [self.low_rank(budget // sum(self.matrix.shape)), self._annealed(budget)]
        return [fit for fit in fits if fit is not None]

    def low_rank(self, rank: int) -> Factorization | None:
        if not self._is_open("low_rank") or not 0 < rank * sum(self.matrix.shape) < self.size:
            return None
        begin = perf_counter()
        return self.watch.note("low_rank", f"rank {rank}", low_rank(self.matrix, self.decomposed(), rank), begin)

    def _annealed(self, budget: int, effort: float = 1.0) -> Factorization | None:
        if not self.matrix.any():
            return None
        methods = [method for method in self.methods if self._is_open(method)]
        options = candidates(self.matrix.shape, budget, self.n_factors, methods)
        return searched(self.matrix, options, self.decomposed(), self.random, self.watch, effort)

    def decomposed(self) -> Any:
        if self._svd is None and min(self.matrix.shape) <= _SVD_SIDE and self.matrix.any():
            self._svd = decomposed(self.matrix)
        return self._svd

    def _missed(self) -> Array:
        """Relative errors of the best approximations of rank 1, 2, …; none where low rank is no road."""
        if not self.matrix.any() or not self._is_open("low_rank"):
            return np.zeros(0)
        squares = self.decomposed()[1] ** 2
        return np.sqrt(np.append(np.cumsum(squares[::-1])[::-1][1:], 0) / squares.sum())

    def itself_within(self, budget: int) -> list[Factorization]:
        """The matrix as one factor, where that has no more entries and no other wish stands against it."""
        is_free = self.n_factors is None and self.methods == METHODS[1:]
        return [self.itself()] if is_free and np.count_nonzero(self.matrix) <= budget else []

    def itself(self) -> Factorization:
        return Factorization(SparseProduct([self.matrix]), 0.0, 0, Status.CONVERGED, History(), "itself")

    def nothing(self) -> Factorization:
        """The matrix where no road that is open led anywhere."""
        return replace(self.itself(), status=Status.NO_STRUCTURE)


def _entries(fit: Factorization) -> int:
    return fit.operator.nnz


def _error(fit: Factorization) -> float:
    return fit.error


def _worth(fit: Factorization) -> float:
    return fit.error + fit.operator.relative_complexity


def _as_complexity(value: Any, shape: tuple[int, int], n_factors: int | None) -> float:
    complexity = as_real("complexity", value, 0.0, 1.0)
    size = shape[0] * shape[1]
    least = min(least_entries(shape, 2), size) if n_factors is None else least_entries(shape, n_factors)
    if complexity * size < least:
        raise ValueError(
            f"complexity must be at least {least / size:.3g}, one entry a line in {n_factors or 2} factors of a "
            f"{shape[0]}×{shape[1]} matrix, and at most 1, got {complexity:g}"
        )
    return complexity
