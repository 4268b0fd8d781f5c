"""Codes with an ℓ1 penalty, min ½‖x − Dγ‖² + Σ w_j|γ_j|, on correlations and a Gram matrix, by active sets.

For a signal x of unit norm and the support I with signs θ, the inverse of the atoms' Gram matrix G_II is kept, and
the code is optimal on its support: the correlations ρ = Dᵀ(x − Dγ) have ρ_i = w_i θ_i there. The atom j of largest
|ρ_j|/w_j enters with the sign of ρ_j, and so do a few others that violate optimality nearly as much. The code then
moves towards the optimum of the new support with these signs, G_II δ = v, where v = ρ − wθ is zero but for the new
atoms. Coefficients that reach zero on the way leave, and the rest moves on. The objective falls in each step, so
that no support comes twice. Errors of the inverse do no harm: ρ follows all changes, v is made zero in the end.

An atom that depends on the support cannot enter the inverse. As d_j = D_I a, the residual stays what it is along
γ_j + tθ_j, γ_I − tθ_j a, on which the penalty falls, until a coefficient is zero and leaves.

The gap: with r = x − Dγ, any θ = s·r with s|ρ_j| ≤ w_j gives the lower bound s⟨x, r⟩ − ½s²‖r‖² of the optimum.
"""

from typing import Any

import numpy as np
from numba import njit

from ..typing import Array
from .cache import kernel
from .pursuit import _bits, _subtract, compiled

# Only `code_by_gram` and `choose` are called from Python; helpers without wrappers compile faster.
helper = kernel(nogil=True, fastmath={"contract", "nsz", "nnan"}, no_cpython_wrapper=True)
inlined = njit(inline="always", nogil=True)

_ROUNDING = 16  # rounding errors by which a correlation may exceed its weight
_POLISHES = 4  # corrections of the support's own correlations
_DEPENDENT = 64  # rounding errors in the squared distance of an atom from the span of others
_BLOCK = 64  # atoms of which one may enter at a time, and the largest number of such blocks
_BLOCKS = 8
_NEARLY = 0.5  # Relative to the largest violation.


@compiled
def code_by_gram(
    correlations: Array, grams: Array, weights: Any, codes: Any, which: Array, options: Any, start: int, stop: int
) -> None:
    """Codes of the signals ``which[start:stop]``, of unit norm, in atoms of unit norm.

    ``correlations`` are Dᵀx, a signal per row, and become those of the residuals. ``grams`` are one Gram matrix
    for all signals, or one for each, and ``weights`` are sizes and penalties, one row of each or one per signal,
    then the levels of the signals and the numbers of their atoms: w_j is level times penalty, which is 1/size.
    ``codes`` are atoms and values, one place wider than a support can be, their counts, the gaps, and whether all
    is done; what atoms and values are there is where the method starts. ``options`` are: whether codes must not be
    negative, the gap to end at, the rounding error of correlations, and the largest number of steps.
    """
    sizes, penalties, levels, lengths = weights
    chosen, coefficients, counts, gaps, done = codes
    width = chosen.shape[1]
    rooms = (
        np.empty((width, width)),
        np.zeros((4, width)),
        np.empty(width),
        np.empty(width, np.int64),
        np.empty(_BLOCKS, np.int64),
    )
    targets = np.empty(correlations.shape[1])
    for n in range(start, stop):
        s = which[n]
        own, length = s if len(grams) > 1 else 0, lengths[s]
        for k in range(length):
            targets[k] = correlations[s, k]
        rho, rows = correlations[s][:length], grams[own]
        counts[s], gaps[s], done[s] = _solve(
            rho,
            targets,
            rows,
            sizes[own],
            penalties[own],
            levels[s],
            chosen[s],
            coefficients[s],
            counts[s],
            rooms,
            options,
        )


