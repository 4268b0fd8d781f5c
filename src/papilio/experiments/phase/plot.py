"""The phase diagram: the share of draws that are recovered, by depth and entries per column."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..drawing import new_figure, save
from ..tables import Row, read_table
from .run import ROOM

_TITLES = {"signs": "entries ±1", "gaussian": "Gaussian entries"}


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    return [save(figure_of(read_table(folder / "table.csv")), folder / "figure.png")]


def shares(rows: list[Row]) -> dict[tuple[int, str], dict[tuple[int, int], float]]:
    """By size and values: the share of recovered draws for each depth and number of entries per column."""
    return _means(rows, lambda row: int(row["recovered"]))


def trivial_shares(rows: list[Row]) -> dict[tuple[int, str], dict[tuple[int, int], float]]:
    """The same for draws whose product has no more entries than its factors: it is its own best factorization."""
    return _means(rows, lambda row: int(row["product"]) <= ROOM * int(row["planted"]))


def _means(rows: list[Row], value: Callable[[Row], float]) -> dict[tuple[int, str], dict[tuple[int, int], float]]:
    groups: dict[tuple[int, str], dict[tuple[int, int], list[float]]] = {}
    for row in rows:
        cell = int(row["depth"]), int(row["entries"])
        kind = groups.setdefault((int(row["size"]), row["values"]), {})
        kind.setdefault(cell, []).append(value(row))
    return {key: {cell: float(np.mean(found)) for cell, found in kind.items()} for key, kind in groups.items()}


def figure_of(rows: list[Row]) -> Any:
    """One diagram per size and kind of values; lines where products have k^depth = √n and n entries per column."""
    found, trivial = shares(rows), trivial_shares(rows)
    sizes, kinds = sorted({size for size, _ in found}), list(dict.fromkeys(values for _, values in found))
    figure = new_figure(4.4 * len(kinds) + 1.0, 2.9 * len(sizes) + 0.4)
    axes = figure.subplots(len(sizes), len(kinds), squeeze=False)
    image = None
    for (size, values), cells in found.items():
        ax = axes[sizes.index(size), kinds.index(values)]
        depths, entries = sorted({d for d, _ in cells}), sorted({k for _, k in cells})
        grid = np.array([[cells[depth, k] for k in entries] for depth in depths])
        extent = (entries[0] - 0.5, entries[-1] + 0.5, depths[0] - 0.5, depths[-1] + 0.5)
        image = ax.imshow(grid, cmap="viridis", vmin=0, vmax=1, origin="lower", extent=extent, aspect="auto")
        line = np.linspace(depths[0] - 0.5, depths[-1] + 0.5, 50)
        for power, style, label in ((0.5, "--", "√n"), (1.0, ":", "n")):
            ax.plot(size ** (power / line), line, style, color="white", linewidth=2)
            ax.plot(size ** (power / line), line, style, color="#D55E00", label=f"$k^{{depth}}$ = {label}")
        for (depth, k), share in cells.items():
            is_trivial = trivial[size, values][depth, k] == 1
            text = "trivial" if is_trivial else f"{share:.0%}"
            dark = "black" if share > 0.6 else "white"
            ax.text(k, depth, text, ha="center", va="center", fontsize="x-small", color=dark)
        ax.set_xlim(*extent[:2])
        ax.set_ylim(*extent[2:])
        ax.set_xticks(entries)
        ax.set_yticks(depths)
        ax.set_title(f"n = {size}, {_TITLES.get(values, values)}", fontsize="medium")
        ax.set_xlabel("entries per column of a factor, k")
        ax.set_ylabel("factors")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside lower center", ncols=2, frameon=False)
    figure.colorbar(image, ax=axes, label="share of draws that are recovered", shrink=0.8)
    return figure
