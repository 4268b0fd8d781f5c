"""Codes with an ℓ1 penalty in large dictionaries: small problems on working sets of atoms, one per signal.

The correlations of all atoms with the residuals are computed between the two steps, for many signals together.
`choose` measures the duality gap, and adds the atoms that violate optimality most to the working set. `refit`
solves the problem on the working set by its own Gram matrix, with the active sets of `papilio.kernels.active_set`.
"""

from typing import Any, NamedTuple

import numpy as np

from ..typing import Array
from .active_set import _solve, _steepest, gap_of
from .pursuit import _subtract, compiled, inner

_ROUNDING = 64  # rounding errors by which a correlation may exceed its weight
_LEAST = 8  # atoms that may enter a working set at a time


class Working(NamedTuple):
    """The working set of each signal; all but the counts have room for more atoms."""

    atoms: Array  # (n, room)
    counts: Array  # (n,)
    added: Array  # (n,): how many atoms come after these, and are not in the Gram matrix yet
    codes: Array  # (n, room): of signals and atoms of unit norm
    targets: Array  # (n, room): correlations with the signal
    grams: Array  # (n, room, room)
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

    ``correlations[n]`` are those of the residual of signal ``active[n]``. ``weights`` are sizes, penalties and
    levels as in `code_by_gram`, ``options`` too. No more atoms are added than half of those that are in use.
    """
    state = Working(*state)
    sizes, penalties, levels = weights
    positive, tol, eps, _ = options
    quarter = np.empty(signals.shape[1] // 4 + 1, signals.dtype)
    best, candidates = np.empty(state.atoms.shape[1]), np.empty(8, np.int64)
    for n in range(start, stop):
        s, rho = active[n], correlations[n]
        level, count = levels[s], state.counts[s]
        penalty, used = 0.0, 0
        for i in range(count):
            if state.codes[s, i] != 0:
                penalty += penalties[state.atoms[s, i]] * abs(state.codes[s, i])
                used += 1
        _steepest(rho, sizes, positive, level, candidates)
        j = candidates[0]
        top = max(rho[j] * sizes[j], 0.0) if positive else abs(rho[j] * sizes[j])
        square = inner(residuals[s], residuals[s], quarter)
        product = inner(signals[s], residuals[s], quarter)
        state.gaps[s] = gap_of(square, product, level * penalty, top / level)
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
            k = found if found < most else most - 1  # by descending violation; the last one drops out
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
def refit(
    state: Any,
    signals: Array,
    residuals: Array,
    rows: Array,
    scales: Array,
    weights: Any,
    active: Array,
    width: int,
    options: Any,
    start: int,
    stop: int,
) -> None:
    """Solve the problem on the working set of each signal in ``active[start:stop]``; the residuals follow.

    ``rows[j]`` times ``scales[j]`` is the atom d_j. A support has less than ``width`` atoms.
    """
    state = Working(*state)
    sizes, penalties, levels = weights
    positive, _, eps, max_iter = options
    room = state.atoms.shape[1]
    width = min(width, room + 1)
    inverse, numbers = np.empty((width, width)), np.zeros((4, width))
    multiples, places = np.empty(width, rows.dtype), np.empty(width, np.int64)
    rho, local_sizes, local_penalties = np.empty(room, rows.dtype), np.empty(room, sizes.dtype), np.empty(room)
    chosen, code, candidates = np.empty(width, np.int64), np.empty(width), np.empty(8, np.int64)
    quarter = np.empty(signals.shape[1] // 4 + 1, rows.dtype)
    for n in range(start, stop):
        s = active[n]
        count = state.counts[s] + state.added[s]
        atoms, codes, targets, gram = state.atoms[s], state.codes[s], state.targets[s], state.grams[s]
        for i in range(state.counts[s], count):
            atom, scale = rows[atoms[i]], scales[atoms[i]]
            targets[i] = inner(signals[s], atom, quarter) * scale
            gram[i, i] = 1
            for t in range(i):
                gram[i, t] = inner(atom, rows[atoms[t]], quarter) * (scale * scales[atoms[t]])
                gram[t, i] = gram[i, t]
        state.counts[s], state.added[s] = count, 0
        used = 0
        for i in range(count):
            rho[i], local_sizes[i], local_penalties[i] = targets[i], sizes[atoms[i]], penalties[atoms[i]]
            if codes[i] != 0 and used < width - 1:
                chosen[used], code[used] = i, codes[i]
                used += 1
            codes[i] = 0
        used, _, _, is_sound = _solve(
            rho[:count],
            targets[:count],
            gram,
            local_sizes[:count],
            local_penalties[:count],
            levels[s],
            chosen,
            code,
            used,
            (inverse, numbers, multiples, places, candidates),
            (positive, 0.0, eps, max_iter),
        )
        residuals[s] = signals[s]
        for i in range(used):
            codes[chosen[i]] = code[i]
            places[i] = atoms[chosen[i]]
            multiples[i] = code[i] * scales[places[i]]
        _subtract(residuals[s], rows, places[:used], multiples)
        if not is_sound:
            state.gaps[s], state.done[s] = np.inf, True
