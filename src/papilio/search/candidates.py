"""The attempts that `factorize` may take to a product with few entries."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np

from ..constraints import Constraint, Sparse, SparseColumns, SparseRows
from ..operators import SparseProduct
from ..results import Attempt, Factorization, History, Status, Step
from ..runtime.threads import blas_threads
from ..solvers.hierarchical import hierarchical
from ..solvers.palm import Callback, palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .annealing import STEPS, annealed

_ROUNDS = 60  # of annealing at most
_WORK = 1e10  # multiplications that the annealing of one candidate may take: all rounds for 80×80 and less
_MANY_ROUNDS = 15  # with fewer, annealing takes long enough without trying both sides
TRIAL = 4  # a candidate is tried with this part of the rounds
START_STEPS = 100
_BEHIND = 2  # a candidate that starts with so many times the lowest error is not annealed
_INNER = 2  # how many times more columns than the dense factors of low rank the sparse ones have

Svd: TypeAlias = tuple[Array, Array, Array]


class Watch:
    """Stops the solvers when the time is over or the caller says so, and keeps the list of attempts."""

    def __init__(self, callback: Callback | None, time_budget: float | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable, got {callback!r}")
        self.attempts: list[Attempt] = []
        self.stopped = False
        self.planned = 0  # iterations of PALM in all, by estimate
        self._iterations = 0
        self._callback = callback
        self._begin = perf_counter()
        self._end = np.inf if time_budget is None else self._begin + time_budget

    def on(self, road: str) -> Callback:
        """The callback for a solver on a road, which is put before the names of its phases."""

        def callback(step: Step) -> bool:
            if self.stopped:
                return True
            self._iterations += 1
            if perf_counter() > self._end:
                self.stopped = True
            elif self._callback is not None:
                seconds = perf_counter() - self._begin
                done = self._iterations / (self.planned + self._iterations / 10) if self.planned else 0.0
                if np.isfinite(self._end):
                    done = max(done, seconds / (self._end - self._begin))
                shown = step._replace(phase=f"{road}: {step.phase}", seconds=seconds, done=min(done, 1.0))
                self.stopped = bool(self._callback(shown))
            return self.stopped

        return callback

    def is_over(self) -> bool:
        """Whether the time is over, or the caller has ended the search."""
        self.stopped = self.stopped or perf_counter() > self._end
        return self.stopped

    def note(self, method: str, detail: str, fit: Factorization, begin: float) -> Factorization:
        """``fit`` with its method, after adding it to the list."""
        self.attempts.append(Attempt(method, detail, fit.error, fit.operator.nnz, perf_counter() - begin))
        return replace(fit, method=method)


class Candidate(NamedTuple):
    """Sets to fit in, on one of the attempts."""

    method: str
    detail: str
    schedule: Schedule

    @property
    def title(self) -> str:
        return f"{self.method.replace('_', ' ')}, {self.detail}"


def low_rank(matrix: Array, svd: Svd, rank: int) -> Factorization:
    """The best approximation of a rank, as two dense factors."""
    U, sizes, V = svd
    roots = np.sqrt(sizes[:rank])
    error = float(np.linalg.norm(sizes[rank:]) / np.linalg.norm(sizes))
    operator = SparseProduct([U[:, :rank] * roots, roots[:, None] * V[:rank]])
    return Factorization(operator.astype(matrix.dtype), error, 0, Status.CONVERGED, History())


def candidates(
    shape: tuple[int, int], budget: int, n_factors: int | None, methods: Sequence[str]
) -> list[Candidate]:
    """Sets with ``budget`` entries in all."""
    found = []
    short = min(shape)
    if "hierarchical" in methods:
        many = shape[0] == shape[1] and _rounds_within(2 * short**3) >= _MANY_ROUNDS
        sides = ("left", "right") if many else ("right" if shape[0] < shape[1] else "left",)
        for count in (2, 3) if n_factors is None else (n_factors,):
            if budget >= least_entries(shape, count):
                for side in sides:
                    schedule = even_schedule(shape, count, budget, side)
                    found.append(Candidate("hierarchical", f"{count} factors from the {side}", schedule))
    inner = _INNER * (budget // sum(shape))
    if "low_rank" in methods and n_factors in (None, 2) and 0 < inner < short:
        detail = f"sparse, {inner} columns and rows inside"
        found.append(Candidate("low_rank", detail, _thin_schedule(shape, inner, budget)))
    return found


def searched(
    matrix: Array,
    options: Sequence[Candidate],
    svd: Svd | None,
    random: np.random.RandomState,
    watch: Watch,
    effort: float = 1.0,
) -> Factorization | None:
    """The best fit by annealing: all candidates for a short time, the best of them for longer."""
    starts: list[Factorization] = []
    fits: list[Factorization] = []
    for option in options:
        begin = perf_counter()
        fit = started(matrix, option, svd, watch.on(option.title))
        starts.append(fit)
        if len(options) > 1 and not watch.stopped and fit.error <= _BEHIND * min(start.error for start in starts):
            rounds = int(effort * rounds_for(option.schedule)) // TRIAL
            fit = annealed(matrix, option.schedule, fit, rounds, random, watch.on(option.title))
        fits.append(watch.note(option.method, option.detail, fit, begin))
        if watch.stopped:
            break
    if not fits:
        return None
    best = int(np.argmin([fit.error for fit in fits]))
    if watch.stopped:
        return fits[best]
    begin = perf_counter()
    option = options[best]
    rounds = int(effort * rounds_for(option.schedule))
    fit = annealed(matrix, option.schedule, starts[best], rounds, random, watch.on(option.title))
    longer = watch.note(option.method, f"{option.detail}, annealed for longer", fit, begin)
    return min(longer, fits[best], key=lambda fit: fit.error)


def started(matrix: Array, option: Candidate, svd: Svd | None, callback: Callback) -> Factorization:
    """A fit in the candidate's sets to start from: of low rank, or by the hierarchical strategy."""
    if option.method == "hierarchical":
        schedule = option.schedule
        fit = hierarchical(matrix, schedule, inertia=True, max_iter=START_STEPS, callback=callback)
        if len(fit.operator.factors) == len(schedule.factors) + 1:
            return fit
        # Stopped before the last split: the residual is denser than the last factor may be.
        order = schedule.order
        fit = palm(matrix, schedule.constraints, order=order, max_iter=1)
        return replace(fit, status=Status.STOPPED)
    assert svd is not None
    sets = option.schedule.together(0)
    dense = low_rank(matrix, svd, sets[0].shape[1]).operator.factors
    return palm(
        matrix,
        sets,
        init=[constraint.project(factor) for constraint, factor in zip(sets, dense, strict=True)],
        scale=float(np.linalg.norm(svd[1])),
        max_iter=START_STEPS,
        inertia=True,
        callback=callback,
    )


