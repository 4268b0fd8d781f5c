"""The search for the best product by a target: methods offer curves and products, the search keeps the best."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..operators import SparseProduct
from ..results import Attempt, Factorization
from ..runtime.session import Interrupted, Session
from .curves import Curve, found, single
from .known_supports import polished
from .pricing import TOLERANCE
from .problems import Problem
from .roots import crossing
from .targets import EXACT, Target

_TRIES = 20  # products that are built to find the fewest entries with an error, where errors are measured
_BUILDS, _SPARE_SHARE = 3, 0.01  # how often a product is built larger, if so much of the budget is not used
_FASTEST = 1.7  # entries of a product that may take as long as one of the dense matrix
_MOST_CURVES = 4  # Curves of a method if times are measured.
_REPEATS = 2  # Repetitions of a search for a product that is fast enough.
_AHEAD, _AHEAD_IF_LARGE = (
    0.2,
    0.4,
)  # the rank of a best product that iterations will not reach, over other methods'
_LARGE = 512  # the short side from which iterations take minutes
_POLISHED = 1 << 16  # entries of a matrix up to which products are polished
# Factor by which least squares usually lowers errors; number of products that are polished.
_GAIN, _POLISHES = 1.2, 4
_GAIN_IN_OUTPUTS = 5.0  # The same factor for values that were chosen without regard to the inputs.


def _is_not_zero(search: "Search") -> bool:
    return not search.problem.is_zero


@dataclass(frozen=True)
class Method:
    """One way to factorize a matrix: what it is called, when it applies, and what it finds.

    ``curves(search)`` yields a `Curve` for each family of products, and single products as they are found. It
    reads the problem, the target and the best product of the search, and never changes them. ``applies(search)``
    is quick, and may say no. For `papilio.tradeoff`, ``sweep(search, budgets)`` returns a function that yields
    what there is for the budget at a place; by default it is the same for all.
    """

    name: str
    summary: str  # its line of documentation
    curves: Callable[["Search"], Iterator[Curve]]
    applies: Callable[["Search"], bool] = _is_not_zero
    share: float = 1.0  # Share of the progress, relative to the other methods.
    n_factors: Callable[[int], bool] = lambda count: True  # Which numbers of factors its products can have.
    is_polished: bool = False  # whether least squares on the supports of its best product pays
    is_weighted: bool = False  # whether errors of its curves are those of outputs where there are inputs
    outruns: bool = (
        False  # whether iterations will not catch up with it where it is far ahead of the other methods
    )
    is_first: bool = False  # whether it runs without any time, too, so that there is a result
    takes_sparse: bool = False  # whether it takes large sparse matrices as they are
    sweep: "Callable[[Search, Sequence[int]], Callable[[int], Iterable[Curve]]] | None" = None

    def over(self, search: "Search", budgets: Sequence[int]) -> Callable[[int], Iterable[Curve]]:
        """What the method has for each of many budgets."""
        if self.sweep is not None:
            return self.sweep(search, budgets)
        curves: list[Curve] = []
        with suppress(Interrupted):
            curves += self.curves(search)
        return lambda place: curves


def two_factors(count: int) -> bool:
    """For methods whose products have two factors."""
    return count == 2


class Search:
    """The attempts to factorize a problem by some methods, and the best product so far by the target.

    Nothing else changes its state: ``attempts``, ``best`` with its rank, and ``nearest``, which misses the target
    least.
    """

    def __init__(self, problem: Problem, target: Target, methods: Sequence[Method] = ()) -> None:
        self.problem: Any = problem  # methods know which kind they take
        self.target, self.methods = target, tuple(methods)
        self.session: Session = problem.session
        self.attempts: list[Attempt] = []
        self.best: Factorization | None = None
        self.best_rank = inf  # of the best product so far by the target
        self.nearest: Factorization | None = None
        self._unpolished: list[tuple[str, list[Curve]]] = []
        self._costs: WeakKeyDictionary[SparseProduct, float] = WeakKeyDictionary()

    # -- what was found so far -------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        """Whether iterations can hardly improve on the best product: it is exact."""
        return self.best is not None and self.best.error <= EXACT and self.target.limit is None

    @property
    def is_settled(self) -> bool:
        """Whether no method can improve on the best product: it is exact, and only its error counts."""
        return self.is_exact and self.target.budget is not None

    @property
    def is_won(self) -> bool:
        """Whether a method that iterations rarely improve on is so far ahead of all others that they will not."""
        if self.best is None or not any(each.outruns and each.name == self.best.method for each in self.methods):
            return False
        others = [each for each in self.attempts if each.method != self.best.method and each.nnz > 0]
        if self.target.pricing is not None:
            lowest = min((attempt.error for attempt in others), default=inf)
        else:
            lowest = min((self.target.rank(attempt.nnz, attempt.error) for attempt in others), default=inf)
        return self.best_rank < (_AHEAD if min(self.problem.shape) <= _LARGE else _AHEAD_IF_LARGE) * lowest

    @property
    def _is_small(self) -> bool:
        return bool(self.problem.shape[0] * self.problem.shape[1] <= _POLISHED)

    def may_win(self, entries: float, error: float = 0.0) -> bool:
        """Whether a product with at least so many entries and such an error would be the best."""
        least = entries if self.target.pricing is None else entries / _FASTEST
        return self.target.rank(least, error) < self.best_rank

    def allows(self, name: str) -> bool:
        """Whether a method is among those of the search, with its number of factors."""
        count = self.target.n_factors
        return any(each.name == name and (count is None or each.n_factors(count)) for each in self.methods)

    # -- what products cost ----------------------------------------------------------------------------

    def cost_of(self, operator: SparseProduct) -> float:
        """What the target limits: entries, or the measured time, less what measurements vary by."""
        if self.target.pricing is None:
            return operator.nnz
        if operator not in self._costs:
            limit = TOLERANCE * (self.target.budget or 0)
            self._costs[operator] = self.target.pricing.fairly_measured(operator, limit) / TOLERANCE
        return self._costs[operator]

    def price_again(self, operator: SparseProduct) -> float:
        """The cost of a product, measured again, three times."""
        if self.target.pricing is not None:
            self._costs[operator] = self.target.pricing.fairly_measured(operator) / TOLERANCE
        return self.cost_of(operator)

    # -- running methods -------------------------------------------------------------------------------

    def run(self) -> None:
        """All methods in their order, until the session is stopped."""
        self._run()
        if self.target.pricing is not None and self.target.budget is not None:
            self._confirm(self.target.budget)

    def _run(self) -> None:
        methods = [each for each in self.methods if self.allows(each.name)]
        if self.problem.is_sparse:
            methods = [each for each in methods if each.takes_sparse]
        if self.problem.is_weighted and self.session.is_limited and self._is_small:
            # The time may be up before the last ones: of the long ones, those come first that see the inputs. Of
            # large matrices, iterations take longer than all others.
            methods.sort(key=lambda each: (each.share > 1, not each.is_weighted, -each.share))
        done = 0.0
        for k, method in enumerate(methods):
            if not method.applies(self):
                continue
            # What is left of the progress is for those methods that apply as far as is known now.
            ahead = sum(each.share for each in methods[k:] if each.applies(self))
            share = (1 - done) * method.share / ahead
            with self.session.part(share, f"{method.name.replace('_', ' ')}: "):
                if method.is_first or not self.session.tick("", 0, 1):
                    self.explore(method, method.curves(self))
            done += share
        self.finish()

    def _confirm(self, budget: int) -> None:
        """Time the best product once more; if it was mistaken for a faster one, search again for a smaller one.

        A product that is dropped may have been slow for a moment only. So it is timed at the end, too.
        """
        dropped: list[Factorization] = []
        for _ in range(_REPEATS):
            if self.best is None or self.session.stopped:
                break
            cost = self.price_again(self.best.operator)
            if cost <= budget:
                break
            self.target = self.target._replace(budget=int(budget * budget / cost))
            dropped.append(self.best)
            self.best, self.best_rank = None, inf
            self._run()
        for fit in sorted(dropped, key=lambda fit: fit.error):
            if self.best is not None and fit.error >= self.best.error:
                break
            cost = self.price_again(fit.operator)
            if cost <= budget:
                self.best, self.best_rank = fit, self.target.rank(cost, fit.error)
                break

    def aim(self, target: Target) -> None:
        """Go on with another target, for which the best product so far counts if it meets it."""
        self.target = target
        if self.best is not None:
            self.best_rank = target.rank(self.cost_of(self.best.operator), self.best.error)
            self.best = self.best if self.best_rank < inf else None

    def forget(self) -> None:
        """Begin again, with what is known of the problem."""
        self.best = self.nearest = None
        self.best_rank = inf
        self.attempts = []

    # -- recording -------------------------------------------------------------------------------------

    def explore(self, method: Method, curves: Iterable[Curve]) -> None:
        """Record what a method finds: each product by itself, and of all curves the best one by the target.

        Only that one is built, and it is kept if it is better than all others.
        """
        begin, families, is_measured = perf_counter(), [], self._is_measured(method)
        chosen: tuple[float, Curve, int] | None = None
        beyond, has_found = "nothing found", False
        with suppress(Interrupted):
            for curve in self._by_promise(map(self._measured, curves) if is_measured else curves):
                if curve.fit is not None or not curve.entries.size:
                    begin = self._record(curve, begin)
                    has_found = True
                    continue
                families.append(curve)
                rank, place = self._best_of(curve, min(self.best_rank, inf if chosen is None else chosen[0]))
                if rank < inf and (chosen is None or rank < chosen[0]):
                    chosen = rank, curve, place
                elif chosen is None:
                    beyond = self._beyond(curve)
        if chosen is not None:
            self._add_chosen(*chosen, begin)
        elif not has_found:
            self.add_failure(method.name, beyond, begin)
        if self._is_small and is_measured and not method.is_first:
            self._unpolished.append((method.name, families))
        elif self._is_small and method.is_polished and not self.is_exact:
            with suppress(Interrupted):
                self._polish(method.name, families, _GAIN, _POLISHES)

    def finish(self) -> None:
        """Polish what was found without regard to the inputs: after all methods, as some of that takes long."""
        with suppress(Interrupted):
            for name, families in self._unpolished:
                if not self.is_exact:
                    self._polish(name, families, _GAIN_IN_OUTPUTS, 1)
        self._unpolished = []

    def _record(self, curve: Curve, begin: float) -> float:
        """Record a product that is there already, or an attempt that failed; returns the time."""
        if curve.fit is None:
            self.add_failure(curve.method, curve.detail(0), begin)
        else:
            self.add(curve.method, curve.detail(0), curve.fit, begin, curve.noise)
        return perf_counter()

    def _add_chosen(self, rank: float, curve: Curve, place: int, begin: float) -> None:
        error, entries, detail = float(curve.errors[place]), int(curve.entries[place]), curve.detail(place)
        if not rank < self.best_rank:
            self.attempts.append(Attempt(curve.method, detail, error, entries, perf_counter() - begin))
            return
        with suppress(Interrupted):
            operator = self._built(curve, place)
            if self.target.n_factors in (None, len(operator.factors)):
                fit = Factorization(operator, error=self.problem.error_of(operator))
                self.add(curve.method, detail, fit, begin)

    def _beyond(self, curve: Curve) -> str:
        """What is said of a curve that has no product for the target."""
        errors = self.target.estimated(curve.errors)
        exact = np.flatnonzero(errors <= self.target.exact)
        place = int(exact[0]) if exact.size else 0 if self.target.limit is None else int(np.argmin(errors))
        error = "exact" if exact.size else f"an error of {errors[place]:.2g}"
        return f"{curve.detail(place)}: {error} with {curve.entries[place]:,} entries, beyond the target"

    def _is_measured(self, method: Method) -> bool:
        """Whether errors of a method are not those that count, which are measured where products are built."""
        return bool(self.problem.is_weighted) and not method.is_weighted

    def _measured(self, curve: Curve) -> Curve:
        """The product of a curve that suits the target, with its error; the curve itself if there is none."""
        self.session.check()
        operators: dict[int, SparseProduct] = {}

        def error_at(place: int) -> float:
            operators[place] = curve.build(place)
            return float(self.problem.error_of(operators[place]))

        limit, most = self.target.limit, curve.entries.size - 1
        if most < 0:
            return curve
        if self.target.pricing is not None and most:
            ratio = error_at(most // 2) / max(float(curve.errors[most // 2]), 1e-300)
            return curve._replace(errors=ratio * curve.errors)
        place = 0
        if limit is not None and most:
            within = crossing(lambda at: error_at(at) - limit, most // 2, most // 4 + 1, 0, most, _TRIES)[1]
            place = most if within is None else within
        elif most:
            rank, place = curve.best(self.target)
            if rank == inf:
                return curve
        error = error_at(place)
        if curve.fit is not None:
            return found(curve.method, curve.detail(0), replace(curve.fit, error=error))
        return single(curve.method, curve.detail(place), operators[place], error)

    def _by_promise(self, curves: Iterable[Curve]) -> Iterator[Curve]:
        """Where times are measured, the curves that promise most, the best first: each takes some measurements."""
        if self.target.pricing is None:
            yield from curves
            return
        families = []
        for curve in curves:
            if curve.fit is not None or not curve.entries.size:
                yield curve
            else:
                families.append(curve)
        yield from sorted(families, key=self._lowest_error)[:_MOST_CURVES]

    def _lowest_error(self, curve: Curve) -> float:
        """The error of a curve's last product that may be fast enough: of the fastest entries."""
        place = curve.place_of(int(_FASTEST * (self.target.budget or 0)))
        return inf if place < 0 else float(self.target.estimated(curve.errors[place]))

    def _best_of(self, curve: Curve, lowest: float) -> tuple[float, int]:
        """The lowest rank of the products of a curve by the target, if below ``lowest``, and its place."""
        pricing, budget = self.target.pricing, self.target.budget
        if pricing is None or budget is None:
            return curve.best(self.target)
        if self._lowest_error(curve) >= lowest:
            return inf, 0
        self.session.check()
        least = int(curve.entries[0])
        most = int(curve.entries[curve.place_of(int(_FASTEST * budget))])
        entries = pricing.most_entries(lambda count: curve.build(curve.place_of(count)), least, most, budget)
        if entries is None:
            return inf, 0
        place = curve.place_of(entries)
        return float(self.target.estimated(curve.errors[place])), place

    def _built(self, curve: Curve, place: int) -> SparseProduct:
        """The product at a place, or at a later one if it has fewer entries than were expected."""
        operator, budget = curve.build(place), self.target.budget
        if budget is None or self.target.pricing is not None:
            return operator
        for _ in range(_BUILDS):
            spare = budget - operator.nnz
            later = int(np.searchsorted(curve.entries, curve.entries[place] + spare, side="right")) - 1
            if spare < _SPARE_SHARE * budget or later <= place or curve.errors[later] >= curve.errors[place]:
                break
            larger = curve.build(later)
            if larger.nnz > budget:
                break
            operator, place = larger, later
        return operator

    def add(self, method: str, detail: str, fit: Factorization, begin: float, noise: float = 0.0) -> Factorization:
        """Record a fit that was started at ``begin``, keep it if it is the best, and return it with its method.

        ``noise`` is the error that noise in the matrix explains.
        """
        self.attempts.append(Attempt(method, detail, fit.error, fit.operator.nnz, perf_counter() - begin))
        fit = replace(fit, method=method)
        cost = self.cost_of(fit.operator)
        if self.nearest is None or self.target.distance(cost, fit.error) < self._distance(self.nearest):
            self.nearest = fit
        if self.target.n_factors not in (None, len(fit.operator.factors)):
            return fit
        rank = self.target.rank(cost, fit.error, noise)
        if rank < self.best_rank or (
            self.best is not None and rank == self.best_rank < inf and fit.operator.nnz < self.best.operator.nnz
        ):
            self.best, self.best_rank = fit, rank
        return fit

    def _distance(self, fit: Factorization) -> tuple[float, float]:
        return self.target.distance(self.cost_of(fit.operator), fit.error)

    def add_failure(self, method: str, detail: str, begin: float) -> None:
        """Record an attempt that found nothing."""
        self.attempts.append(Attempt(method, detail, inf, 0, perf_counter() - begin))

    def _polish(self, method: str, families: Sequence[Curve], gain: float, most: int) -> None:
        """Least squares on the supports of those products that may become the best by it."""
        begin = perf_counter()
        ranks = [self.target.ranks(curve.entries, curve.errors / gain) for curve in families]
        promising = [
            (rank, k, place)
            for k, own in enumerate(ranks)
            for place, rank in enumerate(own.tolist())
            if rank < self.best_rank
        ]
        for rank, k, place in sorted(promising)[:most]:
            if rank < self.best_rank:
                curve = families[k]
                operator, error = polished(self.session, self.problem.moments, curve.build(place))
                fit = Factorization(operator, error=error)
                self.add(method, f"{curve.detail(place)}, polished", fit, begin)
