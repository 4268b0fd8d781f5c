"""Orthogonal matching pursuit on correlations and Gram rows: Batch-OMP with a progressive Cholesky factor.

For a signal x and the atoms I chosen so far, L is the Cholesky factor of the atoms' Gram matrix, G_II = LLᴴ. A new
atom j adds a row to L, and changes the code by δ with Lᴴδ = (z/ℓ)·e_last, where ℓ is L's new diagonal entry and
z = ⟨d_j, r⟩/ℓ; the squared residual falls by |z|², and the correlations Dᴴr by G_I δ. Neither x nor the residual
r is needed.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..typing import Array

# Numbers are finite here. Sums are short, and keep their order: where they may be reordered, a kernel that was
# just compiled and one from the cache, whose helpers are other copies, differ in the last bits.
compiled = njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})


class Pursuit(NamedTuple):
    """The state of each signal, of unit norm, in a pursuit with unit-norm atoms."""

    correlations: Array  # (n, a): Dᴴr, brought up to date with the last change at the beginning of each step
    tolerances: Array  # (n,): a signal is done when its squared residual is at most this
    remaining: Array  # (n,): the squared residual
    counts: Array  # (n,): of chosen atoms
    chosen: Array  # (n, limit): which
    triangles: Array  # (n, limit, limit): L, with 1/ℓ on its diagonal
    changes: Array  # (n, limit): δ
    codes: Array  # (n, limit)
    done: Array  # (n,): of bool


@compiled
def _square(number: complex) -> float:
    """|number|², in its own precision."""
    return (np.conj(number) * number).real


@compiled
def pursue(state: Any, rows: Array, where: Array, eps: float, steps: int, start: int, stop: int) -> None:
    """Choose up to ``steps`` more atoms for each of the signals from ``start`` to ``stop``.

    ``state`` holds the fields of a `Pursuit` as a plain tuple, which comes from Python faster than a named one.
    ``rows[where[j]]`` is Dᴴd_j; it is read for atoms that were chosen in earlier steps only. ``eps`` is the
    relative rounding error of the correlations: a signal is done when no correlation is above it, or when the best
    atom depends on the chosen ones up to it.
    """
    state = Pursuit(*state)
    floor, dependent = (16 * eps) ** 2, 64 * eps  # of squared correlations; of squared distances from the span
    limit = state.chosen.shape[1]
    weights = np.empty(limit, state.correlations.dtype)  # δ in the precision of the correlations
    places = np.empty(limit, where.dtype)
    for s in range(start, stop):
        alpha, chosen, change = state.correlations[s], state.chosen[s], state.changes[s]
        for _ in range(steps):
            m = state.counts[s]
            if state.done[s] or m == limit or state.remaining[s] <= state.tolerances[s]:
                state.done[s] = True
                break
            for i in range(m):
                weights[i] = change[i]
                places[i] = where[chosen[i]]
            _subtract(alpha, rows, places[:m], weights)
            j, top = _largest(alpha)
            if top <= floor or not _choose(j, alpha[j], rows, places[:m], state.triangles[s], change, dependent):
                state.done[s] = True
                break
            inverse = state.triangles[s, m, m].real
            state.remaining[s] -= _square(alpha[j]) * inverse * inverse
            chosen[m] = j
            state.counts[s] = m + 1
            for i in range(m + 1):
                state.codes[s, i] += change[i]


@compiled
def _subtract(alpha: Array, rows: Array, places: Array, weights: Array) -> None:
    """alpha − G_I δ, four atoms at a time."""
    m = places.size
    i = 0
    while i + 3 < m:
        a, b, c, d = rows[places[i]], rows[places[i + 1]], rows[places[i + 2]], rows[places[i + 3]]
        u, v, w, x = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(alpha.size):
            alpha[k] -= (u * a[k] + v * b[k]) + (w * c[k] + x * d[k])
        i += 4
    if i + 1 < m:
        a, b = rows[places[i]], rows[places[i + 1]]
        u, v = weights[i], weights[i + 1]
        for k in range(alpha.size):
            alpha[k] -= u * a[k] + v * b[k]
        i += 2
    if i < m:
        a, u = rows[places[i]], weights[i]
        for k in range(alpha.size):
            alpha[k] -= u * a[k]


@compiled
def _largest(alpha: Array) -> tuple[int, float]:
    """The first entry of largest magnitude, and its square.

    The largest of each quarter is found on vector units, all four at a time; then its place, one by one.
    """
    quarter = alpha.size // 4
    a, b, c, d = alpha[:quarter], alpha[quarter:], alpha[2 * quarter :], alpha[3 * quarter :]
    s = t = u = v = _square(alpha[0])
    for k in range(quarter):
        s = max(s, _square(a[k]))
        t = max(t, _square(b[k]))
        u = max(u, _square(c[k]))
        v = max(v, _square(d[k]))
    for k in range(4 * quarter, alpha.size):
        v = max(v, _square(alpha[k]))
    top = max(max(s, t), max(u, v))
    begin = 0 if s == top else quarter if t == top else 2 * quarter if u == top else 3 * quarter
    for k in range(begin, alpha.size):
        if _square(alpha[k]) == top:
            return k, top
    best = begin  # where fused multiply-adds round a complex square in two ways
    for k in range(begin, alpha.size):
        if _square(alpha[k]) > _square(alpha[best]):
            best = k
    return best, top


@compiled
def _choose(
    j: int,
    correlation: complex,
    rows: Array,
    places: Array,
    L: Array,
    change: Array,
    dependent: float,
) -> bool:
    """Add atom j to those whose Gram rows are at ``places``; False if it depends on them.

    This gives a new row of L, with 1/ℓ on its diagonal, and δ.
    """
    m = places.size
    square = 1.0
    for i in range(m):
        value = L[0, 0] * 0 + rows[places[i], j]
        for t in range(i):
            value -= np.conj(L[i, t]) * L[m, t]
        value = value * L[i, i].real
        L[m, i] = value
        square -= _square(value)
    if square <= dependent:
        return False
    L[m, m] = 1 / np.sqrt(square)
    change[m] = correlation / square
    for i in range(m - 1, -1, -1):
        value = L[0, 0] * 0
        for t in range(i + 1, m + 1):
            value -= np.conj(L[t, i]) * change[t]
        change[i] = value * L[i, i].real
    return True


@compiled
def pack(
    counts: Array, chosen: Array, codes: Array, sizes: Array, inverse_norms: Array, indices: Array, values: Array
) -> None:
    """The codes one after the other, each in ascending order of atoms; norms of signals and atoms are undone."""
    place = 0
    for s in range(counts.size):
        first = place
        for i in range(counts[s]):
            j, value = chosen[s, i], codes[s, i]
            k = place
            while k > first and indices[k - 1] > j:
                indices[k] = indices[k - 1]
                values[k] = values[k - 1]
                k -= 1
            indices[k] = j
            values[k] = value * (sizes[s] * inverse_norms[j])
            place += 1
