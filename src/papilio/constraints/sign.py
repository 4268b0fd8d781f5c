"""Non-negativity, a modifier of any other set."""

from ..typing import Array
from .base import Constraint
from .fixed import Fixed


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
