"""The paper's section 4.1: the Hadamard matrix from its entries alone (figures 1 and 2)."""

from collections.abc import Callable
from itertools import groupby, pairwise
from math import log2
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from matplotlib.patches import ConnectionPatch

from papilio import Factorization, Schedule, hierarchical, palm
from papilio.constraints import Constraint, Sparse, SparseRowsAndColumns
from papilio.plot.common import panel_below
from papilio.plot.fits import is_split
from papilio.results import Step
from papilio.runtime.threads import one_thread
from papilio.transforms import hadamard
from papilio.typing import Array

from .harness import (
    DARK_TO_LIGHT,
    ENTRIES,
    Claim,
    OnProgress,
    Preset,
    Row,
    claims_table,
    draw_matrix,
    entries_of,
    markdown_table,
    matrices_of,
    new_figure,
    read_meta,
    read_table,
    save,
    verdict,
    write_table,
    write_text,
)

TITLE = "Hadamard matrices from their entries alone: the paper's figures 1 and 2, section 4.1"

SETTINGS = {
    # Sizes that Algorithm 3 factorizes; the first is also drawn step by step, as the paper's figure 2, and is
    # factorized in other ways: with all factors at once, also from random starts, and with sets that only count
    # the entries of a factor.
    "sizes": [32, 64, 128, 256, 512, 1024],
    "random_starts": 10,
    "timing_rounds": 3,  # times are the shortest of so many
    # Limits of each run of PALM, as in the paper's section 4.2.
    "max_iter": 500,
    "tol": 1e-6,
}

PRESETS = {
    "paper": Preset("the paper's sizes, up to 1024", 0.7),
    "tiny": Preset(
        "sizes up to 16",
        0.1,
        {
            "sizes": [8, 16],
            "random_starts": 2,
        },
    ),
}
SAMPLE: dict[str, Any] = {}
MEASURED: tuple[str, ...] = ()


# -- measuring -------------------------------------------------------------------------------------------------

HIERARCHICAL, AT_ONCE, FROM_RANDOM = "hierarchical", "all at once", "all at once, random start"
PER_LINE, IN_ALL = "2 per row and column", "2n in all"

KEYS = ("size", "method", "sets")
RESULTS = (*KEYS, "factors", "entries", "relative_complexity", "error", "iterations")
TIMES = (*KEYS, "seconds")
CURVES = (*KEYS, "phase", "error")


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv, times.csv, convergence.csv (all iterations at the first size) and matrices.csv.

    Times are seconds of one core, the least of several runs.
    """
    with one_thread():
        _run(settings, folder, progress)


def _run(settings: dict[str, Any], folder: Path, progress: OnProgress) -> None:
    sizes = settings["sizes"]
    limits = {"max_iter": settings["max_iter"], "tol": settings["tol"]}
    cases = [(n, HIERARCHICAL, PER_LINE) for n in sizes]
    cases += [(sizes[0], HIERARCHICAL, IN_ALL), (sizes[0], AT_ONCE, IN_ALL), (sizes[0], AT_ONCE, PER_LINE)]
    cases += [(sizes[0], FROM_RANDOM, sets) for sets in (IN_ALL, PER_LINE)]
    _solve(8, HIERARCHICAL, PER_LINE, limits, None)  # compiles, which must not count
    _solve(8, AT_ONCE, IN_ALL, limits, None)
    results, times, curves, matrices = [], [], [], _known(sizes[0])
    steps: dict[str, Step] = {}  # the last of each phase
    progress(0, len(cases))
    for done, (n, method, sets) in enumerate(cases, start=1):
        key = dict(zip(KEYS, (n, method, sets), strict=True))
        tries, spent = [], []
        for seed in range(settings["random_starts"] if method == FROM_RANDOM else settings["timing_rounds"]):
            begin = process_time()
            tries.append(_solve(n, method, sets, limits, None, seed))
            spent.append(process_time() - begin)
        fit = min(tries, key=lambda each: each.error)
        times.append({**key, "seconds": min(spent)})
        op = fit.operator
        values = len(op.factors), op.nnz, op.relative_complexity, fit.error, fit.n_iter
        results.append({**key, **dict(zip(RESULTS[3:], values, strict=True))})
        if n == sizes[0] and method != FROM_RANDOM:
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
    n: int, method: str, sets: str, limits: dict[str, Any], callback: Callable[[Step], None] | None, seed: int = 0
) -> Factorization:
    matrix = hadamard(n).toarray()
    per_line = Schedule.hadamard(n)
    if method == HIERARCHICAL:
        members, residuals = (
            [Sparse(member.shape, member.n_nonzero) for member in group]  # as many entries, anywhere in a factor
            for group in (per_line.factors, per_line.residuals)
        )
        in_all = Schedule(members, residuals)
        return hierarchical(matrix, per_line if sets == PER_LINE else in_all, callback=callback, **limits)
    factor: Constraint = SparseRowsAndColumns((n, n), 2) if sets == PER_LINE else Sparse((n, n), 2 * n)
    sets_of_all = [factor] * (len(per_line.factors) + 1)
    start = None
    if method == FROM_RANDOM:
        values = np.random.default_rng(seed).standard_normal((len(sets_of_all), n, n))
        start = list(values / np.linalg.norm(values, axis=(1, 2), keepdims=True))
    return palm(matrix, sets_of_all, init=start, callback=callback, **limits)


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


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# The Hadamard matrix from its entries alone

{results}

{claims}

## Why

All entries of the matrix have the same magnitude, so that the choice among ties decides. With at most two
entries per row and column, and ties going to the lowest index, the butterfly is found. These are not the paper's
sets: it speaks of p = 64 entries in each factor, in all. With such sets the butterfly is not found here, with or
without the hierarchy; the authors' own later toolbox has sets per row and column for this matrix, too.

That the naive approach fails depends on the start. From papilio's, the first factor zero and the others identity
matrices, two entries per row and column are enough even without the hierarchy; from random factors they are not
(the table has the best of {random_starts} draws), and with the paper's sets no start was found that is.
"""

