"""Products of dense and sparse factors, each in the form that is cheaper to multiply with."""

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ..kernels.convert import count_entries, fill_entries
from ..kernels.descent import norm_squared
from ..linalg import largest_eigenvalue, probe
from ..operators import SparseProduct
from ..typing import Array

Matrix: TypeAlias = Array | SparseProduct

_SMALL = 128  # up to this side, a sparse product is not worth its overhead
_LARGE = 1 << 17  # entries from which a sparse product is worth its overhead
_SMALL_DENSE = 200  # up to this side, BLAS is not worth its overhead


def compact(matrix: Array) -> Matrix:
    """``matrix`` as a SparseProduct if that is cheaper to multiply with, else as it is.

    A SparseProduct has to be packed first, which takes longer than a few dense products of small matrices.
    """
    if matrix.size < _LARGE:
        return matrix
    matrix = np.ascontiguousarray(matrix)
    pointers = count_entries(matrix)
    if pointers[-1] > 0.25 * matrix.size:
        return matrix
    indices, values = fill_entries(matrix, pointers)
    return SparseProduct._trusted([sp.csr_array((values, indices, pointers), shape=matrix.shape)], 1.0)


def times(left: Matrix | None, right: Matrix | None) -> Matrix:
    """left @ right, where None is the identity. A product of SparseProducts stays a chain of factors."""
    if left is None or right is None:
        only = right if left is None else left
        assert only is not None
        return only
    return left @ right


def dense(matrix: Matrix) -> Array:
    return matrix.toarray() if isinstance(matrix, SparseProduct) else matrix


def adjoint(matrix: Matrix | None) -> Matrix | None:
    if isinstance(matrix, SparseProduct):
        return matrix.H
    return None if matrix is None else matrix.conj().T if np.iscomplexobj(matrix) else matrix.T


def spectral_norm_squared(
    matrix: Matrix, start: Array | None = None, tol: float = 1e-7
) -> tuple[float, Array | None]:
    """‖matrix‖₂², and a singular vector to start from next time.

    Small matrices take a compiled power iteration, the others one by their products with vectors.
    """
    if max(matrix.shape) <= (_SMALL if isinstance(matrix, SparseProduct) else _SMALL_DENSE):
        array = np.ascontiguousarray(dense(matrix) if matrix.shape[0] >= matrix.shape[1] else dense(matrix).T)
        vector = np.zeros(array.shape[1], array.dtype) if start is None else start.copy()
        return norm_squared(array, probe(array.shape[1]).astype(array.dtype), 0.1, vector, tol), vector
    adjoined = adjoint(matrix)
    assert adjoined is not None
    if matrix.shape[0] < matrix.shape[1]:
        matrix, adjoined = adjoined, matrix

    def apply(vector: Array) -> Array:
        return adjoined @ (matrix @ vector)

    return largest_eigenvalue(apply, matrix.shape[1], matrix.dtype, start, tol)
