"""Orthogonal matching pursuit on correlations and Gram rows: Batch-OMP with a progressive Cholesky factor.

For a signal x and the atoms I chosen so far, L is the Cholesky factor of the atoms' Gram matrix, G_II = LLᴴ. A new
atom j adds a row to L, and changes the code by δ with Lᴴδ = (z/ℓ)·e_last, where ℓ is L's new diagonal entry and
z = ⟨d_j, r⟩/ℓ; the squared residual falls by |z|², and the correlations Dᴴr by G_I δ.

There are two ways to the next correlations. `pursue` subtracts rows of the Gram matrix from them, and needs
neither x nor the residual r. `search` and `extend` keep r = x − D_I γ instead, and Dᴴr is computed between them
for all signals together: the cheaper way where D is a fast product and the Gram matrix large.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..typing import Array
from .cache import kernel

# Numbers are finite here. Sums are short, and keep their order: where they may be reordered, a kernel that was
# just compiled and one from the cache, whose helpers are other copies, differ in the last bits.
compiled = kernel(nogil=True, fastmath={"contract", "nsz", "nnan"})

_DEPENDENT = 64  # rounding errors in the squared distance of an atom from the span of others


class Pursuit(NamedTuple):
    """The state of each signal, of unit norm, in a pursuit with unit-norm atoms."""

    tolerances: Array  # (n,): a signal is done when its squared residual is at most this
    remaining: Array  # (n,): the squared residual
    counts: Array  # (n,): of chosen atoms
    chosen: Array  # (n, limit): which
    triangles: Array  # (n, limit, limit): L, with 1/ℓ on its diagonal
    changes: Array  # (n, limit): δ
    codes: Array  # (n, limit)
    done: Array  # (n,): of bool


def _typed_bits(_: Any, number: Any) -> Any:
    """The bits of a floating-point number, as an integer."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[ir.Value]) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(number.bitwidth))

    return types.Integer.from_bitwidth(number.bitwidth)(number), emit


_bits: Any = intrinsic(_typed_bits)


@compiled
def _square(number: complex) -> float:
    """|number|², in its own precision."""
    return (np.conj(number) * number).real


@compiled
def pursue(
    state: Any, correlations: Array, rows: Array, where: Array, eps: float, steps: int, start: int, stop: int
) -> None:
    """Choose up to ``steps`` more atoms for each of the signals from ``start`` to ``stop``.

    ``state`` holds the fields of a `Pursuit` as a plain tuple, which comes from Python faster than a named one.
    ``correlations`` are Dᴴr, a signal per row, brought up to date with the last change at the beginning of each
    step. ``rows[where[j]]`` is Dᴴd_j; it is read for atoms that were chosen in earlier steps only. ``eps`` is the
    relative rounding error of the correlations: a signal is done when no correlation is above it, or when the best
    atom depends on the chosen ones up to it.
    """
    state = Pursuit(*state)
    limit = state.chosen.shape[1]
    weights = np.empty(limit, correlations.dtype)  # δ in the precision of the correlations
    gram = np.empty(limit, correlations.dtype)
    places = np.empty(limit, where.dtype)
    for s in range(start, stop):
        alpha, chosen, change, code = correlations[s], state.chosen[s], state.changes[s], state.codes[s]
        L = state.triangles[s]
        for _ in range(steps):
            m = state.counts[s]
            if state.done[s] or m == limit or state.remaining[s] <= state.tolerances[s]:
                state.done[s] = True
                break
            for i in range(m):
                weights[i] = change[i]
                places[i] = where[chosen[i]]
            _subtract(alpha, rows, places[:m], weights)
            j = _largest(alpha)
            for i in range(m):
                gram[i] = rows[places[i], j]
            fall = _change(alpha[j], _add_row(gram[:m], L, eps), m, L, change, code, eps)
            if fall == 0:
                state.done[s] = True
                break
            state.remaining[s] -= fall
            chosen[m] = j
            state.counts[s] = m + 1


