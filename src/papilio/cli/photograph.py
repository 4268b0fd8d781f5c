"""The built-in image: a part of a photograph with noise."""

import numpy as np

from ..typing import Array
from .errors import BadInput

_SIDE = 128  # pixels


def noisy_photograph(sigma: int) -> Array:
    """Grey pixels of 8 bits with white Gaussian noise of standard deviation ``sigma``."""
    from sklearn.datasets import load_sample_image

    try:
        grey = load_sample_image("china.jpg").mean(axis=2)
    except ImportError:
        raise BadInput(f'noisy:{sigma}: images need Pillow: pip install "papilio[cli]"') from None
    top, left = ((side - _SIDE) // 2 for side in grey.shape)
    noise = sigma * np.random.default_rng(0).standard_normal((_SIDE, _SIDE))
    return np.clip(np.rint(grey[top : top + _SIDE, left : left + _SIDE] + noise), 0, 255).astype(np.uint8)
