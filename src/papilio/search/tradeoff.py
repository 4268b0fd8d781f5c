"""A matrix at many complexities: each fit starts from the one before it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..results import Factorization
from ..solvers.palm import Callback, palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .annealing import STEPS, annealed, best_scale
from .candidates import START_STEPS, Candidate, candidates, rounds_for, started
from .factorize import EXACT, Search

# Parts of the rounds of annealing that a fit from nothing takes, for a candidate to be tried and for the best one.
_TRIAL, _LONGER = 8, 2
_PROBE_EVERY = 4  # points: there all candidates are tried, and from nothing, too


def swept(search: Search, budgets: Sequence[int]) -> Iterator[Factorization]:
    """The best fit within each of the budgets, which grow: the error never rises from one to the next.

    Structure (known transforms, butterflies, exact low rank) is looked for once. Then each point goes on from the
    factors of the one before, which nearly lie in its looser sets, by PALM and annealing, with half of the rounds
    that a fit from nothing takes. At the first point, and at every fourth one after it, each number of factors is
    also tried from nothing and from either side: what is best for few entries need not be for many.

    Once the watch of ``search`` says stop, no more points follow; there is always one.
    """
    structured = search.structured(0)
    search.watch.planned = planned_steps(search, budgets)
    best = search.nothing()
    trail = _Trail(search)
    for i, budget in enumerate(budgets):
        if i == 0 or best.error > EXACT:
            # The fit before comes first: of equal errors, that with the fewest entries stays.
            fits = [best] if i else []
            fits += sorted((fit for fit in structured if fit.operator.nnz <= budget), key=_entries)
            fits += search.itself_within(budget)
            if all(fit.error > EXACT for fit in fits):
                fits += trail.fits(budget, f"point {i + 1} of {len(budgets)}", i % _PROBE_EVERY == 0)
            if search.watch.stopped and i:
                return
            best = min(fits, key=_error, default=best)
        yield best
        if search.watch.stopped:
            return


def planned_steps(search: Search, budgets: Sequence[int]) -> int:
    """Iterations of PALM in all, by estimate."""
    steps = 0
    for budget in budgets:
        rounds = [rounds_for(option.schedule) for option in _options(search, budget)] or [0]
        steps += sum(START_STEPS + 2 * STEPS * (count // _TRIAL) for count in rounds)
        steps += 2 * STEPS * (max(rounds) // _LONGER)
    return steps


class _Trail:
    """The candidates along the sweep: for each number of factors the better side, with its factors so far."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._kept: dict[tuple[str, int], tuple[Candidate, Factorization]] = {}

    def fits(self, budget: int, point: str, probe: bool) -> list[Factorization]:
        """Low rank, and the candidates, of which the best is annealed for longer."""
        watch = self._search.watch
        dense = self._search.low_rank(budget // sum(self._search.matrix.shape))
        tried: list[tuple[Candidate, Factorization, Factorization]] = []
        for option in _options(self._search, budget):
            kept = self._kept.get(_family(option))
            if kept is None or probe or kept[0].schedule.side == option.schedule.side:
                report = watch.on(f"{point}, {option.title}")
                for start in self._starts(option, probe, report):
                    tried.append((option, start, self._annealed(option, start, _TRIAL, report)))
            if watch.stopped:
                break
        if tried and not watch.stopped:
            option, start, trial = tried.pop(min(range(len(tried)), key=lambda i: tried[i][2].error))
            longer = self._annealed(option, start, _LONGER, watch.on(f"{point}, {option.title}"))
            tried.append((option, start, min(trial, longer, key=_error)))
        self._kept = {}
        for option, _, fit in sorted(tried, key=lambda trial: trial[2].error):
            self._kept.setdefault(_family(option), (option, fit))
        fits = [fit for _, _, fit in tried]
        return fits if dense is None else [dense, *fits]

    def _starts(self, option: Candidate, probe: bool, report: Callback) -> list[Factorization]:
        """From the factors before, where there are some; else, or to probe, from nothing, too."""
        matrix, kept = self._search.matrix, self._kept.get(_family(option))
        starts = []
        # Of thin products the inner size grows: these start from singular vectors each time.
        if kept is not None and kept[0].schedule.side == option.schedule.side and option.method == "hierarchical":
            starts.append(_continued(matrix, option.schedule, kept[1], report))
        if not starts or (probe and not self._search.watch.stopped):
            starts.append(started(matrix, option, self._search.decomposed(), report))
        return starts

    def _annealed(self, option: Candidate, start: Factorization, part: int, report: Callback) -> Factorization:
        fit = start
        if not self._search.watch.stopped:
            rounds = rounds_for(option.schedule) // part
            fit = annealed(self._search.matrix, option.schedule, start, rounds, self._search.random, report)
        return replace(fit, method=option.method)


def _options(search: Search, budget: int) -> list[Candidate]:
    methods = ["hierarchical"] + ["low_rank"] * (search.decomposed() is not None)
    return candidates(search.matrix.shape, budget, search.n_factors, methods)


def _family(option: Candidate) -> tuple[str, int]:
    return option.method, len(option.schedule.factors)


def _continued(matrix: Array, schedule: Schedule, before: Factorization, callback: Callback) -> Factorization:
    """PALM from the factors of a fit in tighter sets."""
    sets = schedule.constraints
    factors = [
        constraint.project(factor.toarray())
        for constraint, factor in zip(sets, before.operator.factors, strict=True)
    ]
    return palm(
        matrix,
        sets,
        init=factors,
        scale=best_scale(matrix, factors) or 1.0,
        order=schedule.order,
        max_iter=START_STEPS,
        inertia=True,
        callback=callback,
    )


def _entries(fit: Factorization) -> int:
    return fit.operator.nnz


def _error(fit: Factorization) -> float:
    return fit.error
