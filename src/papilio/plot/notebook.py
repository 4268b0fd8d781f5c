"""A SparseProduct in a notebook: a small table and an image of each factor."""

from html import escape
from typing import Any

from ..operators import SparseProduct
from .png import signed_png

_MOST_IMAGES = 8  # of more factors, the first ones and the last are shown
_SIDE = 48  # cells along an image, at most
_PIXELS = 96  # along its longer side on the screen


def html(op: SparseProduct) -> str:
    """``op`` as a self-contained fragment of HTML, below 50 kB, for light and dark pages."""
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
        f'<div style="display:flex;flex-wrap:wrap;gap:.8em;align-items:flex-end">{_images(op)}</div></div>'
    )


def _images(op: SparseProduct) -> str:
    count = len(op.factors)
    shown: list[int | None] = list(range(count))
    if count > _MOST_IMAGES:
        shown = [*range(_MOST_IMAGES - 2), None, count - 1]
    return "".join("<div>…</div>" if i is None else _image(i, op.factors[i]) for i in shown)


def _image(i: int, factor: Any) -> str:
    rows, columns = factor.shape
    longest = max(rows, columns)
    height, width = (max(round(_PIXELS * side / longest), 6) for side in (rows, columns))
    caption = f"S<sub>{i + 1}</sub> {rows} × {columns}<br>{factor.size:,} entries"
    return (
        '<div style="text-align:center;font-size:85%;line-height:1.3">'
        f'<img alt="factor {i + 1}" width="{width}" height="{height}" '
        f'style="image-rendering:pixelated;border:1px solid rgba(128,128,128,.6)" '
        f'src="{signed_png(factor, _SIDE)}"><br>{caption}</div>'
    )
