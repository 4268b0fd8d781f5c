"""What the figures of the pages share: their style, and how they are written."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

HERE = Path(__file__).parent
# A light card of its own, so that text is readable on light and dark pages alike.
CARD, INK, SOFT = "#ffffff", "#1f2430", "#5b6474"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
STYLE: Any = {
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "papilio",  # the same figure gives the same file
} | dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK)


def save(figure: Any, name: str) -> None:
    """Write a figure beside its script."""
    path = HERE / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