_EXACT = 1e-12
_POOR = 0.1  # relative errors above this are
_LARGE = 256  # sizes from which overheads no longer count


def page(results: list[Row], times: list[Row], random_starts: int) -> str:
    """The page, as markdown."""
    seconds = {tuple(row[key] for key in KEYS): float(row["seconds"]) for row in times}
    headings = (
        "size",
        "method",
        "entries of a factor",
        "factors",
        "entries",
        "complexity",
        "error",
        "seconds of one core",
    )
    rows = [
        (
            f"{row['size']}×{row['size']}",
            row["method"],
            row["sets"],
            row["factors"],
            row["entries"],
            f"{float(row['relative_complexity']):.4f}",
            f"{float(row['error']):.1e}",
            f"{seconds[tuple(row[key] for key in KEYS)]:.2f}",
        )
        for row in results
    ]
    table = markdown_table(headings, rows, "lll")
    claims = claims_table(_claims(results, seconds))
    return PAGE.format(results=table, claims=claims, random_starts=random_starts)


def _claims(results: list[Row], seconds: dict[tuple[str, ...], float]) -> list[Claim]:
    """Section 4.1 and section 3.4, sentence by sentence."""
    by_key = {tuple(row[key] for key in KEYS): row for row in results}
    sizes = [row["size"] for row in results if (row["method"], row["sets"]) == (HIERARCHICAL, PER_LINE)]
    chosen = [by_key[n, HIERARCHICAL, PER_LINE] for n in sizes]
    worst = max(float(row["error"]) for row in chosen)
    as_known = all(
        int(row["entries"]) == 2 * int(row["size"]) * (int(row["size"]).bit_length() - 1) for row in chosen
    )
    naive = {
        (method, sets): float(by_key[sizes[0], method, sets]["error"])
        for method in (AT_ONCE, FROM_RANDOM)
        for sets in (IN_ALL, PER_LINE)
    }
    as_in_paper = min(naive[AT_ONCE, IN_ALL], naive[FROM_RANDOM, IN_ALL])
    spent = [seconds[n, HIERARCHICAL, PER_LINE] for n in sizes]
    return [
        Claim(
            "The naive approach, all factors at once with their true numbers of entries, performs quite poorly.",
            verdict(as_in_paper > _POOR, better=naive[AT_ONCE, PER_LINE] <= _POOR),
            "2n entries in all: "
            + _from_starts(naive, IN_ALL)
            + "; two per row and column: "
            + _from_starts(naive, PER_LINE),
            f"holds if the error is above {_POOR} with 2n entries in all from every start; better if two per row"
            " and column and our start are enough",
        ),
        Claim(
            "The hierarchical factorization is exact (here with two entries per row and column).",
            verdict(worst <= _EXACT),
            f"largest error for sizes {sizes[0]} to {sizes[-1]}: {worst:.1e}; with 2n in all, as in the paper, "
            f"{float(by_key[sizes[0], HIERARCHICAL, IN_ALL]['error']):.2f}",
            f"error at most {_EXACT:g}, with sets per row and column",
        ),
        Claim(
            "It is as good as the reference in complexity: 2n·log₂n entries.",
            verdict(as_known),
            f"{chosen[0]['entries']} entries at size {sizes[0]}, {chosen[-1]['entries']} at {sizes[-1]}",
            "as many entries at every size",
        ),
        Claim(
            "The running time is less than a second at size 32.",
            verdict(spent[0] < 1),
            f"{spent[0]:.2f} s at size {sizes[0]}; another machine, in 2014",
            "less than a second here",
        ),
        Claim(
            "Up to size 1024 it performs identically, in up to ten minutes.",
            verdict(worst <= _EXACT and spent[-1] <= 600, better=spent[-1] < 60),
            f"{spent[-1]:.1f} s at size {sizes[-1]}; another machine, in 2014",
            "exact within ten minutes; better within one",
        ),
        _growth([int(n) for n in sizes], spent),
    ]


