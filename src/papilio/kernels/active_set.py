"""Codes with an ℓ1 penalty, min ½‖x − Dγ‖² + Σ w_j|γ_j|, on correlations and a Gram matrix, by active sets.

For a signal x of unit norm and the support I with signs θ, L is the Cholesky factor of the atoms' Gram matrix,
G_II = LLᵀ, and the code is optimal on its support: the correlations ρ = Dᵀ(x − Dγ) have ρ_i = w_i θ_i there. The
atom j of largest |ρ_j|/w_j enters with the sign of ρ_j. The code then moves towards the optimum of the new support
with these signs, G_II δ = v, where v = ρ − wθ is zero but for j. Coefficients that reach zero on the way leave,
and the rest moves on. The objective falls in each step, so that no support comes twice.

An atom that depends on the support cannot enter L. As d_j = D_I a, the residual stays what it is along
γ_j + tθ_j, γ_I − tθ_j a, on which the penalty falls, until a coefficient is zero and leaves.

The gap: with r = x − Dγ, any θ = s·r with s|ρ_j| ≤ w_j gives the lower bound s⟨x, r⟩ − ½s²‖r‖² of the optimum.
"""

from typing import Any

import numpy as np

from ..typing import Array
from .nonnegative import _remove_row
from .pursuit import _add_row, _bits, _subtract, compiled

_ROUNDING = 16  # rounding errors by which a correlation may exceed its weight
_POLISHES = 4  # corrections of the support's own correlations


@compiled
def code_by_gram(
    correlations: Array,
    rows: Array,
    sizes: Array,
    penalties: Array,
    levels: Array,
    init: Any,
    codes: Any,
    options: Any,
    start: int,
    stop: int,
) -> None:
    """Codes of the signals from ``start`` to ``stop``, of unit norm, in unit-norm atoms with Gram matrix ``rows``.

    ``correlations`` are Dᵀx, a signal per row, and become those of the residuals. w_j is a signal's level times
    ``penalties[j]``, which is 1/``sizes[j]``; a signal of zeros has an infinite level. ``init`` are the codes to
    start from: pointers, atoms, values. ``codes`` are room for the results: atoms and values, one place wider than
    a support can be, their counts, the gaps, and whether all is done. ``options`` are: whether codes must not be
    negative, the gap to end at, the rounding error of correlations, and the largest number of steps.
    """
    pointers, indices, values = init
    chosen, coefficients, counts, gaps, done = codes
    width = chosen.shape[1]
    L, numbers = np.empty((width, width)), np.zeros((4, width))
    weights, places = np.empty(width, correlations.dtype), np.empty(width, np.int64)
    targets = np.empty(correlations.shape[1], correlations.dtype)
    for s in range(start, stop):
        counts[s], gaps[s], done[s] = 0, 0.0, True
        if levels[s] == np.inf:
            continue
        rho = correlations[s]
        targets[:] = rho
        active = min(pointers[s + 1] - pointers[s], width - 1)
        for i in range(active):
            chosen[s, i] = indices[pointers[s] + i]
            coefficients[s, i] = values[pointers[s] + i]
        rooms = L, numbers, weights, places
        counts[s], _, gaps[s], done[s] = _solve(
            rho, targets, rows, sizes, penalties, levels[s], chosen[s], coefficients[s], active, rooms, options
        )


