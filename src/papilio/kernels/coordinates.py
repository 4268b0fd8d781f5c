"""Coordinate descent for non-negative least squares with a Gram matrix on either side."""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


@compiled
def descend_coordinates(X: Array, gradient: Array, left: Array, right: Array, allowed: Array) -> None:
    """One pass over the entries of X of min ½⟨X, L X R⟩ − ⟨X, C⟩, X ≥ 0, each minimised exactly, in place.

    ``gradient`` is L X R − C at the start; it is changed, too. Entries that are not ``allowed`` stay as they are.
    A ``left`` without entries stands for the identity: rows are then independent.
    """
    rows, columns = X.shape
    is_alone = left.size == 0
    moved = np.empty(columns)
    for p in range(rows):
        own = 1.0 if is_alone else left[p, p]
        if own <= 0:
            continue
        x, g, may = X[p], gradient[p], allowed[p]
        moved[:] = 0  # (change of the row) R
        any_moved = False
        for q in range(columns):
            curvature = own * right[q, q]
            if not may[q] or curvature <= 0:
                continue
            new = max(x[q] - (g[q] + own * moved[q]) / curvature, 0.0)
            step = new - x[q]
            if step != 0:
                x[q] = new
                any_moved = True
                line = right[q]
                for t in range(columns):
                    moved[t] += step * line[t]
        if any_moved and not is_alone:
            for k in range(rows):
                weight = left[k, p]
                if weight != 0:
                    other = gradient[k]
                    for t in range(columns):
                        other[t] += weight * moved[t]


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