def _from_starts(errors: dict[tuple[str, str], float], sets: str) -> str:
    ours, random = errors[AT_ONCE, sets], errors[FROM_RANDOM, sets]
    return f"error {ours:.2g} from our start, {random:.2g} from the best random one"


def _growth(sizes: list[int], seconds: list[float]) -> Claim:
    """The running time is O(n²): its exponent between the sizes at which overheads no longer count."""
    large = [(n, t) for n, t in zip(sizes, seconds, strict=True) if n >= min(_LARGE, sizes[-2])]
    exponents = [log2(later / before) / log2(m / n) for (n, before), (m, later) in pairwise(large)]
    whole = log2(large[-1][1] / large[0][1]) / log2(large[-1][0] / large[0][0])
    listed = ", ".join(f"{exponent:.2f}" for exponent in exponents)
    return Claim(
        "The running time is O(n²).",
        verdict(whole <= 2.2, better=whole < 1.8),
        f"exponent {whole:.2f} from size {large[0][0]} to {large[-1][0]} ({listed} from one size to the next)",
        f"exponent at most 2.2 from size {_LARGE} on; better below 1.8. Products of dense matrices, which take n³ "
        "operations, win in the end",
    )


# -- figures ---------------------------------------------------------------------------------------------------

_FLOOR = 1e-17  # errors of exactly zero are drawn here
_STYLES = {
    (HIERARCHICAL, PER_LINE): {"color": DARK_TO_LIGHT[0], "marker": "o"},
    (HIERARCHICAL, IN_ALL): {"color": DARK_TO_LIGHT[1], "marker": "s", "linestyle": "--"},
    (AT_ONCE, PER_LINE): {"color": DARK_TO_LIGHT[2], "marker": "^", "linestyle": "-."},
    (AT_ONCE, IN_ALL): {"color": DARK_TO_LIGHT[3], "marker": "v", "linestyle": ":"},
}


def figure1(matrices: dict[str, Array]) -> Any:
    """The matrix, and the factors that are known in closed form."""
    shown = {name: values for name, values in matrices.items() if not name.startswith("step")}
    figure = new_figure(2.1 * len(shown), 2.3)
    for i, (ax, (name, values)) in enumerate(zip(figure.subplots(1, len(shown)), shown.items(), strict=True)):
        label = f"$H_{{{len(values)}}}$" if name == "H" else f"$S_{{{name.removeprefix('known S')}}}$"
        draw_matrix(values, ax, f"{label}: {np.count_nonzero(values)} entries", "×" if i > 1 else "=" * i)
    return figure


