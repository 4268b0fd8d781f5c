"""The error on new patches against the measured time."""

from pathlib import Path
from typing import Any

from matplotlib.ticker import FuncFormatter, NullLocator

from ..claims import read_meta
from ..drawing import new_figure, save
from ..tables import read_table
from .averages import Point, averages
from .run import BLOCKS, DCT, DENSE, SINGLE

# Each has its own colour and marker, and its labels their own side.
_LOOKS: dict[str, dict[str, Any]] = {
    DENSE: {"color": "#000000", "marker": "s", "markersize": 8, "linestyle": "none", "zorder": 3},
    SINGLE: {"color": "#0072B2", "marker": "D", "markersize": 5, "linestyle": "--", "zorder": 4},
    BLOCKS: {"color": "#D55E00", "marker": "o", "linestyle": "-", "zorder": 4},
    DCT: {"color": "#E69F00", "marker": "^", "markersize": 8, "linestyle": "none", "zorder": 4},
}
_SIDES = {SINGLE: ((5, 5), "left", "bottom"), BLOCKS: ((-5, -5), "right", "top")}
_TICKS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    settings = read_meta(folder)["settings"]
    return [save(figure_of(averages(read_table(folder / "table.csv")), settings), folder / "figure.png")]


def figure_of(points: dict[int, dict[str, list[Point]]], settings: dict[str, Any]) -> Any:
    """A panel for each number of atoms, with a line for each kind of product."""
    figure = new_figure(5.2 * len(points), 4.8)
    axes = figure.subplots(1, len(points), squeeze=False)[0]
    size = settings["block"]
    labels = {
        DENSE: "dense (K-SVD)",
        SINGLE: "product, single entries",
        BLOCKS: f"product, {size}×{size} blocks",
        DCT: "redundant DCT",
    }
    for ax, (atoms, kinds) in zip(axes, points.items(), strict=True):
        for kind, members in kinds.items():
            x, y = [point.time for point in members], [point.held_out for point in members]
            ax.plot(x, y, label=labels[kind], **_LOOKS[kind])
            if kind in _SIDES:
                _write_complexities(ax, kind, members)
        ax.axvline(1, color="0.35", linewidth=1, zorder=2)
        ax.set_title(f"{atoms} atoms", fontsize="medium")
        ax.set_xscale("log")
        ax.set_xticks(_TICKS)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        times = [point.time for members in kinds.values() for point in members]
        ax.set_xlim(0.8 * min(times), 1.35 * max(times))
        ax.margins(y=0.08)
        ax.grid(color="0.92", zorder=0)
        ax.set_xlabel(f"time for {settings['vectors']} vectors, over the dense matrix's")
    axes[0].set_ylabel(f"relative error on new patches, {settings['n_nonzero_coefs']} atoms each")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def _write_complexities(ax: Any, kind: str, members: list[Point]) -> None:
    """The complexity beside each point."""
    offset, across, along = _SIDES[kind]
    look = {"ha": across, "va": along, "fontsize": "small", "color": _LOOKS[kind]["color"]}
    for point in members:
        place = point.time, point.held_out
        ax.annotate(point.complexity, place, offset, textcoords="offset points", **look)