@compiled
def search(correlations: Array, scales: Array, tops: Array, atoms: Array, values: Array) -> None:
    """The ``atoms`` of largest correlation, and these ``values``, for all signals together.

    ``correlations`` are those with atoms of any norm, a signal per column; ``scales`` are the inverse norms.
    ``tops`` and ``atoms`` are integers as wide as real numbers: the tops are in the order of the squared values.
    """
    n_signals = correlations.shape[1]
    if n_signals == 1:  # along the column, on vector units
        alpha = np.empty(scales.size, correlations.dtype)
        for j in range(scales.size):
            alpha[j] = correlations[j, 0] * scales[j]
        atoms[0] = _largest(alpha)
        values[0] = alpha[atoms[0]]
        tops[0] = _bits(_square(values[0]))
        return
    for s in range(n_signals):
        tops[s] = -1
        atoms[s] = 0
    for j in range(correlations.shape[0]):
        alpha, scale = correlations[j], scales[j]
        for s in range(n_signals):  # without branches, on vector units; for `_bits` see `_largest`
            square = _bits(_square(alpha[s] * scale))
            atoms[s] = j if square > tops[s] else atoms[s]
            tops[s] = max(tops[s], square)
    for s in range(n_signals):
        values[s] = correlations[atoms[s], s] * scales[atoms[s]]


