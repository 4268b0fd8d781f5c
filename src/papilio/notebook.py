"""How a SparseProduct shows itself in a notebook: a small table and a picture of each factor."""

import base64
import struct
import zlib
from html import escape
from typing import Any

import numpy as np

from .operators import SparseProduct
from .thumbnails import thumbnail
from .validation import Array

_PICTURES = 8  # at most; of more factors, the first and the last
_SIDE = 48  # cells along a picture, at most
_PIXELS = 96  # of its longer side on the screen
_LEVELS = 15  # of each sign
# Both stand out from a white and from a black page; what is zero is transparent.
_NEGATIVE, _POSITIVE = (60, 120, 216), (230, 126, 0)


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
        f'src="data:image/png;base64,{base64.b64encode(_png(factor)).decode()}"><br>{caption}</div>'
    )


def _png(factor: Any) -> bytes:
    """The signs and magnitudes of a factor, as a PNG image with a palette."""
    values = thumbnail(factor, _SIDE).astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    # Any entry but zero is seen: its level is at least 1.
    levels = np.ceil(np.abs(values / largest) * _LEVELS).astype(np.uint8)
    levels[values > 0] += _LEVELS
    return _encoded(levels, *_palette())


def _palette() -> tuple[bytes, bytes]:
    """Colours (transparent zero, then each sign from faint to full) and their opacities."""
    colours = bytes([0, 0, 0, *(_NEGATIVE * _LEVELS), *(_POSITIVE * _LEVELS)])
    opacities = [round(255 * (0.25 + 0.75 * level / _LEVELS)) for level in range(1, _LEVELS + 1)]
    return colours, bytes([0, *opacities, *opacities])


def _encoded(pixels: Array, palette: bytes, opacities: bytes) -> bytes:
    height, width = pixels.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = pixels
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", opacities),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
