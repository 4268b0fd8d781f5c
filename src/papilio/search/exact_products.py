"""What searches for products that are exact up to rounding share."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..typing import Array
from .curves import Curve

_LARGEST_ERROR = {"f": 1e-4, "d": 1e-9, "F": 1e-4, "D": 1e-9}  # of an exact product, by dtype


def largest_error(matrix: Array) -> float:
    """The relative error up to which a product of this matrix's dtype counts as exact."""
    return _LARGEST_ERROR[matrix.dtype.char]


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def product_curve(method: str, detail: str, matrix: Array, factors: Sequence[sp.csr_array]) -> Curve | None:
    """The curve of one product, whose error is measured; None unless it has fewer entries than the matrix."""
    if sum(factor.nnz for factor in factors) >= np.count_nonzero(matrix):
        return None
    operator = SparseProduct(factors).astype(matrix.dtype)
    error = frobenius(matrix - operator.toarray()) / frobenius(matrix)
    return Curve(method, np.array([operator.nnz]), np.array([error]), lambda i: operator, lambda i: detail)
