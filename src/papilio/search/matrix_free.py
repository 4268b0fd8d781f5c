"""Matrix-free: factorize implicit matrices, from a function of their entries or from products with vectors.

From entries, some blocks tell which kind of product needs the fewest, and which levels it should have. It is
built from O(n log n) entries, and its error is measured on rows that were drawn at random. From products, nested
low rank is found with more and more vectors, until the error on fresh ones is small enough. Both are problems of a
`Search`, which keeps the best product by the target.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial, reduce
from math import ceil, inf, log2, prod
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..linalg import frobenius
from ..operators import SparseProduct
from ..operators.factors import to_csr, to_dense
from ..results import Factorization, Status
from ..runtime.session import Interrupted, Session
from ..typing import Array
from ..validation import as_choice, as_real, as_shape, memory
from .implicit import Entries, EntriesFunction, Products, in_chunks
from .nested.cluster_trees import as_coordinates, clusters_in_order, clusters_of_points, in_one_space
from .nested.rank_butterfly import Precision, butterfly_of_rank, deepest, planned
from .nested.skeletons import Side, nested_from_entries, planned_levels
from .nested.sketches import (
    Neighbourhood,
    Sketch,
    by_points,
    far_energy,
    features_of,
    in_given_order,
    low_rank_from_sketches,
    nested_from_sketches,
)
from .problems import in_unit_of
from .search import Search
from .targets import Target, as_complexity

T = TypeVar("T")

_SORTED = 1000  # multiplications that take as long as the clustering of a line


class _Implicit(ABC):
    """What problems from entries and from products share: errors are estimates, and the best product stays."""

    is_sparse = False

    def __init__(self, name: str, source: Entries | Products, target: Target) -> None:
        self.session, self.shape = source.session, source.shape
        self.dtype: Any = source.dtype
        self.search, self._name, self._source = Search(self, target), name, source

    @abstractmethod
    def error_of(self, operator: SparseProduct) -> float:
        """The relative error on what was looked at for that only."""

    def add(self, method: str, detail: str, operator: SparseProduct, begin: float) -> Factorization:
        """Record a product with its error."""
        return self.search.add(method, detail, Factorization(operator, error=self.error_of(operator)), begin)

    def outcome(self, is_zero: bool) -> Factorization:
        """The best product, or zeros if no product is better; in the unit of the matrix."""
        best = self.search.best or self.search.nearest
        if best is None or not best.error < 1:
            zeros = SparseProduct([sp.csr_array(self.shape, dtype=self.dtype)])
            method = "low_rank" if best is None else best.method
            best = Factorization(zeros, error=float(not is_zero), status=Status.NO_STRUCTURE, method=method)
        is_met = best.error == 0 or (self.search.best is not None and best.error < 1)
        status = Status.CONVERGED if is_met else Status.NO_STRUCTURE
        return replace(
            best,
            operator=in_unit_of(self._name, best.operator, self._source.unit).astype(self.dtype),
            status=Status.STOPPED if self.session.stopped else status,
            attempts=tuple(self.search.attempts),
            error_is_estimate=True,
        )


# -- from entries ---------------------------------------------------------------------------------------

_METHODS = ("butterfly", "nested")
_DOUBLE_ERROR, _SINGLE_ERROR = 1e-6, 1e-4  # Default tolerances by precision.
_ROWS = 50  # rows on which the error is measured
_AT_A_TIME = 10  # Rows that are compared at a time, because large products take long.
_MOST_CHECKED = 1 << 23  # entries of these rows; of longer ones, some are drawn
_WELL_CONDITIONED = 1e-3  # the least singular value of what is solved for a coarse product
_CANDIDATES = 64  # Candidate rows for each rank: random ones, and as many large ones.
_COARSE = 1, 4, 16  # ranks of the products that are there before all others
_QUICK = 1 << 20  # Entries that are evaluated even without a time budget left, so that there is a product.
_STEP_SHARE = 0.35  # Tolerance of each step relative to the error that is allowed.
_TRIES = 4  # Trials of a method with other tolerances.
_MORE_SAMPLES = 1.5  # times as many with each smaller tolerance: they may be what was missing
_STAGNATION = 0.5  # times the error before: what a smaller tolerance should reach
_COARSEST = 0.3  # the first tolerance where the number of entries is limited
_FAR_BEYOND = 1.5  # times the entries that are allowed: a plan that is not tried
_BYTES = 24  # Approximate bytes of an entry of a product.
_PROMISING = 0.7  # the same for a product that is not built yet
_SMALL = 1 << 22  # entries of a matrix that can be its own product


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
    problem = _FromEntries(entries, Target(size[0] * size[1], budget, limit, entries.is_single), points)
    with session.interruptible():
        with suppress(Interrupted):
            problem.run(_METHODS if method == "auto" else (method,))
        fit = problem.result()
        session.tick(f"{fit.method.replace('_', ' ')}: end", 1, 1)
    return fit


class _FromEntries(_Implicit):
    """A matrix that is known by its entries, as a problem of a search."""

    def __init__(self, entries: Entries, target: Target, coordinates: tuple[Array, Array] | None) -> None:
        super().__init__("entries", entries, target)
        self.entries, self._coordinates = entries, coordinates
        m, n = entries.shape
        self._rows = self.session.random.permutation(m)[:_ROWS]  # Any subset of these is a random sample.
        self._columns = np.arange(n)
        if n > _MOST_CHECKED // _ROWS:
            self._columns = np.unique(self.session.random.randint(n, size=_MOST_CHECKED // _ROWS))
        self._exact = np.zeros((0, self._columns.size), entries.dtype)
        self._size = 0.0

    def run(self, methods: tuple[str, ...]) -> None:
        """A coarse product first, then the methods, as the target says."""
        is_quick, target = self._coarse_entries(_COARSE[-1]) <= _QUICK, self.search.target
        with self.entries.without_stopping() if is_quick else nullcontext():
            for rank in _COARSE[-1:] if is_quick else _COARSE:
                self._look(_ROWS if is_quick or rank > _COARSE[0] else _AT_A_TIME)
                self._add_coarse(rank)
        self.session.check()
        if target.limit is not None:
            _within_error(self, methods, target.limit)
        elif target.budget is not None:
            _within_budget(self, methods, target.budget)

    def _look(self, count: int) -> None:
        """Get the rows on which errors are measured, so many of them."""
        for start in range(len(self._exact), min(count, self._rows.size), _AT_A_TIME):
            block = in_chunks(self.entries, self._rows[start : start + _AT_A_TIME], self._columns)
            self._exact = np.concatenate([self._exact, block])
        self._size = frobenius(self._exact)

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        m, n = self.entries.shape
        rows, columns = self._coordinates or (None, None)
        return self.session.wait(lambda: (_side(m, rows), _side(n, columns)), _SORTED * (m + n))

    @property
    def least_tolerance(self) -> float:
        """What rounding allows."""
        return 1e-6 if self.entries.is_single else 1e-14

    # -- what was found --------------------------------------------------------------------------------

    def error_of(self, operator: SparseProduct) -> float:
        """The relative error on the rows that were drawn; on some of them if the session is stopped."""
        first, *others = operator.factors
        missed = seen = 0.0
        for start in range(0, len(self._exact), _AT_A_TIME):
            some = slice(start, start + _AT_A_TIME)
            rows = reduce(lambda left, right: left @ to_csr(right), others, to_csr(first[self._rows[some], :]))
            image = to_dense(rows)
            image = image if self._columns.size == image.shape[1] else image[:, self._columns]
            missed += frobenius(operator.scale * image - self._exact[some]) ** 2
            seen += frobenius(self._exact[some]) ** 2
            if self.session.stopped and seen > 0:
                break
        return float(np.sqrt(missed / seen)) if seen > 0 else float(missed > 0)

    def result(self) -> Factorization:
        """The best product; the matrix itself if that is small, and no product met the largest error."""
        (m, n), search = self.shape, self.search
        fit = self.outcome(len(self._exact) > 0 and self._size == 0)
        if fit.status is Status.NO_STRUCTURE and search.target.limit is not None and m * n <= _SMALL:
            with self.entries.without_stopping():
                whole = SparseProduct([in_chunks(self.entries, np.arange(m), np.arange(n))])
            operator = in_unit_of("entries", whole, self.entries.unit)
            return replace(fit, operator=operator, error=0.0, method="itself", error_is_estimate=False)
        return replace(fit, error_is_estimate=self._exact.size < m * n)

    # -- products --------------------------------------------------------------------------------------

    def _coarse_entries(self, rank: int) -> int:
        """The entries that are sampled for a product of low rank, and for errors."""
        m, n = self.entries.shape
        return min(rank, n) * m + min(4 * rank, m) * n + self._rows.size * self._columns.size

    def _add_coarse(self, rank: int) -> None:
        """A product of low rank through a few rows and columns: what is returned if there is no time."""
        begin, (m, n) = perf_counter(), self.entries.shape
        rank = min(rank, m, n)
        if self.search.target.budget is not None:
            rank = max(min(rank, self.search.target.budget // (m + n)), 1)
        columns = np.sort(self.session.random.permutation(n)[:rank])
        left = in_chunks(self.entries, np.arange(m), columns)
        # Rows at random alone may miss those in which the columns are large.
        some, count = self.session.random.permutation(m)[: _CANDIDATES * rank], min(_CANDIDATES * rank, m)
        sizes = (np.abs(left) ** 2).sum(axis=1)
        candidates = np.union1d(some, np.argpartition(-sizes, count - 1)[:count])
        pivots = scipy.linalg.qr(left[candidates].conj().T, mode="r", pivoting=True)[1][:rank]
        rows = np.union1d(some[: 3 * rank], candidates[pivots])
        right = np.linalg.pinv(left[rows], rcond=_WELL_CONDITIONED) @ in_chunks(self.entries, rows, np.arange(n))
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
            self.search.add_failure(way.method, "only zeros were seen", begin)
            return None
        return self.add(way.method, way.detail, operator, begin)


def _side(size: int, points: Array | None) -> Side:
    depth = deepest(size)
    return Side.of(clusters_in_order(size, depth) if points is None else clusters_of_points(points, depth), points)


# -- for each target -----------------------------------------------------------------------------------


def _within_error(problem: _FromEntries, methods: tuple[str, ...], limit: float) -> None:
    """Each method once, the one with the fewest entries first; then the nearest ones with smaller tolerances."""
    first = max(_STEP_SHARE * limit, problem.least_tolerance)
    errors: dict[str, float] = {}
    ways = problem.ways(methods, first)
    for way in ways:
        fit = problem.attempt(way, 0.5 / len(ways))
        if problem.search.best is not None:
            return
        if fit is not None:
            errors[way.method] = fit.error
    for method in sorted(errors, key=lambda method: errors[method]):
        _with_smaller_tolerances(problem, method, first, errors[method], limit)
        if problem.search.best is not None:
            return


def _with_smaller_tolerances(
    problem: _FromEntries, method: str, tolerance: float, error: float, limit: float
) -> None:
    """Try a method again until its error is small enough, or does not fall any more."""
    for i in range(_TRIES):
        if tolerance <= problem.least_tolerance:
            return
        tolerance = max(tolerance * min(_STEP_SHARE * limit / error, 0.5), problem.least_tolerance)
        ways = problem.ways((method,), tolerance, _MORE_SAMPLES ** (i + 1))
        fit = problem.attempt(ways[0], 0.2 / 2**i) if ways else None
        if fit is None or fit.error <= limit or fit.error > _STAGNATION * error:
            return
        error = fit.error


def _within_budget(problem: _FromEntries, methods: tuple[str, ...], budget: int) -> None:
    """For each method, nearly the smallest tolerance whose product has no more entries than are allowed."""

    def fits(method: str, tolerance: float) -> bool:
        is_possible = tolerance >= problem.least_tolerance
        return is_possible and any(way.entries <= budget for way in problem.ways((method,), tolerance))

    for method in methods:
        tolerance = _COARSEST
        while fits(method, 0.1 * tolerance):
            tolerance *= 0.1
        # Plans may be wrong: on until the limit lies between two products, then nearer to it.
        within, beyond = 0.0, 0.0  # tolerances, once they are known
        for i in range(_TRIES):
            ways = problem.ways((method,), tolerance)
            if not ways or ways[0].entries > _FAR_BEYOND * budget:
                break
            fit = problem.attempt(ways[0], 0.25 / 2**i)
            if fit is None:
                break
            if fit.operator.nnz <= budget:
                within = tolerance
            else:
                beyond = tolerance
            tolerance = np.sqrt(within * beyond) if within and beyond else 0.3 * within or beyond / 0.3


# -- from products --------------------------------------------------------------------------------------

_FIRST, _GROWTH = 32, 1.5  # vectors each way at first; how their number grows
_LEAPS = 2  # rounds at first whose number of vectors grows by the square of that
_FINEST = 2  # levels that the clusters of a square matrix do without: they would have one line or two
_MOST = 1000  # products in all
_CHECKED = 16  # fresh vectors on which the error is measured
_VECTORS_PER_NEIGHBOUR = 24
_SHARE = 0.7  # Truncation error relative to the error that is allowed.
_FAR_BEHIND = 2.0  # times the lowest error: what is not followed any longer
_STALLED = 0.9  # If the error exceeds this share of the error two rounds before, more products gain nothing.
_NOTHING = 0.99  # an error that is hardly below that of zeros
_CLEARLY = 0.9  # Another order is better if it leaves at most this share.
_LOOSE, _TRIMS = 0.6, 2  # an error so far below the target allows fewer entries; how often they are looked for


class _FromProducts(_Implicit):
    """A matrix that is known by its products, as a problem of a search: ever more of them, and what they tell."""

    def __init__(self, products: Products, max_error: float, coordinates: tuple[Array, Array] | None) -> None:
        is_single = products.dtype.char in "fF"
        self.limit = max(max_error, 1e-6 if is_single else 1e-13)
        super().__init__("M", products, Target(prod(products.shape), None, self.limit, is_single))
        self.products, self.coordinates = products, coordinates
        self._errors: list[float] = []  # the lowest of each round
        self._is_tried = {True: True, False: True}  # Whether it was tried with and without neighbours.
        self._checked: tuple[Array, Array] | None = None

    @property
    def is_stalled(self) -> bool:
        """Whether more products have hardly lowered the error, or it is as large as that of zeros."""
        return len(self._errors) > 2 and self._errors[-1] > min(_STALLED * self._errors[-3], _NOTHING)

    def run(self) -> None:
        """Rounds with more and more vectors, until the error is met or nothing is gained."""
        sizes = self._sizes()
        for size in sizes:
            with self.session.part(size / sum(sizes)):
                with self.session.part(0.5):
                    self._gather(size)
                with self.session.part(0.5):
                    self._round(_SHARE * self.limit)
            if self.search.best is not None or self.is_stalled:
                break
        self.add_low_rank()
        tolerance = _SHARE * self.limit
        for _ in range(_TRIMS):
            best = self.search.best
            if best is None or best.error > _LOOSE * self.limit:
                break
            tolerance *= 0.9 * min(self.limit / max(best.error, 1e-300), 100.0)
            self._round(tolerance)

    def add_low_rank(self) -> None:
        """A product of low rank from whatever is known, if there is no better one."""
        best = self.search.best or self.search.nearest
        if self._checked is not None and (best is None or not best.error < 1):
            loss = _SHARE * self.limit * self.products.norm
            for tolerance in (loss, inf):
                error = self._attempt(
                    "low_rank", "low rank", partial(low_rank_from_sketches, self._all(), tolerance)
                )
                if error < inf:
                    break

    def _sizes(self) -> list[int]:
        """Numbers of vectors of the rounds: as the limit of products allows, and no more than lines."""
        ways = 1 if self.products.mirror else 2
        most = min((_MOST - _CHECKED) // ways, min(self.products.shape))
        sizes = [_FIRST]
        while sizes[-1] <= most:
            sizes.append(ceil(sizes[-1] * _GROWTH ** (2 if len(sizes) <= _LEAPS else 1)))
        sizes.pop()
        return [*sizes, most] if not sizes or 1.2 * sizes[-1] < most == min(self.products.shape) else sizes

    def _gather(self, size: int) -> None:
        """Products with ``size`` vectors each way, and with fresh ones; those that were fresh are used now."""
        if self._checked is not None:
            self.products.absorb(*self._checked)
        self._checked = self.products.fresh(_CHECKED)
        self.products.extend(size)

    def _round(self, tolerance: float) -> None:
        """Low rank, nested with neighbours, and without; of the latter, what is far behind is not tried again."""
        loss = tolerance * self.products.norm
        self._attempt("low_rank", "low rank", lambda: self._waited(low_rank_from_sketches, self._all(), loss))
        places = self._waited(self._neighbourhood)
        found: dict[bool, float] = {}
        most = self.products.known // _VECTORS_PER_NEIGHBOUR
        for has_neighbours in (True, False):
            if not self._is_tried[has_neighbours] or (has_neighbours and most < 2):
                continue
            name = f"{places.name}, {'with' if has_neighbours else 'without'} neighbours"
            count = most if has_neighbours else 1
            build = partial(nested_from_sketches, self.session, self._sketch(places), places, count, loss)
            with self.session.part(0.5, f"{name}: "):
                found[has_neighbours] = self._attempt("nested", name, build)
        lowest = min(found.values())
        if lowest < inf:
            self._errors.append(lowest)
            for has_neighbours, error in found.items():
                self._is_tried[has_neighbours] = error <= _FAR_BEHIND * lowest

    def _waited(self, call: Callable[..., T], *args: Any) -> T:
        """What a call returns that takes long for many lines and vectors."""
        vectors = self.products.known
        return self.session.wait(lambda: call(*args), sum(self.products.shape) * max(vectors**2, _SORTED))

    # -- one product -----------------------------------------------------------------------------------

    def _neighbourhood(self) -> Neighbourhood:
        """Clusters by coordinates; else in the given order, or in the order found from products if better."""
        known, shape = self.products, self.products.shape
        depth = max(int(log2(min(shape))) - (_FINEST if shape[0] == shape[1] else 0), 0)
        if self.coordinates is not None:
            return by_points("coordinates", *self.coordinates, depth)
        given = in_given_order(shape, depth)
        if shape[0] != shape[1]:
            return given
        points = features_of(known.samples if known.mirror else np.hstack([known.samples, known.adjoint_samples]))
        other = by_points("order by products", points, points, depth)
        is_better = far_energy(self._sketch(other), other) < _CLEARLY * far_energy(self._sketch(given), given)
        return other if is_better else given

    def _all(self) -> Sketch:
        known = self.products
        return Sketch(known.tests, known.samples, known.adjoint_tests, known.adjoint_samples, known.mirror)

    def _sketch(self, places: Neighbourhood) -> Sketch:
        return self._all() if places.is_shared else self._all()._replace(mirror="")

    def _attempt(self, method: str, detail: str, build: Callable[[], SparseProduct | None]) -> float:
        """The error of a product, which is kept if it is the best so far; infinite if there is none."""
        begin = perf_counter()
        operator = build()
        if operator is None:
            return inf
        return self.add(method, f"{detail}, {self.products.count} products", operator, begin).error

    def error_of(self, operator: SparseProduct) -> float:
        """The relative error on fresh vectors."""
        assert self._checked is not None
        tests, samples = self._checked
        # Without `operator @ tests`, which would pack the product for many more vectors.
        images = reduce(lambda right, factor: to_csr(factor) @ right, reversed(operator.factors), tests)
        difference = np.linalg.norm(images * operator.scale - samples) / np.sqrt(tests.shape[1])
        norm = self.products.norm
        return float(difference / norm) if norm > 0 else 0.0


def factorize_operator(
    session: Session, operator: LinearOperator, max_error: float, method: str, coordinates: Any
) -> Factorization:
    """`factorize` of an operator: products are taken until the error, on fresh random vectors, is small enough."""
    as_choice("method", method, ("auto", "nested"))
    limit = as_real("max_error", max_error, 0.0)
    points = in_one_space("coordinates", as_coordinates("coordinates", coordinates, operator.shape))
    products = Products(operator, session)
    problem, is_zero = _FromProducts(products, limit, points), not products.samples.any()
    with session.interruptible():
        with suppress(Interrupted):
            if not is_zero:
                problem.run()
        problem.add_low_rank()
        session.tick("end", 1, 1)
    return replace(problem.outcome(is_zero), n_products=products.count)
