"""What the figures share."""

from pathlib import Path
from typing import Any

import matplotlib.figure

from ..plot import matrix
from ..runtime.files import replacing

# Four of Okabe and Ito's colours, which differ in lightness too.
DARK_TO_LIGHT = ("#000000", "#0072B2", "#D55E00", "#E69F00")


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches, on no screen."""
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> Path:
    """Write a figure without a date, so that the same figure gives the same file."""
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, metadata={"Software": None})
    return path


def draw_matrix(values: Any, ax: Any, title: str, before: str = "") -> None:
    """Draw a matrix with a title above it and perhaps an operator sign on its left."""
    matrix(values, ax, title)
    ax.text(-0.09, 0.5, before, transform=ax.transAxes, ha="center", va="center", fontsize="large")
