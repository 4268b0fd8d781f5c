"""Denoising images by sparse coding of their patches, in a dictionary that is given or learned."""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.fft import dct, idct

from ..coding import Atoms, omp_codes
from ..dictionary.fast import HierarchyOptions, as_product, fast_plan
from ..dictionary.learner import learn
from ..dictionary.signals import Coder, prepared, residuals_of
from ..operators import SparseProduct
from ..results import Callback
from ..runtime.session import Session
from ..samples import held
from ..solvers.schedule import Schedule
from ..typing import Array, ArrayLike, MatrixLike, RandomState
from ..validation import as_array, as_integer, as_matrix, as_real, require_finite, require_fits
from .patches import Average, Grid, check_image_shape

if TYPE_CHECKING:
    from ..dictionary.estimator import DictionaryEstimator


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
