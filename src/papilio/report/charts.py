"""Figures as inline SVG: text stays text, and colours are those of the page, light or dark."""

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

from ..plot.common import SERIES

_WIDTH, _HALF_WIDTH, _HEIGHT = 720, 470, 330
# What `papilio.plot` draws with, and the variables of the style sheet that take its place.
_INK = "#123456"  # of axes and text: black is a series
_COLOURS = {colour: f"c{i}" for i, (colour, _) in enumerate(SERIES, start=1)}
_COLOURS |= {"#595959": "soft", "#8c8c8c": "soft", "#e0e0e0": "card", _INK: "soft"}
_OPTIONS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "papilio",  # the same figure gives the same page
    "font.size": 13,
    "legend.fontsize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
} | dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), _INK)


def inline_svg(draw: Callable[[Any], Any], title: str, *, is_half: bool = False) -> str:
    """What ``draw`` draws on matplotlib axes, as an element of HTML; ``title`` describes it in words.

    ``is_half`` says that another diagram stands beside it.
    """
    import matplotlib
    from matplotlib.figure import Figure

    written, width = io.StringIO(), _HALF_WIDTH if is_half else _WIDTH
    with matplotlib.rc_context(_OPTIONS):
        figure = Figure(figsize=(width / 72, _HEIGHT / 72), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(written, format="svg", transparent=True)
    body = written.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]  # without its own style sheet
    body = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", _adapted, body))
    label = escape(title)
    return f'<svg viewBox="0 0 {width} {_HEIGHT}" role="img" aria-label="{label}" class="chart">{body}</svg>'


def _adapted(tag: re.Match[str]) -> str:
    """A tag in the page's fonts and colours, without names and digits that nothing needs."""
    text = re.sub(r'\s+(clip-path|id)="(?!m[0-9a-f]{10})[^"]*"', "", tag[0])  # markers are used by name
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: f"var(--{_COLOURS.get(colour[0], 'text')})", text)
