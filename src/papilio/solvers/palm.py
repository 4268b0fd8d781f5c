"""PALM for learning efficient dictionaries: the paper's Algorithm 2."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..constraints import Constraint, Fixed
from ..linalg import frobenius, largest_part
from ..operators import SparseProduct
from ..results import Callback, Factorization, History, Status
from ..runtime.session import Session
from ..typing import Array, MatrixLike
from ..validation import as_choice, as_flag, as_integer, as_matrix, as_real, is_series
from .accelerated import AcceleratedDescent
from .chain import Chain
from .descent import KINDS, CompiledDescent, Descent, GeneralDescent
from .moments import Moments

ORDERS = ("right_to_left", "left_to_right")
_LARGE_ERROR = 1e-2  # relative, far above the rounding of single precision
_SMALL = 1 << 18  # multiplications in a product of blocks up to which the compiled iteration is faster


class Limits(NamedTuple):
    """How PALM runs: the order of updates, and when it ends (see `palm`)."""

    order: str = ORDERS[0]
    max_iter: int = 500
    tol: float = 1e-6
    inertia: bool = False

    def checked(self) -> "Limits":
        """The same after checks."""
        order = as_choice("order", self.order, ORDERS)
        return Limits(
            order,
            as_integer("max_iter", self.max_iter, 1),
            as_real("tol", self.tol, 0.0),
            as_flag("inertia", self.inertia),
        )

    def mirrored(self) -> "Limits":
        """The same in the other order."""
        return self._replace(order=ORDERS[1 - ORDERS.index(self.order)])


class Fit(NamedTuple):
    """What PALM ends with: the factors, the scale, the relative error, and why it ended."""

    factors: Sequence[Array]
    scale: float
    error: float
    status: Status


def palm(
    target: MatrixLike | Moments,
    constraints: Sequence[Constraint],
    *,
    init: Sequence[MatrixLike] | None = None,
    scale: float = 1.0,
    order: str = "right_to_left",
    max_iter: int = 500,
    tol: float = 1e-6,
    inertia: bool = False,
    callback: Callback | None = None,
) -> Factorization:
    """Fit scale · S₁…S_M to a matrix, each S_j in its constraint set (palm4LED, Algorithm 2).

    Minimises ½‖X − scale·S₁…S_M‖_F² by one projected gradient step per factor,

        S ← P(S − (1/c) scale·Lᴴ(scale·L S R − X)Rᴴ),  c = 1.001·scale²‖L‖₂²‖R‖₂²,

    where L and R are the products left and right of S, followed by scale ← Re⟨X, X̂⟩/‖X̂‖², X̂ = S₁…S_M. After the
    first iteration the error never rises: if a projection is not exact, the old factor is kept where it is nearer
    to the gradient point.

    Parameters
    ----------
    target : (m, n) matrix or Moments
        X; for data with codes, their `Moments` (the product is then the dictionary).
    constraints : sequence of Constraint
        One per factor, left to right; their shapes must chain.
    init : sequence of matrices, optional
        The first factors, left to right. By default the first one to be updated is zero, the others are
        (rectangular) identity matrices, and `Fixed` ones are their matrix.
    scale : float
        The first scale; not zero.
    order : {"right_to_left", "left_to_right"}
        The order in which an iteration updates the factors.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when the relative error changes by less from one iteration to the next; 0 never stops early.
    inertia : bool
        Extrapolate each factor in the direction of its last change before the gradient step, and restart when the
        error would rise (iPALM with restarts). Not in the paper; usually a lower error in fewer iterations.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops the solver.

    Returns
    -------
    Factorization
        The product, its error, the number of iterations, why they ended, and their history.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> X = np.outer([1, 2, 0], [0, 1, 3])
    >>> fit = pp.palm(X, [pp.constraints.Sparse((3, 1), 2), pp.constraints.Sparse((1, 3), 2)])
    >>> bool(fit.error < 1e-6)
    True
    """
    moments = target if isinstance(target, Moments) else Moments(as_target(target))
    sets = as_constraints(constraints, moments.shape)
    limits = Limits(order, max_iter, tol, inertia).checked()
    scale = as_real("scale", scale)
    if scale == 0.0 or not np.isfinite(np.float64(moments.norm) / scale):
        raise ValueError(f"scale must not be zero, nor vanish beside the target, got {scale}")
    if abs(scale) > float(np.finfo(moments.cross.dtype).max):
        raise ValueError(f"scale must be within the range of {moments.cross.dtype}, got {scale}")
    start = default_start(sets, order, moments.cross.dtype) if init is None else _given_start(sets, init)
    session = Session(callback)
    fit = descend(session, "palm", moments, sets, start, scale, limits)
    return as_factorization(moments, fit, session.history)


def as_target(target: Any) -> Array:
    """``target`` as a matrix whose norm is a number of its dtype, as the scale must be."""
    matrix = as_matrix("target", target)
    if not frobenius(matrix) <= float(np.finfo(matrix.dtype).max):
        raise ValueError(
            f"target must have a norm within the range of {matrix.dtype}: divide it by a power of two"
        )
    return matrix


def as_constraints(constraints: Any, shape: tuple[int, int]) -> list[Constraint]:
    """``constraints`` as a list of sets whose shapes chain to ``shape``."""
    if isinstance(constraints, Constraint) or not is_series(constraints):
        raise TypeError(f"constraints must be a sequence of constraints, got {constraints!r}")
    sets = list(constraints)
    for i, constraint in enumerate(sets):
        if not isinstance(constraint, Constraint):
            raise TypeError(f"constraints[{i}] must be a papilio constraint, got {type(constraint).__name__}")
    if not sets:
        raise ValueError("constraints must hold at least one constraint, got none")
    for i, (left, right) in enumerate(pairwise(sets)):
        if left.shape[1] != right.shape[0]:
            raise ValueError(
                f"constraints must chain: constraints[{i}] has shape {left.shape} "
                f"but constraints[{i + 1}] has shape {right.shape}"
            )
    product = (sets[0].shape[0], sets[-1].shape[1])
    if product != tuple(shape):
        raise ValueError(f"constraints must chain to the target's shape {tuple(shape)}, got {product}")
    return sets


def _given_start(sets: Sequence[Constraint], init: Any) -> list[Array]:
    given = list(init) if is_series(init) else []
    if len(given) != len(sets):
        raise ValueError(f"init must hold {len(sets)} matrices, one per constraint, got {len(given)}")
    return [
        as_matrix(f"init[{i}]", matrix, constraint.shape)
        for i, (matrix, constraint) in enumerate(zip(given, sets, strict=True))
    ]


def default_start(sets: Sequence[Constraint], order: str, dtype: np.dtype[Any]) -> list[Array]:
    """Zero for the first free factor to be updated, identity for the others, their matrix for `Fixed` ones."""
    factors = [c.matrix if isinstance(c, Fixed) else np.eye(*c.shape, dtype=dtype) for c in sets]
    free = [j for j, constraint in enumerate(sets) if not isinstance(constraint, Fixed)]
    if free:
        first = free[-1] if order == "right_to_left" else free[0]
        factors[first] = np.zeros(sets[first].shape, dtype=dtype)
    return factors


def descend(
    session: Session,
    phase: str,
    moments: Moments,
    sets: Sequence[Constraint],
    factors: Sequence[Array],
    scale: float,
    limits: Limits,
) -> Fit:
    """PALM's iterations from the given factors and scale."""
    descent = descent_for(moments, sets, factors, limits.order, limits.inertia)
    if scale == 0.0:
        return Fit(descent.factors, 0.0, descent.error(0.0), Status.CONVERGED)  # no step could leave it
    error, status, tol = np.inf, Status.MAX_ITER, limits.tol
    # From a given start, the first change counts too; from zero there is nothing to compare with.
    from_zero = any(not factor.any() for factor in factors)
    start_error = np.inf if tol == 0 or from_zero else descent.error(scale)
    with descent.threads:
        for i in range(limits.max_iter):
            previous = min(error, start_error)
            start_error = np.inf
            scale, error = descent.advance(scale, error)
            session.report(phase, error, scale, descent.factors, (i + 1) / limits.max_iter)
            if session.stopped:
                status = Status.STOPPED
                break
            if scale == 0.0 or (tol > 0 and abs(previous - error) < tol):
                status = Status.CONVERGED
                break
    return Fit(descent.factors, scale, error, status)


