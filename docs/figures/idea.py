"""Figures of docs/guide/idea.md, but for seconds: a product of sparse factors, and the paths through it.

python docs/figures/idea.py
"""

from typing import Any

import matplotlib
import numpy as np
from common import BLUE, INK, ORANGE, SOFT, STYLE, save
from matplotlib.figure import Figure

import papilio as pp

SIZE, N_PATHS = 32, 8


def product() -> Figure:
    """The Hadamard matrix beside its factors."""
    op = pp.transforms.hadamard(SIZE)
    shown = [op.toarray(), *(np.asarray(factor.todense()) for factor in op.factors)]
    figure = Figure(figsize=(10.5, 2.0), layout="constrained")
    for place, (ax, matrix) in enumerate(zip(figure.subplots(1, len(shown)), shown, strict=True)):
        colours = matplotlib.colors.ListedColormap([BLUE, "#f1f1ee", ORANGE])
        ax.imshow(np.sign(matrix), cmap=colours, vmin=-1, vmax=1)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        name = f"$S_{place}$" if place else "$H$"
        ax.set_title(f"{name}\n{np.count_nonzero(matrix):,} entries", fontsize=11)
        if place:
            sign = "=" if place == 1 else "·"
            ax.text(-0.09, 0.5, sign, transform=ax.transAxes, ha="center", va="center", fontsize=16)
    return figure


def paths() -> Figure:
    """Every output from every input: directly, and through the layers of a butterfly."""
    op = pp.transforms.hadamard(N_PATHS)
    figure = Figure(figsize=(9.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 2])
    dense, factors = op.toarray(), [np.asarray(factor.todense()) for factor in op.factors]
    _draw_layers(left, [dense])
    left.set_title(f"the dense matrix: {dense.size} multiplications", fontsize=11)
    _draw_layers(right, factors[::-1])  # the last factor is the first one to be applied
    right.set_title(f"three sparse factors: {op.nnz} multiplications", fontsize=11)
    return figure


def _draw_layers(ax: Any, layers: list[Any]) -> None:
    """Nodes in columns, and a line for each entry of each layer."""
    for step, layer in enumerate(layers):
        for i, j in np.argwhere(layer):
            colour = ORANGE if layer[i, j] > 0 else BLUE
            ax.plot([step, step + 1], [-j, -i], color=colour, linewidth=1, alpha=0.75, zorder=1)
    for step in range(len(layers) + 1):
        ax.scatter([step] * N_PATHS, -np.arange(N_PATHS), s=34, color=INK, zorder=2)
    ax.text(-0.08, -N_PATHS / 2 + 0.5, "x", ha="right", va="center", fontsize=14, color=SOFT)
    ax.text(len(layers) + 0.08, -N_PATHS / 2 + 0.5, "y", ha="left", va="center", fontsize=14, color=SOFT)
    ax.set_axis_off()
    ax.margins(x=0.12)


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        save(product(), "product")
        save(paths(), "paths")
