"""Factorize Hadamard matrices, and record every iteration."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from ...constraints import Constraint, Sparse, SparseRowsAndColumns
from ...results import Factorization, Step
from ...solvers.hierarchical import hierarchical
from ...solvers.palm import palm
from ...solvers.schedule import Schedule
from ...transforms import hadamard
from ..tables import ENTRIES, entries_of, write_table
from ..trials import OnProgress

HIERARCHICAL, AT_ONCE = "hierarchical", "all at once"
PER_LINE, IN_ALL = "2 per row and column", "2n in all"

KEYS = ("size", "method", "sets")
RESULTS = (*KEYS, "factors", "entries", "relative_complexity", "error", "iterations")
TIMES = (*KEYS, "seconds")
CURVES = (*KEYS, "phase", "error")


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv, times.csv, convergence.csv (all iterations at the first size) and matrices.csv."""
    sizes = settings["sizes"]
    limits = {"max_iter": settings["max_iter"], "tol": settings["tol"]}
    cases = [(n, HIERARCHICAL, PER_LINE) for n in sizes]
    cases += [(sizes[0], HIERARCHICAL, IN_ALL), (sizes[0], AT_ONCE, IN_ALL), (sizes[0], AT_ONCE, PER_LINE)]
    _solve(8, HIERARCHICAL, PER_LINE, limits, None)  # compiles, which must not count
    _solve(8, AT_ONCE, IN_ALL, limits, None)
    results, times, curves, matrices = [], [], [], _known(sizes[0])
    steps: dict[str, Step] = {}  # the last of each phase
    progress(0, len(cases))
    for done, (n, method, sets) in enumerate(cases, start=1):
        key = dict(zip(KEYS, (n, method, sets), strict=True))
        begin = perf_counter()
        fit = _solve(n, method, sets, limits, None)
        times.append({**key, "seconds": perf_counter() - begin})
        op = fit.operator
        values = len(op.factors), op.nnz, op.relative_complexity, fit.error, fit.n_iter
        results.append({**key, **dict(zip(RESULTS[3:], values, strict=True))})
        if n == sizes[0]:
            curves += [{**key, "phase": step.phase, "error": step.error} for step in fit.history]
            curves.append({**key, "phase": "result", "error": fit.error})
            if (method, sets) == (HIERARCHICAL, PER_LINE):
                # Once more, because the callback takes time.
                _solve(n, method, sets, limits, lambda step: steps.update({step.phase: step}))
                matrices += _hierarchy(steps, fit)
        progress(done, len(cases))
    write_table(folder / "matrices.csv", ENTRIES, matrices)
    write_table(folder / "convergence.csv", CURVES, curves)
    write_table(folder / "times.csv", TIMES, times)
    write_table(folder / "table.csv", RESULTS, results)


def _solve(
    n: int, method: str, sets: str, limits: dict[str, Any], callback: Callable[[Step], None] | None
) -> Factorization:
    matrix = hadamard(n).toarray()
    per_line = Schedule.hadamard(n)
    if method == HIERARCHICAL:
        factors, residuals = (
            [Sparse(member.shape, member.n_nonzero) for member in group]  # as many entries, anywhere in a factor
            for group in (per_line.factors, per_line.residuals)
        )
        in_all = Schedule(factors, residuals)
        return hierarchical(matrix, per_line if sets == PER_LINE else in_all, callback=callback, **limits)
    factor: Constraint = SparseRowsAndColumns((n, n), 2) if sets == PER_LINE else Sparse((n, n), 2 * n)
    return palm(matrix, [factor] * (len(per_line.factors) + 1), callback=callback, **limits)


def _known(n: int) -> list[dict[str, Any]]:
    """The matrix and its factors in closed form: figure 1."""
    known = hadamard(n)
    factors = [(f"known S{i}", factor) for i, factor in enumerate(known.factors, start=1)]
    return [row for name, matrix in [("H", known), *factors] for row in entries_of(name, matrix)]


def _hierarchy(steps: dict[str, Step], fit: Factorization) -> list[dict[str, Any]]:
    """The factors after each global step, at last those of the result: figure 2."""
    levels: list[Any] = [step.factors for phase, step in steps.items() if phase.startswith("global")]
    levels[-1] = fit.operator.factors
    rows = []
    for level, factors in enumerate(levels, start=1):
        names = [f"S{i}" for i in range(1, len(factors))] + ["R" if level < len(levels) else f"S{len(factors)}"]
        for name, matrix in zip(names, factors, strict=True):
            rows += entries_of(f"step {level} {name}", matrix)
    return rows
