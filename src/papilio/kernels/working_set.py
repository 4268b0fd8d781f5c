"""Codes with an ℓ1 penalty in large dictionaries: small problems on working sets of atoms, one per signal.

The correlations of all atoms with the residuals are computed for many signals together. `choose` measures the
duality gap, and adds the atoms that violate optimality most to the working sets. `extend_sets` makes their own
Gram matrices, on which `papilio.kernels.active_set` solves the small problems. `subtract_codes` ends a round.
"""

from typing import Any, NamedTuple

import numpy as np

from ..typing import Array
from .active_set import _BLOCKS, _steepest, gap_of
from .pursuit import _subtract, compiled, inner

_ROUNDING = 64  # rounding errors by which a correlation may exceed its weight
_LEAST = 8  # atoms that may enter a working set at a time


class Working(NamedTuple):
    """The working set of each signal, with room for more atoms, and its problem."""

    atoms: Array  # (n, room)
    counts: Array  # (n,): of atoms
    added: Array  # (n,): how many atoms come after these, and are not in the Gram matrix yet
    targets: Array  # (n, room): correlations with the signal
    grams: Array  # (n, room, room)
    sizes: Array  # (n, room): norms of the atoms
    penalties: Array  # (n, room): their inverses
    chosen: Array  # (n, width): places of the support in the working set
    codes: Array  # (n, width): its coefficients
    used: Array  # (n,): how many there are
    gaps: Array  # (n,): duality gaps; infinite if a problem could not be solved
    done: Array  # (n,): of bool


@compiled
def choose(
    state: Any,
    signals: Array,
    residuals: Array,
    correlations: Array,
    weights: Any,
    active: Array,
    options: Any,
    start: int,
    stop: int,
) -> None:
    """Add atoms to the working sets of the signals ``active[start:stop]``, or end those whose gap is small enough.

    ``correlations[n]`` are those of the residual of signal ``active[n]``. ``weights`` are sizes and penalties of
    all atoms, and the levels of the signals. No more atoms are added than half of those that are in use, or eight.
    """
    state = Working(*state)
    sizes, penalties, levels = weights
    positive, tol, eps, _ = options
    quarter = np.empty(signals.shape[1] // 4 + 1)
    best, candidates = np.empty(state.atoms.shape[1]), np.empty(_BLOCKS, np.int64)
    for n in range(start, stop):
        s, rho = active[n], correlations[n]
        level, count, used = levels[s], state.counts[s], state.used[s]
        penalty = 0.0
        for i in range(used):
            penalty += state.penalties[s, state.chosen[s, i]] * abs(state.codes[s, i])
        _steepest(rho, sizes, positive, level, candidates)
        top = rho[candidates[0]] * sizes[candidates[0]]
        square = inner(residuals[s], residuals[s], quarter)
        product = inner(signals[s], residuals[s], quarter)
        ratio = (max(top, 0.0) if positive else abs(top)) / level
        state.gaps[s] = gap_of(square, product, level * penalty, ratio)
        most, found = min(max(_LEAST, used // 2), best.size - count), 0
        if state.gaps[s] <= tol:
            most = 0
        chosen, least = state.atoms[s, count:], 0.0
        for j in range(rho.size if most else 0):
            value = rho[j] if positive else abs(rho[j])
            if value - level * penalties[j] <= _ROUNDING * eps or value * sizes[j] <= least:
                continue
            is_new = True
            for i in range(count):
                is_new &= state.atoms[s, i] != j
            if not is_new:
                continue
            k = found if found < most else most - 1  # In the order of violations; the last one is dropped.
            while k > 0 and best[k - 1] < value * sizes[j]:
                best[k], chosen[k] = best[k - 1], chosen[k - 1]
                k -= 1
            best[k], chosen[k] = value * sizes[j], j
            found = min(found + 1, most)
            if found == most:
                least = best[most - 1]
        state.added[s] = found
        state.done[s] = found == 0


@compiled
def extend_sets(
    state: Any,
    signals: Array,
    rows: Array,
    scales: Array,
    weights: Any,
    correlations: Array,
    active: Array,
    start: int,
    stop: int,
) -> None:
    """Make the problems of the signals ``active[start:stop]`` those of their new working sets.

    ``rows[j]`` times ``scales[j]`` is the atom d_j. ``correlations`` become those of the sets with the signals.
    """
    state = Working(*state)
    sizes, penalties, _ = weights
    quarter = np.empty(signals.shape[1] // 4 + 1)
    for n in range(start, stop):
        s = active[n]
        count = state.counts[s] + state.added[s]
        atoms, gram = state.atoms[s], state.grams[s]
        for i in range(state.counts[s], count):
            atom, scale = rows[atoms[i]], scales[atoms[i]]
            state.targets[s, i] = inner(signals[s], atom, quarter) * scale
            state.sizes[s, i], state.penalties[s, i] = sizes[atoms[i]], penalties[atoms[i]]
            gram[i, i] = 1
            for t in range(i):
                gram[i, t] = inner(atom, rows[atoms[t]], quarter) * (scale * scales[atoms[t]])
                gram[t, i] = gram[i, t]
        state.counts[s], state.added[s] = count, 0
        for i in range(count):
            correlations[s, i] = state.targets[s, i]


@compiled
def subtract_codes(
    state: Any, signals: Array, residuals: Array, rows: Array, scales: Array, active: Array, start: int, stop: int
) -> None:
    """The residuals x − Dγ of the signals ``active[start:stop]``."""
    state = Working(*state)
    multiples, places = np.empty(state.codes.shape[1]), np.empty(state.codes.shape[1], np.int64)
    for n in range(start, stop):
        s = active[n]
        residuals[s] = signals[s]
        for i in range(state.used[s]):
            places[i] = state.atoms[s, state.chosen[s, i]]
            multiples[i] = state.codes[s, i] * scales[places[i]]
        _subtract(residuals[s], rows, places[: state.used[s]], multiples)
