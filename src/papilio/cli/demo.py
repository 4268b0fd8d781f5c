"""``papilio demo``: the main job on built-in data."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib.figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import papilio as pp

SIZES = (32, 64, 128, 256)


def run(console: Console, output: Path) -> None:
    """Factorize Hadamard matrices, print a table and write figures to ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    table = Table(title="Hadamard matrices from their entries alone")
    for heading in ("size", "method", "factors", "entries", "complexity", "error", "seconds"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    results = {}
    for n in track(SIZES, "Factorizing", console=console, transient=True):
        schedule = pp.Schedule.hadamard(n)
        matrix = pp.transforms.hadamard(n).toarray()
        if n == SIZES[0]:
            _add_row(table, n, "all at once", _timed(_all_at_once, matrix))
        results[n] = _timed(pp.hierarchical, matrix, schedule)
        _add_row(table, n, "hierarchical", results[n])
    console.print(table)

    smallest = results[SIZES[0]][0]
    count = len(smallest.operator.factors)
    figure = matplotlib.figure.Figure(figsize=(2.1 * (count + 1), 2.5), layout="constrained")
    pp.plot.factors(smallest.operator, list(figure.subplots(1, count + 1)))
    figure.savefig(output / "hadamard-factors.png", dpi=120)
    figure = matplotlib.figure.Figure(figsize=(7, 3.2), layout="constrained")
    pp.plot.convergence(smallest, figure.add_subplot())
    figure.savefig(output / "hadamard-convergence.png", dpi=120)
    console.print(f"Figures: {output / 'hadamard-factors.png'}, {output / 'hadamard-convergence.png'}")


def _all_at_once(matrix: Any) -> pp.Factorization:
    """Algorithm 2 with all log₂n factors from the start, which the paper's section 3.4 warns of."""
    n = len(matrix)
    return pp.palm(matrix, [pp.constraints.Sparse((n, n), 2 * n)] * (n.bit_length() - 1))


def _timed(solve: Callable[..., pp.Factorization], *arguments: Any) -> tuple[pp.Factorization, float]:
    begin = perf_counter()
    return solve(*arguments), perf_counter() - begin


def _add_row(table: Table, n: int, method: str, timed: tuple[pp.Factorization, float]) -> None:
    result, seconds = timed
    op = result.operator
    table.add_row(
        f"{n}×{n}",
        method,
        str(len(op.factors)),
        str(op.nnz),
        f"{op.relative_complexity:.3f}",
        f"{result.error:.1e}",
        f"{seconds:.2f}",
    )
