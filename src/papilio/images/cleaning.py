"""What denoising is made of: patches to learn from, and the coding of all patches of a plane.

The noise of planes has unit deviation here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..coding import Coder
from ..dictionary.atoms import residuals_of
from ..operators import SparseProduct
from ..typing import Array
from .cosines import redundant_dct
from .patches import Average, Grid

STANDS_OUT = 1.2  # times the deviation of noise: patches to learn from
_BAND = 1 << 14  # patches that are coded at a time
_CANDIDATES = 1 << 18  # patches of a plane among which those to learn from are sought
_ENOUGH = 1.01  # times the error target: it is reached, up to rounding


class Cleaner:
    """Codes all patches of a plane, and averages them.

    Parameters
    ----------
    dictionary : SparseProduct or (d, a) array
        In the planes' dtype.
    grid : Grid
        Of the planes.
    gain : float
        Patches are coded to a squared residual of gain²·d, or stay as they are where d/2 atoms do not do.
    n_nonzero_coefs : int, optional
        So many atoms a patch instead, whatever residual they leave.
    """

    def __init__(self, dictionary: Any, grid: Grid, gain: float, n_nonzero_coefs: int | None = None) -> None:
        self._grid = grid
        self._coder = Coder(dictionary)
        dense = dictionary.toarray() if isinstance(dictionary, SparseProduct) else dictionary
        self._atoms = np.ascontiguousarray(dense.T)
        self._tol = gain**2 * len(dense)
        self._n_nonzero = n_nonzero_coefs

    def clean(self, plane: Array, advance: Callable[[int], bool] = lambda rows: False) -> Array:
        """The plane without noise; ``advance`` is told how many rows of patches are done, and stops with True."""
        grid = self._grid
        mean = Average(grid, plane)
        height = max(_BAND // len(grid.lefts), 1)
        for first in range(0, len(grid.tops), height):
            patches = grid.extract(plane, first, first + height)
            mean.add(self._cleaned(patches), first)
            if advance(len(patches) // len(grid.lefts)):
                break  # patches that were not added count as they are
        return mean.result()

    def _cleaned(self, patches: Array) -> Array:
        residuals = patches - _means(patches, self._grid)
        if self._n_nonzero is not None:
            codes = self._coder.code(residuals.T, self._n_nonzero)
            return patches - residuals_of(residuals, self._atoms, codes)
        # A patch that is no louder than noise needs no atoms: it is its mean.
        loud = np.flatnonzero(_energies(residuals) > self._tol)
        if loud.size:
            codes = self._coder.code(residuals[loud].T, max(patches.shape[1] // 2, 1), self._tol)
            left = residuals_of(residuals[loud], self._atoms, codes)
            left[_energies(left) > _ENOUGH * self._tol] = 0.0
            residuals[loud] = left
        return patches - residuals


def training_patches(
    planes: Sequence[Array], grid: Grid, louder_than: float, count: int, random: np.random.RandomState
) -> Array:
    """Up to ``count`` patches less their means, one a row, drawn at random from those that stand out from noise.

    These are the ones whose squared norm is above ``louder_than``²·d: noise alone has d, on average.
    """
    found = []
    for plane in planes:
        places = np.sort(random.permutation(grid.count)[:_CANDIDATES])
        patches = grid.extract_some(plane, places)
        patches -= _means(patches, grid)
        found.append(patches[_energies(patches) > louder_than**2 * patches.shape[1]])
    patches = np.concatenate(found)
    return patches[random.permutation(len(patches))[:count]]


def atoms_a_patch(patches: Array, size: int, gain: float) -> int:
    """How many atoms to learn with: one less than cosines need on average to reach the error target.

    With more, atoms learn the noise, and with fewer, where there is little noise, they miss detail. On photographs
    this is about six at σ = 10 of 255, three at 20, two at 30 and one at 50, which gave K-SVD the highest PSNR.
    """
    coder = Coder(redundant_dct(size, 2 * size).astype(patches.dtype))
    codes = coder.code(patches.T, max(patches.shape[1] // 2, 1), gain**2 * patches.shape[1])
    return max(round(codes.nnz / len(patches)) - 1, 1)


def _means(patches: Array, grid: Grid) -> Array:
    """The mean of each patch, in each of its channels, for all its pixels."""
    split = patches.reshape(len(patches), grid.size**2, -1)
    return np.broadcast_to(split.mean(axis=1, keepdims=True), split.shape).reshape(patches.shape)


def _energies(patches: Array) -> Array:
    return np.einsum("ij,ij->i", patches, patches)
