"""The sections of the page, and figures as inline SVG; a section about which nothing is known is empty."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from math import isfinite, isqrt
from textwrap import fill
from typing import Any

import numpy as np

from ..linalg import exact_below
from ..operators import SparseProduct
from ..operators.cost import BLOCK
from ..operators.speed import BELOW_ONE, Speed, in_times, is_below_one
from ..plot.common import SERIES, SLOWER
from ..plot.fits import draw_convergence, has_both_errors
from ..plot.mosaics import draw_curves
from ..plot.thumbnails import mosaic, mosaic_png, signed_png
from ..plot.tradeoffs import draw_complexities, draw_times, relative_times
from ..plot.tradeoffs import tradeoff as draw_tradeoff
from ..results import Attempt, History, Tradeoff, tradeoff_cells

_WIDTH, _HALF_WIDTH, _NARROW_WIDTH, _HEIGHT = 720, 470, 340, 330
_CHARACTER = 10  # pixels of an axis for each character of its label
# What `papilio.plot` draws with, and the variables of the style sheet that take its place.
_INK = "#123456"  # Colour of axes and text; black is used for a series.
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
    """Draw on matplotlib axes, and return the figure as inline SVG; ``title`` describes it in words.

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
    body = written.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]  # Drop matplotlib's own style sheet.
    body = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", _adapted, body))
    label = escape(title)
    box = f"0 0 {width} {height}"
    return f'<svg viewBox="{box}" role="img" aria-label="{label}" class="chart {kind}">{body}</svg>'


def _adapted(tag: re.Match[str]) -> str:
    """Adapt a tag to the page's fonts and colours, and drop ids and digits that are not needed."""
    text = re.sub(r'\s+(clip-path|id)="(?!m[0-9a-f]{10})[^"]*"', "", tag[0])  # Markers are referred to by id.
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: f"var(--{_COLOURS.get(colour[0], 'text')})", text)


_MOST_FACTORS = 12  # With more factors, only the first ones and the last are drawn.
_CELLS = 600_000  # pixels of all images of factors together
_SIDE = 256  # pixels along each of them, at most
_LINE_PIXELS = 830  # Width of a line of images on the screen.
_LEAST_PIXELS, _MOST_PIXELS = 150, 300  # Limits for the longest side of an image.
_ATOM_CELLS = 400_000  # pixels of the mosaic of atoms
_USUAL, _TALL = 330, 430  # the height of a diagram, and of one with two panels
_CURVES, _CURVE_POINTS = 64, 20_000  # Numbers of curves, and of points of all curves, that are drawn.


def cards(op: SparseProduct, error: float | None, error_name: str, speeds: Sequence[Speed]) -> str:
    """The most important numbers, in large type."""
    size = op.shape[0] * op.shape[1]
    shown = [
        (
            "Relative error",
            "not known" if error is None else _error(error),
            _error_note(error, error_name, op.dtype),
        ),
        ("Entries", f"{op.nnz:,}", f"of {size:,} in the dense matrix"),
        ("Relative complexity", f"{op.relative_complexity:.3g}", _fewer(op)),
    ]
    if speeds:
        largest, *others = sorted(
            (speed for speed in speeds if speed.form == speeds[0].form), key=lambda speed: -speed.vectors
        )
        note = ", ".join([f"for {_vectors(largest)}", *(f"{in_times(s.gain)} for {_vectors(s)}" for s in others)])
        note = f"slower than dense {note}" if is_below_one(largest.gain) else note
        shown.append(("Speed-up on this machine", _gain(largest.gain), note))
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{escape(note)}</small></dd></div>" for name, value, note in shown
    )
    return f'<dl class="cards">{cells}</dl>'


