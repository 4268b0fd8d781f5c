"""The page: what a result is, how accurate, how fast, and how it was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape

from ..operators import SparseProduct
from ..results import Attempt, History, Tradeoff
from . import sections
from .speed import Speed
from .style import STYLE

# Nothing may be loaded: the page contains all that it shows.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Subject:
    """An operator and what is known about it; the page leaves out what is not.

    Attributes
    ----------
    title : str
        The heading.
    operator : SparseProduct
        The result.
    source : str
        What it was made from.
    error : float, optional
        The relative error.
    error_name : str
        What exactly the error measures.
    speeds : sequence of Speed
        Its speed on this machine.
    history : History, optional
        The error after each iteration.
    attempts : sequence of Attempt
        What `papilio.factorize` tried.
    tradeoff : Tradeoff, optional
        The trade-off of which ``operator`` is a point.
    series : mapping from names to sequences of (relative complexity, error)
        Points to compare with, if there is no ``tradeoff``.
    patches : (int, int), optional
        Rows and columns of the image patches in the columns of the operator.
    facts : mapping from names to values
        Anything else worth a line.
    """

    title: str
    operator: SparseProduct
    source: str = ""
    error: float | None = None
    error_name: str = "relative error"
    speeds: Sequence[Speed] = ()
    history: History | None = None
    attempts: Sequence[Attempt] = ()
    tradeoff: Tradeoff | None = None
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    patches: tuple[int, int] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


def page(title: str, subjects: Sequence[Subject], version: str) -> str:
    """A whole HTML page about one or several results.

    Parameters
    ----------
    title : str
        The title of the page.
    subjects : sequence of Subject
        The results.
    version : str
        The version of papilio, for the last line.
    """
    alone = len(subjects) == 1
    articles = "".join(_article(subject, alone) for subject in subjects)
    heading = "" if alone else f"<header><h1>{escape(title)}</h1></header>"
    written = datetime.now().astimezone()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{heading}<main>{articles}</main>\n"
        f'<footer>Written by papilio {escape(version)} on <time datetime="{written.isoformat("T", "seconds")}">'
        f"{written:%d %B %Y, %H:%M}</time>.</footer>\n</body>\n</html>\n"
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
    if subject.tradeoff is not None:
        source += f" It is the recommended point of {len(subject.tradeoff.points)}."
    parts = {
        "The product and its factors": sections.factors(op),
        "Atoms": sections.atoms(op, subject.patches),
        "Speed on this machine": sections.speed(subject.speeds),
        "Error against complexity": sections.tradeoff(subject.error_name, subject.tradeoff, subject.series),
        "How the error fell": sections.convergence(subject.history, subject.error),
        "Methods tried": sections.attempts(subject.attempts),
        "Details": sections.facts(op, subject.facts),
    }
    if subject.tradeoff is not None:  # it is what the page is about
        parts = {"Error against complexity": parts.pop("Error against complexity")} | parts
    heading, below = ("h1", "h2") if alone else ("h2", "h3")
    return (
        f'<article><header><{heading}>{escape(subject.title)}</{heading}><p class="lead">{lead}{source}</p>'
        f"{sections.cards(op, subject.error, subject.error_name, subject.speeds)}</header>"
        + "".join(f"<section><{below}>{name}</{below}>{body}</section>" for name, body in parts.items() if body)
        + "</article>"
    )
