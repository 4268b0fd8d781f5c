"""Factorize a matrix that nobody stores: from a function that returns its blocks.

Blocks of a few entries tell which kind of product needs the fewest, and which levels it should have. It is built
from O(n log n) entries, and its error is measured on rows that were drawn at random.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..operators.csr import to_csr, to_dense
from ..results import Attempt, Factorization, History, Status
from ..runtime.memory import memory
from ..runtime.session import Interrupted, Session
from ..typing import Array
from .butterfly_shapes import deepest, planned
from .clusters import Clusters, clusters_in_order, clusters_of_points
from .rank_butterfly import Precision, butterfly_of_rank
from .sampled import Entries, in_chunks
from .skeletons import Side, nested_from_entries, planned_levels
from .units import in_unit_of

UNSTORED_METHODS = ("butterfly", "nested")
CHECKED = 50  # rows on which the error is measured
_COARSE = 16  # the rank of the product that is there before all others
_SHARE = 0.4  # of the error that is allowed: the tolerance of each step, of which there are some
_TRIES = 4  # of a method, with ever smaller tolerances
_STAGNATION = 0.5  # times the error before: what a smaller tolerance should reach
_COARSEST = 0.3  # the first tolerance where the number of entries is limited
_BYTES = 24  # of an entry of a product, about
_WORTHWHILE = 0.99  # of the entries of the matrix: a product with more is none
_PROMISING = 0.7  # the same for a product that is not built yet
_SMALL = 1 << 22  # entries of a matrix that can be its own product


class Goal(NamedTuple):
    """The largest error, or the most entries."""

    limit: float | None
    budget: int | None


class _Way(NamedTuple):
    """A method, and about the entries that it will need."""

    method: str
    entries: float
    build: Callable[[], SparseProduct | None]
    detail: str


class _Unstored:
    """The attempts to factorize a matrix that is known by its entries."""

    def __init__(
        self, session: Session, entries: Entries, goal: Goal, coordinates: tuple[Array, Array] | None
    ) -> None:
        self.session, self.entries, self.goal = session, entries, goal
        self.attempts: list[Attempt] = []
        self.best: Factorization | None = None
        points = coordinates or (None, None)
        self._sides = tuple(_side(size, own) for size, own in zip(entries.shape, points, strict=True))
        random = session.random
        self._rows = np.sort(random.permutation(entries.shape[0])[:CHECKED])
        self._exact = in_chunks(entries, self._rows, np.arange(entries.shape[1]))
        self._size = frobenius(self._exact)
        self.typical = self._size / np.sqrt(self._exact.size)

    @property
    def is_estimate(self) -> bool:
        return self._rows.size < self.entries.shape[0]

    @property
    def clusters(self) -> tuple[Clusters, Clusters]:
        return self._sides[0].clusters, self._sides[1].clusters

    # -- errors ----------------------------------------------------------------------------------------

    def error_of(self, operator: SparseProduct) -> float:
        """The relative error on the rows that were drawn."""
        first, *others = operator.factors
        product = reduce(lambda left, right: left @ to_csr(right), others, to_csr(first[self._rows, :]))
        difference = frobenius(operator.scale * to_dense(product) - self._exact)
        return difference / self._size if self._size > 0 else float(difference > 0)

    def add(self, method: str, detail: str, operator: SparseProduct, begin: float) -> Factorization:
        """Record a product, and keep it if it is the best so far."""
        error = self.error_of(operator)
        self.attempts.append(Attempt(method, detail, error, operator.nnz, perf_counter() - begin))
        fit = Factorization(operator, error, 0, Status.CONVERGED, History(), method, error_is_estimate=self.is_estimate)
        if self.best is None or self._rank(fit) < self._rank(self.best):
            self.best = fit
        return fit

    def _rank(self, fit: Factorization) -> tuple[float, float]:
        """The lower the better: first those that meet the target, then by what it does not limit."""
        if self.goal.budget is not None:
            return (0.0, fit.error) if fit.operator.nnz <= self.goal.budget else (1.0, fit.operator.nnz)
        assert self.goal.limit is not None
        return (0.0, fit.operator.nnz) if fit.error <= self.goal.limit else (1.0, fit.error)

    def is_met(self) -> bool:
        """Whether the best product meets the target, and is one."""
        if self.best is None or self._rank(self.best)[0] > 0:
            return False
        return self.best.operator.nnz <= _WORTHWHILE * self.entries.shape[0] * self.entries.shape[1]

    @property
    def least_tolerance(self) -> float:
        """What rounding allows."""
        return 1e-6 if self.entries.is_single else 1e-14

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
        weights = np.linalg.lstsq(left[rows], in_chunks(self.entries, rows, np.arange(n)), rcond=1e-6)[0]
        self.add("low_rank", f"rank {rank}", SparseProduct([left, weights.astype(left.dtype)]), begin)

    def ways(self, methods: tuple[str, ...], tolerance: float) -> list[_Way]:
        """The methods with a tolerance, the one with the fewest entries first; without those that cannot be."""
        precision = Precision(tolerance, self.typical)
        found: list[_Way] = []
        m, n = self.entries.shape
        most = min(memory() / _BYTES / 4, _PROMISING * m * n)
        if "nested" in methods and min(m, n) > 1:
            levels = planned_levels(self.entries, self._sides, precision)
            if levels is not None and levels.entries <= most:
                build = lambda: nested_from_entries(self.session, self.entries, self._sides, levels, precision)
                detail = f"{levels.leaves - levels.top + 1} levels, tolerance {tolerance:.1g}"
                found.append(_Way("nested", levels.entries, build, detail))
        if "butterfly" in methods:
            plan = planned(self.entries, self.clusters, precision)
            if plan is not None and plan.entries <= most:
                build = lambda: butterfly_of_rank(self.session, self.entries, self.clusters, plan.shape, precision)
                detail = f"rank {plan.shape.rank}, {len(plan.shape.row_levels) + 1} factors, tolerance {tolerance:.1g}"
                found.append(_Way("butterfly", plan.entries, build, detail))
        return sorted(found, key=lambda way: way.entries)

    def planned_entries(self, method: str, tolerance: float) -> float:
        """About how many entries a method needs; infinite if it cannot be."""
        return min((way.entries for way in self.ways((method,), tolerance)), default=np.inf)

    def attempt(self, way: _Way, share: float) -> Factorization | None:
        """Build a product."""
        begin = perf_counter()
        with self.session.part(share, f"{way.method}: "):
            operator = way.build()
        if operator is None:
            self.attempts.append(Attempt(way.method, "only zeros were seen", np.inf, 0, perf_counter() - begin))
            return None
        return self.add(way.method, way.detail, operator, begin)


def factorize_unstored(
    session: Session,
    entries: Entries,
    goal: Goal,
    method: str,
    coordinates: tuple[Array, Array] | None,
) -> Factorization:
    """The result of `factorize` for a function that returns blocks of a matrix."""
    methods = UNSTORED_METHODS if method == "auto" else (method,)
    with session.interruptible():
        with entries.without_stopping():
            search = _Unstored(session, entries, goal, coordinates)
            search.add_coarse()
        with suppress(Interrupted):
            session.check()
            if goal.limit is not None:
                _within_error(search, methods, goal.limit)
            else:
                _within_budget(search, methods, goal.budget or 0)
        session.tick("end", 1, 1)
    return _result(search, session)


def _within_error(search: _Unstored, methods: tuple[str, ...], limit: float) -> None:
    """Each method once, that with the fewest entries first; then, with smaller tolerances, those that came nearest."""
    first = max(_SHARE * limit, search.least_tolerance)
    errors: dict[str, float] = {}
    ways = search.ways(methods, first)
    for way in ways:
        fit = search.attempt(way, 0.5 / len(ways))
        if search.is_met():
            return
        if fit is not None:
            errors[way.method] = fit.error
    for method in sorted(errors, key=lambda method: errors[method]):
        _with_smaller_tolerances(search, method, first, errors[method], limit)
        if search.is_met():
            return


def _with_smaller_tolerances(search: _Unstored, method: str, tolerance: float, error: float, limit: float) -> None:
    """Try a method again until its error is small enough, or does not fall any more."""
    for i in range(_TRIES):
        if tolerance <= search.least_tolerance:
            return
        tolerance = max(tolerance * min(_SHARE * limit / error, 0.5), search.least_tolerance)
        ways = search.ways((method,), tolerance)
        fit = search.attempt(ways[0], 0.2 / 2**i) if ways else None
        if fit is None or fit.error <= limit or fit.error > _STAGNATION * error:
            return
        error = fit.error


def _within_budget(search: _Unstored, methods: tuple[str, ...], budget: int) -> None:
    """For each method, the smallest tolerance whose product has no more entries than are allowed, nearly."""
    for method in methods:
        tolerance = _COARSEST
        while (finer := 0.1 * tolerance) >= search.least_tolerance and search.planned_entries(method, finer) <= budget:
            tolerance = finer
        # The plan may be wrong in either direction.
        was_within = None
        for i in range(_TRIES):
            ways = search.ways((method,), tolerance)
            fit = search.attempt(ways[0], 0.25 / 2**i) if ways else None
            if fit is None:
                break
            is_within = fit.operator.nnz <= budget
            if was_within is not None and is_within != was_within:
                break
            was_within = is_within
            tolerance *= 0.3 if is_within else 1 / 0.3


def _result(search: _Unstored, session: Session) -> Factorization:
    """The best product; the matrix itself if that has no more entries and is small."""
    from dataclasses import replace

    entries, best = search.entries, search.best
    assert best is not None
    status = Status.CONVERGED if search.is_met() else Status.NO_STRUCTURE
    m, n = entries.shape
    if status is Status.NO_STRUCTURE and search.goal.limit is not None and m * n <= _SMALL and not session.stopped:
        with entries.without_stopping():
            whole = SparseProduct([in_chunks(entries, np.arange(m), np.arange(n))])
        best = search.add("itself", "", whole, perf_counter())
        search.attempts.pop()
    operator = in_unit_of("entries", best.operator, entries.unit)
    status = Status.STOPPED if session.stopped else status
    return replace(best, operator=operator, status=status, attempts=tuple(search.attempts))


def _side(size: int, points: Array | None) -> Any:
    depth = deepest(size)
    clusters = clusters_in_order(size, depth) if points is None else clusters_of_points(points, depth)
    return Side.of(clusters, points)
