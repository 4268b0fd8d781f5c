"""Symmetric and Hermitian matrices, dense or sparse, made ready for rotations."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius, in_units, wide
from ..typing import Array
from ..validation import as_matrix, as_sparse, require_finite

_ASYMMETRY = 1e3  # of the rounding error of the largest entry


def as_hermitian(name: str, value: Any) -> tuple[Any, np.dtype[Any], int]:
    """A Hermitian matrix in double precision and in units of 2^e, a copy; its working dtype; and e.

    A sparse matrix stays sparse.
    """
    if sp.issparse(value):
        matrix = sp.csr_array(as_sparse(name, value))
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be a matrix, got an array with {matrix.ndim} dimensions")
        require_finite(name, matrix.data)
    else:
        matrix = as_matrix(name, value)
    if matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"{name} must be square, got a {matrix.shape[0]}×{matrix.shape[1]} matrix")
    dtype = matrix.dtype
    matrix = matrix.astype(wide(dtype))
    if sp.issparse(matrix):
        values, exponent = in_units(matrix.data) if matrix.nnz else (matrix.data, 0)
        matrix = sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        matrix, exponent = in_units(matrix)
    adjoint = matrix.conj().T
    gap = abs(matrix - adjoint).max()
    if gap > _ASYMMETRY * np.finfo(dtype).eps * abs(matrix).max():
        kind = "Hermitian" if dtype.kind == "c" else "symmetric"
        raise ValueError(f"{name} must be {kind}, got a matrix that is not: (S + S.conj().T) / 2 is")
    matrix = (matrix + adjoint) / 2
    return (sp.csr_array(matrix) if sp.issparse(matrix) else np.ascontiguousarray(matrix)), dtype, exponent


def beside_diagonal(matrix: Any) -> float:
    """The Frobenius norm of all entries beside the diagonal."""
    if sp.issparse(matrix):
        rest = matrix - sp.dia_array((matrix.diagonal()[None], [0]), shape=matrix.shape)
        return frobenius(rest.data)
    diagonal = matrix.diagonal().copy()
    np.fill_diagonal(matrix, 0)
    size = frobenius(matrix)
    np.fill_diagonal(matrix, diagonal)
    return size


def norm_of(matrix: Any) -> float:
    return frobenius(matrix.data if sp.issparse(matrix) else matrix)


def real_diagonal(matrix: Any) -> Array:
    return np.array(matrix.diagonal().real, np.float64)
