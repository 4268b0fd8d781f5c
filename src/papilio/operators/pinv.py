"""The pseudoinverse of a product, by iteration: LSQR on the columns of a block at once."""

import warnings
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ..linalg import column_norms
from ..typing import Array
from ..validation import as_integer, as_numbers, as_real, require_finite
from .application import AppliedOperator

_TOL = {"f": 1e-6, "d": 1e-12}
_LEAST = 20  # iterations that small operators have, too: rounding may need more than there are columns


class PseudoInverse(LinearOperator):  # type: ignore[misc]
    """A⁺ as an operator: ``pinv @ b`` is the least-squares solution x of A x = b with the smallest norm.

    ``op.pinv()`` makes it. ``H`` and ``T`` are the pseudoinverses of the adjoint and of the transpose.
    """

    def __init__(self, op: AppliedOperator, tol: float | None, max_iter: int | None) -> None:
        single = np.finfo(op.dtype).bits == 32
        self.tol = _TOL["f" if single else "d"] if tol is None else as_real("tol", tol, 0.0, 1.0)
        fewest = 4 * min(op.shape) + _LEAST
        self.max_iter = fewest if max_iter is None else as_integer("max_iter", max_iter, 1)
        self.op = op
        super().__init__(op.dtype, (op.shape[1], op.shape[0]))

    def _matvec(self, x: Any) -> Array:
        vectors = as_numbers("x", x)
        if vectors.shape == (self.shape[1], 1):
            vectors = vectors[:, 0]
        require_finite("x", vectors)
        solved = self._solve(vectors.reshape(-1, self.shape[1]).T)
        return solved.T.reshape(*vectors.shape[:-1], self.shape[0])

    def _matmat(self, X: Any) -> Array:
        rows = np.moveaxis(as_numbers("X", X), -2, 0)
        require_finite("X", rows)
        solved = self._solve(rows.reshape(self.shape[1], -1))
        return np.moveaxis(solved.reshape(-1, *rows.shape[1:]), 0, -2)

    def _solve(self, B: Array) -> Array:
        if not self.op.scale:
            return np.zeros((self.shape[0], B.shape[1]), np.result_type(self.dtype, B.dtype))
        unit = self.op._trusted(self.op._factors, 1.0)
        return least_squares(unit, B, self.tol, self.max_iter) / self.op.dtype.type(self.op.scale).real

    def _adjoint(self) -> "PseudoInverse":
        return PseudoInverse(self.op.H, self.tol, self.max_iter)

    def _transpose(self) -> "PseudoInverse":
        return PseudoInverse(self.op.T, self.tol, self.max_iter)


def least_squares(op: AppliedOperator, B: Array, tol: float, max_iter: int) -> Array:
    """X of least norm that minimises ‖A X − B‖, by LSQR (Paige and Saunders 1982), column by column in step.

    A column is done when its residual r has ‖r‖ ≤ tol (‖A‖‖x‖ + ‖b‖) or ‖Aᴴr‖ ≤ tol ‖A‖‖r‖, with the Frobenius
    norm of the part of A that was seen: x is then exact for an A and b that differ by a relative tol.
    """
    dtype = np.result_type(op.dtype, B.dtype)
    X = np.zeros((op.shape[1], B.shape[1]), dtype)
    U, beta = _normalised(B.astype(dtype))
    V, alpha = _normalised(op.H @ U)
    W = V.copy()
    sizes, residual, diagonal, norm = beta, beta, alpha, alpha
    here = np.arange(B.shape[1])  # the columns that are not done
    for _ in range(max_iter):
        # ‖r‖ is residual, and ‖Aᴴr‖ is residual · |diagonal|.
        limit = tol * (norm * column_norms(X[:, here]) + sizes)
        left = (residual > limit) & (np.abs(diagonal) > tol * norm)
        if not left.all():
            here, U, V, W = here[left], U[:, left], V[:, left], W[:, left]
            alpha, sizes, residual, diagonal, norm = (
                each[left] for each in (alpha, sizes, residual, diagonal, norm)
            )
        if not here.size:
            return X
        U, beta = _normalised(op @ V - U * alpha.astype(U.real.dtype))
        V, alpha = _normalised(op.H @ U - V * beta.astype(V.real.dtype))
        norm = np.hypot(norm, np.hypot(alpha, beta))
        pivot = np.hypot(diagonal, beta)  # a rotation that takes beta to zero
        cosine, sine = diagonal / pivot, beta / pivot
        X[:, here] += W * (cosine * residual / pivot).astype(W.real.dtype)
        W = V - W * (sine * alpha / pivot).astype(W.real.dtype)
        residual, diagonal = sine * residual, -cosine * alpha
    warnings.warn(
        f"pinv has not converged for {here.size} of {B.shape[1]} vectors in max_iter={max_iter} iterations; "
        "raise max_iter or tol",
        RuntimeWarning,
        stacklevel=2,
    )
    return X


def _normalised(columns: Array) -> tuple[Array, Array]:
    """Columns of norm one, and their norms; zero ones stay zero."""
    norms = column_norms(columns)
    return columns / np.where(norms > 0, norms, 1.0).astype(columns.real.dtype), norms
