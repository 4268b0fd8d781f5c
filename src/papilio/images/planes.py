"""The parts of denoising: patches to learn from, and the coding of all patches of a plane.

Planes are scaled such that their noise has unit standard deviation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..coding import Coder
from ..dictionary.statistics import coder_and_atoms
from ..dictionary.sums import residuals_of
from ..typing import Array
from .dct import redundant_dct
from .patches import Average, Grid

ABOVE_NOISE = 1.2  # times the deviation of the noise: that of patches to learn from
_BAND = 1 << 14  # patches that are coded at a time
_CANDIDATES = 1 << 18  # patches of a plane among which those to learn from are chosen
_REACHED = 1.01  # times the error target, for rounding errors


class PlaneDenoiser:
    """Codes all patches of a plane and averages them.

    They are coded to a squared residual of gain²·d; those for which d/2 atoms are not enough are kept. With
    ``n_nonzero_coefs``, each gets that number of atoms instead, whatever the residual.
    """

    def __init__(self, dictionary: Any, grid: Grid, gain: float, n_nonzero_coefs: int | None = None) -> None:
        self._grid = grid
        self._coder, self._atoms = coder_and_atoms(dictionary)
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
                break  # where no patches were added, the plane is kept
        return mean.result()

    def _denoised(self, patches: Array) -> Array:
        residuals = patches - _means(patches, self._grid)
        if self._n_nonzero is not None:
            codes = self._coder.code(residuals.T, self._n_nonzero)
            return patches - residuals_of(residuals, self._atoms, codes)
        # A patch that is no louder than noise needs no atoms: it becomes its mean.
        loud = np.flatnonzero(_energies(residuals) > self._tol)
        if loud.size:
            codes = self._coder.code(residuals[loud].T, max(patches.shape[1] // 2, 1), self._tol)
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
    coder = Coder(redundant_dct(size, 2 * size).astype(patches.dtype))
    codes = coder.code(patches.T, max(patches.shape[1] // 2, 1), gain**2 * patches.shape[1])
    return max(round(codes.nnz / len(patches)) - 1, 1)


def _means(patches: Array, grid: Grid) -> Array:
    """The mean of each patch and channel, repeated for all its pixels."""
    split = patches.reshape(len(patches), grid.size**2, -1)
    return np.broadcast_to(split.mean(axis=1, keepdims=True), split.shape).reshape(patches.shape)


def _energies(patches: Array) -> Array:
    return np.einsum("ij,ij->i", patches, patches)
