"""The hierarchical strategy and sparse factors of low rank, by PALM and annealing.

Candidates are schedules with a given number of entries. Which number that is depends on the target: a budget is
used as it is, for an error the fewest entries are found by halving an interval, and without both some numbers are
tried for a short time.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np

from ...constraints import Constraint, Sparse, SparseBlocks, SparseColumns, SparseRows
from ...constraints.sparsity import n_blocks_of
from ...linalg import frobenius
from ...operators import SparseProduct
from ...results import Factorization, History, Status
from ...solvers.annealing import STEPS, annealed, best_scale, dense_factors
from ...solvers.hierarchical import factorize_by_splits
from ...solvers.moments import Moments
from ...solvers.palm import Limits, as_factorization, descend, is_rough, palm
from ...solvers.schedule import Schedule
from ...typing import Array
from ..curves import Curve, failed, found
from ..pricing import random_member
from ..search import Method, Search, two_factors
from ..targets import EXACT, least_entries
from .low_rank import NAME as LOW_RANK

_ROUNDS = 60  # Largest number of rounds of annealing.
_WORK = 1.3e10  # multiplications that the annealing of one candidate may take: all rounds for 90×90 and less
_MANY_ROUNDS = 15  # With fewer rounds, only one side is tried.
_TRIAL = 4  # a candidate is tried with the rounds divided by this
_MOST_STEPS, _LEAST_STEPS = 100, 10  # Iterations of a start in each of its phases.
_START_WORK = 3e10  # multiplications that a phase of a start may take
_STEPS_BEFORE = 20  # The same if a few rounds of annealing follow, which gain more per step.
_BEHIND = 2  # a candidate that starts with more than this many times the lowest error is not annealed
_HOPELESS = 5  # nor is its start finished if its first steps end with more than this many times
_LAGGING = 1.03  # the same for large matrices, in terms of the first steps of other candidates
_LARGE = 128  # the short side up to which three factors in blocks are tried, and all candidates to their end
_SAMPLE = 4  # lines of a wide or tall matrix, times its short side, on which a start is tried first
_INNER = 2  # columns of the sparse factors of low rank over those of the dense ones

NAME = "hierarchical"
_KNEES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)  # complexities at which the knee may be
_FEW_KNEES = (0.05, 0.1, 0.25, 0.5)  # The complexities that are tried for large matrices.
_QUICK_STEPS = 50
# Halvings of the interval that contains the fewest entries, for small and large matrices.
_HALVINGS, _FEW_HALVINGS = 6, 2
_PROMISING = 1.5  # a quick fit within this many times the target is worth longer ones
_ANNEALED = 4  # the same where there is time for annealing
_SHORTER, _LONGER = 8, 2  # divide the rounds of a fit from nothing, for a candidate near a known one and the best
_TRIALS_SHARE = 1 / 2  # Estimated share of the work at a point of a sweep.
_PROBE_EVERY = 4  # points: there all candidates are tried, and from nothing, too


class Candidate(NamedTuple):
    """A method and the constraint sets of its fit."""

    method: str
    detail: str
    schedule: Schedule

    @property
    def title(self) -> str:
        return f"{self.method.replace('_', ' ')}, {self.detail}"

    @property
    def start_steps(self) -> int:
        """Iterations of PALM that a start takes at most."""
        return self.phase_steps * (2 * len(self.schedule.factors) if self.method == NAME else 1)

    @property
    def phase_steps(self) -> int:
        """Iterations of PALM in each phase of a start, the fewer the larger the matrix."""
        most = _STEPS_BEFORE if 0 < self.rounds() < _MANY_ROUNDS else _MOST_STEPS
        return int(np.clip(_START_WORK / (4 * self._product), _LEAST_STEPS, most))

    def rounds(self, effort: float = 1.0) -> int:
        """Rounds of annealing, the fewer the larger the matrix."""
        return int(effort * _rounds_within(self._product))

    @property
    def _product(self) -> int:
        """The multiplications of a product with each of the factors, as dense matrices."""
        sets, (m, n) = self.schedule.constraints, self.schedule.shape
        return len(sets) * m * n * max(constraint.shape[1] for constraint in sets[:-1])


# -- which candidates there are ------------------------------------------------------------------------


def allowed_candidates(search: Search, budget: int) -> list[Candidate]:
    """The candidates with ``budget`` entries that a search allows."""
    methods = [name for name in (NAME, LOW_RANK) if search.allows(name)]
    options: list[Candidate] = []
    for block in search.target.blocks:
        entries = _entries_within(search, budget, block)
        options += candidates(search.problem.shape, entries, search.target.n_factors, methods, block)
    return options


def _entries_within(search: Search, budget: int, block: tuple[int, int] | None) -> int:
    """The entries of two factors with random supports that cost ``budget``; 0 if there are none."""
    shape, pricing = search.problem.shape, search.target.pricing
    if pricing is None:
        return budget
    count = search.target.n_factors or 2

    def build(entries: int) -> SparseProduct:
        schedule = even_schedule(shape, count, entries, best_side(shape), block)
        return random_member(schedule, search.problem.matrix.dtype)

    least = least_entries(shape, count, block)
    return pricing.most_entries(build, least, max(2 * search.problem.matrix.size, least), budget) or 0


def candidates(
    shape: tuple[int, int],
    budget: int,
    n_factors: int | None,
    methods: Sequence[str],
    block: tuple[int, int] | None = None,
) -> list[Candidate]:
    """Sets with ``budget`` entries in all, in blocks or one by one."""
    options = []
    short = min(shape)
    suffix = "" if block is None else f", blocks of {block[0]}×{block[1]}"
    if NAME in methods:
        both_sides = shape[0] == shape[1] and _rounds_within(2 * short**3) >= _MANY_ROUNDS
        # Which rows and columns share blocks is chosen again in each round: three large factors take too long.
        counts = (2, 3) if block is None or short <= _LARGE else (2,)
        for count in counts if n_factors is None else (n_factors,):
            if budget >= least_entries(shape, count, block):
                for side in ("left", "right") if both_sides else (best_side(shape),):
                    schedule = even_schedule(shape, count, budget, side, block)
                    options.append(Candidate(NAME, f"{count} factors from the {side}{suffix}", schedule))
    inner = _INNER * (budget // sum(shape))
    if LOW_RANK in methods and n_factors in (None, 2) and 0 < inner < short and block is None:
        detail = f"sparse, {inner} columns and rows inside"
        options.append(Candidate(LOW_RANK, detail, _thin_schedule(shape, inner, budget)))
    return options


def best_side(shape: tuple[int, int]) -> str:
    """The side of the factor that has the matrix's shape, where the others are square and small."""
    return "right" if shape[0] < shape[1] else "left"


