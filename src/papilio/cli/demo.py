"""``papilio demo``: the main job on built-in data."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

import papilio as pp

from ..operators.factors import to_dense
from ..operators.speed import BELOW_ONE, compare
from ..plot.common import new_figure
from ..report import Subject
from ..runtime.files import replacing
from .console import ProgressBar, Terminal, gain_cell, table
from .outputs import check_folder, saving
from .pages import check_report, write_report

SIZES = (32, 64, 256, 1024)
N_PATCHES, N_NEW, N_ATOMS, N_NONZERO = 10_000, 5_000, 128, 5
COMPLEXITIES = (0.5, 0.25)
BLOCK = 256  # vectors
GAINS = ("speed-up", "block of 256")
COLUMNS = ("size", "entries", "share", "error", "time", *GAINS)


def run(terminal: Terminal, output: Path, report: Path | None = None) -> None:
    """Factorize Hadamard matrices, learn from image patches; print tables, write figures and perhaps a page."""
    check_folder(output)
    check_report(report)
    with ProgressBar(terminal, "Loading kernels"):
        _warm_up()
    hadamard, transform = _hadamard(terminal)
    patches, dictionary = _patches(terminal)
    figures = hadamard | patches
    for name, figure in figures.items():
        with saving(output / name), replacing(output / name) as partial:
            figure.savefig(partial, dpi=120)
    terminal.say("Share: the entries of the factors relative to those of the dense matrix.")
    terminal.say(f"Speed-up over the dense matrix on this machine, for one vector and for a block of {BLOCK}.")
    terminal.say(BELOW_ONE)
    write_report(terminal, report, [transform, dictionary], "What papilio does")
    terminal.say(f"Figures are in {output}: {', '.join(figures)}")


def _warm_up() -> None:
    """Compile the kernels, or load them, so that the times in the tables are those of the work."""
    matrix = pp.transforms.hadamard(32).toarray()
    pp.palm(matrix, [pp.constraints.Sparse((32, 32), 64)] * 5, max_iter=2)
    pp.hierarchical(matrix, pp.Schedule.hadamard(32))
    X = pp.datasets.image_patches(2 * N_ATOMS, 8, random_state=1)
    dense = pp.OnlineDictionaryLearning(N_ATOMS, N_NONZERO, max_iter=1, random_state=0).fit(X)
    _learned(X, dense, max(COMPLEXITIES))
    _error(dense.operator_, X)


def _hadamard(terminal: Terminal) -> tuple[dict[str, Any], Subject]:
    """Factorize Hadamard matrices and print a table; return the figures, and the largest matrix for the page."""
    listing = table("Hadamard matrices from their entries alone", "method", *COLUMNS, wraps=GAINS)
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
    """Compare dictionaries of image patches: the DCT, a learned dense one, and learned products."""
    drawn = pp.datasets.image_patches(N_PATCHES + N_NEW, 8, random_state=0)
    X, new = drawn[:N_PATCHES], drawn[N_PATCHES:]
    listing = table(
        f"{N_PATCHES:,} image patches of 8×8, {N_NONZERO} atoms each; errors on {N_NEW:,} new patches",
        "dictionary",
        *COLUMNS,
        wraps=GAINS,
    )
    cosine = pp.transforms.dct(8).T
    eye = np.eye(8)
    planes = pp.SparseProduct(
        [np.kron(to_dense(f), eye) for f in cosine.factors] + [np.kron(eye, to_dense(f)) for f in cosine.factors],
        cosine.scale**2,
    )
    entries: dict[str, list[tuple[float, float]]] = {}
    times: dict[str, list[tuple[float, float]]] = {}

    def add(kind: str, name: str, op: pp.SparseProduct, seconds: float | None) -> None:
        gains, error = _gains(op), _error(op, new)
        # Only what is faster than the dense matrix is called fast.
        title = f"{'fast' if gains[1] > 1 else 'product'} {name}" if kind == "learned products" else name
        _add_row(listing, title, op, f"{error:.4f}", seconds, gains)
        entries.setdefault(kind, []).append((op.relative_complexity, error))
        times.setdefault(kind, []).append((1 / gains[1], error))

    add("DCT", "DCT", planes, None)
    n_steps = 1 + len(COMPLEXITIES)
    with ProgressBar(terminal, "Learning") as bar:
        bar.advance(0, "dense")
        dense = pp.OnlineDictionaryLearning(N_ATOMS, N_NONZERO, random_state=0)
        seconds = _timed(dense.fit, X)[1]
        add("dense", "dense", dense.operator_, seconds)
        products = []
        for done, complexity in enumerate(COMPLEXITIES, start=1):
            bar.advance(done / n_steps, f"complexity {complexity:g}")
            learner, seconds = _timed(_learned, X, dense, complexity)
            add("learned products", f"{complexity:g}", learner.operator_, seconds)
            products.append(learner)
    terminal.say(listing)
    limits = " and ".join(f"{complexity:g}" for complexity in COMPLEXITIES)
    terminal.say(f"Products start from the dense dictionary; {limits} limit the complexity.")
    terminal.say("")

    figures, name = _patch_figures(dense.operator_, products[0].operator_, entries, times)
    subject = Subject(
        "A dictionary of image patches",
        products[0].operator_,
        f"{N_PATCHES:,} patches of 8×8",
        _error(products[0].operator_, new),
        name,
        history=products[0].history_,
        series=entries,
        atom_shape=(8, 8),
    )
    return figures, subject


def _patch_figures(
    dense: Any, fast: Any, entries: dict[str, Any], times: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """The atoms, the factors, and errors against entries and against times; and the name of the error."""
    atoms = new_figure(9, 4.8)
    left, right = atoms.subplots(1, 2)
    pp.plot.atoms(dense, ax=left).set_title("dense")
    pp.plot.atoms(fast, ax=right).set_title(f"product, complexity {fast.relative_complexity:.2f}")
    factors = new_figure(9, 2.4)
    pp.plot.factors(fast, list(factors.subplots(1, 3, width_ratios=[2, 1, 2])))
    tradeoff = new_figure(10, 3.8)
    left, right = tradeoff.subplots(1, 2, sharey=True)
    name = f"relative error on new patches, {N_NONZERO} atoms per patch"
    pp.plot.tradeoff(entries, left, error=name)
    left.set_xlabel("entries of the factors / entries of the matrix")
    pp.plot.tradeoff(times, right, error=name)
    right.set_xlabel(f"time for {BLOCK} vectors / time of the dense matrix")
    right.set_ylabel("")
    right.get_legend().remove()  # It would repeat the one on the left.
    figures = {"patches-atoms.png": atoms, "patches-factors.png": factors, "patches-tradeoff.png": tradeoff}
    return figures, name


def _learned(X: Any, dense: Any, complexity: float) -> Any:
    """A product that starts from the dense dictionary."""
    learner = pp.FastDictionaryLearning(
        N_ATOMS, N_NONZERO, complexity=complexity, init=dense.components_, random_state=0
    )
    return learner.fit(X)


def _error(op: pp.SparseProduct, X: Any) -> float:
    """The relative error of patches in their sparse codes."""
    return float(np.linalg.norm(X.T - op @ pp.omp(op, X.T, N_NONZERO)) / np.linalg.norm(X))


def _timed(solve: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    begin = perf_counter()
    return solve(*arguments), perf_counter() - begin


def _gains(op: pp.SparseProduct) -> tuple[float, float]:
    """The speed-ups over the dense matrix for one vector and for a block; 1 if it is dense itself."""
    if len(op.factors) == 1:
        return 1.0, 1.0
    dense = op.toarray()
    return compare(op, dense, 1).gain, compare(op, dense, BLOCK).gain


def _add_row(
    listing: Table,
    name: str,
    op: pp.SparseProduct,
    error: str,
    seconds: float | None,
    gains: tuple[float, float] | None = None,
) -> None:
    listing.add_row(
        name,
        f"{op.shape[0]}×{op.shape[1]}",
        f"{op.nnz:,}",
        f"{op.relative_complexity:.0%}",
        error,
        "" if seconds is None else f"{seconds:.1f} s",
        *(Text("1") if len(op.factors) == 1 else gain_cell(gain) for gain in gains or _gains(op)),
    )