@compiled
def extend(
    state: Any,
    residuals: Array,
    rows: Array,
    scales: Array,
    signals: Array,
    atoms: Array,
    values: Array,
    limit: int,
    eps: float,
    start: int,
    stop: int,
) -> None:
    """Add to signal ``signals[n]`` atom ``atoms[n]``, whose correlation is ``values[n]``, for n from ``start`` on.

    ``rows[j]`` times ``scales[j]`` is the atom d_j. The ``residuals``, a signal per row, follow; ``state``
    and ``eps`` are as in `pursue`, and ``limit`` is the largest number of atoms.
    """
    state = Pursuit(*state)
    room_for = state.chosen.shape[1]
    weights, gram = np.empty(room_for, residuals.dtype), np.empty(room_for, residuals.dtype)
    places = np.empty(room_for, atoms.dtype)
    room = np.empty(residuals.shape[1] // 4, residuals.dtype)
    for n in range(start, stop):
        s, j = signals[n], atoms[n]
        m, change = state.counts[s], state.changes[s]
        places[m] = j
        for i in range(m):
            places[i] = state.chosen[s, i]
            gram[i] = inner(rows[j], rows[places[i]], room) * (scales[j] * scales[places[i]])
        if _add(state, s, j, values[n], gram, True, limit, eps):
            for i in range(m + 1):
                weights[i] = change[i] * scales[places[i]]
            _subtract(residuals[s], rows, places[: m + 1], weights)


@compiled
def extend_by_entries(
    state: Any, entries: Array, are_gram: bool, signals: Array, atoms: Array, values: Array, limit: int, eps: float
) -> None:
    """What `extend` does, given the new row of L of each signal, or that of its Gram matrix if they ``are_gram``.

    The row of signal ``signals[n]`` is ``entries[n]``. The residuals are left to the caller.
    """
    state = Pursuit(*state)
    for n in range(signals.size):
        _add(state, signals[n], atoms[n], values[n], entries[n], are_gram, limit, eps)


@compiled
def _add(
    state: Any, s: int, atom: int, correlation: complex, entries: Array, are_gram: bool, limit: int, eps: float
) -> bool:
    """Add an atom to a signal, unless that changes nothing; returned is whether it was."""
    m, L, square = state.counts[s], state.triangles[s], 1.0
    if are_gram:
        square = _add_row(entries[:m], L, eps)
    else:
        for i in range(m):
            L[m, i] = entries[i]
            square -= _square(L[m, i])
    fall = _change(correlation, square, m, L, state.changes[s], state.codes[s], eps)
    if fall == 0:
        state.done[s] = True
        return False
    state.remaining[s] -= fall
    state.chosen[s, m] = atom
    state.counts[s] = m + 1
    state.done[s] = m + 1 == limit or state.remaining[s] <= state.tolerances[s]
    return True


@compiled
def inner(a: Array, b: Array, room: Array) -> complex:
    """aᴴb, in a fixed order that vector units can follow: quarters are added up, then halves of what is left.

    ``room`` is for a quarter of the vectors.
    """
    width = a.size // 4
    total = a[0] * 0
    for k in range(4 * width, a.size):
        total += np.conj(a[k]) * b[k]
    c, d, e = a[width:], a[2 * width :], a[3 * width :]
    x, y, z = b[width:], b[2 * width :], b[3 * width :]
    for k in range(width):
        room[k] = (np.conj(a[k]) * b[k] + np.conj(c[k]) * x[k]) + (np.conj(d[k]) * y[k] + np.conj(e[k]) * z[k])
    while width > 8:
        half = width // 2
        if width % 2:
            total += room[width - 1]
        for k in range(half):
            room[k] += room[half + k]
        width = half
    for k in range(width):
        total += room[k]
    return total


@compiled
def _subtract(alpha: Array, rows: Array, places: Array, weights: Array) -> None:
    """alpha − G_I δ, up to eight atoms at a time."""
    m = places.size
    i = 0
    while i + 7 < m:
        a, b, c, d = rows[places[i]], rows[places[i + 1]], rows[places[i + 2]], rows[places[i + 3]]
        e, f, g, h = rows[places[i + 4]], rows[places[i + 5]], rows[places[i + 6]], rows[places[i + 7]]
        u, v, w, x = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        p, q, r, s = weights[i + 4], weights[i + 5], weights[i + 6], weights[i + 7]
        for k in range(alpha.size):
            near = (((alpha[k] - u * a[k]) - v * b[k]) - w * c[k]) - x * d[k]
            alpha[k] = (((near - p * e[k]) - q * f[k]) - r * g[k]) - s * h[k]
        i += 8
    if i + 3 < m:
        a, b, c, d = rows[places[i]], rows[places[i + 1]], rows[places[i + 2]], rows[places[i + 3]]
        u, v, w, x = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(alpha.size):
            alpha[k] = (((alpha[k] - u * a[k]) - v * b[k]) - w * c[k]) - x * d[k]
        i += 4
    if i + 1 < m:
        a, b = rows[places[i]], rows[places[i + 1]]
        u, v = weights[i], weights[i + 1]
        for k in range(alpha.size):
            alpha[k] = (alpha[k] - u * a[k]) - v * b[k]
        i += 2
    if i < m:
        a, u = rows[places[i]], weights[i]
        for k in range(alpha.size):
            alpha[k] -= u * a[k]


@compiled
def _largest(alpha: Array) -> int:
    """The first entry of largest magnitude: first the block that has it, then its place there, one by one.

    Squares are compared by their bits, as integers, whose order is the same: the largest of integers is found on
    vector units, that of floating-point numbers is not.
    """
    top, begin = _bits(_square(alpha[0])), 0
    width = 64 if alpha.size < 1024 else 128
    for first in range(0, alpha.size, width):
        block, largest = alpha[first : first + width], top
        for k in range(block.size):
            largest = max(largest, _bits(_square(block[k])))
        if largest > top:
            top, begin = largest, first
    for k in range(begin, alpha.size):
        if _bits(_square(alpha[k])) == top:
            return k
    best = begin  # Fused multiply-adds may round a complex square in two ways.
    for k in range(begin, alpha.size):
        if _square(alpha[k]) > _square(alpha[best]):
            best = k
    return best


@compiled
def _change(
    correlation: complex, square: float, m: int, L: Array, change: Array, code: Array, eps: float
) -> float:
    """Add an atom with this correlation, and this squared distance from the span of the m others, to a code.

    This gives 1/ℓ on the diagonal of L, whose new row has all else, and δ. Returned is by how much the squared
    residual falls: 0 if the atom changes nothing, up to rounding, or depends on the others.
    """
    if _square(correlation) <= (16 * eps) ** 2 or square <= _DEPENDENT * eps:
        return 0.0
    L[m, m] = 1 / np.sqrt(square)
    change[m] = correlation / square
    _substitute(L, change[: m + 1])
    for i in range(m + 1):
        code[i] += change[i]
    return _square(correlation) * L[m, m].real * L[m, m].real


@compiled
def _add_row(gram: Array, L: Array, eps: float) -> float:
    """Add an atom's row to L, given its Gram entries d_jᴴd_i with the others: ℓ², or 0 if it depends on them."""
    m = gram.size
    square = 1.0
    for i in range(m):
        value = L[0, 0] * 0 + gram[i]
        for t in range(i):
            value -= np.conj(L[i, t]) * L[m, t]
        value = value * L[i, i].real
        L[m, i] = value
        square -= _square(value)
    if square <= _DEPENDENT * eps:
        return 0.0
    L[m, m] = 1 / np.sqrt(square)
    return square


@compiled
def _substitute(L: Array, change: Array) -> None:
    """δ with Lᴴδ = ζ·e_last for some ζ, from its last entry."""
    for i in range(change.size - 2, -1, -1):
        value = L[0, 0] * 0
        for t in range(i + 1, change.size):
            value -= np.conj(L[t, i]) * change[t]
        change[i] = value * L[i, i].real


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