def factors(op: SparseProduct) -> str:
    """The product and its factors, as images."""
    count = len(op.factors)
    chosen: list[int | None] = list(range(count))
    if count > _MOST_FACTORS:
        chosen = [*range(_MOST_FACTORS - 1), None, count - 1]
    side = min(_SIDE, isqrt(_CELLS // (len(chosen) + 1)))
    rows, columns = op.shape
    # One scale for all, so that neighbours fit together; a few factors fill one line.
    shapes = [op.shape, *(factor.shape for factor in op.factors)]
    fitting = _LINE_PIXELS / sum(shape[1] for shape in shapes) if count <= 3 else 0.0
    longest = max(map(max, shapes))
    zoom = min(max(fitting, _LEAST_PIXELS / longest), _MOST_PIXELS / longest)
    alt = f"the product, {rows} by {columns}"
    images = [_image(op, side, zoom, alt, f"{rows} × {columns}<br>the product")]
    for place, i in enumerate(chosen):
        images.append(f'<span class="sign" aria-hidden="true">{"·" if place else "="}</span>')
        if i is None:
            images.append('<span class="sign">…</span>')
            continue
        factor = op.factors[i]
        height, width = factor.shape
        caption = f"S<sub>{i + 1}</sub>: {height} × {width}<br>{factor.size:,} entries"
        alt = f"factor {i + 1}, {height} by {width}, {factor.size} entries"
        images.append(_image(factor, side, zoom, alt, caption))
    shown = "Real parts are shown: blue" if op.dtype.kind == "c" else "Blue"
    note = (
        f"{shown} is negative, orange positive, blank zero. Each image has its own scale; the product is "
        f"multiplied by {op.scale:.4g}."
    )
    drawn = f'<div class="factors">{"".join(images)}</div>'
    return f'{drawn}<p class="note">{note}</p>'


def atoms(op: SparseProduct, shape: tuple[int, ...] | None) -> str:
    """The columns as pictures or curves; empty if a single one is too large."""
    if shape is None:
        return ""
    is_picture = len(shape) == 2
    size = (shape[0] + 1) * (shape[1] + 1) if is_picture else shape[0]
    shown = min(op.shape[1], _ATOM_CELLS // size if is_picture else min(_CURVES, _CURVE_POINTS // size))
    if not shown:
        return ""
    columns = np.asarray(op[:, :shown].toarray()).real
    which = f"all {shown:,}" if shown == op.shape[1] else f"the first {shown:,} of {op.shape[1]:,}"
    what = "real parts of the columns" if op.dtype.kind == "c" else "columns"
    if not is_picture:
        drawn = inline_svg(lambda ax: draw_curves(columns, ax), f"Diagram: {shown} atoms as curves")
        caption = f"The {what} as curves of {size:,} values, {which}, each on its own scale."
        return f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>"
    height, width = shape
    tiles = mosaic(columns, height, width)
    scale = max(min(4, 960 // tiles.shape[1]), 1)
    tall, wide = scale * tiles.shape[0], scale * tiles.shape[1]
    return (
        '<figure class="atoms">'
        f'<img src="{mosaic_png(tiles)}" width="{wide}" height="{tall}" '
        f'alt="{shown} atoms as patches of {height} by {width} pixels">'
        f"<figcaption>The {what} as patches of {height} × {width}, {which}, each on its own scale.</figcaption>"
        "</figure>"
    )


def speed(speeds: Sequence[Speed]) -> str:
    """The times of the dense matrix and of the product on this machine."""
    if not speeds:
        return ""
    lines = []
    for s in speeds:
        slowest = max(s.dense, s.product)
        bars = "".join(
            f'<span style="width:{100 * seconds / slowest:.1f}%"></span>' for seconds in (s.dense, s.product)
        )
        lines.append(
            f"<tr><td>{escape(s.form)}</td><td>{s.vectors:,}</td><td>{_micro(s.dense)}</td><td>{_micro(s.product)}</td>"
            f'<td class="gain">{_gain(s.gain, "slower")}</td><td class="bar" aria-hidden="true">{bars}</td></tr>'
        )
    keys = (
        '<span class="key" style="background:var(--c2)"></span>dense '
        '<span class="key" style="background:var(--c3)"></span>product'
    )
    caption = (
        "The best of many measurements, taken in turns; the dense matrix runs on one thread or on all, "
        "whichever is faster."
    )
    head = "<th></th><th>vectors</th><th>dense, µs</th><th>product, µs</th><th>speed-up</th>"
    note = f'<p class="note">{BELOW_ONE}</p>' if any(s.gain < 1 for s in speeds) else ""
    head += f'<th class="keys">{keys}</th>'
    return _table(head, "".join(lines), caption=caption, kind=' class="speeds"') + note


def tradeoff(error_name: str, found: Tradeoff | None, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Errors: those of a trade-off against complexity and time, or of results to compare with, without time."""
    if found is not None:
        times = relative_times(found)
        return _tradeoff_charts(found, times) + _tradeoff_table(found)
    shown = {_plain(name): [p for p in points if isfinite(p[1])] for name, points in series.items()}
    shown = {name: points for name, points in shown.items() if points}
    if not shown:
        return ""
    title = _title(error_name, "relative complexity", sum(map(len, shown.values())))
    return f"<figure>{inline_svg(lambda ax: draw_tradeoff(shown, ax, error=_plain(error_name)), title)}</figure>"


def _tradeoff_charts(found: Tradeoff, times: Sequence[float]) -> str:
    """The diagrams of complexities and, if they were measured, of times."""
    finite = [i for i, point in enumerate(found.points) if isfinite(point.error)]
    if not finite:
        return ""
    shown = replace(found, points=tuple(found.points[i] for i in finite))
    kept, name = [times[i] for i in finite if times], _plain(found.error_name)
    draw: dict[str, Callable[[Any], Any]] = {}
    draw["relative complexity"] = lambda ax: draw_complexities(shown, ax, name).set_xlabel("relative complexity")
    if times:
        draw["relative time"] = lambda ax: draw_times(shown, kept, ax, name)
    drawn = "".join(
        inline_svg(diagram, _title(found.error_name, cost, len(finite)), is_half=bool(times))
        for cost, diagram in draw.items()
    )
    if not times:
        return f"<figure>{drawn}</figure>"
    caption = (
        f"Times are those for a block of {BLOCK} vectors, relative to the dense matrix, measured on the machine "
        "that made this page."
    )
    return f'<figure><div class="pair">{drawn}</div><figcaption>{caption}</figcaption></figure>'


def _title(error_name: str, cost: str, count: int) -> str:
    return f"Diagram: {error_name} against {cost}, {count} points"


def _plain(name: str) -> str:
    """Escape dollar signs, which matplotlib reads as formulas."""
    return name.replace("$", r"\$")


def _tradeoff_table(found: Tradeoff) -> str:
    names, *rows = tradeoff_cells(found)
    lines = "".join(
        f"<tr{' class=knee' * bool(knee)}>{''.join(f'<td>{_marked(cell)}</td>' for cell in cells)}</tr>"
        for *cells, knee in rows
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in names[:-1])
    if "speed-up" not in names:
        return _table(head, lines, caption="The knee is bold.")
    caption = f"The knee is bold. Speed-ups are those for {BLOCK} vectors at once, compared with the dense matrix."
    note = f'<p class="note">{BELOW_ONE}</p>' if any(speedup.block < 1 for speedup in found.speedups) else ""
    return _table(head, lines, caption=caption) + note


def _marked(cell: str) -> str:
    """A table cell; speed-ups below 1 are coloured."""
    if not cell.endswith(" (slower)"):
        return escape(cell)
    return f'<span class="slower">{cell.removesuffix(" (slower)")} <small>slower</small></span>'


def convergence(history: History | None, error: float | None) -> str:
    """How the error fell, phase by phase."""
    # The phase "final" is the error of the result.
    steps = [step for step in history or () if step.phase != "final"]
    if not np.isfinite([step.error for step in steps]).any():
        return ""
    notes = []
    if any(step.phase.startswith("split") for step in steps):
        notes.append(
            "Errors of splits, below, are relative to the residual that is split, all others to the whole."
        )
    if any(step.share < 1 for step in steps):
        notes.append("Pale lines are errors of a random share of the samples, which differ by chance.")
    title = f"Diagram: relative error over {len(steps)} iterations, on a logarithmic axis"
    result = error if error is not None and isfinite(error) else None
    height = _TALL if has_both_errors(History(steps)) else _USUAL
    drawn = inline_svg(lambda ax: draw_convergence(History(steps), result, ax), title, height=height)
    caption = f"<figcaption>{' '.join(notes)}</figcaption>" if notes else ""
    return f"<figure>{drawn}{caption}</figure>"


def attempts(tried: Sequence[Attempt]) -> str:
    """The methods that were tried."""
    if not tried:
        return ""
    lines = "".join(
        f"<tr><td>{escape(attempt.method.replace('_', ' '))}</td><td>{escape(attempt.detail)}</td>"
        f"<td>{_error(attempt.error) if isfinite(attempt.error) else '–'}</td>"
        f"<td>{f'{attempt.nnz:,}' if isfinite(attempt.error) else '–'}</td><td>{attempt.seconds:.2f}</td></tr>"
        for attempt in tried
    )
    head = "<th>method</th><th>detail</th><th>error</th><th>entries</th><th>seconds</th>"
    return _table(head, lines, kind=' class="attempts"')


def facts(op: SparseProduct, more: Mapping[str, str]) -> str:
    """Everything else."""
    known = {"Scale": f"{op.scale:.6g}", "Number type": str(op.dtype), "Factors": str(len(op.factors)), **more}
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in known.items()
    )
    return f'<table class="words"><tbody>{lines}</tbody></table>'


def _table(head: str, body: str, *, caption: str = "", kind: str = "") -> str:
    """A table, from the elements of its heading and its rows."""
    above = f"<caption>{caption}</caption>" if caption else ""
    inner = f"{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table{kind}>{inner}</table></div>'


def _image(matrix: Any, side: int, zoom: float, alt: str, caption: str) -> str:
    height, width = (max(round(zoom * length), 12) for length in matrix.shape)
    return (
        f'<figure><img src="{signed_png(matrix, side)}" width="{width}" height="{height}" alt="{escape(alt)}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _error(error: float) -> str:
    """Format an error with three digits, or with one if it is below 1e-4."""
    if not isfinite(error):
        return "not finite"
    if error == 0:
        return "0"
    return f"{error:#.3g}" if error >= 1e-4 else f"{error:.0e}".replace("e-0", "e-").replace("-", "−")


def _error_note(error: float | None, name: str, dtype: Any) -> str:
    if error is None:
        return "the file holds the product only"
    if error < exact_below(dtype):
        return "exact up to rounding"
    return "‖difference‖ / ‖matrix‖" if name == "relative error" else name.removeprefix("relative error, ")


def _fewer(op: SparseProduct) -> str:
    if op.relative_complexity <= 0 or op.relative_complexity >= 1:
        return "no fewer entries than dense" if op.nnz else "nothing but zeros"
    return f"{1 / op.relative_complexity:.3g} times fewer entries"


def _gain(gain: float, warning: str = "") -> str:
    """Format a speed-up; values below 1 are coloured, and marked with the word ``warning``."""
    if not is_below_one(gain):
        return in_times(gain)
    word = f" <small>{warning}</small>" if warning else ""
    return f'<span class="slower">{in_times(gain)}{word}</span>'


def _vectors(speed: Any) -> str:
    return "one" if speed.vectors == 1 else f"{speed.vectors:,} vectors at once"


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f}" if seconds < 1e-3 else f"{1e6 * seconds:,.0f}"
