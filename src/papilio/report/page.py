"""The page: what a result is, how accurate, how fast, and how it was found, with figures of `papilio.plot`."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.resources import files
from math import isfinite
from typing import Any

import numpy as np

from ..linalg import exact_below
from ..operators import SparseProduct
from ..operators.cost import BLOCK
from ..operators.speed import BELOW_ONE, Speed, in_times, is_below_one
from ..plot.common import new_figure, png_url
from ..plot.fits import draw_convergence, has_both_errors
from ..plot.matrices import some_factors
from ..plot.mosaics import atoms as draw_atoms
from ..plot.tradeoffs import relative_times
from ..plot.tradeoffs import tradeoff as draw_tradeoff
from ..results import Attempt, History, Tradeoff, tradeoff_cells

_DPI = 144  # two pixels of a screen for each of a figure
_MOST_FACTORS = 12  # With more factors, only the first ones and the last are drawn.
_ATOM_ENTRIES = 400_000  # entries of all atoms that are drawn


@dataclass(frozen=True)
class Subject:
    """An operator and what is known about it; sections without data are left out."""

    title: str
    operator: SparseProduct
    source: str = ""  # Name of the file or data that it was made from.
    error: float | None = None
    error_name: str = "relative error"  # What `error` measures.
    speeds: Sequence[Speed] = ()
    history: History | None = None
    attempts: Sequence[Attempt] = ()  # The attempts of `papilio.factorize`.
    tradeoff: Tradeoff | None = None  # The trade-off that the operator is a point of.
    # Points (relative complexity, error) by name, to compare with if there is no trade-off.
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    # What the operator's columns are: (rows, columns) of pictures, (d,) of curves, or nothing to look at.
    atom_shape: tuple[int, ...] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)  # Further lines under "Details".


def page(title: str, subjects: Sequence[Subject], version: str) -> str:
    """A whole HTML page about one or several results, signed with the version of papilio."""
    alone = len(subjects) == 1
    template, style = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.html", "style.css"))
    written = datetime.now().astimezone()
    return template.format(
        title=escape(title),
        style=style,  # Inline, because the page loads nothing.
        heading="" if alone else f"<header><h1>{escape(title)}</h1></header>",
        articles="".join(_article(subject, alone) for subject in subjects),
        version=escape(version),
        day=f"{written:%d %B %Y, %H:%M}",
        time=written.isoformat("T", "seconds"),
    )


def _article(subject: Subject, alone: bool) -> str:
    op, found = subject.operator, subject.tradeoff
    count = len(op.factors)
    product = f"the product of {count} sparse factors" if count > 1 else "one factor"
    lead = (
        f"A {op.shape[0]} × {op.shape[1]} matrix ({op.dtype}) as {product}: {op.nnz:,} entries instead of "
        f"{op.shape[0] * op.shape[1]:,}."
    )
    source = f" Made from <code>{escape(subject.source)}</code>." if subject.source else ""
    if found is not None:
        source += f" It is the recommended point of {len(found.points)}."
    against = "Error against complexity" + " and time" * bool(found and relative_times(found))
    curve = {against: _tradeoff(found) if found else _series(subject)}
    parts = {
        "The product and its factors": _factors(op),
        "Atoms": _atoms(op, subject.atom_shape),
        "Speed on this machine": _speed(subject.speeds),
        **curve,
        "How the error fell": _convergence(subject.history, subject.error),
        "Methods tried": _attempts(subject.attempts),
        "Details": _facts(op, subject.facts),
    }
    if found is not None:  # The trade-off is the subject of the page, and comes first.
        parts = curve | parts
    heading, below = ("h1", "h2") if alone else ("h2", "h3")
    return (
        f'<article><header><{heading}>{escape(subject.title)}</{heading}><p class="lead">{lead}{source}</p>'
        f"{_cards(subject)}</header>"
        + "".join(f"<section><{below}>{name}</{below}>{body}</section>" for name, body in parts.items() if body)
        + "</article>"
    )


# -- elements ------------------------------------------------------------------------------------------


def _figure(size: tuple[float, float], draw: Callable[[Any], Any], alt: str, caption: str = "") -> str:
    """What ``draw(figure)`` draws, as an image of this size in inches."""
    figure = new_figure(*size)
    draw(figure)
    return _image(figure, alt, caption)


def _image(figure: Any, alt: str, caption: str) -> str:
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=_DPI)
    width = round(figure.get_figwidth() * _DPI / 2)
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure><img alt="{escape(alt)}" width="{width}" src="{png_url(written)}">{below}</figure>'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], caption: str = "", knee: int = -1) -> str:
    """A table of cells that are HTML, with the line ``knee`` in bold."""
    lines = "".join(
        f"<tr{' class=knee' * (i == knee)}>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
        for i, row in enumerate(rows)
    )
    names = "".join(f"<th>{name}</th>" for name in head)
    above = f"<caption>{caption}</caption>" if caption else ""
    return f'<div class="scroll"><table>{above}<thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table></div>'


def _error(error: float) -> str:
    """Format an error with three digits, or with one if it is below 1e-4."""
    if not isfinite(error):
        return "not finite"
    return f"{error:#.3g}" if error >= 1e-4 else f"{error:.0e}".replace("e-0", "e-") if error else "0"


def _gain(gain: float, warning: str = "") -> str:
    """Format a speed-up; values below 1 are coloured, and marked with the word ``warning``."""
    word = f" <small>{warning}</small>" if warning else ""
    return f'<span class="slower">{in_times(gain)}{word}</span>' if is_below_one(gain) else in_times(gain)


# -- sections; one about which nothing is known is empty -------------------------------------------------


def _cards(subject: Subject) -> str:
    """The most important numbers, in large type."""
    op, error, name = subject.operator, subject.error, subject.error_name
    if error is None:
        note = "the file holds the product only"
    elif error < exact_below(op.dtype):
        note = "exact up to rounding"
    else:
        note = "‖difference‖ / ‖matrix‖" if name == "relative error" else name.removeprefix("relative error, ")
    fewer = "no fewer entries than dense" if op.nnz else "nothing but zeros"
    if 0 < op.relative_complexity < 1:
        fewer = f"{1 / op.relative_complexity:.3g} times fewer entries"
    shown = [
        ("Relative error", "not known" if error is None else _error(error), note),
        ("Entries", f"{op.nnz:,}", f"of {op.shape[0] * op.shape[1]:,} in the dense matrix"),
        ("Relative complexity", f"{op.relative_complexity:.3g}", fewer),
    ]
    if subject.speeds:
        forward = [speed for speed in subject.speeds if speed.form == subject.speeds[0].form]
        largest, *others = sorted(forward, key=lambda speed: -speed.vectors)
        notes = [f"for {_vectors(largest)}", *(f"{in_times(s.gain)} for {_vectors(s)}" for s in others)]
        note = "slower than dense " * is_below_one(largest.gain) + ", ".join(notes)
        shown.append(("Speed-up on this machine", _gain(largest.gain), note))
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{escape(note)}</small></dd></div>" for name, value, note in shown
    )
    return f'<dl class="cards">{cells}</dl>'


def _vectors(speed: Speed) -> str:
    return "one" if speed.vectors == 1 else f"{speed.vectors:,} vectors at once"


def _factors(op: SparseProduct) -> str:
    shown = "Real parts are shown: blue" if op.dtype.kind == "c" else "Blue"
    note = f"{shown} is negative, orange positive. Each image has its own scale; the scale is {op.scale:.4g}."
    return _image(some_factors(op, _MOST_FACTORS), "the product and its factors", note)


def _atoms(op: SparseProduct, shape: tuple[int, ...] | None) -> str:
    """The columns as pictures or curves; empty if a single one is too large."""
    shown = min(op.shape[1], _ATOM_ENTRIES // op.shape[0])
    if shape is None or not shown:
        return ""
    which = f"all {shown:,}" if shown == op.shape[1] else f"the first {shown:,} of {op.shape[1]:,}"
    what = "real parts of the columns" if op.dtype.kind == "c" else "columns"
    form = f"patches of {shape[0]} × {shape[1]}" if len(shape) == 2 else f"curves of {shape[0]:,} values"
    caption = f"The {what} as {form}, {which}, each on its own scale."
    return _figure(
        (7, 7), lambda figure: draw_atoms(op[:, :shown], shape, figure.add_subplot()), f"{shown} atoms", caption
    )


def _speed(speeds: Sequence[Speed]) -> str:
    """The times of the dense matrix and of the product on this machine."""
    if not speeds:
        return ""
    caption = (
        "The best of many measurements, taken in turns; the dense matrix runs on one thread or on all, "
        "whichever is faster."
    )
    rows = [
        (escape(s.form), f"{s.vectors:,}", _micro(s.dense), _micro(s.product), _gain(s.gain, "slower"))
        for s in speeds
    ]
    note = f'<p class="note">{BELOW_ONE}</p>' if any(s.gain < 1 for s in speeds) else ""
    return _table(("", "vectors", "dense, µs", "product, µs", "speed-up"), rows, caption) + note


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f}" if seconds < 1e-3 else f"{1e6 * seconds:,.0f}"


def _series(subject: Subject) -> str:
    """The errors of results to compare with, against complexity."""
    if not subject.series:
        return ""
    name, shown = _plain(subject.error_name), {_plain(name): points for name, points in subject.series.items()}
    return _figure(
        (7, 4), lambda figure: draw_tradeoff(shown, figure, error=name), f"{subject.error_name} against complexity"
    )


def _tradeoff(found: Tradeoff) -> str:
    """The diagrams of complexities and, if they were measured, of times; and the table."""
    names, *rows = tradeoff_cells(found)
    times, knee = relative_times(found), next(i for i, row in enumerate(rows) if row[-1])
    drawn = _figure(
        (11 if times else 6, 4),
        lambda figure: draw_tradeoff(found, figure, error=_plain(found.error_name)),
        f"{found.error_name} against complexity{' and time' * bool(times)}, {len(found.points)} points",
    )
    caption = "The knee is bold."
    if times:
        caption += (
            f" Times and speed-ups are those for a block of {BLOCK} vectors, relative to the dense matrix, "
            "measured on the machine that made this page."
        )
    note = f'<p class="note">{BELOW_ONE}</p>' if any(time > 1 for time in times) else ""
    cells = [map(_gain_cell, row[:-1]) for row in rows]
    return drawn + _table(map(escape, names[:-1]), cells, caption, knee) + note


def _gain_cell(cell: str) -> str:
    """A cell of `tradeoff_cells`; speed-ups below 1 are coloured."""
    if not cell.endswith(" (slower)"):
        return escape(cell)
    return f'<span class="slower">{cell.removesuffix(" (slower)")} <small>slower</small></span>'


def _plain(name: str) -> str:
    """Escape dollar signs, which matplotlib reads as formulas."""
    return name.replace("$", r"\$")


def _convergence(history: History | None, error: float | None) -> str:
    """How the error fell, phase by phase."""
    # The phase "final" is the error of the result.
    steps = History(step for step in history or () if step.phase != "final")
    if not np.isfinite(steps.error).any():
        return ""
    notes = []
    if any(step.phase.startswith("split") for step in steps):
        notes.append("Errors of splits are relative to the residual that is split, all others to the whole.")
    if any(step.share < 1 for step in steps):
        notes.append("Pale lines are errors of a random share of the samples, which differ by chance.")
    result = error if error is not None and isfinite(error) else None
    return _figure(
        (8, 5 if has_both_errors(steps) else 4),
        lambda figure: draw_convergence(steps, result, figure.add_subplot()),
        f"relative error over {len(steps)} iterations, on a logarithmic axis",
        " ".join(notes),
    )


def _attempts(tried: Sequence[Attempt]) -> str:
    """The methods that were tried."""
    rows = [
        (
            escape(attempt.method.replace("_", " ")),
            escape(attempt.detail),
            _error(attempt.error) if isfinite(attempt.error) else "–",
            f"{attempt.nnz:,}" if isfinite(attempt.error) else "–",
            f"{attempt.seconds:.2f}",
        )
        for attempt in tried
    ]
    return _table(("method", "detail", "error", "entries", "seconds"), rows) if rows else ""


def _facts(op: SparseProduct, more: Mapping[str, str]) -> str:
    """Everything else."""
    known = {"Scale": f"{op.scale:.6g}", "Number type": str(op.dtype), "Factors": str(len(op.factors)), **more}
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in known.items()
    )
    return f'<table class="words"><tbody>{lines}</tbody></table>'
