"""The fit of a chain of convolutions in the Fourier domain.

For signals y_l and their codes x_l, with Fourier transforms Y_l and X_l (unitary), a chain with spectrum H has

    Σ_l ‖y_l − h ∗ x_l‖² = Σ_l ‖Y_l − H X_l‖² = ‖V − H U‖² + rest,   U = (Σ|X_l|²)^½,   V = Σ X̄_l Y_l / U,

where the rest does not depend on the chain. So any number of signals is one, whose code has the spectrum U ≥ 0.
Spectra of real data have half of the frequencies, those that stand for two with the weight √2 in U and V.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.fft

from ..constraints.places import Grid
from ..typing import Array


@dataclass(frozen=True)
class Spectra:
    """U and V of the data, the energy that no chain explains, and Σ‖y_l‖²."""

    code: Array
    signal: Array
    rest: float
    energy: float


def spectra_of(signals: Array, codes: Array, n_axes: int) -> Spectra:
    """The data of (n, *grid) signals and their codes."""
    X, Y = (spectrum(each, n_axes) for each in (codes, signals))
    return combined(X, Y)


def combined(X: Array, Y: Array) -> Spectra:
    """The data from weighted spectra (n, frequencies) of codes and signals."""
    weights = (np.abs(X) ** 2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where codes are zero up to rounding, nothing can be explained.
        gain = np.where(weights > 1e-30 * weights.max(), (X.conj() * Y).sum(axis=0) / weights, 0)
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
    """The root of how many frequencies each one of a real transform stands for."""
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
    """One kernel in the Fourier domain: its spectrum, and the sums of its normal equations.

    ``waves`` (places, frequencies) are the spectra of units at its places; those of real data have half of the
    frequencies.
    """

    def __init__(self, places: Array, grid: Grid, is_real: bool) -> None:
        self.is_real = is_real
        sides = [*grid[:-1], grid[-1] // 2 + 1] if is_real else list(grid)
        self._sides, self._grid = sides, grid
        self.waves = self._waves_at(places)
        differences = (places[:, None] - places).reshape(-1, len(grid))
        if is_real:  # the sum at −d is that at d
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


def product_of_spectra(spectra: Sequence[Array]) -> Array:
    return reduce(np.multiply, spectra)


def cropped(signal: Array, supports: Sequence[Array]) -> tuple[Array, list[Array], float]:
    """An atom and its kernels' places on the smallest grid that holds all sums of places, and the energy outside.

    For a single one as the code: what lies outside of the sums of places cannot be explained.
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
