"""Images: patches and their averages, the redundant DCT dictionary, and denoising with any dictionary."""

from collections.abc import Callable, Sequence
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.fft import dct, idct

from .coding import Atoms, omp_codes
from .dictionary.fast import HierarchyOptions, as_product, fast_plan
from .dictionary.learner import learn
from .dictionary.signals import Coder, prepared, residuals_of
from .operators import SparseProduct
from .results import Callback
from .runtime.session import Session
from .samples import held
from .solvers.schedule import Schedule
from .typing import Array, ArrayLike, MatrixLike, RandomState
from .validation import as_array, as_integer, as_matrix, as_numbers, as_real, require_finite, require_fits

if TYPE_CHECKING:
    from .dictionary.estimator import DictionaryEstimator

__all__ = ["average_patches", "denoise", "extract_patches", "redundant_dct"]


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


# -- denoising by sparse coding of patches -----------------------------------------------------------------


def redundant_dct(patch_size: int, atoms_per_side: int) -> SparseProduct:
    """The overcomplete two-dimensional DCT dictionary of Elad and Aharon (2006).

    C is the p × K matrix of cos(πik/K), i < p, k < K. The mean of each column except the first is subtracted, and
    all columns are scaled to unit norm. The dictionary is C ⊗ C, with the sparse factors C ⊗ I and I ⊗ C.

    Parameters
    ----------
    patch_size : int
        p, the side of a patch in pixels.
    atoms_per_side : int
        K, at least p: there are K² atoms.

    Returns
    -------
    SparseProduct
        (p², K²), one atom of unit norm per column, for patches as `extract_patches` returns them.

    Examples
    --------
    >>> from papilio.images import redundant_dct
    >>> redundant_dct(8, 16)
    <SparseProduct 64×256 float64: 2 factors (64×128×256), 3072 entries, relative complexity 0.1875>
    """
    p = as_integer("patch_size", patch_size, 1)
    # On a single pixel every cosine is constant.
    K = as_integer("atoms_per_side", atoms_per_side, p, 1 if p == 1 else None)
    require_fits("atoms_per_side", 16 * p * K * (K + p))
    cosines = np.cos(np.pi / K * np.outer(np.arange(p), np.arange(K)))
    cosines[:, 1:] -= cosines[:, 1:].mean(axis=0)
    cosines /= np.linalg.norm(cosines, axis=0)
    across, down = sp.kron(sp.eye_array(K), cosines, format="csr"), sp.kron(cosines, sp.eye_array(p), format="csr")
    return SparseProduct([down, across])


ABOVE_NOISE = 1.2  # Patches to learn from deviate by more than this times the noise.
_BAND = 1 << 14  # patches that are coded at a time
_CANDIDATES = 1 << 18  # patches of a plane among which those to learn from are chosen
_REACHED = 1.01  # Tolerance of the error target, for rounding.


