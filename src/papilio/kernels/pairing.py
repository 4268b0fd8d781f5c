"""Pairing rows at least cost."""

import numpy as np
from numba import njit

from ..validation import Array

compiled = njit(cache=True, nogil=True)


@compiled
def pair_up(costs: Array, order: Array) -> Array:
    """A cheap perfect matching of m points, m even: partners by point.

    Filled greedily along ``order`` (flat places of ``costs``, cheapest first), then improved by exchanges of
    partners between two pairs while that lowers the sum.
    """
    m = costs.shape[0]
    partner = np.full(m, -1, np.int64)
    for place in order:
        i, j = place // m, place % m
        if i < j and partner[i] < 0 and partner[j] < 0:
            partner[i], partner[j] = j, i
    improved = True
    sweeps = 0
    while improved and sweeps < 100:
        improved = False
        sweeps += 1
        for i in range(m):
            for k in range(i + 1, m):
                j, q = partner[i], partner[k]
                if j == k:
                    continue
                now = costs[i, j] + costs[k, q]
                crossed, straight = costs[i, k] + costs[j, q], costs[i, q] + costs[j, k]
                slack = 1e-12 * abs(now)
                if crossed < now - slack and crossed <= straight:
                    partner[i], partner[k], partner[j], partner[q] = k, i, q, j
                    improved = True
                elif straight < now - slack:
                    partner[i], partner[q], partner[j], partner[k] = q, i, k, j
                    improved = True
    return partner
