"""A matrix at many complexities, in one call: each fit starts from the one before it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np

from ..linalg import in_units
from ..results import Callback, Factorization, Status, Tradeoff, TradeoffPoint
from ..runtime.session import Session
from ..typing import MatrixLike, RandomState
from ..validation import as_factor_count, as_integer, as_matrix, is_series
from .annealing import annealed, dense_factors
from .attempts import Search, error_of
from .candidates import Candidate, Trial, allowed_candidates, descended, start_of
from .structured import all_curves
from .targets import EXACT, Target, as_complexity, least_complexity
from .units import in_unit_of

_POINTS = 12
_MOST_POINTS = 1000  # each takes as long as a fit
_LOWEST, _HIGHEST = 0.05, 0.8  # of the complexities by default, where the matrix is large enough
_TRIAL, _LONGER = 8, 2  # divide the rounds of a fit from nothing, for a candidate to be tried and for the best one
_TRIALS_SHARE = 1 / 2  # of the work at a point, by estimate
_PROBE_EVERY = 4  # points: there all candidates are tried, and from nothing, too


def tradeoff(
    M: MatrixLike,
    complexities: int | Sequence[float] | None = None,
    *,
    n_factors: int | None = None,
    random_state: RandomState = 0,
    callback: Callback | None = None,
) -> Tradeoff:
    """Factorize a matrix at many complexities, to choose between speed and error.

    Each point is what `factorize` looks for within a complexity, in less than half the time of separate calls:
    structure is looked for once, and each point starts from the one before. The error never rises with the
    complexity.

    Parameters
    ----------
    M : (m, n) matrix
        Real or complex, dense or sparse.
    complexities : int or sequence of float, optional
        The largest relative complexities (entries of all factors over m·n), each above 0 and at most 1; or their
        number, up to 1000, in equal ratios from 0.05 (or the least that is possible) to 0.8. By default 12.
    n_factors : int, optional
        The number of factors of each product, at least 2. By default the number that gives the lowest error.
    random_state : int, RandomState, Generator or None, default=0
        The source of the random numbers of butterfly search and annealing. Results are reproducible by default;
        None stands for NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step`, whose ``done`` is the share of all work, after each iteration of
        PALM; if it returns a true value, only the points so far are returned.

    Returns
    -------
    Tradeoff
        Its ``points``, their ``front``, the recommended ``knee``, and ``plot()``.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> M = np.random.default_rng(0).standard_normal((16, 16))
    >>> curve = pp.tradeoff(M, [0.3, 0.5, 0.9])
    >>> curve.at(0.5).error < curve.at(0.3).error
    True
    """
    begin = perf_counter()
    matrix, unit = in_units(as_matrix("M", M))
    if n_factors is not None:
        n_factors = as_factor_count("n_factors", n_factors)
    limits = as_complexities(complexities, matrix.shape, n_factors)
    session = Session(callback, random_state=random_state)
    budgets = [int(complexity * matrix.size + 1e-9) for complexity in limits]
    target = Target(matrix.size, is_single=matrix.dtype.char in "fF")
    with session.interruptible():
        fits = _Sweep(Search(session, matrix, target, n_factors)).fits(budgets)
        points = never_rising(
            TradeoffPoint(complexity, fit.error, in_unit_of("M", fit.operator, unit))
            for complexity, fit in zip(limits, fits, strict=False)
        )
    status = Status.STOPPED if session.stopped else Status.CONVERGED
    return Tradeoff(points, 0.0, status, perf_counter() - begin)


# -- also for dictionaries -----------------------------------------------------------------------------


def as_complexities(
    complexities: Any, shape: tuple[int, int], n_factors: int | None, name: str = "M"
) -> list[float]:
    """Complexities in growing order, in equal ratios if only their number is given; ``name`` has the shape."""
    least, reason = least_complexity(shape, n_factors)
    if least > 1:
        wanted = f"n_factors must be less than {n_factors}" if (n_factors or 2) > 2 else f"{name} must be larger"
        raise ValueError(f"{wanted}: {reason} are more entries than it has")
    if complexities is None or isinstance(complexities, int | np.integer):
        count = as_integer("complexities", _POINTS if complexities is None else complexities, 1, _MOST_POINTS)
        lowest = max(_LOWEST, ceil(1e3 * least) / 1e3)
        return sorted(set(np.geomspace(min(lowest, 1.0), max(lowest, _HIGHEST), count).tolist()))
    if not is_series(complexities) or not isinstance(complexities, Sequence | np.ndarray):
        raise TypeError(f"complexities must be a number of points or a sequence of numbers, got {complexities!r}")
    if not len(complexities):
        raise ValueError("complexities must hold at least one number, got none")
    given = enumerate(complexities)
    return sorted({as_complexity(f"complexities[{i}]", value, shape, n_factors) for i, value in given})


def never_rising(points: Iterable[TradeoffPoint]) -> tuple[TradeoffPoint, ...]:
    """Points by growing complexity, each replaced by the one before if that has no higher error."""
    chosen: list[TradeoffPoint] = []
    for point in points:
        if chosen and point.error >= chosen[-1].error:
            point = chosen[-1]._replace(complexity=point.complexity)
        chosen.append(point)
    return tuple(chosen)


# -- the sweep -----------------------------------------------------------------------------------------


class _Sweep:
    """Fits within growing budgets, and the candidates that are kept from one to the next.

    Structure is looked for once. Then each point continues from
    the factors of the one before, which nearly lie in its looser sets, by PALM and annealing, with half of the
    rounds that a fit from nothing takes. At the first point, and at every fourth one after it, each number of
    factors is also tried from nothing and from either side: the best for few entries need not be so for many.
    """

    def __init__(self, search: Search) -> None:
        self._search, self._session = search, search.session
        # For each method and number of factors, the trial on the better side at the point before.
        self._kept: dict[tuple[str, int], Trial] = {}

    def fits(self, budgets: Sequence[int]) -> Iterator[Factorization]:
        """The best fit within each budget, until the session is stopped; there is always one."""
        search = self._search
        curves = all_curves(search, budgets)
        best: Factorization | None = None
        for i, budget in enumerate(budgets):
            search.target = search.target._replace(budget=budget)
            with self._session.part(1 / len(budgets), f"point {i + 1} of {len(budgets)}, "):
                search.best = best
                for curve in curves:
                    search.explore(curve.method, [curve], perf_counter())
                if search.best is None or not (search.best.error <= EXACT or search.is_won):
                    for fit in self._approximations(budget, probe=i % _PROBE_EVERY == 0):
                        search.add(fit.method, "", fit, perf_counter())
                if self._session.stopped and i:
                    return
                best = search.best
            yield best or search.itself()
            if self._session.stopped:
                return

    def _approximations(self, budget: int, probe: bool) -> list[Factorization]:
        """The candidates, of which the best is annealed for longer."""
        session, options = self._session, allowed_candidates(self._search, budget)
        trials: list[Trial] = []
        for option in options:
            with session.part(_TRIALS_SHARE / len(options), f"{option.title}: "):
                trials += self._trials(option, probe)
            if session.stopped:
                break
        if trials and not session.stopped:
            option, start, fit = trials.pop(min(range(len(trials)), key=lambda i: trials[i].fit.error))
            with session.part(1 - _TRIALS_SHARE, f"{option.title}: "):
                longer = self._annealed(option, start, _LONGER)
            trials.append(Trial(option, start, min(fit, longer, key=error_of)))
        self._kept = {}
        for trial in sorted(trials, key=lambda trial: trial.fit.error):
            self._kept.setdefault(_family(trial.option), trial)
        return [trial.fit for trial in trials]

    def _trials(self, option: Candidate, probe: bool) -> list[Trial]:
        """Short annealing of a candidate; not from the side that was worse before, unless ``probe``."""
        kept = self._kept.get(_family(option))
        if kept is not None and not probe and kept.option.schedule.side != option.schedule.side:
            return []
        with self._session.part(1 / 4):
            starts = self._starts(option, probe)
        trials = []
        for start in starts:
            with self._session.part(3 / 4 / len(starts)):
                trials.append(Trial(option, start, self._annealed(option, start, _TRIAL)))
        return trials

    def _starts(self, option: Candidate, probe: bool) -> list[Factorization]:
        """The factors of the point before, if there are any; if not, or to probe, also a fit from nothing."""
        kept = self._kept.get(_family(option))
        starts = []
        # The inner size of sparse low-rank products grows: these start from singular vectors each time.
        if option.method == "hierarchical" and kept and kept.option.schedule.side == option.schedule.side:
            factors = dense_factors(kept.fit.operator)
            with self._session.part(1 / 2):
                starts.append(descended(self._search, option.schedule, factors))
        if not starts or (probe and not self._session.stopped):
            with self._session.part(1 / 2):
                starts.append(start_of(self._search, option))
        return starts

    def _annealed(self, option: Candidate, start: Factorization, divisor: int) -> Factorization:
        fit = start
        if not self._session.stopped:
            fit = annealed(self._session, self._search.matrix, option.schedule, start, option.rounds() // divisor)
        return replace(fit, method=option.method)


def _family(option: Candidate) -> tuple[str, int]:
    """What candidates have in common that differ only in the side; the best of them is kept."""
    return option.method, len(option.schedule.factors)