def descent_for(
    moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], order: str, inertia: bool
) -> Descent:
    """The iteration for this problem: if kernels know the sets, one for small or one for large matrices."""
    known = all(type(constraint) in KINDS for constraint in sets)
    start = [c.matrix if isinstance(c, Fixed) else factor for c, factor in zip(sets, factors, strict=True)]
    if known and is_small(sets):
        return CompiledDescent(Chain(moments, start, order), sets, inertia)
    if known and inertia and moments.is_moderate:
        return AcceleratedDescent(moments, sets, start, order == ORDERS[1])
    return GeneralDescent(Chain(moments, start, order), sets, inertia)


def is_rough(moments: Moments, sets: Sequence[Constraint], error: float) -> bool:
    """Whether single precision is enough for steps from this relative error, and faster.

    It is where the error is far above rounding, factors are large, and a plain matrix fits in its number range.
    """
    is_in_range = moments.gram is not None or 1e-8 < largest_part(moments.cross) < 1e8
    is_double = moments.cross.dtype in (np.float64, np.complex128)
    return error > _LARGE_ERROR and is_double and is_in_range and not is_small(sets)


def is_small(sets: Sequence[Constraint]) -> bool:
    """Whether the compiled iteration is the faster one."""
    longest = max(max(constraint.shape) for constraint in sets)
    return longest * longest * sets[-1].shape[1] <= _SMALL


def as_factorization(moments: Moments, fit: Fit, history: History) -> Factorization:
    """The result of a solver, with the error computed again from its factors."""
    operator = SparseProduct(fit.factors, fit.scale)
    return Factorization(operator, moments.error(operator.toarray()), len(history), fit.status, history)
