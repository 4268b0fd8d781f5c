"""The paper's figures 1 and 2, the errors over the iterations, and the times."""

from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import ConnectionPatch

from ...plot.common import panel_below
from ...plot.histories import is_split
from ...typing import Array
from ..drawing import DARK_TO_LIGHT, draw_matrix, new_figure, save
from ..tables import Row, matrices_of, read_table
from .run import AT_ONCE, HIERARCHICAL, IN_ALL, PER_LINE

_FLOOR = 1e-17  # errors of exactly zero are drawn here
_STYLES = {
    (HIERARCHICAL, PER_LINE): {"color": DARK_TO_LIGHT[0], "marker": "o"},
    (HIERARCHICAL, IN_ALL): {"color": DARK_TO_LIGHT[1], "marker": "s", "linestyle": "--"},
    (AT_ONCE, PER_LINE): {"color": DARK_TO_LIGHT[2], "marker": "^", "linestyle": "-."},
    (AT_ONCE, IN_ALL): {"color": DARK_TO_LIGHT[3], "marker": "v", "linestyle": ":"},
}


def write(folder: Path) -> list[Path]:
    """Draw figure1.png, figure2.png and figure.png from the tables in ``folder``."""
    matrices = matrices_of(read_table(folder / "matrices.csv"))
    curves = figure_of_curves(read_table(folder / "convergence.csv"), read_table(folder / "times.csv"))
    return [
        save(figure1(matrices), folder / "figure1.png"),
        save(figure2(matrices), folder / "figure2.png"),
        save(curves, folder / "figure.png"),
    ]


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
            for spine in ax.spines.values():  # what this step has made
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
    right.set_ylabel("seconds")
    right.set_title("Time to find the factors", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure
