"""Non-negative codes of new samples, with the components fixed: a convex problem for each sample."""

import numpy as np

from ..kernels.coordinates import nonnegative_codes
from ..linalg import in_units, shifted
from ..typing import Array
from .losses import FLOOR

_PASSES = 100  # of coordinate descent, for each iteration that is allowed
_TOL = 1e-10  # relative change of a code from one pass to the next
_SETTLED = 1e-7  # the same for multiplicative steps, which converge slowly
_AT_ONCE = 4e6  # multiplications of one pass over some samples, between two looks at Ctrl-C
_CHECK = 10  # steps between two looks at which samples have settled


def least_squares_codes(X: Array, components: Array, max_iter: int) -> Array:
    """min ½‖x − c·components‖² over c ≥ 0 for each row x of X, in double precision."""
    rows, exponent = in_units(X.astype(np.float64))
    parts = components.astype(np.float64)
    codes = np.zeros((len(rows), len(parts)))
    gram, cross = parts @ parts.T, rows @ parts.T
    count = max(int(_AT_ONCE / gram.size), 1)
    for begin in range(0, len(rows), count):
        some = slice(begin, begin + count)
        nonnegative_codes(codes[some], gram, cross[some], _PASSES * max_iter, _TOL)
    return shifted(codes, exponent)


def divergence_codes(X: Array, components: Array, max_iter: int) -> Array:
    """min Σ v log(v/v̂) − v + v̂ with v̂ = c·components over c ≥ 0 for each row v of X, in double precision."""
    rows, exponent = in_units(X.astype(np.float64))
    parts = components.astype(np.float64)
    sums = parts.sum(axis=1)
    weights = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    codes = np.tile(weights, (len(rows), 1)) * rows.mean(axis=1, keepdims=True)
    active = np.arange(len(rows))
    for i in range(max_iter):
        now = codes[active]
        new = now * ((rows[active] / (now @ parts + FLOOR)) @ parts.T) * weights
        codes[active] = new
        if i % _CHECK == _CHECK - 1:  # each sample for itself: its code must not depend on others
            change, largest = np.abs(new - now).max(axis=1), new.max(axis=1)
            active = active[change > _SETTLED * largest]
            if not active.size:
                break
    return shifted(codes, exponent)
