"""Sets without a common scale: a fixed matrix, unit-norm columns, unit-norm rows."""

from typing import Any

import numpy as np

from ..linalg import rescaled
from ..typing import Array
from ..validation import as_matrix, as_shape
from .base import Constraint
from .selection import first_largest


class Fixed(Constraint):
    """The set of one matrix, of any norm: a factor that is known and stays. The projection is exact."""

    def __init__(self, matrix: Any) -> None:
        self.matrix: Array = as_matrix("matrix", matrix).copy()
        self.matrix.flags.writeable = False
        self.shape = self.matrix.shape
        self.n_nonzero = int(np.count_nonzero(self.matrix))

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return self.matrix.astype(np.result_type(matrix, self.matrix))

    def contains(self, matrix: Any, tol: float | None = None) -> bool:
        scale = float(np.abs(self.matrix).max()) or 1.0
        return super().contains(matrix, 1e-6 * scale if tol is None else tol)

    def _describe(self) -> str:
        return f"matrix of {self.shape}, {self.n_nonzero} entries"


class UnitRows(Constraint):
    """{A : each row has unit Euclidean norm}. The projection is exact.

    A zero row becomes (1, 0, …, 0).
    """

    def __init__(self, shape: Any) -> None:
        self.shape = as_shape("shape", shape)
        self.n_nonzero = self.shape[0] * self.shape[1]

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return _unit_lines(matrix, nonnegative)


class UnitColumns(Constraint):
    """{A : each column has unit Euclidean norm}. The projection is exact.

    A zero column becomes (1, 0, …, 0)ᵀ.
    """

    def __init__(self, shape: Any) -> None:
        self.shape = as_shape("shape", shape)
        self.n_nonzero = self.shape[0] * self.shape[1]

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return np.ascontiguousarray(_unit_lines(matrix.T, nonnegative).T)


def _unit_lines(lines: Array, nonnegative: bool) -> Array:
    """Each line divided by its norm; with ``nonnegative``, its positive part (see `UnitNorm`)."""
    lines = rescaled(lines, axis=1)
    values = np.maximum(lines.real, 0).astype(lines.dtype) if nonnegative else lines.copy()
    for i in np.flatnonzero(~values.any(axis=1)):
        values[i, first_largest(lines[i].real)] = 1
    values = rescaled(values, axis=1)
    return values / np.linalg.norm(values, axis=1, keepdims=True)