def even_schedule(
    shape: tuple[int, int], n_factors: int, budget: int, side: str, block: tuple[int, int] | None = None
) -> Schedule:
    """Sets with ``budget`` entries in all and one density: one factor of the matrix's shape, the others square.

    Annealed fits of equal density had lower errors than those whose last factor was two, three or five times
    denser, on DCT, orthogonal and sparse-product matrices. Without annealing it was the other way round. With
    ``block``, entries come in blocks of this size.
    """
    long, short = max(shape), min(shape)
    if block is not None:
        return _blocks_schedule(shape, n_factors, budget, side, block)
    line = long + (n_factors - 2) * short  # entries of all factors but the last, per entry in a line
    k = min(max(budget // (line + short), (budget - short * short) // line, 1), short)
    last = min(budget - k * line, short * short)
    wide = side == "right"
    outer: Constraint = SparseColumns(shape, k) if wide else SparseRows(shape, k)
    if long == short:
        spare = budget - last - k * line
        outer = Sparse(shape, min(k * short + max(spare, 0), short * short))
    full = short * short
    residuals = [max(int(full * (last / full) ** (j / (n_factors - 1))), last) for j in range(1, n_factors)]
    return Schedule(
        [outer] + [Sparse(short, k * short)] * (n_factors - 2),
        [Sparse(short, entries) for entries in residuals],
        side=side,
    )


def _blocks_schedule(
    shape: tuple[int, int], n_factors: int, budget: int, side: str, block: tuple[int, int]
) -> Schedule:
    """The same in blocks: all factors have one share of their blocks, as far as the budget allows."""
    square = (min(shape),) * 2
    shapes = [shape, *[square] * (n_factors - 1)]
    most = [n_blocks_of(each, block) for each in shapes]
    share = min(budget / (block[0] * block[1] * sum(most)), 1.0)
    counts = [max(int(share * count), 1) for count in most]
    last = counts[-1]
    residuals = [
        max(int(most[-1] * (last / most[-1]) ** (j / (n_factors - 1))), last) for j in range(1, n_factors)
    ]
    return Schedule(
        [SparseBlocks(each, count, block) for each, count in zip(shapes[:-1], counts, strict=False)],
        [SparseBlocks(square, count, block) for count in residuals],
        side=side,
        regroup=True,
    )


def _thin_schedule(shape: tuple[int, int], inner: int, budget: int) -> Schedule:
    """Two factors of equal density, with ``inner`` columns and rows where they meet."""
    left = budget * shape[0] // sum(shape)
    return Schedule(
        [Sparse((shape[0], inner), min(left, shape[0] * inner))],
        [Sparse((inner, shape[1]), min(budget - left, inner * shape[1]))],
    )


# -- the search among them -----------------------------------------------------------------------------


class Trial(NamedTuple):
    """A candidate, the fit that it starts from, and the best one so far."""

    option: Candidate
    start: Factorization
    fit: Factorization


Steps: TypeAlias = Generator[Curve, None, Factorization | None]


def best_candidate(search: Search, budget: int, effort: float = 1.0) -> Steps:
    """The best fit with ``budget`` entries by annealing: all candidates for a short time, the best for longer.

    Yields each fit that it makes. ``effort`` is the share of the usual rounds of annealing. None for zeros and if
    there is no candidate.
    """
    session, options = search.session, [] if search.problem.is_zero else allowed_candidates(search, budget)
    *trial_steps, last_steps = expected_steps(options, effort)
    total = sum(trial_steps) + last_steps
    trials: list[Trial] = []
    lowest = np.inf if search.best is None else search.best.error
    if search.target.pricing is None:
        within = (attempt.error for attempt in search.attempts if 0 < attempt.nnz <= budget)
        lowest = min(within, default=np.inf)
    first = np.inf  # the lowest error after the first steps of a candidate
    for option, steps in zip(options, trial_steps, strict=True):
        with session.part(steps / total, f"{option.title}: "):
            if _error_on_some_lines(search, option) > _BEHIND * lowest:
                yield failed(option.method, f"{option.detail}, far behind on some lines")
                continue
            most = min(_HOPELESS * lowest, np.inf if min(option.schedule.shape) <= _LARGE else _LAGGING * first)
            quick, start, fit = _tried(search, option, _trial_rounds(options, option, effort), lowest, most)
        first, lowest = min(first, quick.error), min(lowest, start.error)
        trials.append(Trial(option, start, fit))
        yield found(option.method, option.detail, fit)
        if session.stopped:
            break
    best = min(trials, key=lambda trial: trial.fit.error, default=None)
    if best is None or session.stopped or best.start.error > _BEHIND * lowest:
        return None if best is None else best.fit
    option = best.option
    with session.part(last_steps / total, f"{option.title}: "):
        fit = annealed(session, search.problem.moments, option.schedule, best.start, option.rounds(effort))
    yield found(option.method, f"{option.detail}, annealed for longer", fit)
    return min(fit, best.fit, key=_error_of)


def _error_of(fit: Factorization) -> float:
    return fit.error


def _error_on_some_lines(search: Search, option: Candidate) -> float:
    """The error of a start on random columns of a wide matrix, or rows of a tall one; 0 if it is neither.

    They have factors of their own, and fewer lines are easier to fit. In blocks it would be the other way round:
    which lines share them is chosen among all.
    """
    shape, outer = search.problem.shape, option.schedule.factors[0]
    count = _SAMPLE * min(shape)
    if not isinstance(outer, SparseColumns | SparseRows) or max(shape) < 2 * count:
        return 0.0
    lines = np.sort(np.random.default_rng(0).permutation(max(shape))[:count])
    some, moments = search.problem.part(lines)
    if not some.any():
        return 0.0
    schedule = option.schedule
    schedule = Schedule(
        [type(outer)(some.shape, outer.k), *schedule.factors[1:]], schedule.residuals, side=schedule.side
    )
    limits = Limits(max_iter=_LEAST_STEPS, inertia=True)
    return _by_splits(search, some, moments, schedule, limits, polish=False).error


def _tried(
    search: Search, option: Candidate, rounds: int | None, lowest: float, most: float
) -> tuple[Factorization, Factorization, Factorization]:
    """A few steps in the candidate's sets, a start, and the fit by annealing; those before it if it is left out.

    The start is left out if the first steps end with an error above ``most``, and annealing if the start is far
    above the lowest error of other methods and candidates.
    """
    session = search.session
    share = option.start_steps / (option.start_steps + _annealing_steps(rounds))
    with session.part(share):
        quick = start = start_of(search, option, _LEAST_STEPS)
        has_more = option.phase_steps > _LEAST_STEPS  # very large matrices have none
        if has_more and not session.stopped and quick.error <= most:
            start = start_of(search, option)
    is_left = quick.error > most or start.error > _BEHIND * lowest
    if not rounds or session.stopped or is_left:
        return quick, start, start
    with session.part(1 - share):
        return quick, start, annealed(session, search.problem.moments, option.schedule, start, rounds)


def start_of(search: Search, option: Candidate, steps: int = _MOST_STEPS) -> Factorization:
    """A fit in the candidate's sets to start from: of low rank, or by the hierarchical strategy."""
    matrix, schedule = search.problem.matrix, option.schedule
    steps = min(steps, option.phase_steps)
    if option.method == NAME:
        limits = Limits(max_iter=steps, inertia=True)
        is_small = steps == _MOST_STEPS  # else the polish would take most of the time
        fit = _split(search, schedule, limits, is_small)
        if len(fit.operator.factors) == len(schedule.constraints):
            return fit
        # Stopped before the last split: the residual is denser than the last factor may be.
        fit = palm(matrix, schedule.constraints, order=schedule.order, max_iter=1)
        return replace(fit, status=Status.STOPPED, error=search.problem.error_of(fit.operator))
    operator = search.problem.of_rank(schedule.constraints[0].shape[1])
    scale = None if search.problem.is_weighted else frobenius(matrix)
    return descended(search, schedule, dense_factors(operator), scale, steps)


def _split(search: Search, schedule: Schedule, limits: Limits, polish: bool) -> Factorization:
    """`factorize_by_splits`, in single precision unless the matrix is small or the error turns out to be."""
    session, matrix, moments = search.session, search.problem.matrix, search.problem.moments
    if is_rough(moments, schedule.constraints, 1.0):
        fit = _by_splits(search, matrix, moments.in_single_precision, schedule, limits, polish)
        if session.stopped or is_rough(moments, schedule.constraints, fit.error):
            return replace(fit, operator=fit.operator.astype(matrix.dtype))
    return _by_splits(search, matrix, moments, schedule, limits, polish)


def _by_splits(
    search: Search, matrix: Array, moments: Moments, schedule: Schedule, limits: Limits, polish: bool
) -> Factorization:
    """`factorize_by_splits` of a matrix in the precision of its moments, which the global steps fit."""
    retarget = None if moments.gram is None else lambda operator: moments
    matrix = matrix.astype(moments.cross.dtype, copy=False)
    return factorize_by_splits(search.session, matrix, schedule, limits, retarget=retarget, polish=polish)


def descended(
    search: Search,
    schedule: Schedule,
    factors: Sequence[Array],
    scale: float | None = None,
    steps: int = _MOST_STEPS,
) -> Factorization:
    """PALM from factors that are projected onto the sets, with the best scale by default."""
    session, sets = search.session, schedule.sets_for(factors)
    begin = len(session.history)
    members = [constraint.project(factor) for constraint, factor in zip(sets, factors, strict=True)]
    moments = search.problem.moments
    scale = scale or best_scale(moments, members) or 1.0
    limits = Limits(schedule.order, steps, inertia=True)
    fit = descend(session, "palm", moments, sets, members, scale, limits)
    return as_factorization(moments, fit, History(session.history[begin:]))


# -- how long it takes ---------------------------------------------------------------------------------


def expected_steps(options: Sequence[Candidate], effort: float = 1.0) -> list[int]:
    """Iterations of PALM, at most, that each trial takes, and those of the best candidate's annealing."""
    trials = [each.start_steps + _annealing_steps(_trial_rounds(options, each, effort)) for each in options]
    return [*trials, max((_annealing_steps(option.rounds(effort)) for option in options), default=0)]


def _trial_rounds(options: Sequence[Candidate], option: Candidate, effort: float) -> int | None:
    """Rounds of annealing in a trial; a single candidate needs none."""
    return option.rounds(effort) // _TRIAL if len(options) > 1 else None


def _annealing_steps(rounds: int | None) -> int:
    return 2 * STEPS * (rounds or 0)


def _rounds_within(product: int) -> int:
    """The number of rounds that the work allows, with two products per step; none for very large matrices."""
    return min(_ROUNDS, int(_WORK / (2 * STEPS * 2 * product)))


# -- for each target -----------------------------------------------------------------------------------


def _curves(search: Search) -> Iterator[Curve]:
    """The hierarchical strategy and sparse low rank, where they may win."""
    if search.target.budget is not None:
        yield from best_candidate(search, search.target.budget)
    elif search.target.limit is not None:
        yield from _halve(search, search.target.limit)
    else:
        yield from _look_for_knee(search)


def _halve(search: Search, limit: float) -> Iterator[Curve]:
    """The fewest entries with an error of at most ``limit``, by halving the interval in which they lie."""
    shape, is_large = search.problem.shape, min(search.problem.shape) > _LARGE
    low = least_entries(shape, search.target.n_factors or 2)
    high = search.target.size if search.best is None else search.best.operator.nnz
    halvings = _FEW_HALVINGS if is_large else _HALVINGS
    for _ in range(halvings):
        budget = int(sqrt(low * high))
        if low >= high or search.session.stopped:
            break
        with search.session.part(1 / halvings):
            with search.session.part(0.2, "looking for fewer entries: "):
                error = _quick_error(search, int(0.8 * high)) if search.allows(NAME) else 0.0
            if error > (_PROMISING if is_large else _ANNEALED) * limit:
                break
            with search.session.part(0.8):
                fit = yield from best_candidate(search, budget, effort=0.5)
        if fit is not None and fit.error <= limit:
            high = min(budget, fit.operator.nnz)
        else:
            low = budget + 1


def _look_for_knee(search: Search) -> Iterator[Curve]:
    """The lowest sum of error and complexity: quick fits with some numbers of entries, then the best of these."""
    target, shape = search.target, search.problem.shape
    size, least = target.size, least_entries(shape, target.n_factors or 2, target.blocks[0])
    if least >= size:
        if search.target.n_factors is not None:
            yield from best_candidate(search, least)
        return
    if not search.allows(NAME):
        if search.best is not None:
            yield from best_candidate(search, search.best.operator.nnz)
        return
    knees = _FEW_KNEES if min(search.problem.shape) > _LARGE else _KNEES
    budgets = sorted({max(int(knee * size), least) for knee in knees})
    quick_steps = 2 * _QUICK_STEPS * len(budgets)
    share = quick_steps / (quick_steps + sum(expected_steps(allowed_candidates(search, size // 2))))
    sums: dict[int, float] = {}
    with search.session.part(share, "looking for the knee: "):
        for budget in budgets:
            # No error could make up for more entries than this.
            if budget / size >= search.best_rank or search.session.stopped:
                break
            with search.session.part(1 / len(budgets)):
                sums[budget] = _quick_error(search, budget) + budget / size
    if not sums or min(sums.values()) > _PROMISING * search.best_rank:
        return
    with search.session.part(1 - share):
        yield from best_candidate(search, min(sums, key=lambda budget: sums[budget]))


def _quick_error(search: Search, budget: int) -> float:
    """The error that a few iterations of the hierarchical strategy reach with ``budget`` entries."""
    shape = search.problem.shape
    block = search.target.blocks[0]
    if not search.allows(NAME) or budget < least_entries(shape, search.target.n_factors or 2, block):
        return inf
    schedule = even_schedule(shape, search.target.n_factors or 2, budget, best_side(shape), block)
    steps = min([_QUICK_STEPS, *(option.phase_steps for option in allowed_candidates(search, budget))])
    limits = Limits(max_iter=steps, inertia=True)
    problem, is_polished = search.problem, steps == _QUICK_STEPS
    return _by_splits(search, problem.matrix, problem.moments, schedule, limits, is_polished).error


# -- for many budgets ----------------------------------------------------------------------------------


class _Sweep:
    """Fits within growing budgets, and the candidates that are kept from one to the next.

    Each point continues from the factors of the one before, which nearly lie in its looser sets, by PALM and
    annealing, with half of the rounds that a fit from nothing takes. At the first point, and at every fourth one
    after it, each number of factors is also tried from nothing and from either side: the best for few entries need
    not be so for many.
    """

    def __init__(self, search: Search, budgets: Sequence[int]) -> None:
        self._search, self._session, self._budgets = search, search.session, budgets
        # For each method and number of factors, the trial on the better side at the point before.
        self._kept: dict[tuple[str, int], Trial] = {}

    def at(self, place: int) -> Iterator[Curve]:
        """The fits within one of the budgets."""
        best = self._search.best
        if best is None or not (best.error <= EXACT or self._search.is_won):
            for fit in self._approximations(self._budgets[place], probe=place % _PROBE_EVERY == 0):
                yield found(fit.method, "", fit)

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
            trials.append(Trial(option, start, min(fit, longer, key=_error_of)))
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
                trials.append(Trial(option, start, self._annealed(option, start, _SHORTER)))
        return trials

    def _starts(self, option: Candidate, probe: bool) -> list[Factorization]:
        """The factors of the point before, if there are any; if not, or to probe, also a fit from nothing."""
        kept = self._kept.get(_family(option))
        starts = []
        # The inner size of sparse low-rank products grows: these start from singular vectors each time.
        if option.method == NAME and kept and kept.option.schedule.side == option.schedule.side:
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
            fit = annealed(
                self._session, self._search.problem.moments, option.schedule, start, option.rounds() // divisor
            )
        return replace(fit, method=option.method)


def _family(option: Candidate) -> tuple[str, int]:
    """What candidates have in common that differ only in the side; the best of them is kept."""
    return option.method, len(option.schedule.factors)


def _may_gain(search: Search) -> bool:
    return not (search.problem.is_zero or search.is_exact or search.is_won)


METHOD = Method(
    NAME,
    "the paper's Algorithm 3 with two and three factors, and annealing",
    _curves,
    _may_gain,
    share=20.0,
    is_weighted=True,
    sweep=lambda search, budgets: _Sweep(search, budgets).at,
)

# Sparse factors of low rank by themselves.
LOW_RANK_ALONE = Method(
    LOW_RANK,
    "",
    _curves,
    lambda search: not search.allows(NAME) and _may_gain(search),
    share=20.0,
    n_factors=two_factors,
    is_weighted=True,
    sweep=METHOD.sweep,
)
