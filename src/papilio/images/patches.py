"""Overlapping patches of images, and images as averages of patches."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..typing import Array, ArrayLike
from ..validation import as_array, as_integer, as_numbers, require_finite


def extract_patches(image: ArrayLike, size: int, stride: int = 1) -> Array:
    """All patches of ``size`` × ``size`` pixels, one per row.

    Patches begin at every ``stride``-th pixel along both axes. If the last rows or columns would be left out, one
    more row or column of patches ends there, so that every pixel is in a patch.

    Parameters
    ----------
    image : (height, width) or (height, width, channels) array
        Of any dtype, which is kept.
    size : int
        The side of a patch; at most the shorter side of the image.
    stride : int
        Pixels from one patch to the next; at most ``size``, so that no pixel lies between patches.

    Returns
    -------
    (n, size² · channels) array
        Patches from left to right, then from top to bottom; the pixels of a patch in the same order, each with its
        channels.

    Examples
    --------
    >>> import numpy as np
    >>> from papilio.images import extract_patches
    >>> extract_patches(np.arange(12).reshape(3, 4), 2, stride=2)
    array([[ 0,  1,  4,  5],
           [ 2,  3,  6,  7],
           [ 4,  5,  8,  9],
           [ 6,  7, 10, 11]])
    """
    array = as_array("image", image)
    if array.dtype.kind not in "biu":  # Integers of images stay as they are.
        array = as_numbers("image", array)
    grid = Grid(array.shape, size, stride)
    return grid.extract(array, 0, len(grid.tops))


def average_patches(patches: ArrayLike, image_shape: tuple[int, ...], stride: int = 1) -> Array:
    """The image whose pixels are the means of all patches that cover them: the inverse of `extract_patches`.

    Parameters
    ----------
    patches : (n, size² · channels) array
        As `extract_patches` returns them.
    image_shape : (height, width) or (height, width, channels)
        The shape of the image.
    stride : int
        The stride with which they were extracted.

    Returns
    -------
    image : array of ``image_shape``
        float32 or float64 like the patches, and float64 for integers. If all patches agree on a pixel, it has
        exactly their value.

    Examples
    --------
    >>> import numpy as np
    >>> from papilio.images import average_patches, extract_patches
    >>> image = np.random.default_rng(0).random((20, 30))
    >>> bool((average_patches(extract_patches(image, 8, 3), image.shape, 3) == image).all())
    True
    """
    rows = as_numbers("patches", patches)
    if rows.ndim != 2:
        raise ValueError(f"patches must be a matrix with one patch per row, got {rows.ndim} dimensions")
    if rows.dtype.kind == "c":
        raise TypeError(f"patches must be real, got {rows.dtype}")
    if not isinstance(image_shape, Sequence) or len(image_shape) not in (2, 3):
        raise ValueError(f"image_shape must be (height, width) or (height, width, channels), got {image_shape!r}")
    shape = tuple(as_integer(f"image_shape[{i}]", side, 1) for i, side in enumerate(image_shape))
    channels = prod(shape[2:])
    size = round(np.sqrt(rows.shape[1] / channels))
    if size * size * channels != rows.shape[1] or size == 0:
        raise ValueError(
            f"patches must have rows of size² · {channels} numbers, for {channels} "
            f"channel{'s' * (channels > 1)}, got {rows.shape[1]}"
        )
    if size > min(shape[:2]):
        raise ValueError(f"image_shape must be at least {size}×{size}, the size of a patch, got {shape}")
    grid = Grid(shape, size, stride)
    if len(rows) != grid.count:
        raise ValueError(
            f"patches must have {grid.count} rows, for patches of {size}×{size} in an image of {shape} with "
            f"stride {grid.stride}, got {len(rows)}"
        )
    require_finite("patches", rows)  # An infinite pixel would spread.
    # Sums of deviations from one of the patches are exactly zero where all agree.
    mean = Average(grid, grid.some_patch(rows))
    mean.add(rows, 0)
    return mean.result().astype(rows.dtype, copy=False)


def check_image_shape(shape: tuple[int, ...]) -> None:
    """Refuse what is neither (height, width) nor (height, width, channels), or empty."""
    if len(shape) not in (2, 3) or not all(shape):
        raise ValueError(
            "image must have shape (height, width) or (height, width, channels) and at least one pixel, "
            f"got {tuple(shape)}"
        )


class Grid:
    """Where the patches of an image begin: ``tops`` and ``lefts``."""

    def __init__(self, shape: tuple[int, ...], size: int, stride: int) -> None:
        check_image_shape(shape)
        self.shape = tuple(shape)
        self.size = as_integer("size", size, 1, min(shape[:2]))
        self.stride = as_integer("stride", stride, 1, self.size)
        self.tops, self.lefts = (_places(side, self.size, self.stride) for side in shape[:2])
        self.count = len(self.tops) * len(self.lefts)

    def extract(self, image: Array, first: int, last: int) -> Array:
        """The patches in the rows ``first`` to ``last`` of the grid, one per row."""
        return self._chosen(image, self.tops[first:last, None], self.lefts)

    def extract_some(self, image: Array, places: Array) -> Array:
        """The patches with these indices in the order of `extract_patches`."""
        rows, columns = np.divmod(places, len(self.lefts))
        return self._chosen(image, self.tops[rows], self.lefts[columns])

    def _chosen(self, image: Array, tops: Array, lefts: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(image, (self.size, self.size), (0, 1))
        chosen = windows[tops, lefts]  # (…, size, size), with the channels before these, if there are any
        if image.ndim == 3:
            chosen = np.moveaxis(chosen, -3, -1)
        return chosen.reshape(-1, self.size**2 * prod(self.shape[2:]))

    def some_patch(self, patches: Array) -> Array:
        """The value of each pixel in one of the patches that cover it."""
        values = np.empty(self.shape, patches.dtype)
        blocks = self.blocks(patches)
        for k, top in enumerate(self.tops):
            for j in range(self.size):
                values[top : top + self.size, self.lefts + j] = np.moveaxis(blocks[k, :, :, j], 1, 0)
        return values

    def blocks(self, patches: Array) -> Array:
        """Patches as (tops, lefts, size, size, …)."""
        return patches.reshape(-1, len(self.lefts), self.size, self.size, *self.shape[2:])


class Average:
    """Means of patches at the pixels they cover, as deviations from a ``reference`` of the image's shape."""

    def __init__(self, grid: Grid, reference: Array) -> None:
        self._grid = grid
        self._reference = reference.astype(np.float64)
        self._sums = np.zeros(grid.shape)
        # The number of patches over a pixel is a product: one number for its row, one for its column.
        rows, columns = (
            _coverage(side, places, grid.size)
            for side, places in zip(grid.shape, (grid.tops, grid.lefts), strict=False)
        )
        self._counts = (rows[:, None] * columns).reshape(*grid.shape[:2], *[1] * (len(grid.shape) - 2))

    def add(self, patches: Array, first: int) -> None:
        """Add the patches in some rows of the grid, beginning with row ``first``."""
        grid = self._grid
        lefts = grid.lefts
        even = len(lefts) < 2 or bool((np.diff(lefts) == grid.stride).all())
        for k, block in enumerate(grid.blocks(patches), start=first):
            band = slice(grid.tops[k], grid.tops[k] + grid.size)
            sums, reference = self._sums[band], self._reference[band]
            for j in range(grid.size):  # one row of patches at a time stays in cache
                columns: Any = slice(lefts[0] + j, lefts[-1] + j + 1, grid.stride) if even else lefts + j
                sums[:, columns] += np.moveaxis(block[:, :, j], 1, 0) - reference[:, columns]

    def result(self) -> Array:
        mean: Array = self._reference + self._sums / self._counts
        return mean


def _places(side: int, size: int, stride: int) -> Array:
    places = np.arange(0, side - size + 1, stride)
    return places if places[-1] == side - size else np.append(places, side - size)


def _coverage(side: int, places: Array, size: int) -> Array:
    """How many patches along an axis cover each of its pixels."""
    changes = np.zeros(side + 1)
    changes[places] += 1
    changes[places + size] -= 1
    return np.cumsum(changes[:-1])
