"""Matrices as small PNG images in data URLs, which a page can show without loading anything."""

import base64
import struct
import zlib

import numpy as np

from ..typing import Array, MatrixLike
from .common import NEGATIVE, POSITIVE
from .thumbnails import thumbnail

_LEVELS = 15  # of each sign
_SHADES = 100  # of each sign in a mosaic, whose values change gradually
_NEGATIVE, _POSITIVE = (bytes.fromhex(colour[1:]) for colour in (NEGATIVE, POSITIVE))


def signed_png(matrix: MatrixLike, side: int) -> str:
    """Signs and magnitudes in colour, at most ``side`` pixels along each side; zero is transparent."""
    values = thumbnail(matrix, side).astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    # Every entry except zero is visible: its level is at least 1.
    levels = np.ceil(np.abs(values / largest) * _LEVELS).astype(np.uint8)
    levels[values > 0] += _LEVELS
    opacities = [round(255 * (0.25 + 0.75 * level / _LEVELS)) for level in range(1, _LEVELS + 1)]
    palette = bytes(3) + _NEGATIVE * _LEVELS + _POSITIVE * _LEVELS
    return _data_url(levels, palette, bytes([0, *opacities, *opacities]))


def mosaic_png(tiles: Array) -> str:
    """A `mosaic`: values from −1 to 1 in the colours of their signs, stronger if larger; gaps are grey."""
    gap, outside = np.isnan(tiles), np.isinf(tiles)
    values = np.where(gap | outside, 0, tiles)
    levels = np.rint(np.abs(values) * _SHADES).astype(np.uint8)
    levels[values > 0] += _SHADES
    levels[(values > 0) & (levels == _SHADES)] = 0  # what rounds to zero
    levels[gap] = 2 * _SHADES + 1
    opacities = [round(255 * level / _SHADES) for level in range(1, _SHADES + 1)]
    palette = bytes(3) + _NEGATIVE * _SHADES + _POSITIVE * _SHADES + b"\x80\x80\x80"
    return _data_url(levels, palette, bytes([0, *opacities, *opacities, 110]))


def _data_url(pixels: Array, palette: bytes, opacities: bytes) -> str:
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
    png = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
