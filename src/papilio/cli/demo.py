"""``papilio demo``: the main job on built-in data."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.table import Table

import papilio as pp

from ..experiments.drawing import new_figure
from ..operators.csr import to_dense
from ..operators.speed import BELOW_ONE, compare
from ..report import Subject
from .outputs import check_folder
from .progress import ProgressBar
from .report import check_report, write_report
from .terminal import Terminal, table

SIZES = (32, 64, 256, 1024)
N_PATCHES, N_ATOMS, N_NONZERO = 10_000, 128, 5
BLOCK = 256  # vectors
COLUMNS = ("size", "entries", "of dense", "error", "time", "speed-up", "block")


def run(terminal: Terminal, output: Path, report: Path | None = None) -> None:
    """Factorize Hadamard matrices, learn from image patches; print tables, write figures and perhaps a page."""
    check_folder(output)
    check_report(report)
    hadamard, transform = _hadamard(terminal)
    patches, dictionary = _patches(terminal)
    figures = hadamard | patches
    for name, figure in figures.items():
        figure.savefig(output / name, dpi=120)
    terminal.say(
        f"Speed-up over the dense matrix on this machine, for one vector and for a block of {BLOCK}.\n{BELOW_ONE}"
    )
    write_report(terminal, report, [transform, dictionary], "What papilio does")
    terminal.say(f"Figures are in {output}: {', '.join(figures)}")


def _hadamard(terminal: Terminal) -> tuple[dict[str, Any], Subject]:
    """Hadamard matrices: prints a table, returns figures and the largest one for the page."""
    listing = table("Hadamard matrices from their entries alone", "method", *COLUMNS)
    results = {}
    with ProgressBar(terminal, "Factorizing") as bar:
        for n in SIZES:
            bar.advance(SIZES.index(n) / len(SIZES), f"{n}×{n}")
            matrix = pp.transforms.hadamard(n).toarray()
            if n == SIZES[0]:
                # Against this, with all factors from the start, the paper warns in section 3.4.
                sets = [pp.constraints.Sparse((n, n), 2 * n)] * (n.bit_length() - 1)
                naive, seconds = _timed(pp.palm, matrix, sets)
                _add_row(listing, "all at once", naive.operator, f"{naive.error:.1e}", seconds)
            fit, seconds = _timed(pp.hierarchical, matrix, pp.Schedule.hadamard(n))
            _add_row(listing, "hierarchical", fit.operator, f"{fit.error:.1e}", seconds)
            results[n] = fit
    terminal.say(listing)
    smallest = results[SIZES[0]]
    count = len(smallest.operator.factors) + 1
    factors = new_figure(2.1 * count, 2.5)
    pp.plot.factors(smallest.operator, list(factors.subplots(1, count)))
    convergence = new_figure(7, 3.2)
    pp.plot.convergence(smallest, convergence.add_subplot())
    title = f"The Hadamard matrix of size {n}, from its entries alone"
    subject = Subject(title, fit.operator, f"hadamard:{n}", fit.error, history=fit.history)
    return {"hadamard-factors.png": factors, "hadamard-convergence.png": convergence}, subject


def _patches(terminal: Terminal) -> tuple[dict[str, Any], Subject]:
    """Dictionaries of image patches: an analytic one, a dense one, and fast ones in between."""
    X = pp.datasets.image_patches(N_PATCHES, 8, random_state=0)
    learners: dict[str, Any] = {"dense": pp.OnlineDictionaryLearning(N_ATOMS, N_NONZERO, random_state=0)} | {
        f"fast {complexity:g}": pp.FastDictionaryLearning(
            N_ATOMS, N_NONZERO, complexity=complexity, init="online", random_state=0
        )
        for complexity in (0.5, 0.25)
    }
    listing = table(f"{N_PATCHES:,} image patches of 8×8, {N_NONZERO} atoms each", "dictionary", *COLUMNS)
    cosine = pp.transforms.dct(8).T
    eye = np.eye(8)
    planes = pp.SparseProduct(
        [np.kron(to_dense(f), eye) for f in cosine.factors] + [np.kron(eye, to_dense(f)) for f in cosine.factors],
        cosine.scale**2,
    )
    error = float(np.linalg.norm(X.T - planes @ pp.omp(planes, X.T, N_NONZERO)) / np.linalg.norm(X))
    _add_row(listing, "DCT", planes, f"{error:.4f}", None)
    points = {"DCT": [(planes.relative_complexity, error)]}
    with ProgressBar(terminal, "Learning") as bar:
        for done, (name, learner) in enumerate(learners.items()):
            bar.advance(done / len(learners), name)
            seconds = _timed(learner.fit, X)[1]
            op, error = learner.operator_, learner.history_[-1].error
            _add_row(listing, name, op, f"{error:.4f}", seconds)
            points.setdefault(name.split()[0], []).append((op.relative_complexity, error))
    terminal.say(listing)

    dense, fast = learners["dense"].operator_, learners["fast 0.5"].operator_
    atoms = new_figure(9, 4.8)
    left, right = atoms.subplots(1, 2)
    pp.plot.atoms(dense, ax=left).set_title("dense")
    pp.plot.atoms(fast, ax=right).set_title(f"fast, complexity {fast.relative_complexity:.2f}")
    factors = new_figure(9, 2.4)
    pp.plot.factors(fast, list(factors.subplots(1, 3, width_ratios=[2, 1, 2])))
    tradeoff = new_figure(6, 3.6)
    name = f"relative error, {N_NONZERO} atoms per patch"
    pp.plot.tradeoff(points, tradeoff.add_subplot(), error=name)
    learner = learners["fast 0.5"]
    subject = Subject(
        "A dictionary of image patches",
        fast,
        f"{N_PATCHES:,} patches of 8×8",
        learner.history_[-1].error,
        name,
        history=learner.history_,
        series=points,
        patches=(8, 8),
    )
    figures = {"patches-atoms.png": atoms, "patches-factors.png": factors, "patches-tradeoff.png": tradeoff}
    return figures, subject


def _timed(solve: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    begin = perf_counter()
    return solve(*arguments), perf_counter() - begin


def _add_row(listing: Table, name: str, op: pp.SparseProduct, error: str, seconds: float | None) -> None:
    dense = op.toarray()
    is_dense = len(op.factors) == 1
    listing.add_row(
        name,
        f"{op.shape[0]}×{op.shape[1]}",
        f"{op.nnz:,}",
        f"{op.relative_complexity:.0%}",
        error,
        "" if seconds is None else f"{seconds:.1f} s",
        *("1" if is_dense else f"{compare(op, dense, vectors).gain:.1f}×" for vectors in (1, BLOCK)),
    )
