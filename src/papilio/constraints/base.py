"""What a constraint set is, and the projection that all sets of unit Frobenius norm share."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from ..linalg import frobenius, rescaled
from ..typing import Array
from ..validation import as_matrix, as_numbers
from .selection import first_largest


class Constraint(ABC):
    """A set of matrices that a factor must lie in.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns of the members.
    n_nonzero : int
        An upper bound on the non-zero entries of a member: what a factor costs at most.
    exact : bool
        Whether `project` gives a nearest member (up to ties and rounding), or only a near one.
    free_on_support : bool
        Whether every matrix of unit Frobenius norm whose support lies in a member's support is a member too:
        the sets that are "scale × support", on which a least-squares fit is free to choose the values.
    """

    exact: ClassVar[bool] = True
    free_on_support: ClassVar[bool] = False
    shape: tuple[int, int]
    n_nonzero: int

    def project(self, matrix: Any) -> Array:
        """The member that is nearest to ``matrix`` in the Frobenius norm, as a new dense array.

        Magnitudes that are equal up to rounding are ties, and ties go to the lowest row-major index.
        """
        array = as_matrix("matrix", matrix, self.shape)
        return self._project(array, nonnegative=False)

    @abstractmethod
    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        """`project` without checks, onto the non-negative members if asked; never ``matrix`` itself."""

    def relaxed(self, share: float) -> "Constraint":
        """A larger set of the same kind: n^(1 − share)·N^share entries for n of N. By default the set itself."""
        return self

    def contains(self, matrix: Any, tol: float | None = None) -> bool:
        """Whether ``matrix`` is a member.

        Zeros count exactly, values up to ``tol`` (1e-9 in double, 1e-5 in single precision by default).
        """
        array = as_numbers("matrix", matrix)
        if array.shape != self.shape or not np.isfinite(array).all():
            return False
        if tol is None:
            tol = max(1e-9, 100 * float(np.finfo(array.dtype).eps))
        # The nearest member of a member is itself, support and all.
        nearest = self.project(array)
        return not array[nearest == 0].any() and bool(np.abs(nearest - array).max() <= tol)

    def _describe(self) -> str:
        """The arguments that `repr` shows."""
        return f"{self.shape}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._describe()})"


class UnitNorm(Constraint):
    """A set of unit Frobenius norm, described in orthonormal coordinates t of the matrices it allows.

    In such coordinates every set here is "unit vectors u on an admissible support", and since
    ‖u − t‖² = ‖t‖² + 1 − 2 Re⟨u, t⟩, the nearest member is t on the admissible support that holds most of
    ‖t‖², divided by its norm (the paper's appendix B). With non-negativity, only the positive parts of t
    count; where there is none, the nearest member is a single one at the largest (least negative)
    coordinate. The all-zero matrix, equally far from every member, projects by the same rule to the member
    with a single non-zero coordinate: the first in row-major order that may stand alone.
    """

    free_on_support: ClassVar[bool] = True

    def _coordinates(self, matrix: Array) -> Array:
        """Orthonormal coordinates of ``matrix``'s projection onto the span of the set."""
        return matrix

    def _matrix(self, coordinates: Array) -> Array:
        """The matrix with these coordinates, the inverse of `_coordinates` on the span."""
        return coordinates

    def _may_stand_alone(self) -> Array | None:
        """Which coordinates are a member by themselves, the others are zero in all members; None for all."""
        return None

    @abstractmethod
    def _select(self, worth: Array) -> Array:
        """A mask of the admissible support with the largest sum of squares of ``worth`` ≥ 0."""

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        values = self._coordinates(matrix)
        alone = self._may_stand_alone()
        if alone is not None:
            values = np.where(alone, values, 0)
        # All members have the same norm, so a positive multiple has the same nearest member.
        values = rescaled(values)
        worth = np.abs(values)
        if nonnegative:
            worth = np.maximum(values.real, 0)
        if worth.any():
            kept = np.where(self._select(worth), worth if nonnegative else values, 0)
            kept = kept.astype(matrix.dtype, copy=False) / matrix.real.dtype.type(frobenius(kept))
        else:
            kept = np.zeros(values.shape, dtype=matrix.dtype)
            kept.flat[first_largest(values.real, alone)] = 1
        return self._matrix(kept)
