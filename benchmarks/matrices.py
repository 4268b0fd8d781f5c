"""What `factorize` makes of matrices that engineers have, beside thresholding and truncated SVD.

``python benchmarks/matrices.py [NAME…] [--seconds S]`` runs the cases whose names contain one of these, with at
most S seconds per call.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
from common import clock
from engineering import Case, cases

import papilio as pp

COMPLEXITY, MAX_ERROR = 0.1, 0.01
TARGETS = {"complexity 0.1": {"complexity": COMPLEXITY}, "max_error 0.01": {"max_error": MAX_ERROR}, "none": {}}
EXACT = 1e-6  # errors below are equal
FEW = 0.5  # relative entries of a product that is worth finding
WORSE = 1.01  # times the figure of a simple candidate
NOTE = (
    "`factorize(M)` with a complexity, with an error and without a target, on matrices to which nothing was "
    "tuned; 512×512 unless a shape is given. Speed-ups are measured against the dense matrix. The last three "
    "columns compare papilio with the largest entries alone and with the truncated SVD as two dense factors: "
    "the error with 0.1 of the entries, the relative entries for an error of 0.01, and without a target the "
    "least sum of both, where that of an exact product with at most half of the entries counts half. Errors below "
    "1e-6 count as equal. Compilation is not counted."
)


class Row(NamedTuple):
    """One case with one target. Figures: what is compared, for papilio, thresholding and truncated SVD."""

    case: Case
    shape: tuple[int, int]
    target: str
    method: str
    error: float
    entries: float
    seconds: float
    speedups: pp.results.Speedup
    figures: tuple[float, float, float]

    @property
    def is_worse(self) -> bool:
        """Whether a simple candidate's figure is lower by more than 1 %, or the target was missed."""
        ours, *others = (max(figure, EXACT) for figure in self.figures)
        return not ours <= WORSE * min(others)

    def markdown(self) -> str:
        size = "" if self.shape == (512, 512) else f" {self.shape[0]}×{self.shape[1]}"
        ours, *others = map(_figure, self.figures)
        cells = (
            f"{self.case.name}{size}",
            self.target,
            self.method,
            f"{self.error:.2g}",
            f"{self.entries:.3g}",
            clock(self.seconds),
            *(f"{speedup:.2g}×" for speedup in self.speedups),
            f"**{ours}, worse**" if self.is_worse else ours,
            *others,
        )
        return f"| {' | '.join(cells)} |"


