"""The paper's appendix A.3: wavelet synthesis as a product of sparse matrices."""

from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from papilio.typing import Array

from .harness import (
    ENTRIES,
    OnProgress,
    Preset,
    draw_matrix,
    entries_of,
    matrices_of,
    new_figure,
    read_table,
    save,
    write_table,
)

TITLE = "Wavelet synthesis as a product of sparse factors: the paper's appendix A.3"

SETTINGS = {
    "size": 32,
    # Low-pass taps of the synthesis: Haar's, and Daubechies's with four taps, (1 ± √3, 3 ± √3)/(4√2).
    "wavelets": {
        "Haar": [0.7071067811865476, 0.7071067811865476],
        "Daubechies 4": [0.48296291314453416, 0.8365163037378079, 0.2241438680420134, -0.12940952255126037],
    },
}

PRESETS = {
    "paper": Preset("size 32, two wavelets", 0.1),
    "tiny": Preset(
        "size 8",
        0.1,
        {
            "size": 8,
        },
    ),
}
SAMPLE: dict[str, Any] = {}
MEASURED: tuple[str, ...] = ()


# -- measuring -------------------------------------------------------------------------------------------------


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with the synthesis matrix and the factors of each wavelet, entry by entry."""
    progress(0, 1)
    rows = []
    for name, taps in settings["wavelets"].items():
        factors = synthesis_factors(settings["size"], np.array(taps))
        rows += entries_of(f"{name}: product", reduce(np.matmul, factors))
        for i, factor in enumerate(factors):
            rows += entries_of(f"{name}: S{len(factors) - i}", factor)
    write_table(folder / "table.csv", ENTRIES, rows)
    progress(1, 1)


def synthesis_factors(n: int, low_pass: Array) -> list[Array]:
    """S_M, …, S₂, S₁ for n = 2^M: S_k = diag(M_k, I) with M_k = (G_k↓2 | H_k↓2) of size 2^k."""
    levels = n.bit_length() - 1
    high_pass = np.where(np.arange(low_pass.size) % 2, -1, 1) * low_pass[::-1]
    factors = []
    for level in range(levels, 0, -1):
        factor = np.eye(n)
        size = 2**level
        halves = [_upsample_and_filter(size, taps) for taps in (low_pass, high_pass)]
        factor[:size, :size] = np.hstack(halves)
        factors.append(factor)
    return factors


def _upsample_and_filter(size: int, taps: Array) -> Array:
    """Every second column of a filter's circulant matrix, centred as in `papilio.transforms.wavelet`."""
    matrix = np.zeros((size, size // 2))
    places = np.arange(taps.size) + 1 - taps.size // 2
    for column in range(size // 2):
        np.add.at(matrix[:, column], (2 * column + places) % size, taps)  # taps of long filters wrap and add up
    return matrix


# -- figures ---------------------------------------------------------------------------------------------------


def figure_of(matrices: dict[str, Array]) -> Any:
    """A row for each wavelet: the synthesis matrix, and its factors from the finest level to the coarsest."""
    wavelets = [(name, list(group)) for name, group in groupby(matrices, key=lambda name: name.split(":")[0])]
    width = max(len(names) for _, names in wavelets)
    figure = new_figure(2.1 * width, 2.7 * len(wavelets))
    for part, (wavelet, names) in zip(np.atleast_1d(figure.subfigures(len(wavelets), 1)), wavelets, strict=True):
        product = " ".join(f"$S_{{{i}}}$" for i in range(len(names) - 1, 0, -1))
        part.suptitle(f"{wavelet}: x = {product} γ", fontsize="medium")
        for i, (ax, name) in enumerate(zip(part.subplots(1, width), names, strict=True)):
            label = "product" if i == 0 else f"$S_{{{name.split('S')[-1]}}}$"
            count = np.count_nonzero(np.abs(matrices[name]) > 1e-12)
            draw_matrix(matrices[name], ax, f"{label}: {count} entries", "×" if i > 1 else "=" * i)
    return figure


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    return [save(figure_of(matrices_of(read_table(folder / "table.csv"))), folder / "figure.png")]
