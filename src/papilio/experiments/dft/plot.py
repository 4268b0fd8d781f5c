"""The matrices of the paper's appendix A.1, with their entries written as powers of W = exp(2πi/n)."""

from pathlib import Path
from typing import Any

import numpy as np

from ...typing import Array
from ..drawing import new_figure, save
from ..tables import Row, matrices_of, read_table


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the tables in ``folder``."""
    matrices = matrices_of(read_table(folder / "table.csv"))
    return [save(figure_of(matrices, read_table(folder / "errors.csv")), folder / "figure.png")]


def figure_of(matrices: dict[str, Array], errors: list[Row]) -> Any:
    """Three rows: C and its permutation, the stages in closed form, those that are found from C alone."""
    closed = [name for name in matrices if name.startswith("S")]
    found = [name for name in matrices if name.startswith("found")]
    n = len(matrices["C"])
    titles = {"C": f"C, the DFT of size {n}", "P": "P, the bit reversal", "PCP": "P C Pᵀ"}
    error = {row["factors"]: float(row["error"]) for row in errors}
    rows = [
        ("the matrix, and its rows and columns in bit-reversed order", ["C", "P", "PCP"], ""),
        (
            f"in closed form: P C Pᵀ = {_product(closed)}, relative error {error['in closed form']:.2g}",
            closed,
            "×",
        ),
        (
            f"found by papilio.butterfly from C alone: C = {_product(found)} (shown: the phases), "
            f"error {error['found from C alone']:.2g}",
            found,
            "×",
        ),
    ]
    figure = new_figure(10, 10.6)
    for part, (heading, names, sign) in zip(figure.subfigures(len(rows), 1), rows, strict=True):
        part.suptitle(heading, fontsize="medium")
        axes = np.atleast_1d(part.subplots(1, max(len(row[1]) for row in rows)))
        for i, ax in enumerate(axes):
            if i >= len(names):
                ax.set_axis_off()
                continue
            name = names[i]
            _draw_powers(matrices[name], ax, titles.get(name) or f"$S_{{{name.split('S')[-1]}}}$")
            if i:
                ax.text(-0.06, 0.5, sign, transform=ax.transAxes, ha="center", va="center", fontsize="large")
    return figure


def _product(names: list[str]) -> str:
    return "".join(f"$S_{{{i}}}$" for i in range(1, len(names) + 1))


def _draw_powers(matrix: Array, ax: Any, title: str) -> None:
    """The phases of the entries as colours that go round, and as the exponents of W where they are whole."""
    n = len(matrix)
    turns = np.where(matrix != 0, np.angle(matrix) / (2 * np.pi) % 1, np.nan)
    ax.imshow(turns, cmap="twilight", vmin=0, vmax=1, alpha=0.45)
    permutation = np.array_equal(matrix, matrix.real) and set(np.unique(matrix.real)) <= {0.0, 1.0}
    for i, j in zip(*np.nonzero(matrix), strict=True):
        power = turns[i, j] * n
        text = "1" if permutation else f"$W^{{{round(power) % n}}}$"
        if abs(power - round(power)) < 1e-6:
            ax.text(j, i, text, ha="center", va="center", fontsize=8)
    ax.set_xticks(np.arange(n + 1) - 0.5, [""] * (n + 1))
    ax.set_yticks(np.arange(n + 1) - 0.5, [""] * (n + 1))
    ax.grid(color="0.9", linewidth=0.5)
    ax.tick_params(length=0)
    ax.set_title(f"{title}: {np.count_nonzero(matrix)} entries", fontsize="small")
