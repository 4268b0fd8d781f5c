"""Sparse codes of images in atoms that may stand anywhere: matching pursuit with all shifts."""

from collections.abc import Sequence

import numpy as np
import scipy.fft

from ..constraints.places import Grid
from ..kernels.shifts import pursue_shifts
from ..runtime.session import Session
from ..runtime.threads import get_num_threads
from ..typing import Array

_STEPS = 10  # of conjugate gradients
_AT_ONCE = 3e8  # operations of a pursuit between two looks at whether to stop
_LEAST = 1e-12  # of the largest correlation: what is below is rounding


class Atoms:
    """Atoms (n_atoms, *grid) with their spectra, and how far each reaches from its origin."""

    def __init__(self, atoms: Array, supports: Sequence[Array]) -> None:
        self.grid: Grid = atoms.shape[1:]
        self._axes = tuple(range(-len(self.grid), 0))
        self._spectra = self._forward(atoms)
        self._reach = [int(n) for n in sum(np.ptp(places, axis=0) for places in supports)]

    def __len__(self) -> int:
        return len(self._spectra)

    def _forward(self, arrays: Array) -> Array:
        return scipy.fft.rfftn(arrays, axes=self._axes, workers=get_num_threads())

    def _back(self, spectra: Array) -> Array:
        return scipy.fft.irfftn(spectra, self.grid, axes=self._axes, workers=get_num_threads())

    def synthesis(self, codes: Array) -> Array:
        """Σ_m x_m ∗ d_m of codes (n_atoms, *grid)."""
        return self._back((self._forward(codes) * self._spectra).sum(axis=0))

    def analysis(self, image: Array) -> Array:
        """The correlations of an image with all shifts of the atoms: the adjoint of `synthesis`."""
        return self._back(self._forward(image) * self._spectra.conj())

    def pursue(self, session: Session, image: Array, count: int) -> Array:
        """Codes (n_atoms, *grid) of one image by matching pursuit."""
        # One dimension is an image of one column: a row is what the kernel looks through again at each step.
        sides = self.grid if len(self.grid) == 2 else (*self.grid, 1)
        codes = np.zeros((len(self), *sides))
        rows = np.ascontiguousarray(self.analysis(image).reshape(codes.shape).transpose(1, 0, 2))
        gram, top, left = self._gram()
        least = _LEAST * float(np.abs(rows).max())
        at_once = max(int(_AT_ONCE / (gram.shape[2] * rows[0].size)), 1)
        missing, steps_left, steps = count, 4 * count, -1  # an atom that is taken again does not count
        while missing and steps_left and steps:
            session.check()
            some = min(at_once, steps_left)
            taken, steps = pursue_shifts(rows, gram, top, left, codes, missing, some, least)
            missing, steps_left = missing - taken, steps_left - steps
        return codes.reshape(len(self), *self.grid)

    def _gram(self) -> tuple[Array, int, int]:
        """Correlations of atoms with shifted atoms, as far as they overlap, and where the shift by zero is."""
        gram = self._back(self._spectra[:, None] * self._spectra.conj())
        for i, (reach, side) in enumerate(zip(self._reach, self.grid, strict=True)):
            if 2 * reach + 1 < side:
                gram = np.take(gram, np.arange(-reach, reach + 1), axis=2 + i)
        at = [reach if 2 * reach + 1 < side else 0 for reach, side in zip(self._reach, self.grid, strict=True)]
        if len(self.grid) == 1:
            return np.ascontiguousarray(gram[..., None]), at[0], 0
        return np.ascontiguousarray(gram), at[0], at[1]

    def refit(self, image: Array, codes: Array) -> Array:
        """Codes on the same places by least squares: conjugate gradients, which never raise the error."""
        mask = codes != 0
        difference = self.analysis(image - self.synthesis(codes)) * mask
        direction, energy = difference, float((difference**2).sum())
        least = 1e-20 * float((image**2).sum())
        for _ in range(_STEPS):
            if energy <= least:
                break
            turned = self.synthesis(direction)
            step = energy / float((turned**2).sum())
            codes = codes + step * direction
            difference = difference - step * self.analysis(turned) * mask
            before, energy = energy, float((difference**2).sum())
            direction = difference + energy / before * direction
        return codes


def shift_codes(session: Session, images: Array, atoms: Atoms, count: int, before: Array | None = None) -> Array:
    """Codes (n_images, n_atoms, *grid) with ``count`` entries per image; those that are there ``before`` count."""
    codes = np.zeros((len(images), len(atoms), *atoms.grid)) if before is None else before.copy()
    for i, image in enumerate(images):
        session.check()
        left = image if before is None else image - atoms.synthesis(codes[i])
        more = atoms.pursue(session, left, max(count - int(np.count_nonzero(codes[i])), 0))
        codes[i] = atoms.refit(image, codes[i] + more)
    return codes


def largest(codes: Array, count: int) -> Array:
    """The ``count`` largest coefficients of each image, or fewer if there are not so many; zero elsewhere."""
    kept = np.zeros_like(codes)
    for own, new in zip(codes.reshape(len(codes), -1), kept.reshape(len(codes), -1), strict=True):
        chosen = np.argsort(-np.abs(own), kind="stable")[:count]
        new[chosen] = own[chosen]
    return kept
