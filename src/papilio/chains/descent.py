"""Descent on the kernels of many chains at once: alternating least squares, and damped Gauss–Newton steps.

All restarts are rows of the same arrays. Both methods never raise an objective. One kernel after the other is a
linear least squares problem, whose normal equations are small. Close to a solution, or in a long valley, a joint
step of all kernels (Levenberg–Marquardt) is worth many such sweeps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..typing import Array
from .spectra import Places, Spectra, product_of_spectra

_RIDGE = 1e-12  # times the mean of the diagonal: of nearly singular normal equations
_DAMPING = 1e-2  # of the first joint step, relative to the diagonal
_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e6


class Chains:
    """The kernels of several chains for the same data, (restarts, places) each, and their squared errors."""

    def __init__(self, data: Spectra, places: Sequence[Places], kernels: Sequence[Array]) -> None:
        self.data, self.places = data, places
        self.kernels = [np.array(kernel) for kernel in kernels]
        self.damping = np.full(len(self.kernels[0]), _DAMPING)
        self._refresh()

    def _refresh(self) -> None:
        self._spectra = self._spectra_of(self.kernels)
        self.errors = self._errors_of(self._spectra)

    def _spectra_of(self, kernels: Sequence[Array]) -> list[Array]:
        return [places.spectrum(kernel) for places, kernel in zip(self.places, kernels, strict=True)]

    def _errors_of(self, spectra: Sequence[Array]) -> Array:
        """‖V − HU‖² of each chain."""
        difference = self.data.signal - self.data.code * product_of_spectra(spectra)
        return np.einsum("rf,rf->r", *[difference.view(np.float64)] * 2)

    def keep(self, chosen: Array) -> None:
        """Go on with some of the chains only."""
        self.kernels = [kernel[chosen] for kernel in self.kernels]
        self._spectra = [each[chosen] for each in self._spectra]
        self.errors, self.damping = self.errors[chosen], self.damping[chosen]

    def balance(self) -> None:
        """Kernels of a chain get the same norm; their product stays."""
        norms = np.stack([np.linalg.norm(kernel, axis=1) for kernel in self.kernels])
        with np.errstate(divide="ignore"):
            factors = np.exp(np.log(norms).mean(axis=0)) / norms
        factors = np.where(np.isfinite(factors), factors, 1.0)
        for k, factor in enumerate(factors):
            self.kernels[k] *= factor[:, None]
            self._spectra[k] *= factor[:, None]

    def sweep(self) -> None:
        """One kernel after the other by least squares, the others fixed."""
        for k, places in enumerate(self.places):
            others = self._others(k)
            gram, right = places.gram(others), places.right(others, self.data.signal)
            # Towards the kernel as it is, so that the objective never rises, however small the ridge.
            count = gram.shape[1]
            ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2).real / count + np.finfo(float).tiny
            gram[:, np.arange(count), np.arange(count)] += ridge[:, None]
            right += ridge[:, None] * self.kernels[k]
            self.kernels[k] = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
            self._spectra[k] = places.spectrum(self.kernels[k])
            self.balance()
        self.errors = self._errors_of(self._spectra)

    def _others(self, k: int) -> Array:
        """The code with all kernels but one: (restarts, frequencies)."""
        rest = [each for j, each in enumerate(self._spectra) if j != k]
        if not rest:
            return np.broadcast_to(self.data.code + 0j, self._spectra[0].shape)
        return self.data.code * product_of_spectra(rest)

    def leap(self) -> None:
        """One damped Gauss–Newton step of all kernels at once; chains that it would not improve stay."""
        J = np.concatenate(
            [self._others(k)[:, None] * places.waves for k, places in enumerate(self.places)], axis=1
        )
        difference = self.data.signal - self.data.code * product_of_spectra(self._spectra)
        if self.places[0].is_real:
            J = J.view(np.float64)
            gram = J @ J.transpose(0, 2, 1)
            right = (J @ difference.view(np.float64)[:, :, None])[:, :, 0]
        else:
            gram = J.conj() @ J.transpose(0, 2, 1)
            right = (J.conj() @ difference[:, :, None])[:, :, 0]
        diagonal = np.einsum("rpp->rp", gram).real
        extra = self.damping[:, None] * (diagonal + 1e-3 * diagonal.mean(axis=1, keepdims=True))
        at = np.arange(gram.shape[1])
        gram[:, at, at] += extra + np.finfo(float).tiny
        step = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
        ends = np.cumsum([len(places.waves) for places in self.places])[:-1]
        trial: list[Any] = [
            kernel + part for kernel, part in zip(self.kernels, np.split(step, ends, axis=1), strict=True)
        ]
        spectra = self._spectra_of(trial)
        errors = self._errors_of(spectra)
        is_better = errors < self.errors  # never for NaN
        for k in range(len(trial)):
            self.kernels[k] = np.where(is_better[:, None], trial[k], self.kernels[k])
            self._spectra[k] = np.where(is_better[:, None], spectra[k], self._spectra[k])
        self.errors = np.where(is_better, errors, self.errors)
        self.damping = np.clip(
            np.where(is_better, self.damping / 3, self.damping * 4), _LEAST_DAMPING, _MOST_DAMPING
        )
        self.balance()
