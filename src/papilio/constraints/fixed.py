"""A fixed matrix, unit-norm columns and rows, which have no common scale; non-negativity of any set."""

import numpy as np

from ..linalg import rescaled
from ..typing import Array, MatrixLike
from ..validation import as_matrix, as_shape
from .base import Constraint, first_largest


class Fixed(Constraint):
    """The set of one matrix, of any norm: a known factor, which the solver leaves as it is.

    Parameters
    ----------
    matrix : matrix
        Dense or sparse, not empty. The attribute ``matrix`` is a copy.

    Examples
    --------
    >>> from papilio.constraints import Fixed
    >>> Fixed([[1.0, 2.0]]).project([[5.0, 5.0]])
    array([[1., 2.]])
    """

    def __init__(self, matrix: MatrixLike) -> None:
        self.matrix: Array = as_matrix("matrix", matrix).copy()
        self.matrix.flags.writeable = False
        self.shape = self.matrix.shape
        self.n_nonzero = int(np.count_nonzero(self.matrix))

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return self.matrix.astype(np.result_type(matrix, self.matrix))

    def contains(self, matrix: MatrixLike, tol: float | None = None) -> bool:
        scale = float(np.abs(self.matrix).max()) or 1.0
        return super().contains(matrix, 1e-6 * scale if tol is None else tol)

    def _describe(self) -> str:
        return f"matrix of {self.shape}, {self.n_nonzero} entries"


class UnitRows(Constraint):
    """{A : each row has unit Euclidean norm}.

    The projection is exact. It divides each row by its norm; a zero row becomes (1, 0, …, 0).

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).

    Examples
    --------
    >>> from papilio.constraints import UnitRows
    >>> UnitRows((2, 2)).project([[3, 4], [0, 0]])
    array([[0.6, 0.8],
           [1. , 0. ]])
    """

    def __init__(self, shape: int | tuple[int, int]) -> None:
        self.shape = as_shape("shape", shape)
        self.n_nonzero = self.shape[0] * self.shape[1]

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        matrix = rescaled(matrix, axis=1)
        values = np.maximum(matrix.real, 0).astype(matrix.dtype) if nonnegative else matrix.copy()
        for i in np.flatnonzero(~values.any(axis=1)):
            values[i, first_largest(matrix[i].real)] = 1
        values = rescaled(values, axis=1)
        return values / np.linalg.norm(values, axis=1, keepdims=True)


class UnitColumns(UnitRows):
    """{A : each column has unit Euclidean norm}.

    The projection is exact. It divides each column by its norm; a zero column becomes (1, 0, …, 0)ᵀ.

    Parameters
    ----------
    shape : int or (int, int)
        Rows and columns; one integer n stands for (n, n).

    Examples
    --------
    >>> from papilio.constraints import UnitColumns
    >>> UnitColumns((2, 2)).project([[3, 0], [4, 0]])
    array([[0.6, 1. ],
           [0.8, 0. ]])
    """

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return np.ascontiguousarray(super()._project(matrix.T, nonnegative).T)


class NonNegative(Constraint):
    """{A in another set : all entries of A are real and non-negative}.

    The projection is exact if that of the other set is. It is not just the positive part of the other set's
    projection: sets such as `Circulant` average first, and if nothing is positive, the nearest member has a single
    non-zero value, at the largest entry.

    Parameters
    ----------
    constraint : Constraint
        The other set; a `Fixed` matrix must be non-negative.

    Examples
    --------
    >>> from papilio.constraints import NonNegative, Sparse
    >>> NonNegative(Sparse((2, 2), 2)).project([[-5, 3], [0, 4]])
    array([[0. , 0.6],
           [0. , 0.8]])
    """

    def __init__(self, constraint: Constraint) -> None:
        if not isinstance(constraint, Constraint):
            raise TypeError(f"constraint must be a papilio constraint, got {type(constraint).__name__}")
        if isinstance(constraint, Fixed) and ((constraint.matrix.real < 0) | (constraint.matrix.imag != 0)).any():
            raise ValueError("constraint must have non-negative members, got a Fixed matrix that is not")
        self.constraint = constraint
        self.shape, self.n_nonzero, self.exact = constraint.shape, constraint.n_nonzero, constraint.exact

    def relaxed(self, share: float) -> "NonNegative":
        return NonNegative(self.constraint.relaxed(share))

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return self.constraint._project(matrix, nonnegative=True)

    def _describe(self) -> str:
        return repr(self.constraint)
