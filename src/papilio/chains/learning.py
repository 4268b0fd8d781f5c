"""One iteration of `convolutional_dictionary`: codes, then the kernels of each atom."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from ..constraints.places import Grid
from ..linalg import in_units
from ..runtime.session import Session
from ..typing import Array
from .convolution import convolution_chain
from .descent import Chains
from .operator import ConvolutionChain
from .pursuit import Atoms, largest, shift_codes
from .spectra import Places, combined, multiplicities, product_of_spectra, spectrum

_SWEEPS = 3  # of alternating least squares per atom and iteration
_RESTARTS, _FIRST_ITER = 4, 40  # for the chain that an atom begins with
_KEPT = 0.5, 0.7, 0.9  # the shares of coefficients that stay when others are chosen anew, in turns
_TRIED = 20  # patches, of which an atom begins with the one of the largest energy


class Learning:
    """Atoms and codes so far, in the Fourier domain: spectra are those of `papilio.chains.spectra`."""

    def __init__(
        self,
        session: Session,
        images: Array,
        places: Sequence[Array],
        n_atoms: int,
        count: int,
        known: Array | None,
    ) -> None:
        self._session, self._images, self._supports, self._count = session, images, places, count
        self._grid: Grid = images.shape[1:]
        self._places = [Places(each, self._grid, True) for each in places]
        self._weights = np.broadcast_to(
            multiplicities(self._grid), (*self._grid[:-1], self._grid[-1] // 2 + 1)
        ).ravel()
        self._target = spectrum(images, len(self._grid))
        self._energy = float((np.abs(self._target) ** 2).sum())
        self.kernels: list[list[Array]] = []  # of each atom: (1, places) each
        for _ in range(n_atoms):
            self.kernels.append(self._started(images))
        self._atoms = np.stack([self._normalised(m)[0] for m in range(n_atoms)])
        self._is_known = known is not None
        self.codes = np.zeros((len(images), n_atoms, *self._grid)) if known is None else self._in_unit(known)
        self._n_codings = 0
        self._residual = self._target
        self._spectra = np.zeros((len(images), n_atoms, self._weights.size), self._target.dtype)
        if self._is_known:
            self._measure()

    def _in_unit(self, known: Array) -> Array:
        """Known codes of a size that fits the images; atoms are of unit norm."""
        codes, _ = in_units(known.astype(np.float64))
        if not codes.any():
            raise ValueError("codes must not be zero, got zeros only")
        return codes

    def _spectra_of(self, codes: Array) -> Array:
        """(images, atoms, frequencies)."""
        return spectrum(codes, len(self._grid)).reshape(*codes.shape[:2], -1)

    def _measure(self) -> None:
        """The residual of the codes as they are."""
        self._spectra = self._spectra_of(self.codes)
        self._residual = self._target - (self._spectra * self._atoms).sum(axis=1)

    @property
    def error(self) -> float:
        return sqrt(float((np.abs(self._residual) ** 2).sum()) / self._energy)

    def iterate(self) -> None:
        """New codes, unless these are known, and new kernels."""
        if not self._is_known:
            self._code()
        for m in range(len(self.kernels)):
            self._session.check()
            self._update(m)

    def _code(self) -> None:
        before = self.codes, self._spectra, self._residual, self.error
        dense = np.fft.irfftn(
            self._atoms.reshape(-1, *self._grid[:-1], self._grid[-1] // 2 + 1),
            self._grid,
            axes=tuple(range(1, len(self._grid) + 1)),
        )
        share = _KEPT[self._n_codings % len(_KEPT)]
        self._n_codings += 1
        kept = largest(self.codes, int(share * self._count))
        self.codes = shift_codes(self._session, self._images, Atoms(dense, self._supports), self._count, kept)
        self._measure()
        if self.error > before[-1]:
            self.codes, self._spectra, self._residual, _ = before

    def _update(self, m: int) -> None:
        """The kernels of one atom by least squares; an atom without use begins anew, where the error is large."""
        if not self._spectra[:, m].any():
            self.kernels[m] = self._started(self._residual_images())
            self._atoms[m], _ = self._normalised(m)
            return
        own = self._spectra[:, m] * self._atoms[m]
        chains = Chains(combined(self._spectra[:, m], self._residual + own), self._places, self.kernels[m])
        before = chains.errors[0]
        for _ in range(_SWEEPS):
            chains.sweep()
        if not chains.errors[0] <= before:
            return
        self.kernels[m] = chains.kernels
        self._atoms[m], norm = self._normalised(m)
        self.codes[:, m] *= norm
        self._spectra[:, m] *= norm
        self._residual = self._residual + own - self._spectra[:, m] * self._atoms[m]

    def _normalised(self, m: int) -> tuple[Array, float]:
        """The spectrum of an atom of unit norm, and the norm that it had; its kernels are scaled alike."""
        kernels = self.kernels[m]
        found = product_of_spectra(
            [places.spectrum(kernel)[0] for places, kernel in zip(self._places, kernels, strict=True)]
        )
        norm = float(np.linalg.norm(found * self._weights)) / sqrt(np.prod(self._grid)) or 1.0
        kernels[0] = kernels[0] / norm
        return found / norm, norm

    def _residual_images(self) -> Array:
        half = (self._residual / self._weights).reshape(-1, *self._grid[:-1], self._grid[-1] // 2 + 1)
        return np.fft.irfftn(half, self._grid, axes=tuple(range(1, len(self._grid) + 1)), norm="ortho")

    def _started(self, images: Array) -> list[Array]:
        """The chain that is nearest to a patch of the images, of some random ones that of the largest energy."""
        random = self._session.random
        lowest = sum(places.min(axis=0) for places in self._supports)
        sides = sum(np.ptp(places, axis=0) for places in self._supports) + 1
        size = np.minimum(sides, self._grid)
        window = np.prod(np.meshgrid(*(np.hanning(n + 2)[1:-1] for n in size), indexing="ij"), axis=0)
        best = np.zeros(window.shape)
        for _ in range(_TRIED):
            image = images[random.randint(len(images))]
            patch = image[self._box([random.randint(n) for n in self._grid], size)] * window
            if (patch**2).sum() > (best**2).sum():
                best = patch
        # A little noise, so that no atom is zero wherever its kernels can reach.
        noise = random.standard_normal(best.shape)
        best = best + (1e-3 * float(np.abs(best).max()) or 1.0) * noise
        atom = np.zeros(self._grid)
        atom[self._box(lowest, size)] = best
        fit = convolution_chain(
            atom,
            None,
            self._supports,
            n_restarts=_RESTARTS,
            max_iter=_FIRST_ITER,
            random_state=random,
            callback=lambda _: self._session.stopped,
        )
        return [kernel[None].copy() for kernel in fit.kernels]

    def _box(self, corner: Any, size: Array) -> tuple[Array, ...]:
        """The indices of a box on the periodic grid."""
        return np.ix_(*((at + np.arange(n)) % side for at, n, side in zip(corner, size, self._grid, strict=True)))

    def chains(self) -> list[ConvolutionChain]:
        """The atoms as operators: kernels of unit norm, and a scale that makes the atom one."""
        found = []
        for kernels in self.kernels:
            norms = [float(np.linalg.norm(kernel)) or 1.0 for kernel in kernels]
            unit = [kernel[0] / norm for kernel, norm in zip(kernels, norms, strict=True)]
            found.append(ConvolutionChain(unit, self._supports, self._grid, float(np.prod(norms))))
        return found