@inlined
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
) -> tuple[int, float, bool]:
    """The code of one signal: the size of its support, the gap, and whether it is optimal, as far as is wanted.

    ``rho`` is ``targets`` at first, Dᵀx; ``chosen`` and ``code`` hold a code to start from, of ``active`` atoms.
    """
    inverse, numbers, weights, places, candidates = rooms
    positive, tol, eps, max_iter = options
    change, sign, excess, room = numbers[0], numbers[1], numbers[2], numbers[3]
    polishes, gap = 0, 0.0
    change[:] = 0
    if active:
        for i in range(active):
            weights[i], places[i] = code[i], chosen[i]
        _subtract(rho, rows, places[:active], weights)
        total = active
        active = _factorize(rows, active, chosen, code, change, sign, inverse, room, eps)
        active = _settle(rho, rows, penalties, level, active, total, chosen, code, rooms)
    for _ in range(max_iter):
        count = _steepest(rho, sizes, positive, level, candidates)
        j = candidates[0]
        gap = _gap(rho, targets, penalties, level, rho[j] * sizes[j], positive, chosen, code, active)
        if gap <= tol:
            return active, gap, True
        is_over = abs(rho[j]) - level * penalties[j] <= _ROUNDING * eps or (positive and rho[j] <= 0)
        if is_over or _is_in(j, chosen, active):
            # Only rounding is left, which may have added up on the support.
            polishes += 1
            if polishes > _POLISHES or _largest_excess(rho, penalties, level, chosen, sign, active) <= 4 * eps:
                return active, gap, True
            active = _settle(rho, rows, penalties, level, active, active, chosen, code, rooms)
            continue
        before = active
        active, entered = _enter(j, rho[j], rows, active, chosen, code, change, sign, inverse, room, eps)
        if not entered:
            _apply(rho, rows, before + 1, chosen, change, weights, places)
            return active, gap, False
        total = before + 1
        for i in range(active - 1):
            excess[i] = 0
        excess[active - 1] = rho[j] - sign[active - 1] * level * penalties[j]
        for c in range(1, count if active == total else 1):  # unless atoms have left for the first one
            j = candidates[c]
            is_over = abs(rho[j]) - level * penalties[j] <= _ROUNDING * eps
            if active + 1 == code.size or is_over or _is_in(j, chosen, active):
                continue
            if _insert(j, rho[j], rows, active, chosen, code, change, sign, inverse, room, eps) > 0:
                excess[active] = rho[j] - sign[active] * level * penalties[j]
                active += 1
                total += 1
        active = _advance(active, chosen, code, change, sign, excess, inverse, room)
        _apply(rho, rows, total, chosen, change, weights, places)
    return active, gap, False


@helper
def _is_in(atom: int, chosen: Array, active: int) -> bool:
    found = False
    for i in range(active):
        found |= chosen[i] == atom
    return found


@helper
def _largest_excess(rho: Array, penalties: Array, level: float, chosen: Array, sign: Array, active: int) -> float:
    """The largest |ρ − wθ| on the support."""
    largest = 0.0
    for i in range(active):
        largest = max(largest, abs(rho[chosen[i]] - sign[i] * level * penalties[chosen[i]]))
    return largest


@helper
def _factorize(
    rows: Array,
    total: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    inverse: Array,
    room: Array,
    eps: float,
) -> int:
    """The inverse for a support to start from; atoms that depend on others leave it. Returned is how many stay."""
    active, left = 0, total
    while active < left:
        j, value = chosen[active], code[active]
        if value != 0 and _insert(j, value, rows, active, chosen, code, change, sign, inverse, room, eps) > 0:
            code[active] = value
            active += 1
            continue
        left -= 1
        chosen[active], code[active] = chosen[left], code[left]
        chosen[left], code[left], change[left] = j, 0.0, -value
    return active


@helper
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
    inverse, numbers, weights, places, _ = rooms
    change, sign, excess, room = numbers[0], numbers[1], numbers[2], numbers[3]
    _apply(rho, rows, total, chosen, change, weights, places)
    for i in range(active):
        excess[i] = rho[chosen[i]] - sign[i] * level * penalties[chosen[i]]
    left = _advance(active, chosen, code, change, sign, excess, inverse, room)
    _apply(rho, rows, active, chosen, change, weights, places)
    return left


@helper
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


@helper
def _enter(
    j: int,
    correlation: float,
    rows: Array,
    active: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    inverse: Array,
    room: Array,
    eps: float,
) -> tuple[int, bool]:
    """Add an atom as the last of the support: its size, and whether the atom is in it.

    Others may leave, and come after it.
    """
    moved = 0.0  # the coefficient of the atom so far
    for _ in range(active + 1):
        m = active
        square = _insert(j, correlation, rows, m, chosen, code, change, sign, inverse, room, eps)
        theta = sign[m]
        code[m] = change[m] = moved
        if square > 0 and m + 1 < code.size:
            return m + 1, True
        length, blocked = np.inf, -1
        for i in range(m):
            if theta * room[i] * sign[i] > 0 and abs(code[i]) < length * abs(room[i]):
                length, blocked = abs(code[i] / room[i]), i
        if blocked < 0:
            return m, False
        for i in range(m):
            code[i] -= length * theta * room[i]
            change[i] -= length * theta * room[i]
        moved += length * theta
        for i in range(m - 1, -1, -1):
            if i == blocked or code[i] * sign[i] <= 0:
                _leave(i, active, chosen, code, change, sign, room, inverse)
                active -= 1
                # The atom is to come next, and the one that left after it.
                last = active
                chosen[last + 1], code[last + 1], change[last + 1] = chosen[last], code[last], change[last]
    return active, False


