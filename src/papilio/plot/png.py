"""Matrices as small PNG images, in addresses that hold the image itself: nothing else is needed to show them."""

import base64
import struct
import zlib
from typing import Any

import numpy as np

from ..typing import Array
from .thumbnails import thumbnail

_LEVELS = 15  # of each sign
# Both stand out from a white and from a black page; what is zero is transparent.
_NEGATIVE, _POSITIVE = (60, 120, 216), (230, 126, 0)


def signed_picture(matrix: Any, side: int) -> str:
    """Signs and magnitudes of a matrix, blue and orange, with at most ``side`` pixels along each side."""
    values = thumbnail(matrix, side).astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    # Any entry but zero is seen: its level is at least 1.
    levels = np.ceil(np.abs(values / largest) * _LEVELS).astype(np.uint8)
    levels[values > 0] += _LEVELS
    opacities = [round(255 * (0.25 + 0.75 * level / _LEVELS)) for level in range(1, _LEVELS + 1)]
    colours = bytes([0, 0, 0, *(_NEGATIVE * _LEVELS), *(_POSITIVE * _LEVELS)])
    return _address(levels, colours, bytes([0, *opacities, *opacities]))


def grey_picture(values: Array) -> str:
    """Grey values from −1, black, to 1, white; what is not a number is transparent."""
    levels = np.where(np.isnan(values), 0, 1 + np.rint(127 * (1 + np.nan_to_num(values)))).astype(np.uint8)
    greys = np.repeat(np.rint(np.linspace(0, 255, 255)).astype(np.uint8), 3)
    return _address(levels, bytes([0, 0, 0]) + greys.tobytes(), bytes([0]))


def _address(pixels: Array, palette: bytes, opacities: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(_png(pixels, palette, opacities)).decode()}"


def _png(pixels: Array, palette: bytes, opacities: bytes) -> bytes:
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
