"""The hierarchical strategy: the paper's Algorithm 3."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..operators import SparseProduct
from ..results import Factorization, Status
from ..typing import Array
from ..validation import as_choice, as_integer, as_matrix, as_real
from .moments import Moments
from .palm import ORDERS, Callback, Run, default_start
from .polish import polish as fit_on_supports
from .schedule import Schedule


def hierarchical(
    target: Any,
    schedule: Schedule,
    *,
    retarget: Callable[[SparseProduct], Moments] | None = None,
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
    residual = as_matrix("target", target)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape != residual.shape:
        raise ValueError(f"schedule must be for the target's shape {residual.shape}, got one for {schedule.shape}")
    as_choice("order", order, ORDERS)
    left_side = schedule.side == "left"
    order = order if left_side else ORDERS[1 - ORDERS.index(order)]
    limits = order, as_integer("max_iter", max_iter, 1), as_real("tol", tol, 0.0), bool(inertia)
    run = Run(callback)
    peeled, moments, status = peel(run, schedule, retarget, limits, Peeled(0, [residual], 1.0))
    factors, scale = peeled.factors, peeled.scale
    if polish and status is not Status.STOPPED:
        factors, scale = fit_on_supports(moments, schedule.together(peeled.levels - 1), factors, scale, order)
    return run.factorization(moments, factors, scale, status)


class Peeled(NamedTuple):
    """How far the hierarchy is: the splits so far, all factors with the residual, and the scale."""

    levels: int
    factors: Sequence[Array]
    scale: float


def peel(
    run: Run,
    schedule: Schedule,
    retarget: Callable[[SparseProduct], Moments] | None,
    limits: tuple[str, int, float, bool],
    begin: Peeled,
    after_level: Callable[[Peeled], Any] | None = None,
) -> tuple[Peeled, Moments, Status]:
    """The splits and global steps of `hierarchical`, from where ``begin`` is: the target alone, at first.

    ``limits`` are order (of this side), max_iter, tol and inertia of each `palm`.
    """
    left_side, order = schedule.side == "left", limits[0]
    levels, factors, scale = begin
    moments, status = Moments(factors[0]), Status.MAX_ITER  # of the target, where nothing else is said
    for k in range(levels, len(schedule.factors)):
        residual = factors[-1] if left_side else factors[0]
        pair = schedule.split(k)
        start = default_start(pair, order, residual.dtype)
        split, split_scale, _, status = run.descend(f"split {k + 1}", Moments(residual), pair, start, 1.0, *limits)
        if retarget is not None and not run.stopped:
            moments = _checked(retarget(SparseProduct(factors, scale)), schedule.shape)
        factors = [*factors[:-1], *split] if left_side else [*split, *factors[1:]]
        scale *= split_scale
        levels = k + 1
        if status is Status.STOPPED:
            break
        sets = schedule.together(k)
        factors, scale, _, status = run.descend(f"global {k + 1}", moments, sets, factors, scale, *limits)
        if after_level is not None:
            after_level(Peeled(levels, factors, scale))
        if status is Status.STOPPED:
            break
    return Peeled(levels, factors, scale), moments, status


def _checked(moments: Any, shape: tuple[int, int]) -> Moments:
    if not isinstance(moments, Moments):
        raise TypeError(f"retarget must return Moments, got {type(moments).__name__}")
    if moments.shape != shape:
        raise ValueError(f"retarget must return Moments of shape {shape}, got {moments.shape}")
    return moments
