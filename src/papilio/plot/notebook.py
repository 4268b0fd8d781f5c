"""How a SparseProduct shows itself in a notebook: a small table and a picture of each factor."""

from html import escape
from typing import Any

from ..operators import SparseProduct
from .png import signed_picture

_PICTURES = 8  # at most; of more factors, the first and the last
_SIDE = 48  # cells along a picture, at most
_PIXELS = 96  # of its longer side on the screen


def html(op: SparseProduct) -> str:
    """``op`` as a fragment of HTML that needs nothing else, below 50 kB, on light and on dark pages."""
    rows, columns = op.shape
    facts = {
        "shape": f"{rows} × {columns}",
        "dtype": str(op.dtype),
        "scale": f"{op.scale:.6g}",
        "entries": f"{op.nnz:,} of {rows * columns:,}",
        "relative complexity": f"{op.relative_complexity:.4g}",
    }
    head = "".join(
        f'<tr><td style="text-align:left;opacity:.7">{escape(name)}</td>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        '<div style="display:inline-block;color:inherit;background:transparent">'
        f"<strong>SparseProduct</strong> of {len(op.factors)} factor{'s' * (len(op.factors) > 1)}"
        f'<table style="color:inherit;background:transparent;margin:.3em 0">{head}</table>'
        f'<div style="display:flex;flex-wrap:wrap;gap:.8em;align-items:flex-end">{_pictures(op)}</div></div>'
    )


def _pictures(op: SparseProduct) -> str:
    count = len(op.factors)
    shown: list[int | None] = list(range(count))
    if count > _PICTURES:
        shown = [*range(_PICTURES - 2), None, count - 1]
    return "".join("<div>…</div>" if i is None else _picture(i, op.factors[i]) for i in shown)


def _picture(i: int, factor: Any) -> str:
    rows, columns = factor.shape
    longest = max(rows, columns)
    height, width = (max(round(_PIXELS * side / longest), 6) for side in (rows, columns))
    caption = f"S<sub>{i + 1}</sub> {rows} × {columns}<br>{factor.nnz:,} entries"
    return (
        '<div style="text-align:center;font-size:85%;line-height:1.3">'
        f'<img alt="factor {i + 1}" width="{width}" height="{height}" '
        f'style="image-rendering:pixelated;border:1px solid rgba(128,128,128,.6)" '
        f'src="{signed_picture(factor, _SIDE)}"><br>{caption}</div>'
    )
