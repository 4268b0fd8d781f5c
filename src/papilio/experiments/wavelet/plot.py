"""The factors of wavelet synthesis, side by side."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ...typing import Array
from ..drawing import draw_matrix, new_figure, save
from ..tables import matrices_of, read_table


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    return [save(figure_of(matrices_of(read_table(folder / "table.csv"))), folder / "figure.png")]


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
