"""Figures as inline SVG: text stays text, and colours are those of the page, light or dark."""

import io
import re
from collections.abc import Callable
from html import escape
from textwrap import fill
from typing import Any

from ..plot.common import SERIES, SLOWER

_WIDTH, _HALF_WIDTH, _NARROW_WIDTH, _HEIGHT = 720, 470, 340, 330
_CHARACTER = 10  # pixels of an axis for each character of its label
# What `papilio.plot` draws with, and the variables of the style sheet that take its place.
_INK = "#123456"  # of axes and text: black is a series
_COLOURS = {colour: f"c{i}" for i, (colour, _) in enumerate(SERIES, start=1)}
_COLOURS |= {"#595959": "soft", "#8c8c8c": "soft", "#e0e0e0": "card", "#ffffff": "page", _INK: "soft"}
_COLOURS |= {SLOWER: "band"}
_OPTIONS: Any = {
    "svg.fonttype": "none",
    "font.size": 13,
    "legend.fontsize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
} | dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), _INK)


def inline_svg(draw: Callable[[Any], Any], title: str, *, is_half: bool = False, height: int = _HEIGHT) -> str:
    """What ``draw`` draws on matplotlib axes, as elements of HTML; ``title`` describes it in words.

    There are two of them, of which the style sheet shows one: a narrow one for phones, where the text of a wide
    one could not be read. ``is_half`` says that another diagram stands beside it.
    """
    return "".join(
        _drawn(draw, title, width, height, kind)
        for kind, width in (("wide", _HALF_WIDTH if is_half else _WIDTH), ("narrow", _NARROW_WIDTH))
    )


def _drawn(draw: Callable[[Any], Any], title: str, width: int, height: int, kind: str) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    written = io.StringIO()
    # The same figure gives the same page; markers of the two kinds have different names.
    with matplotlib.rc_context(_OPTIONS | {"svg.hashsalt": f"papilio {kind}"}):
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        draw(figure.add_subplot())
        for ax in figure.axes:
            ax.set_xlabel(fill(ax.get_xlabel(), int(width / _CHARACTER)))
        figure.savefig(written, format="svg", transparent=True)
    body = written.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]  # without its own style sheet
    body = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", _adapted, body))
    label = escape(title)
    box = f"0 0 {width} {height}"
    return f'<svg viewBox="{box}" role="img" aria-label="{label}" class="chart {kind}">{body}</svg>'


def _adapted(tag: re.Match[str]) -> str:
    """A tag in the page's fonts and colours, without names and digits that nothing needs."""
    text = re.sub(r'\s+(clip-path|id)="(?!m[0-9a-f]{10})[^"]*"', "", tag[0])  # markers are used by name
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: f"var(--{_COLOURS.get(colour[0], 'text')})", text)
