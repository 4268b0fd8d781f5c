"""Candidates: schedules with a given number of entries, and the search for the best by annealing."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..constraints import Constraint, Sparse, SparseBlocks, SparseColumns, SparseRows
from ..constraints.blocks import n_blocks_of
from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Factorization, History, Status
from ..solvers.hierarchical import factorize_by_splits
from ..solvers.moments import Moments
from ..solvers.palm import Limits, as_factorization, descend, is_rough, palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .annealing import STEPS, annealed, best_scale, dense_factors
from .attempts import Search, error_of
from .pricing import random_member
from .targets import least_entries

_ROUNDS = 60  # of annealing at most
_WORK = 1.3e10  # multiplications that the annealing of one candidate may take: all rounds for 90×90 and less
_MANY_ROUNDS = 15  # with fewer, annealing takes long enough without trying both sides
_TRIAL = 4  # a candidate is tried with the rounds divided by this
_MOST_STEPS, _LEAST_STEPS = 100, 10  # of a start, in each of its phases
_START_WORK = 3e10  # multiplications that a phase of a start may take
_STEPS_BEFORE = 20  # of a start in each phase, if a few rounds of annealing follow, which gain more per step
_BEHIND = 2  # a candidate that starts with more than this many times the lowest error is not annealed
_HOPELESS = 5  # nor is its start finished if its first steps end with more than this many times
_LAGGING = 1.03  # the same for large matrices, in terms of the first steps of other candidates
_LARGE = 128  # the short side up to which three factors in blocks are tried, and all candidates to their end
_SAMPLE = 4  # lines of a wide or tall matrix, times its short side, on which a start is tried first
_INNER = 2  # columns of the sparse factors of low rank over those of the dense ones


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
        return self.phase_steps * (2 * len(self.schedule.factors) if self.method == "hierarchical" else 1)

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
    methods = [method for method in search.methods if search.allows(method)]
    found = []
    for block in search.structure.blocks:
        entries = _entries_within(search, budget, block)
        found += candidates(search.matrix.shape, entries, search.n_factors, methods, block)
    return found


def _entries_within(search: Search, budget: int, block: tuple[int, int] | None) -> int:
    """The entries of two factors with random supports that cost ``budget``; 0 if there are none."""
    shape, pricing = search.matrix.shape, search.structure.pricing
    if pricing is None:
        return budget
    count = search.n_factors or 2

    def build(entries: int) -> SparseProduct:
        schedule = even_schedule(shape, count, entries, best_side(shape), block)
        return random_member(schedule, search.matrix.dtype)

    least = least_entries(shape, count, block)
    return pricing.most_entries(build, least, max(2 * search.matrix.size, least), budget) or 0


def candidates(
    shape: tuple[int, int],
    budget: int,
    n_factors: int | None,
    methods: Sequence[str],
    block: tuple[int, int] | None = None,
) -> list[Candidate]:
    """Sets with ``budget`` entries in all, in blocks or one by one."""
    found = []
    short = min(shape)
    suffix = "" if block is None else f", blocks of {block[0]}×{block[1]}"
    if "hierarchical" in methods:
        both_sides = shape[0] == shape[1] and _rounds_within(2 * short**3) >= _MANY_ROUNDS
        # Which rows and columns share blocks is chosen anew in each round: three large factors take too long.
        counts = (2, 3) if block is None or short <= _LARGE else (2,)
        for count in counts if n_factors is None else (n_factors,):
            if budget >= least_entries(shape, count, block):
                for side in ("left", "right") if both_sides else (best_side(shape),):
                    schedule = even_schedule(shape, count, budget, side, block)
                    found.append(Candidate("hierarchical", f"{count} factors from the {side}{suffix}", schedule))
    inner = _INNER * (budget // sum(shape))
    if "low_rank" in methods and n_factors in (None, 2) and 0 < inner < short and block is None:
        detail = f"sparse, {inner} columns and rows inside"
        found.append(Candidate("low_rank", detail, _thin_schedule(shape, inner, budget)))
    return found


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


def best_candidate(search: Search, budget: int, effort: float = 1.0) -> Factorization | None:
    """The best fit with ``budget`` entries by annealing: all candidates for a short time, the best for longer.

    ``effort`` is the share of the usual rounds of annealing. None for zeros and if there is no candidate.
    """
    session, options = search.session, allowed_candidates(search, budget) if search.matrix.any() else []
    *trial_steps, last_steps = expected_steps(options, effort)
    total = sum(trial_steps) + last_steps
    trials: list[Trial] = []
    lowest = np.inf if search.best is None else search.best.error
    if search.structure.pricing is None:
        within = (attempt.error for attempt in search.attempts if 0 < attempt.nnz <= budget)
        lowest = min(within, default=np.inf)
    first = np.inf  # the lowest error after the first steps of a candidate
    for option, steps in zip(options, trial_steps, strict=True):
        begin = perf_counter()
        with session.part(steps / total, f"{option.title}: "):
            if _error_on_some_lines(search, option) > _BEHIND * lowest:
                search.add_failure(option.method, f"{option.detail}, far behind on some lines", begin)
                continue
            most = min(_HOPELESS * lowest, np.inf if min(option.schedule.shape) <= _LARGE else _LAGGING * first)
            quick, start, fit = _tried(search, option, _trial_rounds(options, option, effort), lowest, most)
        first, lowest = min(first, quick.error), min(lowest, start.error)
        trials.append(Trial(option, start, search.add(option.method, option.detail, fit, begin)))
        if session.stopped:
            break
    best = min(trials, key=lambda trial: trial.fit.error, default=None)
    if best is None or session.stopped or best.start.error > _BEHIND * lowest:
        return None if best is None else best.fit
    option, begin = best.option, perf_counter()
    with session.part(last_steps / total, f"{option.title}: "):
        fit = annealed(session, search.matrix, option.schedule, best.start, option.rounds(effort))
    longer = search.add(option.method, f"{option.detail}, annealed for longer", fit, begin)
    return min(longer, best.fit, key=error_of)


def _error_on_some_lines(search: Search, option: Candidate) -> float:
    """The error of a start on random columns of a wide matrix, or rows of a tall one; 0 if it is neither.

    They have factors of their own, and fewer lines are easier to fit. In blocks it would be the other way round:
    which lines share them is chosen among all.
    """
    shape, outer = search.matrix.shape, option.schedule.factors[0]
    count = _SAMPLE * min(shape)
    if not isinstance(outer, SparseColumns | SparseRows) or max(shape) < 2 * count:
        return 0.0
    lines = np.sort(np.random.default_rng(0).permutation(max(shape))[:count])
    some = search.matrix[:, lines] if shape[0] < shape[1] else search.matrix[lines]
    if not some.any():
        return 0.0
    schedule = option.schedule
    schedule = Schedule(
        [type(outer)(some.shape, outer.k), *schedule.factors[1:]], schedule.residuals, side=schedule.side
    )
    limits = Limits(max_iter=_LEAST_STEPS, inertia=True)
    return factorize_by_splits(search.session, some, schedule, limits, polish=False).error


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
        return quick, start, annealed(session, search.matrix, option.schedule, start, rounds)


def start_of(search: Search, option: Candidate, steps: int = _MOST_STEPS) -> Factorization:
    """A fit in the candidate's sets to start from: of low rank, or by the hierarchical strategy."""
    matrix, schedule = search.matrix, option.schedule
    steps = min(steps, option.phase_steps)
    if option.method == "hierarchical":
        limits = Limits(max_iter=steps, inertia=True)
        is_small = steps == _MOST_STEPS  # else the polish would take most of the time
        fit = _split(search, schedule, limits, is_small)
        if len(fit.operator.factors) == len(schedule.constraints):
            return fit
        # Stopped before the last split: the residual is denser than the last factor may be.
        fit = palm(matrix, schedule.constraints, order=schedule.order, max_iter=1)
        return replace(fit, status=Status.STOPPED)
    operator = search.of_rank(schedule.constraints[0].shape[1])
    return descended(search, schedule, dense_factors(operator), frobenius(matrix), steps)


def _split(search: Search, schedule: Schedule, limits: Limits, polish: bool) -> Factorization:
    """`factorize_by_splits`, in single precision unless the matrix is small or the error turns out to be."""
    session, matrix = search.session, search.matrix
    moments = Moments(matrix)
    if is_rough(moments, schedule.constraints, 1.0):
        fit = factorize_by_splits(session, moments.in_single_precision.cross, schedule, limits, polish=polish)
        if session.stopped or is_rough(moments, schedule.constraints, fit.error):
            return replace(fit, operator=fit.operator.astype(matrix.dtype))
    return factorize_by_splits(session, matrix, schedule, limits, polish=polish)


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
    scale = scale or best_scale(search.matrix, members) or 1.0
    moments, limits = Moments(search.matrix), Limits(schedule.order, steps, inertia=True)
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
