"""Coordinate descent for non-negative least squares with a Gram matrix on either side."""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


_TILE = 256  # columns whose gradients stay in the cache


@compiled
def descend_columns(X: Array, gradient: Array, gram: Array, allowed: Array, least: float) -> None:
    """One pass over the entries of X of min ½⟨X, G X⟩ − ⟨X, C⟩, X ≥ 0, each minimised exactly, in place.

    ``gradient`` is G X − C at the start; it is changed, too. Entries that are not ``allowed`` stay as they are.
    Minima up to ``least`` become zero.
    """
    rows, columns = X.shape
    steps = np.empty(_TILE)
    for begin in range(0, columns, _TILE):
        end = min(begin + _TILE, columns)
        for q in range(rows):
            inverse = 1 / gram[q, q] if gram[q, q] > 0 else 0.0
            x, g, may = X[q, begin:end], gradient[q, begin:end], allowed[q, begin:end]
            for i in range(end - begin):
                new = x[i] - g[i] * inverse
                new = new if new > least else 0.0
                new = new if may[i] else x[i]
                steps[i] = new - x[i]
                x[i] = new
            for t in range(q + 1, rows):  # Earlier ones are not looked at again.
                weight, later = gram[q, t], gradient[t, begin:end]
                for i in range(end - begin):
                    later[i] += weight * steps[i]


@compiled
def descend_entries(X: Array, gradient: Array, left: Array, right: Array, allowed: Array, least: float) -> None:
    """The same for min ½⟨X, L X R⟩ − ⟨X, C⟩, row by row; ``gradient`` is L X R − C."""
    rows, columns = X.shape
    moved = np.empty(columns)
    for p in range(rows):
        own = left[p, p]
        x, g, may = X[p], gradient[p], allowed[p]
        moved[:] = 0  # (change of the row) R
        for q in range(columns):
            if not may[q]:
                continue
            curvature = own * right[q, q]
            new = x[q] - (g[q] + own * moved[q]) / curvature if curvature > 0 else x[q]
            new = new if new > least else 0.0
            step = new - x[q]
            if step != 0:
                x[q] = new
                line = right[q]
                for t in range(columns):
                    moved[t] += step * line[t]
        for k in range(p + 1, rows):
            weight, later = left[k, p], gradient[k]
            if weight != 0:
                for t in range(columns):
                    later[t] += weight * moved[t]


@compiled
def nonnegative_codes(codes: Array, gram: Array, cross: Array, max_iter: int, tol: float) -> None:
    """Rows of min ½xᵀGx − cᵀx, x ≥ 0, by coordinate descent from ``codes``, each until it no longer changes.

    A row ends when a pass changes no entry by more than ``tol`` times its largest one, so that the result for a
    row does not depend on others.
    """
    n = gram.shape[0]
    gradient = np.empty(n)
    for i in range(codes.shape[0]):
        x = codes[i]
        gradient[:] = -cross[i]
        for q in range(n):
            if x[q] != 0:
                for t in range(n):
                    gradient[t] += x[q] * gram[q, t]
        for _ in range(max_iter):
            change, largest = 0.0, 0.0
            for q in range(n):
                if gram[q, q] <= 0:
                    continue
                new = max(x[q] - gradient[q] / gram[q, q], 0.0)
                step = new - x[q]
                if step != 0:
                    x[q] = new
                    change = max(change, abs(step))
                    line = gram[q]
                    for t in range(n):
                        gradient[t] += step * line[t]
                largest = max(largest, new)
            if change <= tol * largest:
                break
