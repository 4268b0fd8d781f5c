"""A chain kernel by kernel: split one off an atom, go on with what is left.

A chain of many kernels has many local minima. Split into one kernel and all others together, whose product may
have any values at the sums of their places, it has far fewer: for four planted kernels of 3×3, one random start
in five is exact, instead of one in thirty. What remains is an atom of one kernel less.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..constraints.places import Grid
from ..runtime.session import Session
from ..typing import Array
from .descent import Chains
from .spectra import Places, Spectra, correlations, cropped, spectra_of

_SWEEPS, _LEAPS = 2, 80
_ROUNDING = 1e-11  # the relative error of a split that counts as exact
_RIDGE = 1e-12  # times the mean of the diagonal
_MOST_PLACES = 300  # of all others together
_MOST_WORK = 3e8  # multiplications of a joint step of all restarts


def of_atom(atom: Array) -> Spectra:
    """The data of an atom, whose code is a single one."""
    unit = np.zeros((1, *atom.shape), atom.dtype)
    unit[0].flat[0] = 1
    return spectra_of(atom[None], unit, atom.ndim)


def sums_of(supports: Sequence[Array], grid: Grid) -> Array:
    """All sums of one place of each kernel, on a periodic grid."""
    sides = np.array(grid)
    return reduce(
        lambda left, right: np.unique((left[:, None] + right).reshape(-1, len(grid)) % sides, axis=0), supports
    )


def random_kernels(random: np.random.RandomState, count: int, n_places: int, is_real: bool) -> Array:
    """(count, n_places) Gaussian numbers."""
    drawn = random.standard_normal((count, n_places))
    return drawn if is_real else drawn + 1j * random.standard_normal((count, n_places))


def composed(data: Spectra, supports: Sequence[Array], grid: Grid, is_real: bool) -> Array | None:
    """The best values of the whole chain at the sums of all places, whatever its kernels; None for too many."""
    sums = sums_of(supports, grid)
    if len(sums) > _MOST_PLACES:
        return None
    energies, products = np.abs(data.code) ** 2, data.code.conj() * data.signal
    autocorrelation, correlation = (correlations(each, grid, is_real) for each in (energies, products))
    differences = (sums[:, None] - sums) % np.array(grid)
    gram = autocorrelation[tuple(np.moveaxis(differences, -1, 0))]
    gram[np.diag_indices(len(sums))] += _RIDGE * np.trace(gram).real / len(sums)
    atom = np.zeros(grid, correlation.dtype)
    atom[tuple(sums.T)] = np.linalg.solve(gram, correlation[tuple(sums.T)])
    return atom


def split_kernels(
    session: Session, atom: Array, supports: Sequence[Array], n_restarts: int, is_real: bool
) -> list[Array] | None:
    """The kernels of an atom, one split off after the other; None if a split says nothing, or takes too long."""
    found: list[Array] = []
    remaining = list(supports)
    while len(remaining) > 1:
        part, moved, _ = cropped(atom, remaining)
        others = sums_of(moved[1:], part.shape)
        n_values = len(others) + len(moved[0])
        restarts = min(n_restarts, int(_MOST_WORK / (n_values**2 * part.size)))
        is_last = len(moved) == 2
        if not is_last and n_values > len(sums_of(moved, part.shape)):
            return None  # any kernel would do
        if len(others) > _MOST_PLACES or restarts < min(n_restarts, 4) or not part.any():
            return None
        places = [Places(others, part.shape, is_real), Places(moved[0], part.shape, is_real)]
        starts = [random_kernels(session.random, restarts, len(each.waves), is_real) for each in places]
        rest, kernel = _best_split(session, Chains(of_atom(part), places, starts))
        found.append(kernel)
        atom = np.zeros(part.shape, part.dtype)
        atom[tuple(others.T)] = rest
        remaining = moved[1:]
    # The last kernel alone is what is left, at its places.
    sides = np.array(atom.shape)
    return [*found, atom[tuple((remaining[0] % sides).T)]]


def _best_split(session: Session, chains: Chains) -> list[Array]:
    chains.balance()
    goal = _ROUNDING**2 * chains.data.energy
    for step in range(_SWEEPS + _LEAPS):
        session.check()
        chains.sweep() if step < _SWEEPS else chains.leap()
        if chains.errors.min() <= goal:
            break
    best = int(np.argmin(chains.errors))
    return [kernel[best] for kernel in chains.kernels]
