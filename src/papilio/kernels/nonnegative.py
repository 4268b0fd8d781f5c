"""Orthogonal matching pursuit with coefficients that are not negative, on correlations and Gram rows.

A step chooses the atom j of largest positive correlation with the residual, and solves the non-negative least
squares problem min ‖x − D_S γ‖, γ ≥ 0, on S: the support so far, and j. It does so by the active-set method of
Lawson and Hanson (1974). Only atoms with positive coefficients stay in the support; L is the Cholesky factor of
their Gram matrix.
"""

from typing import Any

import numpy as np

from ..typing import Array
from .pursuit import Pursuit, _add_row, _bits, _substitute, _subtract, compiled


@compiled
def pursue_nonnegative(
    state: Any, correlations: Array, rows: Array, where: Array, eps: float, steps: int, start: int, stop: int
) -> None:
    """What `pursue` does, with non-negative codes; arguments are the same.

    ``changes`` are those of all atoms in S. The atoms that left the support come after those that are in it, until
    the next step has brought the correlations up to date.
    """
    state = Pursuit(*state)
    limit = state.chosen.shape[1]
    weights = np.empty(limit, correlations.dtype)
    places = np.empty(limit, where.dtype)
    room = np.empty(limit, state.codes.dtype)
    for s in range(start, stop):
        alpha, chosen, change, code = correlations[s], state.chosen[s], state.changes[s], state.codes[s]
        for _ in range(steps):
            m = state.counts[s]
            if state.done[s] or m == limit or state.remaining[s] <= state.tolerances[s]:
                state.done[s] = True
                break
            changed = 0
            for i in range(limit):
                if change[i] != 0:
                    weights[changed] = change[i]
                    places[changed] = where[chosen[i]]
                    changed += 1
                    change[i] = 0
            _subtract(alpha, rows, places[:changed], weights)
            chosen[m] = _most_positive(alpha)
            code[m] = 0
            fall, count = _fit(
                alpha[chosen[m]], chosen[: m + 1], code, change, state.triangles[s], rows, where, eps, room
            )
            state.remaining[s] -= fall
            state.counts[s] = count
            state.done[s] = fall == 0


@compiled
def _fit(
    correlation: float,
    chosen: Array,
    code: Array,
    change: Array,
    L: Array,
    rows: Array,
    where: Array,
    eps: float,
    room: Array,
) -> tuple[float, int]:
    """Non-negative least squares on the support and one more atom, which is the last of ``chosen``.

    ``code`` becomes the solution, ``change`` what that changes; atoms with zeros go to the end. Returned is by how
    much the squared residual falls, 0 if the atom changes nothing, and the size of the support.
    """
    new, first, fall = chosen[-1], correlation, 0.0
    n, active, candidate = chosen.size, chosen.size - 1, chosen.size - 1
    # Each round lowers the residual, so that no support comes twice; rounding must not change that.
    for _ in range(3 * n):
        if correlation <= 16 * eps:
            break
        _move(candidate, active, chosen, code, change)
        for i in range(active):
            room[i] = _gram(i, active, chosen, new, rows, where)
        if _add_row(room[:active], L, eps) == 0:
            break
        gain, active = _advance(correlation, active + 1, chosen, code, change, L, room)
        fall += gain
        correlation = 0.0
        for i in range(active, n):  # Atoms that left may be needed again.
            value = first if chosen[i] == new else 0.0
            for t in range(n):
                value -= _gram(i, t, chosen, new, rows, where) * change[t]
            if value > correlation:
                correlation, candidate = value, i
    return fall, active


@compiled
def _advance(
    correlation: float, active: int, chosen: Array, code: Array, change: Array, L: Array, room: Array
) -> tuple[float, int]:
    """From a code whose residual is orthogonal to all ``active`` atoms but the last one, to where it is to all.

    Atoms whose coefficients reach zero on the way leave. Returned is by how much the squared residual falls, and
    the number of atoms that are left.
    """
    fall = 0.0
    while True:
        last = L[active - 1, active - 1]
        room[active - 1] = correlation * last * last
        _substitute(L, room[:active])
        length, blocked = 1.0, -1
        for i in range(active - 1):
            if code[i] + room[i] <= 0 and code[i] <= -length * room[i]:
                length, blocked = code[i] / -room[i], i
        for i in range(active):
            code[i] += length * room[i]
            change[i] += length * room[i]
        fall += length * (2 - length) * correlation * room[active - 1]
        if blocked < 0:
            return fall, active
        correlation *= 1 - length  # and all others are still zero
        for i in range(active - 2, -1, -1):
            if i == blocked or code[i] <= 0:
                change[i] -= code[i]
                code[i] = 0
                _remove_row(i, active, L)
                _move(i, active - 1, chosen, code, change)
                active -= 1


@compiled
def _gram(i: int, t: int, chosen: Array, new: int, rows: Array, where: Array) -> float:
    """⟨d_i, d_t⟩ for two places in ``chosen``; one may be that of the new atom, whose row may be missing."""
    if i == t:
        return 1.0
    if chosen[i] == new:
        return rows[where[chosen[t]], new]
    return rows[where[chosen[i]], chosen[t]]


@compiled
def _move(i: int, to: int, chosen: Array, code: Array, change: Array) -> None:
    """Move an atom from one place to another; those between make room."""
    atom, value, delta = chosen[i], code[i], change[i]
    step = 1 if i < to else -1
    while i != to:
        chosen[i], code[i], change[i] = chosen[i + step], code[i + step], change[i + step]
        i += step
    chosen[to], code[to], change[to] = atom, value, delta


@compiled
def _remove_row(k: int, size: int, L: Array) -> None:
    """Remove the k-th row from L, and by rotations of its columns what then stands above the diagonal."""
    for i in range(k, size - 1):
        for t in range(i + 1):
            L[i, t] = L[i + 1, t]
        corner = 1 / L[i + 1, i + 1]
        norm = np.sqrt(L[i, i] * L[i, i] + corner * corner)
        cosine, sine = L[i, i] / norm, corner / norm
        L[i, i] = 1 / norm
        for t in range(i + 1, size - 1):
            a, b = L[t + 1, i], L[t + 1, i + 1]
            L[t + 1, i] = cosine * a + sine * b
            L[t + 1, i + 1] = cosine * b - sine * a


@compiled
def _most_positive(alpha: Array) -> int:
    """The first entry of largest value; any, if none is positive. For the bits see `_largest` in `pursuit`."""
    top, begin = _bits(alpha[0]), 0
    for first in range(0, alpha.size, 128):
        block, largest = alpha[first : first + 128], top
        for k in range(block.size):
            largest = max(largest, _bits(block[k]))
        if largest > top:
            top, begin = largest, first
    for k in range(begin, alpha.size):
        if _bits(alpha[k]) == top:
            return k
    return begin
