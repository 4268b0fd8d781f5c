"""Checks for those who write a constraint set or an operator; papilio's own tests use them, too."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .constraints import Constraint
from .operators import SparseProduct
from .operators.factors import to_dense
from .typing import Array, MatrixLike
from .validation import DTYPES

__all__ = ["check_constraint", "dot_test", "stationarity"]


def check_constraint(constraint: Constraint, *, random_state: int = 0) -> None:
    """Check that a set keeps what PALM relies on.

    `Constraint.project` must give members, of the dtype of the matrix and with at most ``n_nonzero`` entries, also
    for zero, and leave its argument as it is. Members must be their own projections. If the set is ``exact``, no
    other member that is tried may be nearer to a matrix; if it is ``free_on_support``, other values on the support
    of a member must make members.

    Parameters
    ----------
    constraint : Constraint
        The set.
    random_state : int, default=0
        The seed of the matrices that are projected.

    Raises
    ------
    AssertionError
        If a check fails; the message says which.

    Examples
    --------
    >>> from papilio.constraints import Sparse
    >>> from papilio.testing import check_constraint
    >>> check_constraint(Sparse((4, 5), 6))
    """
    rng = np.random.default_rng(random_state)
    members = [constraint.project(gaussian(rng, constraint.shape, np.dtype(float))) for _ in range(5)]
    for dtype in DTYPES:
        for matrix in (gaussian(rng, constraint.shape, dtype), np.zeros(constraint.shape, dtype)):
            _check_projection(constraint, matrix, members)


def _check_projection(constraint: Constraint, matrix: Array, members: list[Array]) -> None:
    name, before = f"{constraint!r}, {matrix.dtype}", matrix.copy()
    member = constraint.project(matrix)
    _require(member.shape == constraint.shape, f"{name}: the projection has shape {member.shape}")
    _require(member.dtype.kind == matrix.dtype.kind or member.dtype.kind == "c", f"{name}: got {member.dtype}")
    _require(np.array_equal(matrix, before), f"{name}: project changed its argument")
    _require(np.count_nonzero(member) <= constraint.n_nonzero, f"{name}: more than n_nonzero entries")
    _require(constraint.contains(member), f"{name}: the projection is not a member")
    slack = 100 * float(np.finfo(matrix.dtype).eps) * (1 + float(np.linalg.norm(matrix)))
    if constraint.exact:
        distance = float(np.linalg.norm(matrix - member))
        sizes = np.abs(matrix)
        least = np.sort(sizes, axis=None)[-max(constraint.n_nonzero, 1)]
        others = [*members, constraint.project(np.where(sizes >= least, matrix, 0))]
        nearest = min(float(np.linalg.norm(matrix - other)) for other in others)
        _require(distance <= nearest + slack, f"{name}: another member is nearer than the projection")
    if constraint.free_on_support:
        other = np.where(member != 0, np.cos(np.arange(member.size)).reshape(member.shape), 0)
        other = (other / np.linalg.norm(other)).astype(member.dtype)
        _require(constraint.contains(other), f"{name}: not free_on_support, as other values are no member")


def dot_test(operator: LinearOperator, *, random_state: int = 0, tol: float | None = None) -> None:
    """Check that an operator is linear and has the right adjoint: ⟨A x, y⟩ = ⟨x, Aᴴ y⟩.

    Parameters
    ----------
    operator : LinearOperator
        A, with ``shape``, ``dtype``, ``@`` and ``.H``.
    random_state : int, default=0
        The seed of x and y.
    tol : float, optional
        The largest difference, relative to ‖A x‖·‖y‖ + ‖x‖·‖Aᴴ y‖; by default 1000 times the dtype's rounding.

    Raises
    ------
    AssertionError
        If a check fails; the message says which.

    Examples
    --------
    >>> import papilio as pp
    >>> from papilio.testing import dot_test
    >>> dot_test(pp.transforms.dct(16))
    """
    rng, dtype = np.random.default_rng(random_state), np.dtype(operator.dtype)
    limit = 1000 * float(np.finfo(dtype).eps) if tol is None else tol
    rows, columns = operator.shape
    X, y = gaussian(rng, (columns, 2), dtype), gaussian(rng, (rows,), dtype)
    x, z = X[:, 0], X[:, 1]
    image, back = operator @ x, operator.H @ y
    _require(image.shape == (rows,) and back.shape == (columns,), f"shapes {image.shape} and {back.shape}")
    sizes = [float(np.linalg.norm(each)) for each in (image, y, x, back)]
    gap = abs(np.vdot(y, image) - np.vdot(back, x))
    _require(
        gap <= limit * (sizes[0] * sizes[1] + sizes[2] * sizes[3]), f"⟨A x, y⟩ and ⟨x, Aᴴ y⟩ differ by {gap:g}"
    )
    block = operator @ X
    least = limit * (sizes[0] + float(np.linalg.norm(block)))
    _require(np.linalg.norm(block[:, 0] - image) <= least, "a block and its columns give other products")
    _require(np.linalg.norm(operator @ (x + 2 * z) - block @ [1, 2]) <= 3 * least, "the operator is not linear")


def stationarity(target: MatrixLike, constraints: Sequence[Constraint], operator: SparseProduct) -> float:
    """How far one more step of PALM would move the factors: 0 at a stationary point.

    With P the projection onto the set of a factor S, and L and R the products left and right of it, this is the
    largest of all ‖S − P(S − ∇/c)‖, ∇ = scale·Lᴴ(scale·L S R − X)Rᴴ, c = 1.001·scale²‖L‖₂²‖R‖₂². Factors have
    norm 1, so that it is relative.

    Parameters
    ----------
    target : (m, n) matrix
        X.
    constraints : sequence of Constraint
        The sets of the factors, left to right.
    operator : SparseProduct
        What `papilio.palm` or `papilio.hierarchical` found.

    Returns
    -------
    float
        The length of the longest step, from 0 to 2.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> from papilio.constraints import Sparse
    >>> X, sets = np.outer([1.0, 2, 0], [0, 1.0, 3]), [Sparse((3, 1), 2), Sparse((1, 3), 2)]
    >>> bool(pp.testing.stationarity(X, sets, pp.palm(X, sets, tol=0).operator) < 1e-8)
    True
    """
    X, scale = np.asarray(target), operator.scale
    factors = [to_dense(factor) for factor in operator.factors]
    lengths = []
    for j, (S, constraint) in enumerate(zip(factors, constraints, strict=True)):
        L = reduce(np.matmul, factors[:j], np.eye(factors[0].shape[0]))
        R = reduce(np.matmul, factors[j + 1 :], np.eye(S.shape[1]))
        gradient = scale * L.conj().T @ (scale * (L @ S @ R) - X) @ R.conj().T
        c = 1.001 * scale**2 * np.linalg.norm(L, 2) ** 2 * np.linalg.norm(R, 2) ** 2
        lengths.append(float(np.linalg.norm(S - constraint.project(S - gradient / c))))
    return max(lengths)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Standard normal numbers, with imaginary parts for complex dtypes."""
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        return (values + 1j * rng.standard_normal(shape)).astype(dtype)
    return values.astype(dtype)


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise AssertionError(message)
