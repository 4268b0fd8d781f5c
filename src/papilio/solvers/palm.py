"""PALM for learning efficient dictionaries: the paper's Algorithm 2."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..constraints import Constraint, Fixed
from ..linalg import frobenius, inner, largest_part
from ..operators import SparseProduct
from ..results import Callback, Factorization, History, Status
from ..runtime.session import Session
from ..runtime.threads import blas_threads
from ..typing import Array, MatrixLike
from ..validation import as_choice, as_flag, as_integer, as_matrix, as_real, is_series
from .factor_chain import Chain, ChainOnMoments, multiplied
from .moments import Moments

ORDERS = ("right_to_left", "left_to_right")
_LARGE_ERROR = 1e-2  # relative, far above the rounding of single precision
_MARGIN = 1.001  # the step is 1/c with c > the Lipschitz constant, by this factor
_SMALL = 1 << 18  # multiplications in a product of factors up to which overheads take most of the time


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
        raise ValueError(f"scale must not be zero, nor negligible relative to the target, got {scale}")
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
    descent = Descent(moments, sets, factors, limits)
    if scale == 0.0:
        # No step could change a zero product.
        return Fit(descent.factors, 0.0, descent.error(0.0), Status.CONVERGED)
    error, status, tol = np.inf, Status.MAX_ITER, limits.tol
    # From a given start, the first change counts too; from zero there is nothing to compare with.
    from_zero = any(not factor.any() for factor in factors)
    start_error = np.inf if tol == 0 or from_zero else descent.error(scale)
    with blas_threads(_work(sets)):
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


class Descent:
    """PALM's iteration on one problem, with its state: the factors, and their last change.

    With inertia, the k-th iteration after a start takes its gradients at S + k/(k + 3)·(S − S_before), ahead in
    the direction of the last change (iPALM), and starts again from k = 0 when the error would rise.
    """

    def __init__(
        self, moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], limits: Limits
    ) -> None:
        start = [c.matrix if isinstance(c, Fixed) else factor for c, factor in zip(sets, factors, strict=True)]
        is_free = all(isinstance(constraint, Fixed) or constraint.free_on_support for constraint in sets)
        on_moments = limits.inertia and is_free and moments.gram is not None and moments.is_moderate
        # With inertia, a step that is too long is seen at once, as the error rises.
        tolerance = 1e-3 if on_moments or (limits.inertia and not is_small(sets)) else 1e-7
        self._chain = (ChainOnMoments if on_moments else Chain)(moments, start, limits.order, tolerance)
        self._sets, self._is_inertial = sets, limits.inertia
        self._free = [not isinstance(constraint, Fixed) for constraint in sets]
        self._is_member = [False] * len(sets)
        self._before = self.factors
        self._age = 0  # iterations since inertia started anew

    @property
    def factors(self) -> list[Array]:
        """A new list of the factors as they are."""
        return list(self._chain.factors)

    def error(self, scale: float) -> float:
        """The relative error of the factors as they are."""
        return self._chain.error(scale)

    def advance(self, scale: float, error: float) -> tuple[float, float]:
        """One iteration that does not raise the error; returns the scale and the relative error."""
        start = self.factors
        rounding = self._chain.rounding
        limit = error * (1 + rounding) + rounding
        inertia = self._age / (self._age + 3) if self._is_inertial and error < np.inf else 0.0
        new_scale, new_error = self._iterate(scale, inertia)
        if new_error > limit and inertia > 0:
            self._chain.factors, self._age = list(start), 0
            new_scale, new_error = self._iterate(scale, 0.0)
        if new_error > limit:
            # Power iteration missed a largest singular value, and a step was too long: take it again.
            self._chain.factors = list(start)
            new_scale, new_error = self._iterate(scale, 0.0, exact_norms=True)
        self._before = start
        self._age += 1
        return new_scale, new_error

    def _iterate(self, scale: float, inertia: float, exact_norms: bool = False) -> tuple[float, float]:
        """Algorithm 2's loop: a projected gradient step for each factor, then the scale."""
        for j in self._chain.sweep(scale):
            if self._free[j]:
                self._chain.factors[j] = self._step(j, inertia, exact_norms)
        return self._chain.fit_scale(scale)

    def _step(self, j: int, inertia: float, exact_norms: bool) -> Array:
        """P(S − Lᴴ(L S R − X/scale)Rᴴ/c), c = 1.001‖L‖₂²‖R‖₂²: Algorithm 2's step, with the scale cancelled."""
        chain, constraint = self._chain, self._sets[j]
        ahead = chain.ahead(self._before[j], inertia)
        point, score = chain.gradient_step(ahead, _MARGIN, exact_norms)
        if score is not None:
            return constraint._project_weighted(point, score)
        new = constraint._project(point, nonnegative=False)
        if self._is_member[j] and inertia == 0 and _is_farther(new, chain.factors[j], point, chain.rounding):
            return chain.factors[j]
        self._is_member[j] = True
        return new


def _is_farther(new: Array, old: Array, point: Array, rounding: float) -> bool:
    """Whether ``old`` is nearer to the point than its projection, which can be if that is not exact, or of ties.

    All members of a set have the same norm, so that the nearer one has the larger inner product.
    """
    change = new - old
    if np.vdot(change, point).real >= 0:  # Nearly always, single precision is enough to see the sign.
        return False
    gain = inner(change, point)
    return gain < 0 and gain < -rounding * frobenius(change) * frobenius(point)


def is_rough(moments: Moments, sets: Sequence[Constraint], error: float) -> bool:
    """Whether single precision is enough for steps from this relative error, and faster.

    It is where the error is far above rounding, factors are large, and a plain matrix does not overflow in it.
    """
    is_in_range = moments.gram is not None or 1e-8 < largest_part(moments.cross) < 1e8
    is_double = moments.cross.dtype in (np.float64, np.complex128)
    return error > _LARGE_ERROR and is_double and is_in_range and not is_small(sets)


def is_small(sets: Sequence[Constraint]) -> bool:
    """Whether products of factors take less time than what surrounds them."""
    longest = max(max(constraint.shape) for constraint in sets)
    return longest * longest * sets[-1].shape[1] <= _SMALL


def _work(sets: Sequence[Constraint]) -> int:
    """Multiplications in the largest product of an iteration."""
    inner_sides = [constraint.shape[1] for constraint in sets[:-1]]
    return sets[0].shape[0] * sets[-1].shape[1] * max(inner_sides, default=1)


def as_factorization(moments: Moments, fit: Fit, history: History) -> Factorization:
    """The result of a solver, with the error computed again from its factors."""
    product = multiplied(fit.factors)
    error = moments.error(product * product.real.dtype.type(fit.scale))
    operator = SparseProduct(fit.factors, fit.scale)
    return Factorization(operator, len(history), error=error, status=fit.status, history=history)