def figure2(matrices: dict[str, Array]) -> Any:
    """The hierarchy: in each row the residual of the row above has become a sparse factor and a new residual."""
    steps = groupby((name for name in matrices if name.startswith("step")), key=lambda name: name.split()[1])
    levels = [
        [("H", matrices["H"])],
        *([(name.split()[2], matrices[name]) for name in names] for _, names in steps),
    ]
    width = len(levels[-1])
    figure = new_figure(2.0 * width, 2.15 * len(levels))
    axes = figure.subplots(len(levels), width)
    for level, (row, entries) in enumerate(zip(axes, levels, strict=True)):
        for i, ax in enumerate(row):
            if i >= len(entries):
                ax.set_axis_off()
                continue
            name, values = entries[i]
            split_off = level > 0 and i >= len(entries) - 2
            label = {"H": f"$H_{{{len(values)}}}$", "R": "residual"}.get(name, f"$S_{{{name[1:]}}}$")
            draw_matrix(values, ax, f"{label}: {np.count_nonzero(values)} entries", "×" if i else "")
            for spine in ax.spines.values():  # Mark the factors that this step has made.
                spine.set_linewidth(1.8 if split_off else 0.6)
            if split_off:
                begin = 0.5 if i == len(entries) - 2 else 1.0
                _arrow(figure, axes[level - 1][len(entries) - 2], begin, ax)
    return figure


def _arrow(figure: Any, parent: Any, begin: float, child: Any) -> None:
    """From below a matrix, at ``begin`` of its width, to the title of one that comes from it."""
    inside = "axes fraction"
    figure.add_artist(
        ConnectionPatch(
            (begin, -0.02), (0.5, 1.17), inside, inside, axesA=parent, axesB=child, arrowstyle="-|>", color="0.35"
        )
    )


def _broken(rows: list[Row], splits: bool) -> tuple[Array, Array]:
    """Iterations, and errors of splits or of the whole, with a gap where the phase changes."""
    errors = np.maximum([float(row["error"]) for row in rows], _FLOOR)
    errors[[is_split(row["phase"]) != splits for row in rows]] = np.nan
    gaps = [i for i, (one, two) in enumerate(pairwise(rows), start=1) if one["phase"] != two["phase"]]
    return np.insert(np.arange(1.0, len(rows) + 1), gaps, np.nan), np.insert(errors, gaps, np.nan)


def figure_of_curves(curves: list[Row], times: list[Row]) -> Any:
    """On the left the error of each iteration, of the whole and of splits, on the right the time of each size."""
    figure = new_figure(11, 5.4)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    below = panel_below(left, 0.4)
    for (method, sets), style in _STYLES.items():
        rows = [row for row in curves if (row["method"], row["sets"]) == (method, sets)]
        for ax, splits in ((left, False), (below, True)):
            ax.semilogy(*_broken(rows, splits), label=f"{method}, {sets}", markersize=4, **style)
    left.tick_params(labelbottom=False)
    left.set_ylabel("relative error")
    below.set_ylabel("of the split")
    below.set_xlabel("iteration (the last point of each method is its result)")
    left.set_title(f"Size {curves[0]['size']}", fontsize="medium")
    below.legend(
        frameon=False,
        fontsize="small",
        title="method, entries per factor",
        title_fontsize="small",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.34),
        ncols=2,
    )
    rows = [row for row in times if (row["method"], row["sets"]) == (HIERARCHICAL, PER_LINE)]
    sizes = np.array([int(row["size"]) for row in rows])
    seconds = np.array([float(row["seconds"]) for row in rows])
    right.loglog(sizes, seconds, "o-", color=DARK_TO_LIGHT[0], label="hierarchical")
    right.loglog(sizes, seconds[-1] * (sizes / sizes[-1]) ** 2.0, ":", color="0.4", label="growth as $n^2$")
    right.set_xticks(sizes, [str(n) for n in sizes])
    right.minorticks_off()
    right.set_xlabel("size n")
    right.set_ylabel("seconds of one core")
    right.set_title("Time to find the factors", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure


def write(folder: Path) -> list[Path]:
    """Draw figures 1 and 2 and the curves of errors, and compare the tables with the claims."""
    matrices = matrices_of(read_table(folder / "matrices.csv"))
    times = read_table(folder / "times.csv")
    text = page(read_table(folder / "table.csv"), times, read_meta(folder)["settings"]["random_starts"])
    return [
        save(figure1(matrices), folder / "figure1.png"),
        save(figure2(matrices), folder / "figure2.png"),
        save(figure_of_curves(read_table(folder / "convergence.csv"), times), folder / "figure.png"),
        write_text(folder / "claims.md", text),
    ]