@helper
def _insert(
    j: int,
    correlation: float,
    rows: Array,
    m: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    inverse: Array,
    room: Array,
    eps: float,
) -> float:
    """Put an atom with coefficient zero after the support: its squared distance from the span of that.

    The inverse follows, unless the distance is zero up to rounding, which is what is returned then. ``room`` holds
    G_II⁻¹G_Ij, the coefficients of the nearest point in that span.
    """
    gram = rows[j]
    for i in range(m):
        room[i] = 0
    for t in range(m):
        row, value = inverse[t], gram[chosen[t]]
        for i in range(m):
            room[i] += value * row[i]
    square = 1.0
    for i in range(m):
        square -= gram[chosen[i]] * room[i]
    chosen[m], code[m], change[m] = j, 0.0, 0.0
    sign[m] = 1.0 if correlation > 0 else -1.0
    if square <= _DEPENDENT * eps or m + 1 >= code.size:
        return 0.0
    for t in range(m):
        row, value = inverse[t], room[t] / square
        for i in range(m):
            row[i] += value * room[i]
        row[m] = -value
        inverse[m, t] = -value
    inverse[m, m] = 1 / square
    return square


@helper
def _leave(
    k: int,
    active: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    excess: Array,
    inverse: Array,
) -> None:
    """Take the k-th atom out of the support: it changes places with the last one."""
    last = active - 1
    change[k] -= code[k]
    code[k] = 0
    pivot = inverse[k]
    for t in range(active):
        if t != k:
            row, value = inverse[t], inverse[t, k] / pivot[k]
            for i in range(active):
                row[i] -= value * pivot[i]
    if k == last:
        return
    for t in range(active):
        inverse[t, k] = inverse[t, last]
    for t in range(active):
        inverse[k, t] = inverse[last, t]
    chosen[k], chosen[last] = chosen[last], chosen[k]
    code[k], code[last] = code[last], code[k]
    change[k], change[last] = change[last], change[k]
    sign[k], excess[k] = sign[last], excess[last]


@helper
def _advance(
    active: int,
    chosen: Array,
    code: Array,
    change: Array,
    sign: Array,
    excess: Array,
    inverse: Array,
    room: Array,
) -> int:
    """Move the code to the optimum on its support, and return how many coefficients are left.

    ``excess`` is ρ − wθ on the support. Coefficients that reach zero on the way leave.
    """
    while active > 0:
        for i in range(active):
            room[i] = 0
        for t in range(active):
            if excess[t] != 0:
                row, value = inverse[t], excess[t]
                for i in range(active):
                    room[i] += value * row[i]
        length, blocked = 1.0, -1
        for i in range(active):
            if (code[i] + room[i]) * sign[i] <= 0 and abs(code[i]) <= length * abs(room[i]):
                length, blocked = abs(code[i] / room[i]) if room[i] != 0 else 0.0, i
        for i in range(active):
            code[i] += length * room[i]
            change[i] += length * room[i]
        if blocked < 0:
            break
        for i in range(active):
            excess[i] *= 1 - length
        # New atoms that were to move against their sign leave one by one, as others may still be new and zero.
        is_start = length == 0
        for i in range(active - 1, -1, -1):
            if i == blocked or (code[i] * sign[i] <= 0 and not is_start):
                _leave(i, active, chosen, code, change, sign, excess, inverse)
                active -= 1
    return active


@helper
def _steepest(rho: Array, sizes: Array, positive: bool, level: float, candidates: Array) -> int:
    """The atom of largest |ρ_j|·sizes_j, or of largest ρ_j·sizes_j; after it those of other blocks that are near.

    Returned is how many these are; for the bits see `_largest` in `pursuit`.
    """
    width = max(_BLOCK, -(-rho.size // _BLOCKS))
    count, best = 0, 0
    values = np.empty(_BLOCKS)
    for first in range(0, rho.size, width):
        block, factors = rho[first : first + width], sizes[first : first + width]
        top = _bits(abs(rho[0] * 0))
        if positive:
            for k in range(block.size):
                top = max(top, _bits(block[k] * factors[k]))
        else:
            for k in range(block.size):
                top = max(top, _bits(abs(block[k] * factors[k])))
        candidates[count], values[count] = first, 0.0
        for k in range(block.size):
            value = block[k] * factors[k] if positive else abs(block[k] * factors[k])
            if _bits(value) == top:
                candidates[count], values[count] = first + k, value
                break
        if values[count] > values[best]:
            best = count
        count += 1
    candidates[0], candidates[best] = candidates[best], candidates[0]
    values[0], values[best] = values[best], values[0]
    least = level + _NEARLY * (values[0] - level)
    near = 1
    for c in range(1, count):
        if values[c] >= least:
            candidates[near] = candidates[c]
            near += 1
    return near


@helper
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
    ratio = (max(top, 0.0) if positive else abs(top)) / level
    return gap_of(1 - fitted - left, 1 - fitted, level * penalty, ratio)


@helper
def gap_of(square: float, product: float, penalty: float, ratio: float) -> float:
    """The duality gap, given ‖r‖², ⟨x, r⟩, Σ w_j|γ_j| and the largest ρ_j/w_j."""
    square = max(square, 0.0)
    scale = max(product, 0.0) / square if square > 0 else np.inf
    if ratio * scale > 1:
        scale = 1 / ratio
    if scale == np.inf:
        return penalty  # an exact fit
    return 0.5 * square + penalty - scale * product + 0.5 * scale * scale * square