class PlaneDenoiser:
    """Codes all patches of a plane and averages them.

    They are coded to a squared residual of gain²·d; those for which d/2 atoms are not enough are kept. With
    ``n_nonzero_coefs``, each gets that number of atoms instead, whatever the residual.
    """

    def __init__(self, dictionary: Any, grid: Grid, gain: float, n_nonzero_coefs: int | None = None) -> None:
        self._grid = grid
        self._dictionary, self._atoms = prepared(dictionary)
        self._tol = gain**2 * dictionary.shape[0]
        self._n_nonzero = n_nonzero_coefs
        self._height = max(_BAND // len(grid.lefts), 1)  # rows of patches in a band
        self.n_bands = -(-len(grid.tops) // self._height)

    def denoise(self, plane: Array, stop: Callable[[], bool] = lambda: False) -> Array:
        """The plane without noise. ``stop`` is called after each of the ``n_bands`` bands; True ends the work."""
        mean = Average(self._grid, plane)
        for first in range(0, len(self._grid.tops), self._height):
            mean.add(self._denoised(self._grid.extract(plane, first, first + self._height)), first)
            if stop():
                break  # The plane stays where no patches were added.
        return mean.result()

    def _denoised(self, patches: Array) -> Array:
        residuals = patches - _means(patches, self._grid)
        if self._n_nonzero is not None:
            codes = omp_codes(self._dictionary, residuals.T, self._n_nonzero)
            return patches - residuals_of(residuals, self._atoms, codes)
        # A patch that is no louder than noise needs no atoms: it becomes its mean.
        loud = np.flatnonzero(_energies(residuals) > self._tol)
        if loud.size:
            codes = omp_codes(self._dictionary, residuals[loud].T, max(patches.shape[1] // 2, 1), self._tol)
            left = residuals_of(residuals[loud], self._atoms, codes)
            left[_energies(left) > _REACHED * self._tol] = 0.0
            residuals[loud] = left
        return patches - residuals


def training_patches(
    planes: Sequence[Array], grid: Grid, louder_than: float, count: int, random: np.random.RandomState
) -> Array:
    """Up to ``count`` patches without their means, one per row, drawn at random from those that exceed the noise.

    Their squared norm is above ``louder_than``²·d; that of noise alone is d, on average.
    """
    found = []
    for plane in planes:
        places = np.sort(random.permutation(grid.count)[:_CANDIDATES])
        patches = grid.extract_some(plane, places)
        patches -= _means(patches, grid)
        found.append(patches[_energies(patches) > louder_than**2 * patches.shape[1]])
    patches = np.concatenate(found)
    return patches[random.permutation(len(patches))[:count]]


def atoms_per_patch(patches: Array, size: int, gain: float) -> int:
    """The number of atoms per patch for learning: one less than the DCT needs on average for the error target.

    With more atoms, the dictionary learns the noise; with fewer, if there is little noise, it misses detail. On
    photographs these are about six at σ = 10 of 255, three at 20, two at 30 and one at 50, which gave K-SVD the
    highest PSNR.
    """
    dictionary = Atoms(redundant_dct(size, 2 * size).astype(patches.dtype))
    codes = omp_codes(dictionary, patches.T, max(patches.shape[1] // 2, 1), gain**2 * patches.shape[1])
    return max(round(codes.nnz / len(patches)) - 1, 1)


def _means(patches: Array, grid: Grid) -> Array:
    """The mean of each patch and channel, repeated for all its pixels."""
    split = patches.reshape(len(patches), grid.size**2, -1)
    return np.broadcast_to(split.mean(axis=1, keepdims=True), split.shape).reshape(patches.shape)


def _energies(patches: Array) -> Array:
    return np.einsum("ij,ij->i", patches, patches)


_PATCH_SIZE = 8
_MOST_PATCHES = 10_000  # Largest number of patches to learn from.
_PALM_MAX_ITER = 100  # Refinement does the rest.
_LEARNING = 0.8  # Share of the progress that learning takes.


def denoise(
    image: ArrayLike,
    sigma: float,
    dictionary: "MatrixLike | SparseProduct | DictionaryEstimator | None" = None,
    *,
    n_components: int = 256,
    complexity: float = 0.4,
    patch_size: int | None = None,
    stride: int = 1,
    gain: float = 1.1,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> Array:
    """Remove white Gaussian noise from an image.

    The mean of each patch x of d pixels is subtracted, and the rest is coded by orthogonal matching pursuit with
    as few atoms as reduce the residual to what noise would leave,

        ‖x − Dγ‖² ≤ (gain·σ)²·d.

    Each pixel of the result is the average of Dγ, with the means added again, over all patches that cover it.
    Patches for which d/2 atoms are not enough are kept as they are.

    Parameters
    ----------
    image : (height, width) or (height, width, channels) array
        Integers, float32 or float64. The noise of the channels is independent.
    sigma : float
        The standard deviation of the noise in the units of the image: from 0 to 255 for the usual uint8. With 0
        the image is returned unchanged.
    dictionary : (d, a) matrix, SparseProduct or fitted papilio estimator, optional
        One atom per column, for square patches, row by row. Channels are coded one by one, after a rotation that
        separates brightness from colour; or together, if d is a square times the number of channels.
        By default a fast dictionary is learned from the patches of the noisy image that exceed the noise; if these
        are too few, the redundant DCT is used.
    n_components : int
        The number of atoms of the dictionary that is learned.
    complexity : float
        The largest number of entries of its factors, relative to a dense dictionary.
    patch_size : int, optional
        The side of a patch; by default that of the atoms of the dictionary, and 8 if it is learned.
    stride : int
        Pixels from one patch to the next. 1 gives the best results; larger values are faster, by their square.
    gain : float
        Larger values remove more noise and more detail.
    random_state : int, RandomState, Generator or None
        The source of random numbers for learning.
    callback : callable, optional
        Called with a `Step` after each iteration of learning, and in the phase "denoise" after each band of the
        image. A true result ends learning, and the image is denoised with the dictionary so far; while denoising,
        it ends the work, and the rest of the image is kept as it is.

    Returns
    -------
    array
        With the shape and dtype of the image; integers are rounded, and clipped to the range of their dtype.

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
    session = Session(callback, random_state=random_state)
    D, size = _as_dictionary(dictionary, patch_size, pixels.shape)
    as_integer("stride", stride, 1, size)
    if D is None:  # Arguments are checked before the work starts.
        schedule = Schedule.with_complexity((size**2, as_integer("n_components", n_components, 2)), complexity)
    working = _working_dtype(pixels, sigma)
    if sigma <= float(np.finfo(working).eps) * float(np.abs(pixels.astype(np.float64)).max()):
        return pixels.copy()  # The noise is smaller than rounding errors.

    scaled = (pixels / np.float64(sigma)).astype(working)  # now the noise has unit deviation
    rotates = pixels.ndim == 3 and (D is None or D.shape[0] == size**2)
    planes = list(np.moveaxis(dct(scaled, axis=2, norm="ortho"), 2, 0).copy()) if rotates else [scaled]
    learning = _LEARNING if D is None else 0.0
    with session.part(learning):
        D = _learned(session, planes, size, schedule, gain) if D is None else D
    denoiser = PlaneDenoiser(D.astype(working), Grid(planes[0].shape, size, stride), gain)
    with session.part(1 - learning):
        denoised = _denoised(session, planes, denoiser)
    result = idct(np.stack(denoised, axis=2), axis=2, norm="ortho") if rotates else denoised[0]
    return _as_pixels(result * sigma, pixels.dtype)


def _denoised(session: Session, planes: list[Array], denoiser: PlaneDenoiser) -> list[Array]:
    """The planes without noise; a stop while learning does not count."""
    stopped_before, done, total = session.stopped, 0, len(planes) * denoiser.n_bands

    def stop() -> bool:
        nonlocal done
        done += 1
        return session.tick("denoise", done, total) and not stopped_before

    return [plane if session.stopped and not stopped_before else denoiser.denoise(plane, stop) for plane in planes]


def _learned(session: Session, planes: list[Array], size: int, schedule: Schedule, gain: float) -> SparseProduct:
    """A dictionary learned from the patches that exceed the noise; the redundant DCT if these are too few."""
    n_components = schedule.shape[1]
    grid = Grid(planes[0].shape, size, 1)
    patches = training_patches(planes, grid, ABOVE_NOISE, _MOST_PATCHES, session.random)
    if len(patches) < max(n_components, 2 * size**2):
        return redundant_dct(size, max(isqrt(n_components - 1) + 1, size))
    n_nonzero_coefs = min(atoms_per_patch(patches, size, gain), n_components)
    plan = fast_plan(schedule, options=HierarchyOptions(max_iter=_PALM_MAX_ITER))
    return as_product(learn(session, held(patches), n_components, Coder(n_nonzero_coefs), plan).dictionary)


def _working_dtype(pixels: Array, sigma: float) -> np.dtype[Any]:
    """Single precision, if it is accurate enough for the pixels in units of the noise."""
    short = pixels.dtype == np.float32 or (pixels.dtype.kind in "iu" and pixels.dtype.itemsize <= 2)
    return np.dtype(np.float32 if short and 1e-30 < sigma < 1e30 else np.float64)


def _as_image(image: Any) -> Array:
    pixels = as_array("image", image)
    pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    if pixels.dtype.kind not in "iu" and pixels.dtype not in (np.float32, np.float64):
        raise TypeError(f"image must hold integers, float32 or float64, got dtype {pixels.dtype}")
    check_image_shape(pixels.shape)
    require_finite("image", pixels)
    return pixels


def _as_pixels(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values in the dtype of the image; integers are rounded and clipped."""
    if dtype.kind in "iu":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        if int(high) > np.iinfo(dtype).max:  # The limit was rounded up, above the range of 64 bits.
            high = float(np.nextafter(high, 0.0))
        values = np.clip(np.rint(values), low, high)
    return values.astype(dtype)


def _as_dictionary(dictionary: Any, patch_size: int | None, shape: tuple[int, ...]) -> tuple[Any, int]:
    """The dictionary as SparseProduct or matrix, or None if it is to be learned, and the side of a patch."""
    # From single pixels nothing can be learned.
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
            wanted = "a square number of rows" if patch_size is None else f"{size**2} rows, one per pixel"
            also = ", or that times the channels" if len(shape) > 2 else ""
            raise ValueError(f"dictionary must have {wanted}{also}, got {D.shape[0]}")
        size = size if patch_size is not None else fitting[0]
    if min(shape[:2]) < size:
        raise ValueError(f"image must have at least {size}×{size} pixels, the size of a patch, got shape {shape}")
    return D, size


def estimated_sigma(pixels: Array) -> float:
    """The standard deviation of white noise, from the median of the finest diagonal Haar coefficients of an image.

    Few of these belong to edges, and the median absolute value of Gaussian numbers is 0.6745 times their standard
    deviation (Donoho and Johnstone, 1994).
    """
    values = np.asarray(pixels, np.float64)
    rows, columns = (2 * (side // 2) for side in values.shape[:2])
    corners = [values[i:rows:2, j:columns:2] for i in (0, 1) for j in (0, 1)]
    details = (corners[0] - corners[1] - corners[2] + corners[3]) / 2
    return float(np.median(np.abs(details)) / 0.6745) if details.size else 0.0
