"""Orthogonal matching pursuit on correlations and Gram rows: Batch-OMP with a progressive Cholesky factor.

For a signal x and the atoms I chosen so far, L is the Cholesky factor of the atoms' Gram matrix, G_II = LLᴴ. A new
atom j adds a row to L, and changes the code by δ with Lᴴδ = (z/ℓ)·e_last, where ℓ is L's new diagonal entry and
z = ⟨d_j, r⟩/ℓ; the squared residual falls by |z|², and the correlations Dᴴr by G_I δ. Neither x nor the residual
r is needed.
"""

import numpy as np
from numba import njit

from ..typing import Array

# Numbers are finite here. Sums are short, and keep their order: where they may be reordered, a kernel that was
# just compiled and one from the cache, whose helpers are other copies, differ in the last bits.
compiled = njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})


@compiled
def _square(number: complex) -> float:
    """|number|², in its own precision."""
    return (np.conj(number) * number).real


@compiled
def pursue(
    correlations: Array,
    rows: Array,
    where: Array,
    tolerances: Array,
    floor: float,
    dependent: float,
    steps: int,
    remaining: Array,
    counts: Array,
    chosen: Array,
    triangles: Array,
    changes: Array,
    codes: Array,
    done: Array,
    start: int,
    stop: int,
) -> None:
    """Choose up to ``steps`` more atoms of unit norm for each of the signals from ``start`` to ``stop``.

    Parameters
    ----------
    correlations : (n, a) array
        Dᴴr of each signal; brought up to date with the last change at the beginning of each step.
    rows : (r, a) array
        ``rows[where[j]]`` is Dᴴd_j. It is read for atoms that were chosen in earlier steps only.
    where : (a,) array
    tolerances : (n,) array
        A signal is done when its squared residual is not above this.
    floor : float
        A signal is done when no squared correlation is above this: what is left is rounding.
    dependent : float
        A signal is done when the best atom's squared distance from the span of the chosen ones is not above this.
    remaining, counts, chosen, triangles, changes, codes, done
        The state of each signal: squared residual, number of atoms, which, L, δ, the code, and whether it is
        done.
    """
    limit = chosen.shape[1]
    weights = np.empty(limit, correlations.dtype)  # δ in the precision of the correlations
    places = np.empty(limit, where.dtype)
    for s in range(start, stop):
        alpha = correlations[s]
        for _ in range(steps):
            m = counts[s]
            if done[s] or m == limit or remaining[s] <= tolerances[s]:
                done[s] = True
                break
            for i in range(m):
                weights[i] = changes[s, i]
                places[i] = where[chosen[s, i]]
            _subtract(alpha, rows, places[:m], weights)
            j, top = _largest(alpha)
            if top <= floor or not _choose(j, alpha[j], rows, places[:m], triangles[s], changes[s], dependent):
                done[s] = True
                break
            inverse = triangles[s, m, m].real
            remaining[s] -= _square(alpha[j]) * inverse * inverse
            chosen[s, m] = j
            counts[s] = m + 1
            for i in range(m + 1):
                codes[s, i] += changes[s, i]


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
