"""Atoms as a mosaic of patches."""

from math import isqrt
from typing import Any

from ..validation import as_matrix, as_shape
from .common import new_axes, without_ticks
from .thumbnails import mosaic


def atoms(dictionary: Any, shape: tuple[int, int] | None = None, ax: Any = None) -> Any:
    """Draw the atoms of a dictionary of patches as a mosaic, each on its own scale.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        One atom a column.
    shape : (int, int), optional
        Rows and columns of the patches; square by default.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    columns = as_matrix("dictionary", dictionary).real
    features = len(columns)
    height, width = (isqrt(features), isqrt(features)) if shape is None else as_shape("shape", shape)
    if height * width != features:
        raise ValueError(f"shape must hold {features} pixels, as the atoms do, got {height}×{width}")
    ax = new_axes() if ax is None else ax
    patches = mosaic(columns, height, width)
    ax.imshow(patches, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    return without_ticks(ax)
