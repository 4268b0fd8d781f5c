"""Factorize a matrix that nobody stores: from a function that returns its blocks.

Blocks of a few entries tell which kind of product needs the fewest, and which levels it should have. It is built
from O(n log n) entries, and its error is measured on rows that were drawn at random.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ...linalg import frobenius
from ...operators import SparseProduct
from ...operators.factors import to_csr, to_dense
from ...results import Attempt, Factorization, History, Status
from ...runtime.memory import memory
from ...runtime.session import Interrupted, Session
from ...typing import Array
from ...validation import as_choice, as_real, as_shape
from ..nested.clusters import clusters_in_order, clusters_of_points
from ..nested.coordinates import as_coordinates, in_one_space
from ..targets import as_complexity
from ..units import in_unit_of
from .butterfly_shapes import deepest, planned
from .rank_butterfly import Precision, butterfly_of_rank
from .sampled import Entries, EntriesFunction, in_chunks
from .skeletons import Side, nested_from_entries, planned_levels

_METHODS = ("butterfly", "nested")
_DOUBLE_ERROR, _SINGLE_ERROR = 1e-6, 1e-4  # the largest, by precision, if nothing is asked for
_CHECKED = 50  # rows on which the error is measured
_AT_A_TIME = 10  # of these rows: large products take a while
_COARSE = 16  # the rank of the product that is there before all others
_SHARE = 0.35  # of the error that is allowed: the tolerance of each step, of which there are some
_TRIES = 4  # of a method, with other tolerances
_MORE_SAMPLES = 1.5  # times as many with each smaller tolerance: they may be what was missing
_STAGNATION = 0.5  # times the error before: what a smaller tolerance should reach
_COARSEST = 0.3  # the first tolerance where the number of entries is limited
_FAR_BEYOND = 1.5  # times the entries that are allowed: a plan that is not tried
_BYTES = 24  # of an entry of a product, about
_WORTHWHILE = 0.99  # of the entries of the matrix: a product with more is none
_PROMISING = 0.7  # the same for a product that is not built yet
_SMALL = 1 << 22  # entries of a matrix that can be its own product


class Goal(NamedTuple):
    """The largest error, or the most entries."""

    limit: float | None
    budget: int | None


class _Way(NamedTuple):
    """A method with some tolerance, and about the entries that its product will have."""

    method: str
    detail: str
    entries: float
    build: Callable[[], SparseProduct | None]


def factorize_entries(
    session: Session,
    function: EntriesFunction,
    shape: Any,
    complexity: float | None,
    max_error: float | None,
    method: str,
    coordinates: Any,
) -> Factorization:
    """`factorize` of a matrix that is given by its blocks: checks, and a default for the largest error."""
    if shape is None:
        raise ValueError("shape must be given with a callable: (rows, columns), or one integer")
    size = as_shape("shape", shape)
    as_choice("method", method, ("auto", *_METHODS))
    budget = limit = None
    if complexity is not None:
        budget = int(as_complexity("complexity", complexity, size, None) * size[0] * size[1] + 1e-9)
    if max_error is not None:
        limit = as_real("max_error", max_error, 0.0)
    points = in_one_space("coordinates", as_coordinates("coordinates", coordinates, size))
    entries = Entries(function, size, session)
    if budget is None and limit is None:
        limit = _SINGLE_ERROR if entries.is_single else _DOUBLE_ERROR
    return _factorized(session, entries, Goal(limit, budget), method, points)


def _factorized(
    session: Session, entries: Entries, goal: Goal, method: str, coordinates: tuple[Array, Array] | None
) -> Factorization:
    methods = _METHODS if method == "auto" else (method,)
    with session.interruptible():
        with entries.without_stopping():
            search = _Search(session, entries, goal, coordinates)
            search.add_coarse()
        with suppress(Interrupted):
            session.check()
            if goal.limit is not None:
                _within_error(search, methods, goal.limit)
            elif goal.budget is not None:
                _within_budget(search, methods, goal.budget)
        fit = search.result()
        session.tick(f"{fit.method.replace('_', ' ')}: end", 1, 1)
    return replace(fit, status=Status.STOPPED) if session.stopped else fit


class _Search:
    """The attempts to factorize a matrix that is known by its entries, and the best of them."""

    def __init__(
        self, session: Session, entries: Entries, goal: Goal, coordinates: tuple[Array, Array] | None
    ) -> None:
        self.session, self.entries, self.goal = session, entries, goal
        self.attempts: list[Attempt] = []
        self.best: Factorization | None = None
        places = coordinates or (None, None)
        self._sides = _side(entries.shape[0], places[0]), _side(entries.shape[1], places[1])
        self._rows = np.sort(session.random.permutation(entries.shape[0])[:_CHECKED])
        self._exact = in_chunks(entries, self._rows, np.arange(entries.shape[1]))
        self._size = frobenius(self._exact)

    @property
    def least_tolerance(self) -> float:
        """What rounding allows."""
        return 1e-6 if self.entries.is_single else 1e-14

    # -- what was found --------------------------------------------------------------------------------

    def error_of(self, operator: SparseProduct) -> float:
        """The relative error on the rows that were drawn; on some of them if the session is stopped."""
        first, *others = operator.factors
        missed = seen = 0.0
        for start in range(0, self._rows.size, _AT_A_TIME):
            some = slice(start, start + _AT_A_TIME)
            rows = reduce(lambda left, right: left @ to_csr(right), others, to_csr(first[self._rows[some], :]))
            missed += frobenius(operator.scale * to_dense(rows) - self._exact[some]) ** 2
            seen += frobenius(self._exact[some]) ** 2
            if self.session.stopped:
                break
        return float(np.sqrt(missed / seen)) if seen > 0 else float(missed > 0)

    def add(self, method: str, detail: str, operator: SparseProduct, begin: float) -> Factorization:
        """Record a product, and keep it if it is the best so far."""
        error, is_estimate = self.error_of(operator), self._rows.size < self.entries.shape[0]
        self.attempts.append(Attempt(method, detail, error, operator.nnz, perf_counter() - begin))
        fit = Factorization(operator, error, 0, Status.CONVERGED, History(), method, error_is_estimate=is_estimate)
        if self.best is None or self._rank(fit) < self._rank(self.best):
            self.best = fit
        return fit

    def _rank(self, fit: Factorization) -> tuple[float, float]:
        """The lower the better: first those that meet the target, then by what it does not limit."""
        nnz, error = fit.operator.nnz, fit.error
        if self.goal.budget is not None:
            return (0.0, error) if nnz <= self.goal.budget else (1.0, nnz)
        return (0.0, nnz) if self.goal.limit is None or error <= self.goal.limit else (1.0, error)

    @property
    def is_met(self) -> bool:
        """Whether the best product meets the target, is better than zeros, and has fewer entries than M."""
        if self.best is None or self._rank(self.best)[0] > 0 or self.best.error >= 1:
            return False
        return self.best.operator.nnz <= _WORTHWHILE * self.entries.shape[0] * self.entries.shape[1]

    def result(self) -> Factorization:
        """The best product; the matrix itself if that is small, and no product met the largest error."""
        assert self.best is not None
        best, status = self.best, Status.CONVERGED if self.is_met else Status.NO_STRUCTURE
        m, n = self.entries.shape
        can_be_whole = self.goal.limit is not None and m * n <= _SMALL and not self.session.stopped
        if not self.is_met and can_be_whole:
            with self.entries.without_stopping():
                whole = SparseProduct([in_chunks(self.entries, np.arange(m), np.arange(n))])
            best = replace(best, operator=whole, error=0.0, method="itself", error_is_estimate=False)
        operator = in_unit_of("entries", best.operator, self.entries.unit)
        return replace(best, operator=operator, status=status, attempts=tuple(self.attempts))

    # -- products --------------------------------------------------------------------------------------

    def add_coarse(self) -> None:
        """A product of low rank through a few rows and columns: what is returned if there is no time."""
        begin, (m, n) = perf_counter(), self.entries.shape
        rank = min(_COARSE, m, n)
        if self.goal.budget is not None:
            rank = max(min(rank, self.goal.budget // (m + n)), 1)
        columns = np.sort(self.session.random.permutation(n)[:rank])
        rows = np.sort(self.session.random.permutation(m)[: 4 * rank])
        left = in_chunks(self.entries, np.arange(m), columns)
        right = np.linalg.pinv(left[rows], rcond=1e-6) @ in_chunks(self.entries, rows, np.arange(n))
        self.add("low_rank", f"rank {rank}", SparseProduct([left, right.astype(left.dtype)]), begin)

    def ways(self, methods: tuple[str, ...], tolerance: float, samples: float = 1.0) -> list[_Way]:
        """The methods with a tolerance, that with the fewest entries first; without those that cannot win."""
        size = self.entries.shape[0] * self.entries.shape[1]
        most = min(memory() / _BYTES / 4, _PROMISING * size)
        precision = Precision(tolerance, self._size / np.sqrt(self._exact.size), samples)
        found = [self._way(method, precision) for method in methods]
        return sorted((way for way in found if way and way.entries <= most), key=lambda way: way.entries)

    def _way(self, method: str, precision: Precision) -> _Way | None:
        common, note = (self.session, self.entries), f", tolerance {precision.tolerance:.1g}"
        if method == "nested":
            levels = planned_levels(self.entries, self._sides, precision)
            if levels is None:
                return None
            nested = partial(nested_from_entries, *common, self._sides, levels, precision)
            return _Way(method, f"{levels.leaves - levels.top + 1} levels{note}", levels.entries, nested)
        clusters = self._sides[0].clusters, self._sides[1].clusters
        plan = planned(self.entries, clusters, precision)
        if plan is None:
            return None
        detail = f"rank {plan.shape.rank}, {len(plan.shape.row_levels) + 1} factors{note}"
        butterfly = partial(butterfly_of_rank, *common, clusters, plan.shape, precision, self._sides[0].points)
        return _Way(method, detail, plan.entries, butterfly)

    def attempt(self, way: _Way, share: float) -> Factorization | None:
        """Build a product; None if all that was seen of the matrix are zeros."""
        begin = perf_counter()
        with self.session.part(share, f"{way.method}: "):
            operator = way.build()
        if operator is None:
            self.attempts.append(Attempt(way.method, "only zeros were seen", np.inf, 0, perf_counter() - begin))
            return None
        return self.add(way.method, way.detail, operator, begin)


def _side(size: int, points: Array | None) -> Side:
    depth = deepest(size)
    return Side.of(clusters_in_order(size, depth) if points is None else clusters_of_points(points, depth), points)


# -- for each target -----------------------------------------------------------------------------------


def _within_error(search: _Search, methods: tuple[str, ...], limit: float) -> None:
    """Each method once, the one with the fewest entries first; then the nearest ones with smaller tolerances."""
    first = max(_SHARE * limit, search.least_tolerance)
    errors: dict[str, float] = {}
    ways = search.ways(methods, first)
    for way in ways:
        fit = search.attempt(way, 0.5 / len(ways))
        if search.is_met:
            return
        if fit is not None:
            errors[way.method] = fit.error
    for method in sorted(errors, key=lambda method: errors[method]):
        _with_smaller_tolerances(search, method, first, errors[method], limit)
        if search.is_met:
            return


def _with_smaller_tolerances(search: _Search, method: str, tolerance: float, error: float, limit: float) -> None:
    """Try a method again until its error is small enough, or does not fall any more."""
    for i in range(_TRIES):
        if tolerance <= search.least_tolerance:
            return
        tolerance = max(tolerance * min(_SHARE * limit / error, 0.5), search.least_tolerance)
        ways = search.ways((method,), tolerance, _MORE_SAMPLES ** (i + 1))
        fit = search.attempt(ways[0], 0.2 / 2**i) if ways else None
        if fit is None or fit.error <= limit or fit.error > _STAGNATION * error:
            return
        error = fit.error


def _within_budget(search: _Search, methods: tuple[str, ...], budget: int) -> None:
    """For each method, nearly the smallest tolerance whose product has no more entries than are allowed."""

    def fits(method: str, tolerance: float) -> bool:
        is_possible = tolerance >= search.least_tolerance
        return is_possible and any(way.entries <= budget for way in search.ways((method,), tolerance))

    for method in methods:
        tolerance = _COARSEST
        while fits(method, 0.1 * tolerance):
            tolerance *= 0.1
        # Plans may be wrong: on until the limit lies between two products, then nearer to it.
        within, beyond = 0.0, 0.0  # tolerances, once they are known
        for i in range(_TRIES):
            ways = search.ways((method,), tolerance)
            if not ways or ways[0].entries > _FAR_BEYOND * budget:
                break
            fit = search.attempt(ways[0], 0.25 / 2**i)
            if fit is None:
                break
            if fit.operator.nnz <= budget:
                within = tolerance
            else:
                beyond = tolerance
            tolerance = np.sqrt(within * beyond) if within and beyond else 0.3 * within or beyond / 0.3
