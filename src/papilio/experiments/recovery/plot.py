"""The cosines of learned atoms with the true ones, and the correlations of codes, by size."""

from pathlib import Path
from typing import Any

from ..drawing import new_figure, save
from ..tables import read_table
from .averages import Points, averages, published
from .run import KSVD, START, TRUE

_MARKERS = {"uniform": "o", "half-normal": "D"}
_COLOURS = {KSVD: "#D55E00", START: "0.6", TRUE: "#000000"}
_OTHERS = (("#0072B2", "^"), ("#E69F00", "s"))  # colour and marker of each published method


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the tables in ``folder``."""
    points = averages(read_table(folder / "table.csv"), read_table(folder / "times.csv"))
    return [save(figure_of(points), folder / "figure.png")]


def figure_of(points: Points) -> Any:
    """The cosines on the left, the correlations with what is published on the right."""
    figure = new_figure(10.5, 4.8)
    left, right = figure.subplots(1, 2)
    places = {size: place for place, size in enumerate(points)}
    for ax, column, methods in ((left, "cosine", (START, KSVD)), (right, "correlation", (START, KSVD, TRUE))):
        for method in methods:
            for side, values in enumerate(next(iter(points.values()))):
                x = [place + 0.12 * (2 * side - 1) for place in places.values()]
                y = [getattr(kinds[values][method], column) for kinds in points.values()]
                look = {"color": _COLOURS[method], "marker": _MARKERS.get(values, "v"), "linestyle": "none"}
                ax.plot(x, y, label=f"{method}, {values}", fillstyle="none" if method == TRUE else "full", **look)
    for (name, figures), (colour, marker) in zip(published().items(), _OTHERS, strict=True):
        known = {places[size]: value for size, value in figures.items() if size in places}
        look = {"color": colour, "marker": marker, "linestyle": "none"}
        right.plot(list(known), list(known.values()), label=f"{name} (published)", **look)
    for ax in (left, right):
        ax.set_xticks(list(places.values()), [f"{s.atoms}×{s.features}\n{s.signals:,} signals" for s in places])
        ax.set_xlim(-0.5, len(places) - 0.5)
        ax.set_ylim(0, 1.04)
        ax.grid(axis="y", color="0.92", zorder=0)
    left.set_ylabel("mean max cosine with the true atoms")
    right.set_ylabel("mean correlation of codes of new signals")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    return figure