@compiled
def _solve(
    rho: Array,
    targets: Array,
    rows: Array,
    sizes: Array,
    penalties: Array,
    level: float,
    chosen: Array,
    code: Array,
    active: int,
    rooms: Any,
    options: Any,
) -> tuple[int, int, float, bool]:
    """The code of one signal: the size of its support, steps, gap, and whether it is optimal, as far as is wanted.

    ``rho`` is ``targets`` at first, Dᵀx; ``chosen`` and ``code`` hold a code to start from, of ``active`` atoms.
    """
    L, numbers, weights, places = rooms
    positive, tol, eps, max_iter = options
    change, sign, excess, room = numbers[0], numbers[1], numbers[2], numbers[3]
    polishes, gap = 0, 0.0
    change[:] = 0
    if active:
        for i in range(active):
            weights[i], places[i] = code[i], chosen[i]
        _subtract(rho, rows, places[:active], weights)
        total = active
        active = _factorize(rows, active, chosen, code, change, sign, L, room, eps)
        active = _settle(rho, rows, penalties, level, active, total, chosen, code, rooms)
    for step in range(max_iter):
        j = _steepest(rho, sizes, positive)
        gap = _gap(rho, targets, penalties, level, rho[j] * sizes[j], positive, chosen, code, active)
        if gap <= tol:
            return active, step, gap, True
        theta = 1.0 if rho[j] > 0 else -1.0
        missing = rho[j] - theta * level * penalties[j]
        if missing * theta <= _ROUNDING * eps or (positive and theta < 0):
            return active, step, gap, True
        total = active
        for i in range(active):
            if chosen[i] == j:  # rounding has added up
                total = -1
        if total < 0:
            polishes += 1
            if polishes > _POLISHES:
                return active, step, gap, True
            active = _settle(rho, rows, penalties, level, active, active, chosen, code, rooms)
            continue
        total += 1
        active, entered = _enter(j, theta, rows, active, chosen, code, change, sign, L, room, eps)
        if entered:
            excess[:active] = 0
            excess[active - 1] = missing
            active = _advance(active - 1, active, chosen, code, change, sign, excess, L, room)
        _apply(rho, rows, total, chosen, change, weights, places)
        if not entered:
            return active, step, gap, False
    return active, max_iter, gap, False


@compiled
def _factorize(
    rows: Array,
    total: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    L: Array,
    room: Array,
    eps: float,
) -> int:
    """L of a support to start from; atoms that depend on others leave it. Returned is how many stay."""
    active, left = 0, total
    while active < left:
        for i in range(active):
            room[i] = rows[chosen[active], chosen[i]]
        if code[active] == 0 or _add_row(room[:active], L, eps) == 0:
            change[active] = -code[active]
            code[active] = 0
            left -= 1
            _move(active, left, chosen, code, change, sign)
            continue
        sign[active] = 1.0 if code[active] > 0 else -1.0
        active += 1
    return active


@compiled
def _settle(
    rho: Array,
    rows: Array,
    penalties: Array,
    level: float,
    active: int,
    total: int,
    chosen: Array,
    code: Array,
    rooms: Any,
) -> int:
    """Make the code optimal on its support, whatever the correlations there are, and return how many are left.

    Of ``total`` atoms the first ``active`` ones are the support; the others have just left it.
    """
    L, numbers, weights, places = rooms
    change, sign, excess, room = numbers[0], numbers[1], numbers[2], numbers[3]
    _apply(rho, rows, total, chosen, change, weights, places)
    for i in range(active):
        excess[i] = rho[chosen[i]] - sign[i] * level * penalties[chosen[i]]
    left = _advance(0, active, chosen, code, change, sign, excess, L, room)
    _apply(rho, rows, active, chosen, change, weights, places)
    return left


@compiled
def _apply(
    rho: Array, rows: Array, total: int, chosen: Array, change: Array, weights: Array, places: Array
) -> None:
    """Bring the correlations up to date with all changes, which are then none."""
    changed = 0
    for i in range(total):
        if change[i] != 0:
            weights[changed] = change[i]
            places[changed] = chosen[i]
            changed += 1
            change[i] = 0
    _subtract(rho, rows, places[:changed], weights)


@compiled
def _enter(
    j: int,
    theta: float,
    rows: Array,
    active: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    L: Array,
    room: Array,
    eps: float,
) -> tuple[int, bool]:
    """Add an atom as the last of the support: its size, and whether the atom is in it."""
    chosen[active], code[active], change[active], sign[active] = j, 0.0, 0.0, theta
    for _ in range(active + 1):
        m = active  # the place of the atom
        for i in range(m):
            room[i] = rows[j, chosen[i]]
        if _add_row(room[:m], L, eps) > 0 and m + 1 < code.size:
            return m + 1, True
        for i in range(m):  # the row of L is there in any case: L⁻¹G_Ij
            room[i] = L[m, i]
        _solve_transposed(L, room, m)
        length, blocked = np.inf, -1
        for i in range(m):
            if theta * room[i] * sign[i] > 0 and abs(code[i]) < length * abs(room[i]):
                length, blocked = abs(code[i] / room[i]), i
        if blocked < 0:
            return m, False
        for i in range(m):
            code[i] -= length * theta * room[i]
            change[i] -= length * theta * room[i]
        code[m] += length * theta
        change[m] += length * theta
        for i in range(m - 1, -1, -1):
            if i == blocked or code[i] * sign[i] <= 0:
                change[i] -= code[i]
                code[i] = 0
                _remove_row(i, active, L)
                _move(i, m, chosen, code, change, sign)
                active -= 1
    return active, False


