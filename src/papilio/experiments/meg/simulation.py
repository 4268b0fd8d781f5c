"""A simulated MEG gain matrix: a spherical conductor, a folded surface of sources, and a helmet of sensors.

The field of a current dipole in a spherically symmetric conductor has a closed form (J. Sarvas, "Basic
mathematical and electromagnetic concepts of the biomagnetic inverse problem", 1987). Currents outside of the
dipole are accounted for, and the conductivities of the layers do not matter. Lengths are in metres.
"""

import numpy as np

from ...typing import Array

_PERMEABILITY_OVER_4_PI = 1e-7
_CORTEX, _FOLDS, _DEPTH, _PITCH = 0.075, 40, 0.008, 14.0  # mean radius, waves, their depth, and waves per 2π
_HELMET, _BASELINE = 0.11, 0.05  # radius of the inner coils, and the distance of the outer ones from them
_LOWEST_SOURCE, _LOWEST_SENSOR = -0.5, -0.3  # height over the radius


def dipole_field(places: Array, moments: Array, points: Array) -> Array:
    """The magnetic field at ``points`` (p, 3) outside of a conducting sphere around the origin, in tesla.

    For a dipole with moment Q at r₀, and a = r − r₀,

        B(r) = μ₀/(4πF²)·(F·Q×r₀ − (Q×r₀·r)·∇F),  F = |a|(|r||a| + |r|² − r₀·r).

    Parameters
    ----------
    places, moments : (n, 3) array
        The dipoles, inside of the sphere, in metres and ampere metres.
    points : (p, 3) array

    Returns
    -------
    (p, n, 3) array
    """
    r, r0 = points[:, None, :], places[None, :, :]
    a = r - r0
    a_size, r_size = np.linalg.norm(a, axis=2)[..., None], np.linalg.norm(r, axis=2)[..., None]
    along = (a * r).sum(axis=2)[..., None]
    F = a_size * (r_size * a_size + r_size**2 - (r0 * r).sum(axis=2)[..., None])
    gradient = (a_size**2 / r_size + along / a_size + 2 * a_size + 2 * r_size) * r
    gradient = gradient - (a_size + 2 * r_size + along / a_size) * r0
    turned = np.cross(moments, places)[None, :, :]
    return _PERMEABILITY_OVER_4_PI * (F * turned - (turned * r).sum(axis=2)[..., None] * gradient) / F**2


def folded_surface(count: int, seed: int) -> tuple[Array, Array]:
    """Points (count, 3) on a sphere with folds, without its lowest part, and the unit normals there.

    The radius is a sum of waves, R(u) = R₀ + c·Σ sin(wᵢ·u + φᵢ), of the direction u, and the normal is along
    u − ∇R/R with the gradient on the sphere.
    """
    random = np.random.default_rng(seed)
    directions = _cap(count, _LOWEST_SOURCE)
    waves = random.standard_normal((_FOLDS, 3))
    waves *= _PITCH / np.linalg.norm(waves, axis=1)[:, None]
    phases = directions @ waves.T + random.uniform(0, 2 * np.pi, _FOLDS)
    depth = _DEPTH * np.sqrt(2 / _FOLDS)
    radii = _CORTEX + depth * np.sin(phases).sum(axis=1)
    gradients = depth * np.cos(phases) @ waves
    gradients -= (gradients * directions).sum(axis=1)[:, None] * directions
    normals = directions - gradients / radii[:, None]
    return radii[:, None] * directions, normals / np.linalg.norm(normals, axis=1)[:, None]


def simulated_gain(n_sensors: int, n_sources: int, seed: int = 0) -> tuple[Array, Array]:
    """The gain matrix (n_sensors, n_sources) of sources normal to a folded surface, and their places.

    A sensor is a radial gradiometer: the radial field near the head, less that at an outer coil.
    """
    places, normals = folded_surface(n_sources, seed)
    outwards = _cap(n_sensors, _LOWEST_SENSOR)
    inner, outer = (
        np.einsum("pnd,pd->pn", dipole_field(places, normals, radius * outwards), outwards)
        for radius in (_HELMET, _HELMET + _BASELINE)
    )
    return inner - outer, places


def _cap(count: int, lowest: float) -> Array:
    """Directions spread evenly over the sphere above a height, along a spiral of golden angles."""
    heights = 1 - (1 - lowest) * (np.arange(count) + 0.5) / count
    angles = np.pi * (3 - np.sqrt(5)) * np.arange(count)
    radii = np.sqrt(1 - heights**2)
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles), heights])
