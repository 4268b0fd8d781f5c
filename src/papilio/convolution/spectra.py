"""The least-squares fit of composed kernels in the Fourier domain, for many restarts at once.

For signals y_l and their codes x_l, with unitary Fourier transforms Y_l and X_l, a composition with spectrum H has

    Σ_l ‖y_l − h ∗ x_l‖² = Σ_l ‖Y_l − H X_l‖² = ‖V − H U‖² + rest,   U = (Σ|X_l|²)^½,   V = Σ X̄_l Y_l / U,

where the rest does not depend on the kernels. So any number of signals reduces to one, whose code has the spectrum
U ≥ 0. Spectra of real data have half of the frequencies; those that stand for two have the weight √2 in U and V.

Two steps lower the error, and neither ever raises it. One kernel after the other is a linear least-squares problem
with small normal equations. Close to a solution, or in a long valley, one joint step of all kernels
(Levenberg–Marquardt) replaces many such sweeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.fft

from ..constraints.places import Grid
from ..typing import Array

_RIDGE = 1e-12  # relative to the mean of the diagonal, for normal equations that are nearly singular
_NO_CODE = 1e-30  # relative to the largest energy: at frequencies with less, the codes are zero up to rounding
_FIRST_DAMPING = 1e-2  # relative to the diagonal
_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e6


@dataclass(frozen=True)
class Spectra:
    """U and V of the data, the energy that no kernels explain, and Σ‖y_l‖²."""

    code: Array
    signal: Array
    rest: float
    energy: float


def spectra_of(signals: Array, codes: Array, n_axes: int) -> Spectra:
    """The data of (n, *grid) signals and their codes."""
    return combined(*(spectrum(each, n_axes) for each in (codes, signals)))


def spectra_of_atom(atom: Array) -> Spectra:
    """The data of an atom, whose code is a unit impulse."""
    impulse = np.zeros((1, *atom.shape), atom.dtype)
    impulse[0].flat[0] = 1
    return spectra_of(atom[None], impulse, atom.ndim)


def combined(X: Array, Y: Array) -> Spectra:
    """The data from weighted spectra (n, frequencies) of codes and signals."""
    weights = (np.abs(X) ** 2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(weights > _NO_CODE * weights.max(), (X.conj() * Y).sum(axis=0) / weights, 0)
    code = np.sqrt(weights)
    rest = float((np.abs(Y - gain * X) ** 2).sum())
    return Spectra(code, gain * code, rest, float((np.abs(Y) ** 2).sum()))


def spectrum(arrays: Array, n_axes: int) -> Array:
    """Unitary Fourier transforms over the last axes as (n, frequencies), of real data half of them, weighted."""
    axes = tuple(range(-n_axes, 0))
    grid = arrays.shape[-n_axes:]
    if arrays.dtype.kind == "c":
        return scipy.fft.fftn(arrays, axes=axes, norm="ortho").reshape(-1, int(np.prod(grid)))
    found = scipy.fft.rfftn(arrays, axes=axes, norm="ortho") * multiplicities(grid)
    return found.reshape(-1, int(np.prod(found.shape[-n_axes:])))


def multiplicities(grid: Grid) -> Array:
    """The square root of the number of frequencies that each one of a real transform stands for."""
    last = np.full(grid[-1] // 2 + 1, np.sqrt(2))
    last[0] = 1
    if grid[-1] % 2 == 0:
        last[-1] = 1
    return last


def correlations(products: Array, grid: Grid, is_real: bool) -> Array:
    """Σ_f P_f exp(2πi p·f) at all places p of the grid, for products of two of the spectra here."""
    if not is_real:
        return scipy.fft.ifftn(products.reshape(grid), norm="forward")
    half = products.reshape(*grid[:-1], grid[-1] // 2 + 1) / multiplicities(grid) ** 2
    return scipy.fft.irfftn(half, grid, norm="forward")


class Places:
    """The places of one kernel in the Fourier domain: its spectrum, and the sums of its normal equations.

    ``waves`` (places, frequencies) are the spectra of unit impulses at the places.
    """

    def __init__(self, places: Array, grid: Grid, is_real: bool) -> None:
        self.is_real = is_real
        sides = [*grid[:-1], grid[-1] // 2 + 1] if is_real else list(grid)
        self._sides, self._grid = sides, grid
        self.waves = self._waves_at(places)
        differences = (places[:, None] - places).reshape(-1, len(grid))
        if is_real:  # The sums at −d and d are equal.
            leading = np.where(differences[:, 0] != 0, differences[:, 0], differences[:, -1])
            differences = np.where(leading[:, None] < 0, -differences, differences)
        distinct, which = np.unique(differences, axis=0, return_inverse=True)
        self._which = which.reshape(len(places), len(places))
        waves = self._waves_at(distinct)
        self._correlation = np.ascontiguousarray((waves.real if is_real else waves.conj()).T)

    def _waves_at(self, places: Array) -> Array:
        """exp(−2πi p·f) for each place p and frequency f; products of integers are exact."""
        phases = [
            (places[:, i, None] * np.arange(side)) % n / n
            for i, (side, n) in enumerate(zip(self._sides, self._grid, strict=True))
        ]
        turns = (
            phases[0]
            if len(phases) == 1
            else (phases[0][:, :, None] + phases[1][:, None]).reshape(len(places), -1)
        )
        return np.exp(-2j * np.pi * turns)

    def spectrum(self, kernels: Array) -> Array:
        """(n, frequencies) of kernels (n, places)."""
        if self.is_real:
            return (kernels @ self._real_waves).view(np.complex128)
        return kernels @ self.waves

    def gram(self, others: Array) -> Array:
        """(n, places, places): AᴴA, where column s of A is ``others`` times wave s."""
        sums = (others.real**2 + others.imag**2) @ self._correlation
        return sums[:, self._which]

    def right(self, others: Array, target: Array) -> Array:
        """(n, places): Aᴴ times the target."""
        products = others.conj() * target
        if self.is_real:
            return products.view(np.float64) @ self._real_waves.T
        return products @ self.waves.conj().T

    @cached_property
    def _real_waves(self) -> Array:
        return np.ascontiguousarray(self.waves).view(np.float64)


def composed(spectra: Sequence[Array]) -> Array:
    """The spectrum of the composition of some kernels, from theirs."""
    return reduce(np.multiply, spectra)


class Restarts:
    """The kernels of several restarts on the same data, (restarts, places) each, and their squared errors."""

    def __init__(self, data: Spectra, places: Sequence[Places], kernels: Sequence[Array]) -> None:
        self.data, self.places = data, places
        self.kernels = [np.array(kernel) for kernel in kernels]
        self.damping = np.full(len(self.kernels[0]), _FIRST_DAMPING)
        self._spectra = self._spectra_of(self.kernels)
        self.errors = self._errors_of(self._spectra)

    def _spectra_of(self, kernels: Sequence[Array]) -> list[Array]:
        return [places.spectrum(kernel) for places, kernel in zip(self.places, kernels, strict=True)]

    def _errors_of(self, spectra: Sequence[Array]) -> Array:
        """‖V − HU‖² of each restart."""
        difference = self.data.signal - self.data.code * composed(spectra)
        return np.einsum("rf,rf->r", *[difference.view(np.float64)] * 2)

    def keep(self, chosen: Array) -> None:
        """Drop all other restarts."""
        self.kernels = [kernel[chosen] for kernel in self.kernels]
        self._spectra = [each[chosen] for each in self._spectra]
        self.errors, self.damping = self.errors[chosen], self.damping[chosen]

    def balance(self) -> None:
        """Give all kernels of a restart the same norm; their composition stays."""
        norms = np.stack([np.linalg.norm(kernel, axis=1) for kernel in self.kernels])
        with np.errstate(divide="ignore"):
            factors = np.exp(np.log(norms).mean(axis=0)) / norms
        factors = np.where(np.isfinite(factors), factors, 1.0)
        for k, factor in enumerate(factors):
            self.kernels[k] *= factor[:, None]
            self._spectra[k] *= factor[:, None]

    def sweep(self) -> None:
        """Update one kernel after the other by least squares."""
        for k, places in enumerate(self.places):
            others = self._others(k)
            gram, right = places.gram(others), places.right(others, self.data.signal)
            # The ridge pulls towards the present kernel, so that the objective never rises.
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
        return self.data.code * composed(rest)

    def joint_step(self) -> None:
        """One damped Gauss–Newton step of all kernels; restarts that it would not improve stay as they are."""
        J = np.concatenate(
            [self._others(k)[:, None] * places.waves for k, places in enumerate(self.places)], axis=1
        )
        difference = self.data.signal - self.data.code * composed(self._spectra)
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
        parts = np.split(step, ends, axis=1)
        trial: list[Array] = [kernel + part for kernel, part in zip(self.kernels, parts, strict=True)]
        spectra = self._spectra_of(trial)
        errors = self._errors_of(spectra)
        is_better = errors < self.errors  # false where an error is NaN
        for k in range(len(trial)):
            self.kernels[k] = np.where(is_better[:, None], trial[k], self.kernels[k])
            self._spectra[k] = np.where(is_better[:, None], spectra[k], self._spectra[k])
        self.errors = np.where(is_better, errors, self.errors)
        self.damping = np.clip(
            np.where(is_better, self.damping / 3, self.damping * 4), _LEAST_DAMPING, _MOST_DAMPING
        )
        self.balance()


def cropped(signal: Array, supports: Sequence[Array]) -> tuple[Array, list[Array], float]:
    """An atom and its kernels' places on the smallest grid that holds all sums of places, and the energy outside.

    No kernels explain what lies outside of the sums of places.
    """
    grid = np.array(signal.shape)
    lowest = [places.min(axis=0) for places in supports]
    sides = sum(places.max(axis=0) - low for places, low in zip(supports, lowest, strict=True)) + 1
    start = sum(lowest)
    whole = sides >= grid
    size = np.where(whole, grid, sides)
    inside = np.ix_(
        *(
            np.arange(n) if is_whole else (first + np.arange(side)) % n
            for first, side, n, is_whole in zip(start, size, grid, whole, strict=True)
        )
    )
    part = signal[inside]
    moved = [places - np.where(whole, 0, low) for places, low in zip(supports, lowest, strict=True)]
    outside = signal.copy()
    outside[inside] = 0
    return part, moved, float((np.abs(outside) ** 2).sum())