@compiled
def _advance(
    first: int,
    active: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    excess: Array,
    L: Array,
    room: Array,
) -> int:
    """Move the code to the optimum on its support, and return how many coefficients are left.

    ``excess`` is ρ − wθ on the support, and zero before its ``first`` place. Coefficients that reach zero on the
    way leave.
    """
    while active > 0:
        for i in range(first):
            room[i] = 0
        for i in range(first, active):
            value = excess[i]
            for t in range(first, i):
                value -= L[i, t] * room[t]
            room[i] = value * L[i, i]
        _solve_transposed(L, room, active)
        length, blocked = 1.0, -1
        for i in range(active):
            if (code[i] + room[i]) * sign[i] <= 0 and abs(code[i]) <= length * abs(room[i]):
                length, blocked = abs(code[i] / room[i]) if room[i] != 0 else 0.0, i
        for i in range(active):
            code[i] += length * room[i]
            change[i] += length * room[i]
        if blocked < 0:
            break
        for i in range(first, active):
            excess[i] *= 1 - length
        for i in range(active - 1, -1, -1):
            if i == blocked or code[i] * sign[i] <= 0:
                change[i] -= code[i]
                code[i] = 0
                _remove_row(i, active, L)
                _move(i, active - 1, chosen, code, change, sign)
                for t in range(i, active - 1):
                    excess[t] = excess[t + 1]
                if i < first:
                    first -= 1
                active -= 1
    return active


@compiled
def _solve_transposed(L: Array, room: Array, active: int) -> None:
    """L⁻ᵀ times a vector, in its place; L has 1/ℓ on its diagonal."""
    for i in range(active - 1, -1, -1):
        row, value = L[i], room[i] * L[i, i]
        room[i] = value
        for t in range(i):
            room[t] -= value * row[t]


@compiled
def _move(i: int, to: int, chosen: Array, code: Array, change: Array, sign: Array) -> None:
    """Move an atom to a later place; those between make room."""
    atom, value, delta, theta = chosen[i], code[i], change[i], sign[i]
    while i < to:
        chosen[i], code[i], change[i], sign[i] = chosen[i + 1], code[i + 1], change[i + 1], sign[i + 1]
        i += 1
    chosen[to], code[to], change[to], sign[to] = atom, value, delta, theta


@compiled
def _steepest(rho: Array, sizes: Array, positive: bool) -> int:
    """The first atom of largest |ρ_j|·sizes_j, or of largest ρ_j·sizes_j; for the bits see `_largest`."""
    top, begin = _bits(abs(rho[0] * 0)), 0
    for first in range(0, rho.size, 128):
        block, factors, largest = rho[first : first + 128], sizes[first : first + 128], top
        if positive:
            for k in range(block.size):
                largest = max(largest, _bits(block[k] * factors[k]))
        else:
            for k in range(block.size):
                largest = max(largest, _bits(abs(block[k] * factors[k])))
        if largest > top:
            top, begin = largest, first
    for k in range(begin, rho.size):
        value = rho[k] * sizes[k]
        if _bits(value if positive else abs(value)) == top:
            return k
    return begin


@compiled
def _gap(
    rho: Array,
    targets: Array,
    penalties: Array,
    level: float,
    top: float,
    positive: bool,
    chosen: Array,
    code: Array,
    active: int,
) -> float:
    """The duality gap, for a signal of unit norm; ``top`` is the largest ρ_j·sizes_j, or that of largest size."""
    fitted, left, penalty = 0.0, 0.0, 0.0
    for i in range(active):
        fitted += targets[chosen[i]] * code[i]
        left += rho[chosen[i]] * code[i]
        penalty += penalties[chosen[i]] * abs(code[i])
    return gap_of(
        1 - fitted - left, 1 - fitted, level * penalty, (max(top, 0.0) if positive else abs(top)) / level
    )


@compiled
def gap_of(square: float, product: float, penalty: float, ratio: float) -> float:
    """The duality gap, given ‖r‖², ⟨x, r⟩, Σ w_j|γ_j| and the largest ρ_j/w_j."""
    square = max(square, 0.0)
    scale = max(product, 0.0) / square if square > 0 else np.inf
    if ratio * scale > 1:
        scale = 1 / ratio
    if scale == np.inf:
        return penalty  # an exact fit
    return 0.5 * square + penalty - scale * product + 0.5 * scale * scale * square
