"""Sweeps over a chain of rotations: each angle is optimised while all others are fixed."""

import numpy as np

from ..typing import Array
from .cache import kernel
from .givens import multiply, polar, rotate_columns, rotate_rows, rotate_two
from .pursuit import inner

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


@compiled
def sweep_eigen(A: Array, B: Array, pairs: Array, blocks: Array, starts: Array, units: Array) -> None:
    """Optimise each rotation so that ‖A − B‖² falls; before the sweep, A = S and B = U diag(λ) Uᴴ.

    Both follow: when it is the turn of G_k, A = (G₁…G_{k−1})ᴴ S (G₁…G_{k−1}) and B = (G_k…G_g) diag(λ) (G_k…G_g)ᴴ.
    After the sweep A is UᴴSU. ``units`` are the phases of the off-diagonal entries by which a rotation is turned:
    1 for real numbers; 1 and i for complex ones, one after the other. Layer n begins at ``starts[n]``.

    Rows take part in the rotations of a layer when they are needed: those of a pair when it is its turn, for the
    pairs before it, and at the end of the layer for the others.
    """
    R = np.empty((2, 2), blocks.dtype)
    room = np.empty(A.shape[0] // 4, A.dtype)
    is_paired = np.empty(A.shape[0], np.bool_)
    for n in range(len(starts) - 1):
        part = slice(starts[n], starts[n + 1])
        places, new, old = pairs[part], blocks[part], blocks[part].copy()
        is_paired[:] = False
        for r in range(len(places)):
            i, j = places[r]
            is_paired[i] = is_paired[j] = True
            rotate_two(A[i], A[j], places[:r], new[:r])
            rotate_two(B[i], B[j], places[: r + 1], old[: r + 1])
            rotate_rows(B, i, j, old[r])
            _rotate_pair(A, places[r], old[r])
            for unit in units:
                _turn_towards(A, B, i, j, unit, R, room)
                _rotate_pair(A, places[r], R)
                multiply(new[r], R, new[r])
        for r in range(len(places)):
            i, j = places[r]
            rotate_two(A[i], A[j], places[r + 1 :], new[r + 1 :])
            rotate_two(B[i], B[j], places[r + 1 :], old[r + 1 :])
        for k in range(A.shape[0]):
            if not is_paired[k]:
                rotate_two(A[k], A[k], places, new)
                rotate_two(B[k], B[k], places, old)


@compiled
def _rotate_pair(A: Array, pair: Array, G: Array) -> None:
    """The rows of a pair in GᴴAG."""
    i, j = pair
    rotate_rows(A, i, j, G)
    for row in (i, j):
        u, v = A[row, i], A[row, j]
        A[row, i] = u * G[0, 0] + v * G[1, 0]
        A[row, j] = u * G[0, 1] + v * G[1, 1]


@compiled
def sweep_polar(W: Array, pairs: Array, blocks: Array) -> None:
    """Optimise each rotation so that Re tr UᴴM grows; W is MUᴴ before the sweep, and UᴴM after it.

    With G_k on neither side, W = (G₁…G_{k−1})ᴴ M (G_{k+1}…G_g)ᴴ; the best G_k is the polar factor of its block.
    """
    for r in range(len(pairs)):
        i, j, G = pairs[r, 0], pairs[r, 1], blocks[r]
        rotate_columns(W, i, j, G)
        polar(W[i, i], W[i, j], W[j, i], W[j, j], G)
        rotate_rows(W, i, j, G)


@compiled
def _turn_towards(A: Array, B: Array, i: int, j: int, unit: complex, R: Array, room: Array) -> None:
    """R = [[cos θ, −u sin θ], [ū sin θ, cos θ]] with the largest ⟨RᴴAR, B⟩, where u is the unit.

    As a function of θ that is p cos θ + q sin θ + v cos 2θ + w sin 2θ and a constant: the first two terms are the
    rows and columns of the pair outside of its block, the others the block.
    """
    x = inner(B[i], A[i], room) + inner(B[j], A[j], room)
    y = unit * inner(B[i], A[j], room) - np.conj(unit) * inner(B[j], A[i], room)
    for k in (i, j):  # Rows and columns outside of the block.
        x -= np.conj(B[i, k]) * A[i, k] + np.conj(B[j, k]) * A[j, k]
        y -= unit * np.conj(B[i, k]) * A[j, k] - np.conj(unit) * np.conj(B[j, k]) * A[i, k]
    h, g = (A[i, i] - A[j, j]).real / 2, (B[i, i] - B[j, j]).real / 2
    o, w = (np.conj(unit) * A[i, j]).real, (np.conj(unit) * B[i, j]).real
    theta = best_angle(2 * x.real, 2 * y.real, 2 * (h * g + o * w), 2 * (o * g - h * w))
    c, s = np.cos(theta), np.sin(theta)
    R[0, 0], R[0, 1], R[1, 0], R[1, 1] = c, -s * unit, s * np.conj(unit), c


@compiled
def best_angle(p: float, q: float, v: float, w: float) -> float:
    """The θ of largest f = p cos θ + q sin θ + v cos 2θ + w sin 2θ.

    There are at most two maxima, and both are climbed: from the best of sixteen angles, one of which is 0, and
    from the best of those far from it. So f(θ) ≥ f(0).
    """
    values = np.empty(16)
    for m in range(16):
        values[m] = _wave(p, q, v, w, m * np.pi / 8)
    first = int(np.argmax(values))
    second = (first + 4) % 16
    for m in range(first + 5, first + 13):
        if values[m % 16] > values[second]:
            second = m % 16
    one, other = _climb(p, q, v, w, first * np.pi / 8), _climb(p, q, v, w, second * np.pi / 8)
    return one if _wave(p, q, v, w, one) >= _wave(p, q, v, w, other) else other


@compiled
def _wave(p: float, q: float, v: float, w: float, theta: float) -> float:
    c, s = np.cos(theta), np.sin(theta)
    return p * c + q * s + v * (c * c - s * s) + w * 2 * c * s


@compiled
def _climb(p: float, q: float, v: float, w: float, theta: float) -> float:
    """A maximum near θ, by Newton's method; a step that does not go up is shortened."""
    top, most = _wave(p, q, v, w, theta), np.pi / 8
    for _ in range(16):
        c, s = np.cos(theta), np.sin(theta)
        cc, ss = c * c - s * s, 2 * c * s
        slope = q * c - p * s + 2 * (w * cc - v * ss)
        bend = abs(p * c + q * s + 4 * (v * cc + w * ss))
        step = slope / bend if bend * most > abs(slope) else (most if slope > 0 else -most)
        value = _wave(p, q, v, w, theta + step)
        if value > top:
            theta, top = theta + step, value
        elif abs(step) < 1e-9:
            break
        else:
            most = abs(step) / 4
    return theta
