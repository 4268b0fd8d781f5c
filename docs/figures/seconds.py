"""Entries and seconds of learned dictionaries, from results/seconds/table.csv (`make reproduce NAME=seconds`).

python docs/figures/seconds.py
"""

import csv
from statistics import mean

import matplotlib
from common import BLUE, HERE, ORANGE, SOFT, STYLE, save
from matplotlib.figure import Figure

TABLE = HERE.parents[1] / "results" / "seconds" / "table.csv"
KINDS = {"single entries": (BLUE, "s"), "blocks": (ORANGE, "^")}
NAMES = {"single entries": "single entries", "blocks": "4×4 blocks"}


def curve(rows: list[dict[str, str]], atoms: str, kind: str) -> list[tuple[float, float]]:
    """Relative entries, and the time relative to the dense matrix, means over the draws."""
    mine = [row for row in rows if row["atoms"] == atoms and row["kind"] == kind]
    limits = sorted({float(row["complexity"]) for row in mine})
    groups = [[row for row in mine if float(row["complexity"]) == limit] for limit in limits]
    return [(_mean(group, "relative_complexity"), 1 / _mean(group, "speedup_forward")) for group in groups]


def _mean(rows: list[dict[str, str]], name: str) -> float:
    return mean(float(row[name]) for row in rows)


def entries_and_seconds() -> Figure:
    """The time for a block of 256 vectors against the entries, both relative to the dense matrix."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(9.0, 3.7), layout="constrained")
    for ax, atoms in zip(figure.subplots(1, 2, sharey=True), ("128", "256"), strict=True):
        ax.plot([0, 1], [0, 1], color=SOFT, linestyle=":", label="if entries were seconds")
        ax.axhline(1, color=SOFT, linewidth=0.8)
        ax.text(0.02, 1.02, "the dense matrix", color=SOFT, va="bottom")
        for kind, (colour, marker) in KINDS.items():
            ax.plot(*zip(*curve(rows, atoms, kind), strict=True), color=colour, marker=marker, label=NAMES[kind])
        ax.set(xlabel="entries, relative to the dense matrix", title=f"64 × {atoms}", xlim=(0, 1), ylim=(0, 1.45))
    figure.axes[0].set_ylabel("time, relative to the dense matrix")
    figure.axes[0].legend(frameon=False, loc="lower right")
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        save(entries_and_seconds(), "seconds")
