"""What all pictures share: new axes, and colours."""

from functools import cache
from typing import Any

# Negative, zero, positive. Zero is nearly white, and the two signs differ in lightness as well as in hue: blue and
# orange are told apart by the colour-blind, dark and middle grey on paper without colours.
_SIGNED = ("#0b2a5b", "#6f93c9", "#f7f7f5", "#f4b26a", "#e07b00")
# Of the series of a diagram: by Okabe and Ito, from dark to light, each with a marker of its own.
SERIES = (
    ("#000000", "o"),
    ("#0072b2", "s"),
    ("#d55e00", "^"),
    ("#009e73", "D"),
    ("#cc79a7", "v"),
    ("#56b4e9", "P"),
    ("#e69f00", "X"),
)


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('papilio.plot needs matplotlib: pip install "papilio[plot]"') from error
    return plt


def new_axes(figsize: tuple[float, float] = (6.4, 4.8)) -> Any:
    """The axes of a new figure."""
    return pyplot().figure(figsize=figsize, layout="constrained").add_subplot()


@cache
def signed_colours() -> Any:
    """The colour map of signed values."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("papilio.signed", _SIGNED)


def without_ticks(ax: Any, title: str | None = None) -> Any:
    ax.set_xticks([])
    ax.set_yticks([])
    if title is not None:
        ax.set_title(title, fontsize="small")
    return ax
