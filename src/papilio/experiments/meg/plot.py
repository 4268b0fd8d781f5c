"""Error against complexity, and box plots of distances."""

from pathlib import Path
from typing import Any

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ..claims import read_meta
from ..drawing import new_figure, save
from ..tables import Row, read_table
from .run import DENSE, PAPILIO, PYFAUST, QUANTILES, SVD, quantile_column

_LOOKS: dict[str, dict[str, Any]] = {
    SVD: {"color": "#000000", "marker": "s", "linestyle": ":"},
    PYFAUST: {"color": "#E69F00", "marker": "^", "linestyle": "--"},
    PAPILIO: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
}


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    settings = read_meta(folder)["settings"]
    return [save(figure_of(read_table(folder / "table.csv"), settings), folder / "figure.png")]


def figure_of(rows: list[Row], settings: dict[str, Any]) -> Any:
    """A panel of errors, and one of boxes for each range of distances."""
    ranges = settings["ranges"]
    figure = new_figure(4.6 + 2.9 * len(ranges), 4.4)
    first, *others = figure.subplots(1, 1 + len(ranges), width_ratios=[1.5] + [1] * len(ranges))
    _draw_errors(first, rows)
    located = [row for row in rows if row[quantile_column(0, QUANTILES[0])]]
    for i, ax in enumerate(others):
        _draw_boxes(ax, located, i)
        low, high = ranges[i]
        is_last = i == len(ranges) - 1
        title = f"more than {low:g} cm apart" if is_last else f"{low:g} to {high:g} cm apart"
        ax.set_title(title, fontsize="medium")
        ax.sharey(others[0])
    others[0].set_ylabel("distance of the found source, cm")
    highest = max(float(row[quantile_column(i, QUANTILES[-1])]) for row in located for i in range(len(ranges)))
    others[0].set_ylim(-0.03 * highest, 1.05 * highest or 1.0)
    others[len(others) // 2].set_xlabel("how many times fewer entries than the dense matrix")
    return figure


def _draw_errors(ax: Any, rows: list[Row]) -> None:
    for kind, look in _LOOKS.items():
        points = [row for row in rows if row["kind"] == kind and row["error"] != "inf"]
        if points:
            ratios = [int(row["ratio"]) for row in points]
            ax.plot(ratios, [float(row["error"]) for row in points], label=kind, **look)
    ratios = sorted({int(row["ratio"]) for row in rows if row["kind"] != DENSE})
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(FixedLocator(ratios))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(color="0.92", zorder=0)
    ax.set_xlabel("how many times fewer entries")
    ax.set_ylabel("relative error")
    ax.set_title(f"{rows[0]['shape']}, {rows[0]['matrix']}", fontsize="medium")
    ax.legend(frameon=False)


def _draw_boxes(ax: Any, rows: list[Row], i: int) -> None:
    """From the 5th to the 95th percent, with the quartiles and the median."""
    names = ("whislo", "q1", "med", "q3", "whishi")
    boxes = [
        dict(zip(names, (float(row[quantile_column(i, each)]) for each in QUANTILES), strict=True)) for row in rows
    ]
    labels = ["dense" if row["kind"] == DENSE else row["ratio"] for row in rows]
    drawn = ax.bxp(
        boxes, showfliers=False, widths=0.6, patch_artist=True, medianprops={"color": "#D55E00", "lw": 2}
    )
    for patch, row in zip(drawn["boxes"], rows, strict=True):
        patch.set_facecolor("0.85" if row["kind"] == DENSE else "#9ECAE1")
    ax.set_xticks(range(1, len(rows) + 1), labels)
    ax.grid(axis="y", color="0.92", zorder=0)
