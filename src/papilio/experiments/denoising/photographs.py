"""Photographs that other packages ship, as grey images. Nothing is downloaded."""

from typing import Any

import numpy as np

from ...typing import Array

_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
_PYWAVELETS = ("aero", "ascent")
_SCIKIT_IMAGE = ("astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "moon", "rocket")
NAMES = (*_PYWAVELETS, *_SCIKIT_IMAGE)


def photograph(name: str, crop: int) -> Array:
    """The middle of a photograph, at most ``crop`` × ``crop`` pixels: integers from 0 to 255, as float64."""
    pixels = np.asarray(_loaded(name), np.float64)
    grey = pixels[:, :, :3] @ np.array(_LUMINANCE) if pixels.ndim == 3 else pixels
    top, left = (max(side - crop, 0) // 2 for side in grey.shape)
    return np.clip(np.rint(grey[top : top + crop, left : left + crop]), 0, 255)


def _loaded(name: str) -> Any:
    if name not in NAMES:
        raise ValueError(f"images must be among {', '.join(NAMES)}, got {name!r}")
    package = "PyWavelets" if name in _PYWAVELETS else "scikit-image"
    try:
        if name in _PYWAVELETS:
            import pywt.data as photographs
        else:
            import skimage.data as photographs
        return getattr(photographs, name)()
    except ImportError as error:
        raise ImportError(f'the image {name!r} needs {package}: pip install "papilio[dev]"') from error
