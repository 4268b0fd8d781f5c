"""What all figures share: new axes and the colours of papilio."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Everywhere, negative entries are blue and positive ones orange. On white, from negative through zero to positive:
# the signs also differ in lightness, so that they can be told apart in print without colours.
SIGNED = ("#0b2a5b", "#6f93c9", "#f7f7f5", "#f4b26a", "#e07b00")
# On light and dark pages alike, where zero is transparent.
NEGATIVE, POSITIVE = "#3c78d8", "#e67e00"
# The series of a diagram: the colours of Okabe and Ito from dark to light, each with its own marker.
SERIES = (
    ("#000000", "o"),
    ("#0072b2", "s"),
    ("#d55e00", "^"),
    ("#009e73", "D"),
    ("#cc79a7", "v"),
    ("#56b4e9", "P"),
    ("#e69f00", "X"),
)
HIGHLIGHT = "#d55e00"  # the result, the recommended point


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an error that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('papilio.plot needs matplotlib: pip install "papilio[plot]"') from error
    return plt


def new_axes(figsize: tuple[float, float] = (6.4, 4.8)) -> "Axes":
    """The axes of a new figure."""
    return pyplot().figure(figsize=figsize, layout="constrained").add_subplot()


def is_figure(where: Any) -> bool:
    """Whether diagrams go into a figure rather than into axes; anything else is refused."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    if not isinstance(where, Axes | Figure | SubFigure):
        raise TypeError(f"ax must be matplotlib Axes, a Figure or a SubFigure, got {type(where).__name__}")
    return not isinstance(where, Axes)


@cache
def signed_colours() -> Any:
    """The colour map of signed values."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("papilio.signed", SIGNED)


def without_ticks(ax: "Axes", title: str | None = None) -> "Axes":
    """The axes of an image, perhaps with a title."""
    ax.set_xticks([])
    ax.set_yticks([])
    if title is not None:
        ax.set_title(title, fontsize="small")
    return ax
