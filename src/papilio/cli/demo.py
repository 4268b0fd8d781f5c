"""``papilio demo``: the main job on built-in data."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib.figure
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import papilio as pp

SIZES = (32, 64, 128, 256)
N_PATCHES, N_ATOMS = 10_000, 128


def run(console: Console, output: Path) -> None:
    """Factorize Hadamard matrices, learn from image patches, print tables and write figures to ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    _hadamard(console, output)
    _patches(console, output)


def _hadamard(console: Console, output: Path) -> None:
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


def _patches(console: Console, output: Path) -> None:
    """Dictionaries of image patches: an analytic one, a dense one, and fast ones in between."""
    X = pp.datasets.image_patches(N_PATCHES, 8, random_state=0)
    dense = pp.OnlineDictionaryLearning(N_ATOMS, 5, random_state=0)
    learners: dict[str, Any] = {"dense, online": dense} | {
        f"fast, complexity {complexity:g}": pp.FastDictionaryLearning(
            N_ATOMS, 5, complexity=complexity, init="online", random_state=0
        )
        for complexity in (0.5, 0.25)
    }
    table = Table(title=f"{N_PATCHES:,} image patches of 8×8, 5 atoms each")
    for heading in ("dictionary", "atoms", "entries", "complexity", "error", "seconds"):
        table.add_column(heading, justify="left" if heading == "dictionary" else "right")
    cosine = pp.transforms.dct(8)
    planes = np.kron(cosine.toarray().T, cosine.toarray().T)
    error = np.linalg.norm(X.T - planes @ pp.omp(planes, X.T, 5)) / np.linalg.norm(X)
    table.add_row("DCT", "64", str(2 * 8 * cosine.nnz), f"{2 * 8 * cosine.nnz / 64**2:.3f}", f"{error:.4f}", "")
    for name, learner in track(learners.items(), "Learning", console=console, transient=True):
        begin = perf_counter()
        learner.fit(X)
        op = learner.operator_
        table.add_row(
            name,
            str(N_ATOMS),
            str(op.nnz),
            f"{op.relative_complexity:.3f}",
            f"{learner.history_[-1].error:.4f}",
            f"{perf_counter() - begin:.1f}",
        )
    console.print(table)

    fast = list(learners.values())[1].operator_
    figure = matplotlib.figure.Figure(figsize=(9, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    pp.plot.atoms(dense.operator_, ax=left).set_title("dense")
    pp.plot.atoms(fast, ax=right).set_title(f"fast, complexity {fast.relative_complexity:.2f}")
    figure.savefig(output / "patches-atoms.png", dpi=120)
    figure = matplotlib.figure.Figure(figsize=(9, 2.6), layout="constrained")
    pp.plot.factors(fast, list(figure.subplots(1, 3, width_ratios=[2, 1, 2])))
    figure.savefig(output / "patches-factors.png", dpi=120)
    console.print(f"Figures: {output / 'patches-atoms.png'}, {output / 'patches-factors.png'}")


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
