"""The error on new patches against the time to learn, and against the time to code."""

from pathlib import Path
from typing import Any

from ..claims import read_meta
from ..drawing import new_figure, save
from ..tables import Row, read_table
from .peers import SCIKIT_LEARN, SPAMS
from .run import DCT, FAST, K_SVD, ONLINE, sizes_of

_LOOKS: dict[str, dict[str, Any]] = {
    K_SVD: {"color": "#000000", "marker": "s"},
    ONLINE: {"color": "#009E73", "marker": "v"},
    FAST: {"color": "#D55E00", "marker": "o", "linestyle": "-"},
    DCT: {"color": "#E69F00", "marker": "^"},
    SCIKIT_LEARN: {"color": "#0072B2", "marker": "D"},
    SPAMS: {"color": "#CC79A7", "marker": "P"},
}
_LABELS = {K_SVD: "K-SVD, dense", ONLINE: "online, dense", FAST: "product, 4×4 blocks"}
_PANELS = {"fit_seconds": "seconds to learn", "coding_seconds": "seconds to code new patches"}


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    return [
        save(figure_of(read_table(folder / "table.csv"), read_meta(folder)["settings"]), folder / "figure.png")
    ]


def figure_of(rows: list[Row], settings: dict[str, Any]) -> Any:
    """A row of panels for each size."""
    sizes = sizes_of(settings)
    figure = new_figure(10.4, 4.3 * len(sizes) + 0.4)
    axes = figure.subplots(len(sizes), len(_PANELS), squeeze=False)
    for line, size in zip(axes, sizes, strict=True):
        own = [row for row in rows if row["side"] == str(size.side)]
        for ax, (column, label) in zip(line, _PANELS.items(), strict=True):
            _draw(ax, own, column)
            ax.set_xlabel(label)
        line[0].set_ylabel(f"relative error on new patches, {size.n_nonzero_coefs} atoms each")
        line[0].set_title(f"{size.atoms:,} atoms of {size.side}×{size.side}", fontsize="medium", loc="left")
    handles, names = axes[0][1].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 6), frameon=False)
    return figure


def _draw(ax: Any, rows: list[Row], column: str) -> None:
    for kind, look in _LOOKS.items():
        own = [row for row in rows if row["kind"] == kind]
        if kind == DCT and column == "fit_seconds":
            for row in own:  # nothing is learned
                ax.axhline(float(row["error_held_out"]), color=look["color"], linewidth=1)
            continue
        x, y = ([float(row[name]) for row in own] for name in (column, "error_held_out"))
        if own:
            ax.plot(x, y, label=_LABELS.get(kind, kind), **({"linestyle": "none"} | look), zorder=3)
        if kind == FAST:
            for row, *place in zip(own, x, y, strict=True):
                ax.annotate(
                    row["complexity"],
                    place,
                    (5, 5),
                    textcoords="offset points",
                    fontsize="small",
                    color=look["color"],
                )
    ax.set_xscale("log", subs=[2, 3, 5])
    for set_formatter in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
        set_formatter("{x:g}")  # 30, not 3 × 10¹
    ax.margins(0.12)
    ax.grid(color="0.92", zorder=0)
