"""The paper's appendix A.1: the DFT as two permutations and butterfly stages."""

from pathlib import Path
from typing import Any

import numpy as np

from papilio import butterfly
from papilio.operators.factors import to_dense
from papilio.transforms import dft
from papilio.typing import Array

from .harness import (
    ENTRIES,
    OnProgress,
    Preset,
    Row,
    entries_of,
    matrices_of,
    new_figure,
    read_table,
    save,
    write_table,
)

TITLE = "The DFT of size 8 as permutations and three butterfly stages: the paper's appendix A.1"

SETTINGS = {
    "size": 8,
}

PRESETS = {
    "paper": Preset("size 8, as in the paper", 0.1),
    "tiny": Preset(
        "size 4",
        0.1,
        {
            "size": 4,
        },
    ),
}
SAMPLE: dict[str, Any] = {}
MEASURED: tuple[str, ...] = ()


# -- measuring -------------------------------------------------------------------------------------------------


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with all matrices, entry by entry, and errors.csv with the error of each product."""
    progress(0, 1)
    n = settings["size"]
    C = dft(n).toarray().conj()  # the paper's W is exp(+2πi/n)
    P = np.eye(n)[bit_reversal(n)]
    stages = butterfly_stages(n)
    found = butterfly(C)
    matrices = {"C": C, "P": P, "PCP": P @ C @ P.T}
    matrices |= {f"S{i}": stage for i, stage in enumerate(stages, start=1)}
    factors = [to_dense(factor) for factor in found.operator.factors]
    factors[0] = factors[0] * found.operator.scale
    matrices |= {f"found S{i}": factor for i, factor in enumerate(factors, start=1)}
    product = P.T @ np.linalg.multi_dot(stages) @ P if len(stages) > 1 else P.T @ stages[0] @ P
    errors: dict[str, Any] = {
        "in closed form": np.linalg.norm(C - product) / np.linalg.norm(C),
        "found from C alone": found.error,
    }
    rows = [row for name, matrix in matrices.items() for row in entries_of(name, matrix)]
    write_table(folder / "table.csv", ENTRIES, rows)
    write_table(
        folder / "errors.csv",
        ("factors", "error"),
        [{"factors": how, "error": float(error)} for how, error in errors.items()],
    )
    progress(1, 1)


def bit_reversal(n: int) -> Array:
    """0, …, n − 1 in bit-reversed order."""
    depth = n.bit_length() - 1
    return np.arange(n).reshape([2] * depth).T.ravel()


def butterfly_stages(n: int) -> list[Array]:
    """The paper's factors of P C P with P the bit reversal and C_jk = W^jk, W = exp(2πi/n).

    The last one takes neighbours x_2c, x_2c+1 to x_2c + x_2c+1 and to W^r (x_2c − x_2c+1), where r is c with its
    bits reversed; the stages before it do the same to both halves of what it gives.

    For n = 8, the product of the last two stages is the right factor of the paper's intermediate step with two
    factors. Its last row must end W¹ W⁵; the paper has W⁵ W¹ there, a misprint: with it, the product is not P C P.
    """
    half = n // 2
    turns = np.exp(2j * np.pi * bit_reversal(half) / n) if half > 1 else np.ones(1)
    sums = np.kron(np.eye(half), [1.0, 1.0])
    differences = turns[:, None] * np.kron(np.eye(half), [1.0, -1.0])
    last = np.vstack([sums, differences])
    if half == 1:
        return [last]
    return [*(np.kron(np.eye(2), stage) for stage in butterfly_stages(half)), last]


# -- figures ---------------------------------------------------------------------------------------------------


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


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the tables in ``folder``."""
    matrices = matrices_of(read_table(folder / "table.csv"))
    return [save(figure_of(matrices, read_table(folder / "errors.csv")), folder / "figure.png")]
