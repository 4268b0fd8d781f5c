"""The arithmetic of SparseProducts: multiples, sums, conjugates, real and imaginary parts, pseudoinverses."""

from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ..validation import as_float, as_real, is_scalar, require_finite
from .application import AppliedOperator
from .base import FactoredOperator
from .csr import entries


class ArithmeticOperator(AppliedOperator):
    """What gives a product of sparse factors again; see `SparseProduct`."""

    def conj(self) -> Self:
        """The complex conjugate.

        Returns
        -------
        SparseProduct

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1j]]]).conj().toarray()
        array([[0.-1.j]])
        """
        return self._adjoint()._transpose()

    def __mul__(self, other: Any) -> Any:
        return self.dot(other)

    def __rmul__(self, other: Any) -> Any:
        return self._scaled(other) if is_scalar(other) else self.__rmatmul__(other)

    def __truediv__(self, other: Any) -> Any:
        if not is_scalar(other):
            return NotImplemented
        if not other:
            raise ZeroDivisionError("a SparseProduct cannot be divided by zero")
        if np.iscomplexobj(other):
            return self._scaled(1 / complex(other))
        return self._trusted(self._factors, as_real("scale", self._scale / as_float("scale", other)))

    def __neg__(self) -> Self:
        return self._trusted(self._factors, -self._scale)

    def _scaled(self, number: Any) -> Self:
        """A real number goes into the scale; a complex one into the smallest factor (the scale is real)."""
        if not np.iscomplexobj(number):
            return self._trusted(self._factors, as_real("scale", self._scale * as_float("scale", number)))
        require_finite("scale", np.asarray(number))
        factors = list(self.astype(np.result_type(self.dtype, np.complex64))._factors)
        smallest = min(range(len(factors)), key=lambda i: factors[i].size)
        with np.errstate(over="ignore"):
            factors[smallest] = factors[smallest] * factors[smallest].dtype.type(number)
        require_finite("scale", entries(factors[smallest]))
        return self._trusted(factors, self._scale)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, FactoredOperator):
            return super().__add__(other)  # of other operators: SciPy's, which applies one after the other
        from .algebra import added

        return added([self, other])

    def __radd__(self, other: Any) -> Any:
        return self if type(other) is int and other == 0 else NotImplemented  # where Python's sum() begins

    @property
    def real(self) -> Self:
        """The real part: a product of real factors, twice as wide inside; see `SparseProduct`."""
        from .algebra import part_of

        return part_of(self, imaginary=False)

    @property
    def imag(self) -> Self:
        """The imaginary part: a product of real factors, twice as wide inside; see `SparseProduct`."""
        from .algebra import part_of

        return part_of(self, imaginary=True)

    def pinv(self, *, tol: float | None = None, max_iter: int | None = None) -> LinearOperator:
        """The pseudoinverse A⁺ as an operator, which solves least-squares problems by iteration.

        ``op.pinv() @ b`` is the x of smallest norm that minimises ‖A x − b‖, found by LSQR on all columns of b
        together. An iteration takes one product with A and one with its adjoint; for orthogonal transforms, one is
        enough. The matrix is never formed. Small singular values take many iterations.

        Parameters
        ----------
        tol : float, optional
            x is exact for an A and a b that differ by this much, relative to their norms. By default 1e-12, and
            1e-6 in single precision.
        max_iter : int, optional
            By default 4 · min(rows, columns) + 20. A warning tells if it was reached.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator

        Examples
        --------
        >>> import papilio as pp
        >>> op = pp.SparseProduct([[[2, 0], [0, 0], [0, 4]]])
        >>> op.pinv() @ [2, 5, 2]
        array([1. , 0.5])
        """
        from .pinv import PseudoInverse

        return PseudoInverse(self, tol, max_iter)
