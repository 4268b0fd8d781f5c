"""Rotations of two rows that make them sparse: by Σ|w|⁴, which neither the order nor the signs of lines change.

Among orthogonal matrices, Σ|w|⁴ is largest for signed permutations. Rotating rows until a matrix is one therefore
finds a product of rotations for it, up to that permutation (quartimax).
"""

import numpy as np

from ..typing import Array
from .cache import kernel
from .rotations import rotate_rows

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})

_TINY = 1e-300


@compiled
def _axis(x: Array, y: Array, T: Array, axis: Array) -> tuple[float, float]:
    """The rotation of rows x and y by which Σ|w|⁴ grows most, as an axis; what it gains; and how well they agree.

    With v = (|x|² − |y|², 2 Re xȳ, 2 Im xȳ) for each column, rotated rows have |x|⁴ + |y|⁴ = (|v|² + (a·v)²)/2,
    where a is a unit vector: the best one is the leading eigenvector of T = Σ v vᵀ. If λ/tr T = 1, its rotation
    leaves only one entry in each column.
    """
    T[:] = 0
    for k in range(len(x)):
        product = 2 * (x[k] * np.conj(y[k]))
        u, v, w = abs(x[k]) ** 2 - abs(y[k]) ** 2, product.real, product.imag
        T[0, 0] += u * u
        T[0, 1] += u * v
        T[0, 2] += u * w
        T[1, 1] += v * v
        T[1, 2] += v * w
        T[2, 2] += w * w
    now, total = T[0, 0], T[0, 0] + T[1, 1] + T[2, 2]
    vectors = np.eye(3)
    for _ in range(12):  # Jacobi's method; for real rows the third line is zero, and one rotation does it
        if max(abs(T[0, 1]), abs(T[0, 2]), abs(T[1, 2])) <= 1e-15 * total:
            break
        for p in range(2):
            for q in range(p + 1, 3):
                _eliminate(T, vectors, p, q)
    top = np.argmax(np.diag(T))
    sign = 1.0 if vectors[0, top] >= 0 else -1.0
    for k in range(3):
        axis[k] = sign * vectors[k, top]
    return (T[top, top] - now) / 2, T[top, top] / total if total > _TINY else 0.0


@compiled
def _eliminate(T: Array, vectors: Array, p: int, q: int) -> None:
    """A step of Jacobi's method for the upper triangle of a symmetric 3×3 matrix."""
    z = T[p, q]
    if abs(z) <= _TINY:
        return
    ratio = (T[q, q] - T[p, p]) / (2 * z)
    t = (1.0 if ratio >= 0 else -1.0) / (abs(ratio) + np.sqrt(1 + ratio * ratio))
    c = 1 / np.sqrt(1 + t * t)
    s, r = t * c, 3 - p - q
    T[p, p] -= t * z
    T[q, q] += t * z
    T[p, q] = 0
    i, j, k, m = min(p, r), max(p, r), min(q, r), max(q, r)
    x, y = T[i, j], T[k, m]
    T[i, j], T[k, m] = c * x - s * y, s * x + c * y
    for n in range(3):
        x, y = vectors[n, p], vectors[n, q]
        vectors[n, p], vectors[n, q] = c * x - s * y, s * x + c * y


@compiled
def peak_gains(W: Array, rows: Array, gains: Array, agreements: Array) -> None:
    """What the pairs of these rows with all others gain, and how well the two rows of each agree."""
    T, axis = np.empty((3, 3)), np.empty(3)
    is_done = np.zeros(W.shape[0], np.bool_)
    for i in rows:
        is_done[i] = True
        for j in range(W.shape[0]):
            if not is_done[j]:
                gain, agreement = _axis(W[i], W[j], T, axis)
                gains[i, j] = gains[j, i] = gain
                agreements[i, j] = agreements[j, i] = agreement


@compiled
def turn_to_peaks(W: Array, pairs: Array, units: Array, blocks: Array) -> None:
    """The rotations of disjoint pairs; W follows. ``units`` are 1 and −i, or 1 and 0 if W is real."""
    T, axis = np.empty((3, 3)), np.empty(3)
    for n in range(len(pairs)):
        i, j, G = pairs[n, 0], pairs[n, 1], blocks[n]
        _axis(W[i], W[j], T, axis)
        c = np.sqrt((1 + axis[0]) / 2)
        z = (axis[1] * units[0] + axis[2] * units[1]) / (2 * c)
        G[0, 0], G[0, 1], G[1, 0], G[1, 1] = c, -np.conj(z), z, c
        rotate_rows(W, i, j, G)
