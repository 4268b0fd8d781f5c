"""The roads that `factorize` may take to a product with few entries."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..constraints import Constraint, Sparse, SparseColumns, SparseRows
from ..kernels.threads import blas_threads
from ..operators import SparseProduct
from ..results import Factorization, History, Road, Status, Step
from ..validation import Array
from .annealing import STEPS, annealed
from .hierarchical import hierarchical
from .palm import Callback, palm
from .schedule import Schedule

_ROUNDS = 60  # of annealing at most
_WORK = 2e10  # multiplications that annealing may take; a minute at the very most
_TRIAL = 4  # a candidate is tried with this part of the rounds
_START_STEPS = 100
_BEHIND = 2  # a candidate that starts with so many times the lowest error is not annealed
_INNER = 2  # how many times more columns than the dense factors of low rank the sparse ones have


class Watch:
    """Stops the solvers when the time is over or the caller says so, and keeps the list of roads."""

    def __init__(self, callback: Callback | None, time_budget: float | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable, got {callback!r}")
        self.roads: list[Road] = []
        self.stopped = False
        self.planned = 0  # iterations of PALM in all, by estimate
        self._iterations = 0
        self._callback = callback
        self._begin = perf_counter()
        self._end = np.inf if time_budget is None else self._begin + time_budget

    def on(self, road: str) -> Callback:
        """The callback for a solver on a road, which is put before the names of its phases."""

        def callback(step: Step) -> bool:
            self._iterations += 1
            if perf_counter() > self._end:
                self.stopped = True
            elif self._callback is not None:
                seconds = perf_counter() - self._begin
                done = self._iterations / (self.planned + self._iterations / 10) if self.planned else 0.0
                if np.isfinite(self._end):
                    done = max(done, seconds / (self._end - self._begin))
                shown = step._replace(phase=f"{road}: {step.phase}", seconds=seconds, done=min(done, 1.0))
                self.stopped = bool(self._callback(shown)) or self.stopped
            return self.stopped

        return callback

    def note(self, method: str, detail: str, fit: Factorization, begin: float) -> Factorization:
        """``fit`` with its method, after adding it to the list."""
        self.roads.append(Road(method, detail, fit.error, fit.operator.nnz, perf_counter() - begin))
        return replace(fit, method=method)


class Candidate(NamedTuple):
    """Sets to fit in, and where to start."""

    method: str
    detail: str
    schedule: Schedule
    start: Factorization


def low_rank(matrix: Array, svd: tuple[Array, Array, Array], rank: int) -> Factorization:
    """The best approximation of a rank, as two dense factors."""
    U, sizes, V = svd
    roots = np.sqrt(sizes[:rank])
    error = float(np.linalg.norm(sizes[rank:]) / np.linalg.norm(sizes))
    operator = SparseProduct([U[:, :rank] * roots, roots[:, None] * V[:rank]])
    return Factorization(operator.astype(matrix.dtype), error, 0, Status.CONVERGED, History())


def candidates(
    matrix: Array, budget: int, n_factors: int | None, methods: Sequence[str], svd: Any, watch: Watch
) -> list[Candidate]:
    """Sets with ``budget`` entries, and fits in them to start from."""
    found = []
    short = min(matrix.shape)
    if "hierarchical" in methods:
        square = matrix.shape[0] == matrix.shape[1]
        for count in (2, 3) if n_factors is None else (n_factors,):
            if budget < least_entries(matrix.shape, count):
                continue
            for side in (
                ("left", "right") if square else ("right" if matrix.shape[0] < matrix.shape[1] else "left",)
            ):
                schedule = even_schedule(matrix.shape, count, budget, side)
                detail = f"{count} factors from the {side}"
                start = hierarchical(
                    matrix,
                    schedule,
                    inertia=True,
                    max_iter=_START_STEPS,
                    callback=watch.on(f"hierarchical, {detail}"),
                )
                found.append(Candidate("hierarchical", detail, schedule, start))
                if watch.stopped:
                    return found
    inner = _INNER * (budget // sum(matrix.shape))
    if "low_rank" in methods and svd is not None and n_factors in (None, 2) and 0 < inner < short:
        schedule = _thin_schedule(matrix.shape, inner, budget)
        detail = f"sparse, {inner} columns and rows inside"
        sets = schedule.together(0)
        dense = low_rank(matrix, svd, inner).operator.factors
        factors = [constraint.project(factor) for constraint, factor in zip(sets, dense, strict=True)]
        start = palm(
            matrix,
            sets,
            init=factors,
            scale=float(np.linalg.norm(svd[1])),
            max_iter=_START_STEPS,
            inertia=True,
            callback=watch.on(f"low rank, {detail}"),
        )
        found.append(Candidate("low_rank", detail, schedule, start))
    return found


def searched(
    matrix: Array, options: Sequence[Candidate], random: np.random.RandomState, watch: Watch, effort: float = 1.0
) -> Factorization | None:
    """The best fit by annealing: all candidates for a short time, the best of them for longer."""
    fits = []
    lowest = min((option.start.error for option in options), default=0.0)
    for option in options:
        begin = perf_counter()
        rounds = int(effort * _rounds_for(matrix, option.schedule))
        fit = option.start
        if len(options) > 1 and fit.error <= _BEHIND * lowest and not watch.stopped:
            fit = annealed(matrix, option.schedule, fit, rounds // _TRIAL, random, watch.on(_title(option)))
        fits.append(watch.note(option.method, option.detail, fit, begin))
    if not fits:
        return None
    best = int(np.argmin([fit.error for fit in fits]))
    if watch.stopped:
        return fits[best]
    begin = perf_counter()
    option = options[best]
    rounds = int(effort * _rounds_for(matrix, option.schedule))
    fit = annealed(matrix, option.schedule, option.start, rounds, random, watch.on(_title(option)))
    longer = watch.note(option.method, f"{option.detail}, annealed for longer", fit, begin)
    return min(longer, fits[best], key=lambda fit: fit.error)


def planned_steps(matrix: Array, effort: float = 1.0) -> int:
    """Iterations of PALM that `candidates` and `searched` take, by estimate: four starts, and their annealing."""
    rounds = _rounds_within(_WORK, 2 * matrix.size * min(matrix.shape))
    return 4 * 2 * _START_STEPS + int(2 * effort * rounds * 2 * STEPS)


def _title(option: Candidate) -> str:
    return f"{option.method.replace('_', ' ')}, {option.detail}"


def _rounds_for(matrix: Array, schedule: Schedule) -> int:
    sets = schedule.together(len(schedule.factors) - 1)
    inner = max(constraint.shape[1] for constraint in sets[:-1])
    return _rounds_within(_WORK, len(sets) * matrix.size * inner)


def _rounds_within(work: float, product: int) -> int:
    """As many rounds as the work allows, with two products for each step; none for very large matrices."""
    return min(_ROUNDS, int(work / (2 * STEPS * 2 * product)))


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


def decomposed(matrix: Array) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition."""
    with blas_threads(matrix.size * min(matrix.shape)):
        U, sizes, V = np.linalg.svd(matrix, full_matrices=False)
    return U, sizes, V
