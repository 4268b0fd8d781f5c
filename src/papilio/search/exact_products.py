"""What products that are exact up to rounding share: entries that do not count are left out, neighbours joined."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..typing import Array
from .curves import Curve

_LARGEST_ERROR = {"f": 1e-4, "d": 1e-9, "F": 1e-4, "D": 1e-9}  # of an exact product, by dtype
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def largest_error(matrix: Array) -> float:
    """The relative error up to which a product of this matrix's dtype counts as exact."""
    return _LARGEST_ERROR[matrix.dtype.char]


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


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


def product_curve(method: str, detail: str, matrix: Array, factors: Sequence[sp.csr_array]) -> Curve | None:
    """The curve of one product, whose error is measured; None unless it has fewer entries than the matrix."""
    if sum(factor.nnz for factor in factors) >= np.count_nonzero(matrix):
        return None
    operator = SparseProduct(factors).astype(matrix.dtype)
    error = frobenius(matrix - operator.toarray()) / frobenius(matrix)
    return Curve(method, np.array([operator.nnz]), np.array([error]), lambda i: operator, lambda i: detail)
