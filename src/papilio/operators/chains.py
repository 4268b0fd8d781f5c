"""Chains of sparse factors made shorter: entries that do not count are left out, neighbours joined."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def without_rounding(factor: sp.csr_array) -> sp.csr_array:
    """``factor`` without the entries that are no more than rounding errors of its largest one."""
    sizes = np.abs(factor.data)
    if not sizes.size or sizes.min() > _ROUNDING * sizes.max():
        return factor
    factor = factor.copy()
    factor.data[sizes <= _ROUNDING * sizes.max()] = 0
    factor.eliminate_zeros()
    return factor


def pruned(factors: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """The same product without rows that no factor reads and columns that only meet zeros."""
    chain = [factor.copy() for factor in factors]
    for factor in chain:
        factor.eliminate_zeros()
    for i in range(len(chain) - 1):
        read = np.unique(chain[i].indices)
        chain[i : i + 2] = chain[i][:, read], chain[i + 1][read]
    for i in reversed(range(len(chain) - 1)):
        filled = np.flatnonzero(np.diff(chain[i + 1].indptr))
        chain[i : i + 2] = chain[i][:, filled], chain[i + 1][filled]
    return chain


def joined(factors: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """The same product with neighbours multiplied out where that saves entries.

    Dynamic programming over where groups of neighbours end. A group does not grow once its product has more than
    twice as many entries as its factors.
    """
    best: list[tuple[int, list[sp.csr_array]]] = [(0, [])]
    for end in range(1, len(factors) + 1):
        options: list[tuple[int, list[sp.csr_array]]] = []
        apart, product = 0, None
        for begin in reversed(range(end)):
            factor = factors[begin]
            product = factor if product is None else without_rounding(factor @ product)
            options.append((best[begin][0] + product.nnz, [*best[begin][1], product]))
            apart += factor.nnz
            if product.nnz > 2 * apart:
                break
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]
