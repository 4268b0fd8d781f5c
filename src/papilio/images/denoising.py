"""Denoising by sparse coding of overlapping patches (Elad and Aharon, 2006), in any dictionary."""

from math import isqrt, nan
from time import perf_counter
from typing import Any

import numpy as np
from scipy.fft import dct, idct

from ..dictionary.fast import fast_dictionary
from ..operators import SparseProduct
from ..results import Step
from ..solvers.palm import Callback
from ..solvers.schedule import Schedule
from ..typing import Array
from ..validation import as_array, as_integer, as_matrix, as_random, as_real, require_finite
from .cleaning import STANDS_OUT, Cleaner, atoms_a_patch, training_patches
from .cosines import redundant_dct
from .patches import Grid

_PATCH_SIZE = 8
_TRAINING = 10_000  # patches to learn from, at most
_PALM_MAX_ITER = 100  # refinement does the rest
_LEARNING = 0.8  # of the time, when the dictionary is learned first


def denoise(
    image: Any,
    sigma: float,
    dictionary: Any = None,
    *,
    n_components: int = 256,
    complexity: float = 0.4,
    patch_size: int | None = None,
    stride: int = 1,
    gain: float = 1.1,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Array:
    """Remove white Gaussian noise from an image.

    Each patch x of d pixels, less its mean, is coded by orthogonal matching pursuit with as few atoms as bring the
    residual down to what noise would leave,

        ‖x − Dγ‖² ≤ (gain·σ)²·d,

    and each pixel of the result is the mean of Dγ, with the means added again, over all patches that cover it. A
    patch that half as many atoms as pixels do not bring so far stays as it is.

    Parameters
    ----------
    image : (height, width) or (height, width, channels) array
        Integers or float32 or float64. The noise of the channels is independent.
    sigma : float
        The standard deviation of the noise, in the units of the image: from 0 to 255 for the usual uint8. With 0
        the image is returned as it is.
    dictionary : SparseProduct, (d, a) matrix or fitted papilio estimator, optional
        One atom a column, for square patches row by row. Channels are coded one by one, after a rotation which
        separates brightness from colour; or together, if d is a square times the number of channels.
        By default a fast dictionary is learned from the patches of the noisy image that stand out from the noise.
        Where these are too few to learn from, it is the redundant DCT.
    n_components : int
        Atoms of the dictionary that is learned.
    complexity : float
        The largest number of entries of its factors, relative to those of the dense dictionary.
    patch_size : int, optional
        The side of a patch; by default that of the dictionary's atoms, and 8 when it is learned.
    stride : int
        Pixels from one patch to the next. 1 is best, and larger ones are faster, by their square.
    gain : float
        Larger ones remove more, noise and detail.
    random_state : int, RandomState or None
        Of learning.
    callback : callable, optional
        Called with a `Step` after each iteration of learning, and in the phase "denoise" after each band of the
        image. A true result ends what is under way: learning, with what there is so far, or denoising, where the
        patches that are left stay as they are.

    Returns
    -------
    array
        Of the image's shape and dtype; integers are rounded, and clipped to the range of their dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from papilio.images import denoise, redundant_dct
    >>> clean = np.add.outer(np.arange(64.0), np.arange(64.0))
    >>> noisy = clean + 10 * np.random.default_rng(0).standard_normal(clean.shape)
    >>> result = denoise(noisy, 10, redundant_dct(8, 16))
    >>> bool(np.std(result - clean) < 3)
    True
    """
    pixels = _as_image(image)
    sigma, gain = as_real("sigma", sigma, 0.0), as_real("gain", gain, 0.0, 100.0)
    random = as_random(random_state)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    D, size = _as_dictionary(dictionary, patch_size, pixels.shape)
    as_integer("stride", stride, 1, size)
    if D is None:  # now, before any work
        schedule = Schedule.with_complexity((size**2, as_integer("n_components", n_components, 2)), complexity)
    working = _working_dtype(pixels, sigma)
    if sigma <= np.finfo(working).eps * float(np.abs(pixels.astype(np.float64)).max()):
        return pixels.copy()  # rounding is larger

    scaled = (pixels / np.float64(sigma)).astype(working)  # now the noise has unit deviation
    rotates = pixels.ndim == 3 and (D is None or D.shape[0] == size**2)
    planes = list(np.moveaxis(dct(scaled, axis=2, norm="ortho"), 2, 0).copy()) if rotates else [scaled]
    begin = 0.0
    if D is None:
        D, begin = _learned(planes, size, schedule, gain, random, callback), _LEARNING
    grid = Grid(planes[0].shape, size, stride)
    cleaner = Cleaner(D.astype(working), grid, gain)
    progress = _Progress(callback, begin, len(planes) * len(grid.tops))
    cleaned = [plane if progress.stopped else cleaner.clean(plane, progress.advance) for plane in planes]
    result = idct(np.stack(cleaned, axis=2), axis=2, norm="ortho") if rotates else cleaned[0]
    return _as_pixels(result * sigma, pixels.dtype)


class _Progress:
    """Tells a callback how much is done, in rows of patches."""

    def __init__(self, callback: Callback | None, begin: float, total: int) -> None:
        self._callback = callback
        self._begin = begin
        self._total = total
        self._done = 0
        self._bands = 0
        self._clock = perf_counter()
        self.stopped = False

    def advance(self, rows: int) -> bool:
        """So many more are done; returns whether to stop."""
        self._done += rows
        self._bands += 1
        if self._callback is None:
            return False
        done = self._begin + (1 - self._begin) * self._done / self._total
        step = Step("denoise", self._bands, nan, 1.0, perf_counter() - self._clock, done=done)
        self.stopped = bool(self._callback(step))
        return self.stopped


def _learned(
    planes: list[Array],
    size: int,
    schedule: Schedule,
    gain: float,
    random: np.random.RandomState,
    callback: Callback | None,
) -> SparseProduct:
    """A dictionary of the patches that stand out from noise of unit deviation; the DCT, if these are few."""
    n_components = schedule.shape[1]
    patches = training_patches(planes, Grid(planes[0].shape, size, 1), STANDS_OUT, _TRAINING, random)
    if len(patches) < max(n_components, 2 * size**2):
        return redundant_dct(size, max(isqrt(n_components - 1) + 1, size))
    n_nonzero_coefs = min(atoms_a_patch(patches, size, gain), n_components)
    return fast_dictionary(
        patches.T, schedule, n_nonzero_coefs, max_iter=_PALM_MAX_ITER, random_state=random, callback=callback
    ).dictionary


def _working_dtype(pixels: Array, sigma: float) -> np.dtype[Any]:
    """Single precision, where it holds the pixels in units of the noise as well as they are."""
    short = pixels.dtype == np.float32 or (pixels.dtype.kind in "iu" and pixels.dtype.itemsize <= 2)
    return np.dtype(np.float32 if short and 1e-30 < sigma < 1e30 else np.float64)


def _as_image(image: Any) -> Array:
    pixels = as_array("image", image)
    pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    if pixels.dtype.kind not in "iu" and pixels.dtype not in (np.float32, np.float64):
        raise TypeError(f"image must hold integers, float32 or float64, got dtype {pixels.dtype}")
    if pixels.ndim not in (2, 3) or not pixels.size:
        raise ValueError(
            "image must have shape (height, width) or (height, width, channels) and at least one pixel, "
            f"got {pixels.shape}"
        )
    require_finite("image", pixels)
    return pixels


def _as_pixels(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values in the image's dtype; integers are rounded, and clipped to what it holds."""
    if dtype.kind in "iu":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        if int(high) > np.iinfo(dtype).max:  # rounded up, out of what 64 bits hold
            high = float(np.nextafter(high, 0.0))
        values = np.clip(np.rint(values), low, high)
    return values.astype(dtype)


def _as_dictionary(dictionary: Any, patch_size: int | None, shape: tuple[int, ...]) -> tuple[Any, int]:
    """The dictionary as SparseProduct or matrix, None for one that is to be learned; and the side of a patch."""
    # Of a single pixel there is nothing to be learned.
    least = 2 if dictionary is None else 1
    size = _PATCH_SIZE if patch_size is None else as_integer("patch_size", patch_size, least)
    D = getattr(dictionary, "operator_", dictionary)
    if dictionary is not None:
        if hasattr(dictionary, "fit") and D is dictionary:
            raise ValueError(f"dictionary must be fitted, got a {type(dictionary).__name__} that is not")
        if not isinstance(D, SparseProduct):
            D = as_matrix("dictionary", D)
        if D.dtype.kind == "c":
            raise TypeError(f"dictionary must be real, got {D.dtype}")
        sides = [(isqrt(D.shape[0] // channels), channels) for channels in (1, *shape[2:])]
        fitting = [side for side, channels in sides if side**2 * channels == D.shape[0]]
        if not fitting or (patch_size is not None and size not in fitting):
            wanted = "a square number of rows" if patch_size is None else f"{size**2} rows, one a pixel of a patch"
            also = ", or that times the channels" if len(shape) > 2 else ""
            raise ValueError(f"dictionary must have {wanted}{also}, got {D.shape[0]}")
        size = size if patch_size is not None else fitting[0]
    if min(shape[:2]) < size:
        raise ValueError(f"image must have at least {size}×{size} pixels, as a patch has, got shape {shape}")
    return D, size