@dataclass
class Matrices:
    """The table, and counts in its last line."""

    rows: list[Row] = field(default_factory=list)

    title = "Matrices that engineers have"
    head = (
        "| matrix | target | method | error | relative entries | time | one vector | 256 vectors "
        "| papilio | thresholding | truncated SVD |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    )

    def markdown(self) -> str:
        rows = [row.markdown() for row in self.rows]
        return "\n".join([f"## {self.title}", "", NOTE, "", self.head, *rows, "", self.summary(), ""])

    def summary(self) -> str:
        worse = sorted({f"{row.case.name} ({row.target})" for row in self.rows if row.is_worse})
        known = {row.case.name for row in self.rows if row.case.is_exact}
        found = {row.case.name for row in self.rows if row.error <= EXACT and row.entries < FEW}
        slower = sum(max(row.speedups) < 1 for row in self.rows)
        seconds = [row.seconds for row in self.rows if row.shape == (512, 512)] or [float("nan")]
        return (
            f"{len(worse)} of {len(self.rows)} results are worse than a simple candidate by more than 1 % "
            f"(aim: none){_listed(worse)}. Of {len(known)} matrices with a known exact product, "
            f"{len(known & found)} are exact with one of the targets{_listed(sorted(known - found), 'not ')}. "
            f"{slower} of {len(self.rows)} results are slower than the dense matrix both for one vector and for "
            f"256. At 512×512: median {median(seconds):.2g} s (aim: below 10), largest {max(seconds):.3g} s "
            f"(aim: at most 60)."
        )


def run(folder: Path) -> list[Matrices]:
    return [measured(cases(), None)]


def measured(chosen: Sequence[Case], seconds: float | None, tell: Callable[[Row], None] | None = None) -> Matrices:
    small = np.random.default_rng(0).standard_normal((32, 32))
    for dtype in {case.matrix().dtype for case in chosen}:
        for target in TARGETS.values():
            pp.factorize(small.astype(dtype), **target)  # compiles
    table = Matrices()
    for case in chosen:
        matrix = case.matrix()
        simple = Simple(matrix)
        for target in TARGETS:
            row = _row(case, matrix, simple, target, seconds)
            table.rows.append(row)
            if tell is not None:
                tell(row)
    return table


def _row(case: Case, matrix: np.ndarray, simple: "Simple", target: str, seconds: float | None) -> Row:
    begin = perf_counter()
    fit = pp.factorize(matrix, **TARGETS[target], time_budget=seconds)
    taken = perf_counter() - begin
    op = fit.operator
    error = float(np.linalg.norm(op.toarray() - matrix) / np.linalg.norm(matrix))
    entries = op.nnz / matrix.size
    figures = _figures(target, error, entries, simple)
    return Row(case, matrix.shape, target, fit.method, error, entries, taken, fit.speedup, figures)


def _figures(target: str, error: float, entries: float, simple: "Simple") -> tuple[float, float, float]:
    """What is compared: infinite for papilio if it missed the target."""
    if target == "none":
        return float(_sums(np.array(error), np.array(entries))), *simple.least_sums()
    if "complexity" in TARGETS[target]:
        return error if entries <= COMPLEXITY else np.inf, *simple.errors(COMPLEXITY)
    return entries if error <= MAX_ERROR * (1 + 1e-6) else np.inf, *simple.entries(MAX_ERROR)


class Simple:
    """The two simple candidates: the largest entries alone, and the truncated SVD as two dense factors.

    Each is a curve of relative errors over relative entries, which includes the zero matrix.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        largest = np.sort(np.abs(matrix[matrix != 0]).astype(float))[::-1]
        values = np.linalg.svd(matrix.astype(np.result_type(matrix, np.float64)), compute_uv=False)
        steps = (1 / matrix.size, sum(matrix.shape) / matrix.size)
        self.curves = [
            (step * np.arange(len(parts) + 1), _tails(parts))
            for step, parts in zip(steps, (largest, values), strict=True)
        ]

    def errors(self, complexity: float) -> list[float]:
        return [float(errors[entries <= complexity + 1e-12].min()) for entries, errors in self.curves]

    def entries(self, max_error: float) -> list[float]:
        return [float(entries[errors <= max_error].min()) for entries, errors in self.curves]

    def least_sums(self) -> list[float]:
        return [float(_sums(errors, entries).min()) for entries, errors in self.curves]


def _sums(errors: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """What `factorize` minimises without a target."""
    return (errors + entries) * np.where((errors <= 1e-9) & (entries <= 0.5), 0.5, 1.0)


def _tails(parts: np.ndarray) -> np.ndarray:
    """The norm of what follows the first 0, 1, 2, … parts, relative to that of all."""
    squares = np.append(np.cumsum(parts[::-1] ** 2)[::-1], 0)
    return np.sqrt(squares / squares[0])


def _figure(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "target missed"


def _listed(names: Sequence[str], prefix: str = "") -> str:
    return f" ({prefix}{', '.join(names)})" if names else ""


def _tell(row: Row) -> None:
    sys.stdout.write(row.markdown() + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases whose names contain it; all by default")
    parser.add_argument("--seconds", type=float, help="time_budget of each call")
    given = parser.parse_args()
    chosen = [case for case in cases() if not given.names or any(name in case.name for name in given.names)]
    if not chosen:
        parser.error(f"there are {', '.join(case.name for case in cases())}")
    sys.stdout.write(Matrices.head + "\n")
    sys.stdout.flush()
    table = measured(chosen, given.seconds, _tell)
    sys.stdout.write(f"\n{table.summary()}\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
