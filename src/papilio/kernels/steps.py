"""Passes over the factors of a projected gradient step, without temporary arrays."""

from ..typing import Array
from .cache import kernel

# Entries are independent of each other: there is no sum whose order might change.
compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


@compiled
def step(point: Array, gradient: Array, rows: Array, columns: Array, v: Array, w: Array, worth: Array) -> None:
    """point ← point − rows_i·columns_j·gradient, in place, and worth = |point|·v_i·w_j."""
    for i in range(point.shape[0]):
        row, weight = rows[i], v[i]
        for j in range(point.shape[1]):
            value = point[i, j] - (row * columns[j]) * gradient[i, j]
            point[i, j] = value
            worth[i, j] = abs(value) * (weight * w[j])


@compiled
def ahead_of(new: Array, before: Array, inertia: float, point: Array) -> None:
    """point = new + inertia·(new − before)."""
    for i in range(new.shape[0]):
        for j in range(new.shape[1]):
            point[i, j] = new[i, j] + inertia * (new[i, j] - before[i, j])


@compiled
def keep_only(point: Array, keep: Array) -> None:
    """point ← zero where not ``keep``, in place."""
    for i in range(point.shape[0]):
        for j in range(point.shape[1]):
            point[i, j] = point[i, j] if keep[i, j] else 0 * point[i, j]
