"""What the figures share."""

from pathlib import Path
from typing import Any

import matplotlib.figure
from matplotlib.colors import LinearSegmentedColormap

from ..plot import matrix

# Okabe and Ito's colours, which the colour-blind can tell apart, in the order of their darkness in grey.
DARK_TO_LIGHT = ("#000000", "#0072B2", "#D55E00", "#E69F00")

# Signs that differ in print, too: negative is light orange, positive dark blue, zero nearly white.
SIGNS = LinearSegmentedColormap.from_list("signs", ["#E69F00", "#F7F7F7", "#00406B"])


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches, on no screen."""
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> Path:
    """Write a figure; the file holds no date, so that the same figure is the same file."""
    figure.savefig(path, dpi=150, metadata={"Software": None})
    return path


def draw_matrix(values: Any, ax: Any, title: str, before: str = "") -> None:
    """A matrix, with its title above and perhaps an operator sign on its left."""
    matrix(values, ax, title).images[0].set_cmap(SIGNS)
    ax.text(-0.09, 0.5, before, transform=ax.transAxes, ha="center", va="center", fontsize="large")
