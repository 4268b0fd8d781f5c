"""Operators, factorizations and trade-offs in a notebook: small tables, and an image of each factor."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..linalg import error_in_words
from ..operators import SparseProduct
from ..operators.cost import BLOCK
from ..results import Factorization, Tradeoff, tradeoff_cells
from .matrices import thumbnail_url

_MOST_IMAGES = 8  # With more factors, only the first ones and the last are shown.
_SIDE = 48  # cells along an image, at most
_PIXELS = 96  # along its longer side on the screen
_PLAIN = "color:inherit;background:transparent"  # colours are those of the page, light or dark
_SLOWER = "color:#d9482b"  # Legible on light and dark pages.


def html(op: SparseProduct) -> str:
    """``op`` as a self-contained fragment of HTML, for light and dark pages."""
    facts = {
        "shape": f"{op.shape[0]} × {op.shape[1]}",
        "dtype": str(op.dtype),
        "scale": f"{op.scale:.6g}",
        **_cost(op),
    }
    return _fragment(f"<strong>SparseProduct</strong> of {_count(op)}", facts, op)


def factorization_html(fit: Factorization) -> str:
    """A factorization as a fragment like `html`; with its speed-up if that was measured."""
    op = fit.operator
    about = "about " if fit.error_is_estimate else ""
    facts = {
        "relative error": f"{about}{error_in_words(fit.error, op.dtype)}",
        **_cost(op),
        "found by": fit.method.replace("_", " "),
        "status": fit.status.replace("_", " "),
        "iterations": f"{fit.n_iter:,}" if fit.n_iter else "",
        "speed-up": str(vars(fit).get("speedup", "")),
    }
    title = f"<strong>Factorization</strong> of a {op.shape[0]} × {op.shape[1]} {op.dtype} matrix: {_count(op)}"
    return _fragment(title, {name: fact for name, fact in facts.items() if fact}, op)


def tradeoff_html(result: Tradeoff) -> str:
    """A trade-off as a table with the knee in bold; with speed-ups if they were measured."""
    if not result.points:
        return "<table><caption>Tradeoff without points</caption></table>"
    names, *rows = tradeoff_cells(result)
    lines = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names[:-1])}</tr>"]
    for *cells, knee in rows:
        styles = [f' style="{_SLOWER}"' if cell.endswith("(slower)") else "" for cell in cells]
        row = "".join(f"<td{style}>{cell}</td>" for style, cell in zip(styles, cells, strict=True))
        bold = ' style="font-weight:bold"' if knee else ""
        lines.append(f"<tr{bold}>{row}</tr>")
    note = f"; speed-ups for {BLOCK} vectors" if "speed-up" in names else ""
    return f"<table><caption>Tradeoff; the knee is bold{note}</caption>{''.join(lines)}</table>"


def _fragment(title: str, facts: Mapping[str, str], op: SparseProduct) -> str:
    head = "".join(
        f'<tr><td style="text-align:left;opacity:.7">{escape(name)}</td>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        f'<div style="display:inline-block;{_PLAIN}">{title}'
        f'<table style="{_PLAIN};margin:.3em 0">{head}</table>'
        f'<div style="display:flex;flex-wrap:wrap;gap:.8em;align-items:flex-end">{_images(op.factors)}</div></div>'
    )


def _cost(op: SparseProduct) -> dict[str, str]:
    return {
        "entries": f"{op.nnz:,} of {op.shape[0] * op.shape[1]:,}",
        "relative complexity": f"{op.relative_complexity:.4g}",
    }


def _count(op: SparseProduct) -> str:
    return f"{len(op.factors)} factor{'s' * (len(op.factors) > 1)}"


def _images(factors: Sequence[Any]) -> str:
    """Images of the factors; nothing without matplotlib."""
    count = len(factors)
    shown = range(count) if count <= _MOST_IMAGES else [*range(_MOST_IMAGES - 2), None, count - 1]
    try:
        return "".join("<div>…</div>" if i is None else _image(i, factors[i]) for i in shown)
    except ImportError:
        return ""


def _image(i: int, factor: Any) -> str:
    rows, columns = factor.shape
    height, width = (max(round(_PIXELS * side / max(rows, columns)), 6) for side in (rows, columns))
    caption = f"S<sub>{i + 1}</sub> {rows} × {columns}<br>{factor.size:,} entries"
    return (
        '<div style="text-align:center;font-size:85%;line-height:1.3">'
        f'<img alt="factor {i + 1}" width="{width}" height="{height}" style="image-rendering:pixelated" '
        f'src="{thumbnail_url(factor, _SIDE)}"><br>{caption}</div>'
    )
