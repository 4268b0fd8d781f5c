"""The page: what a result is, how accurate, how fast, and how it was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.resources import files

from ..operators import SparseProduct
from ..operators.speed import Speed
from ..plot.tradeoffs import relative_times
from ..results import Attempt, History, Tradeoff
from . import sections


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
    op = subject.operator
    count = len(op.factors)
    product = f"the product of {count} sparse factors" if count > 1 else "one factor"
    lead = (
        f"A {op.shape[0]} × {op.shape[1]} matrix ({op.dtype}) as {product}: {op.nnz:,} entries instead of "
        f"{op.shape[0] * op.shape[1]:,}."
    )
    source = f" Made from <code>{escape(subject.source)}</code>." if subject.source else ""
    is_measured = subject.tradeoff is not None and bool(relative_times(subject.tradeoff))
    if subject.tradeoff is not None:
        source += f" It is the recommended point of {len(subject.tradeoff.points)}."
    against = "Error against complexity" + " and time" * is_measured
    parts = {
        "The product and its factors": sections.factors(op),
        "Atoms": sections.atoms(op, subject.atom_shape),
        "Speed on this machine": sections.speed(subject.speeds),
        against: sections.tradeoff(subject.error_name, subject.tradeoff, subject.series),
        "How the error fell": sections.convergence(subject.history, subject.error),
        "Methods tried": sections.attempts(subject.attempts),
        "Details": sections.facts(op, subject.facts),
    }
    if subject.tradeoff is not None:  # The trade-off is the subject of the page, and comes first.
        parts = {against: parts.pop(against)} | parts
    heading, below = ("h1", "h2") if alone else ("h2", "h3")
    return (
        f'<article><header><{heading}>{escape(subject.title)}</{heading}><p class="lead">{lead}{source}</p>'
        f"{sections.cards(op, subject.error, subject.error_name, subject.speeds)}</header>"
        + "".join(f"<section><{below}>{name}</{below}>{body}</section>" for name, body in parts.items() if body)
        + "</article>"
    )