def planned_steps(matrix: Array, effort: float = 1.0) -> int:
    """Iterations of PALM that `candidates` and `searched` take, by estimate: four starts, and their annealing."""
    rounds = _rounds_within(2 * matrix.size * min(matrix.shape))
    return 4 * 2 * START_STEPS + int(2 * effort * rounds * 2 * STEPS)


def rounds_for(schedule: Schedule) -> int:
    sets = schedule.constraints
    inner = max(constraint.shape[1] for constraint in sets[:-1])
    return _rounds_within(len(sets) * schedule.shape[0] * schedule.shape[1] * inner)


def _rounds_within(product: int) -> int:
    """As many rounds as the work allows, with two products for each step; none for very large matrices."""
    return min(_ROUNDS, int(_WORK / (2 * STEPS * 2 * product)))


def even_schedule(shape: tuple[int, int], n_factors: int, budget: int, side: str) -> Schedule:
    """Sets with ``budget`` entries in all and one density: one factor of the matrix's shape, the others square.

    Annealed fits of equal density had lower errors than those whose last factor was two, three or five times
    denser, on DCT, orthogonal and sparse-product matrices; without annealing it was the other way round.
    """
    long, short = max(shape), min(shape)
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


def _thin_schedule(shape: tuple[int, int], inner: int, budget: int) -> Schedule:
    """Two factors of equal density, with ``inner`` columns and rows where they meet."""
    left = budget * shape[0] // sum(shape)
    return Schedule(
        [Sparse((shape[0], inner), min(left, shape[0] * inner))],
        [Sparse((inner, shape[1]), min(budget - left, inner * shape[1]))],
    )


def least_entries(shape: tuple[int, int], n_factors: int) -> int:
    """One entry a line in each factor: with fewer, rows or columns would vanish."""
    return max(shape) + (n_factors - 1) * min(shape)


def decomposed(matrix: Array) -> Svd:
    """The thin singular value decomposition."""
    with blas_threads(matrix.size * min(matrix.shape)):
        U, sizes, V = np.linalg.svd(matrix, full_matrices=False)
    return U, sizes, V
