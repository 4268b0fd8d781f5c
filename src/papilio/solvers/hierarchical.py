"""The hierarchical strategy: the paper's Algorithm 3."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ..operators import SparseProduct
from ..results import Callback, Factorization, History, Status
from ..runtime.session import Session
from ..typing import Array, MatrixLike
from ..validation import as_matrix
from .moments import Moments
from .palm import Fit, Limits, as_factorization, default_start, descend
from .polish import polish as fit_on_supports
from .schedule import Schedule

Retarget: TypeAlias = Callable[[SparseProduct], Moments]


def hierarchical(
    target: MatrixLike,
    schedule: Schedule,
    *,
    retarget: Retarget | None = None,
    order: str = "right_to_left",
    polish: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
    inertia: bool = False,
    callback: Callback | None = None,
) -> Factorization:
    """Factorize a matrix by splitting off one sparse factor after the other (Algorithm 3).

    Each split is a two-factor `palm` of the residual, from scale 1; it is followed by a global `palm` of all
    factors so far, from where they are.

    Parameters
    ----------
    target : (m, n) matrix
    schedule : Schedule
        The sets of the splits; its shapes must chain to the target's.
    retarget : callable, optional
        Gives each global step the `Moments` that it fits, from the operator that the last global step left (for
        the first: the target itself, as one factor). This is how dictionaries are learned: the callable codes
        the signals anew. By default global steps fit the target.
    order : {"right_to_left", "left_to_right"}
        The order of updates, stated for ``side="left"``, mirrored for ``side="right"``: by default the residual
        is updated first.
    polish : bool
        In the end, fit the values on the supports that were found by least squares (for sets that are
        "scale × support"), so that what is exactly factorizable comes out exact to rounding. The error only
        falls by it. False is the paper's algorithm to the letter.
    max_iter, tol, inertia
        Of each `palm`, split or global. With ``tol=0`` none stops early.
    callback : callable, optional
        Called with a `Step` after each iteration, whose phase is "split 1", "global 1", "split 2", …; a true
        result stops the solver, which returns what it has, with fewer factors if splits are missing.

    Returns
    -------
    Factorization
        With ``retarget``, ``error`` is that of the last global step on its `Moments`.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(32).toarray()
    >>> fit = pp.hierarchical(H, pp.Schedule.hadamard(32))
    >>> fit.operator.nnz, bool(fit.error < 1e-12)
    (320, True)
    """
    matrix = as_matrix("target", target)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape != matrix.shape:
        raise ValueError(f"schedule must be for the target's shape {matrix.shape}, got one for {schedule.shape}")
    limits = Limits(order, max_iter, tol, inertia).checked()
    session = Session(callback)
    return factorize_by_splits(session, matrix, schedule, limits, retarget=retarget, polish=bool(polish))


def factorize_by_splits(
    session: Session,
    matrix: Array,
    schedule: Schedule,
    limits: Limits,
    *,
    retarget: Retarget | None = None,
    polish: bool = True,
) -> Factorization:
    """`hierarchical` without checks, as part of a session. ``limits.order`` is stated for ``side="left"``."""
    begin = len(session.history)
    if schedule.side == "right":
        limits = limits.mirrored()
    start = Split(0, Fit([matrix], 1.0, 0.0, Status.MAX_ITER), Moments(matrix))
    levels, fit, moments = split_all(session, schedule, limits, start, retarget)
    if polish and fit.status is not Status.STOPPED:
        sets = schedule.together(levels - 1)
        factors, scale = fit_on_supports(moments, sets, fit.factors, fit.scale, limits.order)
        fit = fit._replace(factors=factors, scale=scale)
    return as_factorization(moments, fit, History(session.history[begin:]))


class Split(NamedTuple):
    """How far the hierarchy is: the number of splits, all factors with the residual, and what they fit."""

    levels: int
    fit: Fit
    moments: Moments


def split_all(
    session: Session,
    schedule: Schedule,
    limits: Limits,
    start: Split,
    retarget: Retarget | None = None,
    after_level: Callable[[Split], Any] = lambda split: None,
) -> Split:
    """The splits and global steps of `hierarchical` that are left, in the order that is right for this side.

    ``start`` is the target alone, or where an earlier call ended.
    """
    n_levels, left_side = len(schedule.factors), schedule.side == "left"
    levels, fit, moments = start
    for k in range(levels, n_levels):
        residual = fit.factors[-1] if left_side else fit.factors[0]
        pair = schedule.split(k)
        zero = default_start(pair, limits.order, residual.dtype)
        with session.part(1 / (2 * n_levels)):
            split = descend(session, f"split {k + 1}", Moments(residual), pair, zero, 1.0, limits)
        with session.part(1 / (2 * n_levels)):
            if retarget is not None and not session.stopped:
                moments = _checked(retarget(SparseProduct(fit.factors, fit.scale)), schedule.shape)
            others = fit.factors[:-1] if left_side else fit.factors[1:]
            factors = [*others, *split.factors] if left_side else [*split.factors, *others]
            levels, fit = k + 1, split._replace(factors=factors, scale=fit.scale * split.scale)
            if fit.status is Status.STOPPED:
                break
            sets = schedule.together(k)
            fit = descend(session, f"global {k + 1}", moments, sets, fit.factors, fit.scale, limits)
        after_level(Split(levels, fit, moments))
        if fit.status is Status.STOPPED:
            break
    return Split(levels, fit, moments)


def _checked(moments: Any, shape: tuple[int, int]) -> Moments:
    if not isinstance(moments, Moments):
        raise TypeError(f"retarget must return Moments, got {type(moments).__name__}")
    if moments.shape != shape:
        raise ValueError(f"retarget must return Moments of shape {shape}, got {moments.shape}")
    return moments
