"""Non-negativity, a modifier of any other set."""

from ..typing import Array
from .base import Constraint
from .fixed import Fixed


class NonNegative(Constraint):
    """The members of another set that have no negative entry; as exact as that set's projection.

    For complex matrices a member's entries are real. The nearest member is not simply the positive part of
    another nearest member: averages come before signs, and where no average is positive the nearest member has
    a single one at the largest (`papilio.constraints.base.UnitNorm`).

    Parameters
    ----------
    constraint : Constraint

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
        self.shape = constraint.shape
        self.n_nonzero = constraint.n_nonzero
        self.exact = constraint.exact  # type: ignore[misc]

    def relaxed(self, share: float) -> "NonNegative":
        return NonNegative(self.constraint.relaxed(share))

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        return self.constraint._project(matrix, nonnegative=True)

    def _describe(self) -> str:
        return repr(self.constraint)
