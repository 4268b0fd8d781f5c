"""What all figures share: new axes and the colours of papilio."""

import base64
import io
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..validation import is_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Signs have the same colours in all figures, notebooks and pages: negative values are blue, positive ones orange.
# They also differ in lightness, so that they can be told apart in print without colours, and on dark pages.
NEGATIVE, POSITIVE = "#285cb8", "#f08a00"
# On white, from negative through zero to positive; small values are a little stronger than in proportion.
SIGNED = (NEGATIVE, "#87a5da", "#f7f7f5", "#f6bd72", POSITIVE)
BETWEEN = "#c4c4c4"  # the gaps of a mosaic: zero is nearly white
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
SLOWER = "#f7e1d8"  # behind what is slower than the dense matrix

_GAP = 0.06  # between two panels, relative to the height of both


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an error that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("papilio.plot needs matplotlib: pip install matplotlib") from error
    return plt


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches that no window shows."""
    pyplot()  # says how to install matplotlib
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def png_url(written: io.BytesIO) -> str:
    """A PNG file as an address, so that a page needs no other file."""
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


def new_axes(figsize: tuple[float, float] = (6.4, 4.8)) -> "Axes":
    """The axes of a new figure."""
    return pyplot().figure(figsize=figsize, layout="constrained").add_subplot()


def as_axes(ax: Any, figsize: tuple[float, float] = (6.4, 4.8), name: str = "ax") -> "Axes":
    """Check ``ax``; None gives the axes of a new figure."""
    if ax is None:
        return new_axes(figsize)
    pyplot()  # says how to install matplotlib
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"{name} must be matplotlib Axes, got {type(ax).__name__}")
    return ax


def as_panels(axes: Any, count: int, each: str) -> "list[Axes]":
    """Check a list of ``count`` axes; ``each`` says in errors what they are for."""
    if not isinstance(axes, Sequence | np.ndarray) or not is_series(axes):
        raise TypeError(f"axes must be a sequence of {count} matplotlib Axes, {each}, got {type(axes).__name__}")
    if len(axes) != count:
        raise ValueError(f"axes must hold {count} axes, {each}, got {len(axes)}")
    for i, ax in enumerate(axes):
        if ax is None:
            raise TypeError(f"axes[{i}] must be matplotlib Axes, got None")
        as_axes(ax, name=f"axes[{i}]")
    return list(axes)


def is_figure(where: Any, name: str = "ax") -> bool:
    """Whether ``where`` is a figure rather than axes; anything else is an error."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    if not isinstance(where, Axes | Figure | SubFigure):
        raise TypeError(f"{name} must be matplotlib Axes, a Figure or a SubFigure, got {type(where).__name__}")
    return not isinstance(where, Axes)


@cache
def signed_colours() -> Any:
    """The colour map of signed values."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("papilio.signed", SIGNED)


def panel_below(ax: "Axes", share: float) -> "Axes":
    """New axes below ``ax``, with the same horizontal axis, in ``share`` of the room that ``ax`` had alone."""
    figure: Any = ax.get_figure()
    place = ax.get_subplotspec()
    if place is not None:
        grid = place.subgridspec(2, 1, height_ratios=[1 - share, share])
        ax.set_subplotspec(grid[0])
        return figure.add_subplot(grid[1], sharex=ax)
    left, bottom, width, height = ax.get_position().bounds
    ax.set_position((left, bottom + (share + _GAP) * height, width, (1 - share - _GAP) * height))
    return figure.add_axes((left, bottom, width, (share - _GAP) * height), sharex=ax)


def without_ticks(ax: "Axes", title: str | None = None) -> "Axes":
    """The axes of an image, perhaps with a title."""
    ax.set_xticks([])
    ax.set_yticks([])
    if title is not None:
        if not isinstance(title, str):
            raise TypeError(f"title must be a string or None, got {type(title).__name__}")
        ax.set_title(title, fontsize="small")
    return ax
