"""The hierarchical strategy: the paper's Algorithm 3."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..constraints import Constraint, Sparse, SparseBlocks, SparseColumns
from ..linalg import frobenius, inner
from ..operators import SparseProduct
from ..results import Callback, Factorization, History, Status
from ..runtime.session import Session
from ..typing import Array, MatrixLike
from ..validation import as_flag
from .moments import Moments
from .palm import Fit, Limits, as_factorization, as_target, default_start, descend
from .polish import polish as fit_on_supports
from .schedule import Schedule


class CodedSignals(Moments):
    """The moments of signals X (d, n) with codes Γ (a, n), k in each column, which global steps may change."""

    def __init__(self, signals: Array, codes: Array, k: int) -> None:
        super().__init__(signals @ codes.conj().T, codes @ codes.conj().T, frobenius(signals) ** 2)
        self.signals, self.codes, self.k = signals, codes, k


Retarget: TypeAlias = Callable[[SparseProduct], Moments]
_SHARES = (0.4, 0.2)  # Relaxations of sets of blocks, one after the other.
_STEPS = 15  # Iterations of PALM in each relaxed set.


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

    Each split is a two-factor `palm` of the residual, from scale 1. A global `palm` of all factors so far, from
    their current values, follows it.

    For a schedule with ``regroup``, a split has sets of entries in place of blocks. The global step then chooses
    which rows and columns of each factor share blocks, first in relaxed sets and, after some iterations, again in
    less relaxed ones, down to the sets of the schedule.

    Parameters
    ----------
    target : (m, n) matrix
        The matrix to factorize.
    schedule : Schedule
        The constraint sets of the splits; its shapes must chain to the target's.
    retarget : callable, optional
        Returns the `Moments` that a global step fits, given the operator after the previous global step (for the
        first one, the target itself as one factor). This is how dictionaries are learned: the callable codes the
        signals again. By default global steps fit the target.
    order : {"right_to_left", "left_to_right"}
        The order of updates for ``side="left"``; it is mirrored for ``side="right"``. By default the residual is
        updated first; the paper's Algorithm 2 updates it last, after the sparse factor: "left_to_right".
    polish : bool
        At the end, fit the values on the supports found by least squares, for sets whose members are all
        unit-norm matrices on a support. A matrix that can be factorized exactly then comes out exact to rounding,
        and the error never rises. The paper ends with the last global step: False.
    max_iter : int
        The largest number of iterations of each `palm`, split or global.
    tol : float
        End each `palm` when its relative error changes by less; 0 never ends it early.
    inertia : bool
        Run each `palm` with inertia; not in the paper.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration, whose phase is "split 1", "global 1",
        "split 2", …; a true result stops the solver, which returns fewer factors if splits are missing.

    Returns
    -------
    Factorization
        The product, its error, the number of iterations, why they ended, and their history. With
        ``retarget``, the error is that of the last global step on its `Moments`.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(32).toarray()
    >>> fit = pp.hierarchical(H, pp.Schedule.hadamard(32))
    >>> fit.operator.nnz, bool(fit.error < 1e-12)
    (320, True)
    """
    matrix = as_target(target)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape != matrix.shape:
        raise ValueError(f"schedule must be for the target's shape {matrix.shape}, got one for {schedule.shape}")
    if retarget is not None and not callable(retarget):
        raise TypeError(f"retarget must be callable or None, got {retarget!r}")
    limits, polish = Limits(order, max_iter, tol, inertia).checked(), as_flag("polish", polish)
    session = Session(callback)
    return factorize_by_splits(session, matrix, schedule, limits, retarget=retarget, polish=polish)


def factorize_by_splits(
    session: Session,
    matrix: Array,
    schedule: Schedule,
    limits: Limits,
    *,
    retarget: Retarget | None = None,
    polish: bool = True,
) -> Factorization:
    """`hierarchical` without checks, as part of a session. ``limits.order`` is that for ``side="left"``."""
    begin = len(session.history)
    if schedule.side == "right":
        limits = limits.mirrored()
    start = Split(0, Fit([matrix], 1.0, 0.0, Status.MAX_ITER), Moments(matrix))
    levels, fit, moments = split_all(session, schedule, limits, start, retarget)
    if polish and fit.status is not Status.STOPPED:
        sets = schedule.together(levels - 1)
        factors, scale = fit_on_supports(
            moments, sets, fit.factors, fit.scale, limits.order, lambda: session.stopped
        )
        fit = fit._replace(factors=factors, scale=scale)
    return as_factorization(moments, fit, History(session.history[begin:]))


class Split(NamedTuple):
    """A point in the hierarchy: the number of splits done, all factors with the residual, and what they fit."""

    levels: int
    fit: Fit
    moments: Moments


def split_all(
    session: Session, schedule: Schedule, limits: Limits, start: Split, retarget: Retarget | None = None
) -> Split:
    """The remaining splits and global steps of `hierarchical`; ``limits.order`` is that for this side.

    ``start`` is the target alone, or where an earlier call ended.
    """
    split = start
    while split.levels < len(schedule.factors):
        split = split_next(session, schedule, limits, split, retarget)
        if split.fit.status is Status.STOPPED:
            break
    return split


def split_next(
    session: Session, schedule: Schedule, limits: Limits, start: Split, retarget: Retarget | None = None
) -> Split:
    """One split and the global step after it."""
    n_levels, left_side = len(schedule.factors), schedule.side == "left"
    k, fit, moments = start
    residual = fit.factors[-1] if left_side else fit.factors[0]
    pair = [_entries(each) if schedule.regroup else each for each in schedule.split(k)]
    zero = default_start(pair, limits.order, residual.dtype)
    with session.part(1 / (2 * n_levels)):
        split = descend(session, f"split {k + 1}", Moments(residual), pair, zero, 1.0, limits)
    with session.part(1 / (2 * n_levels)):
        if retarget is not None and not session.stopped:
            moments = _checked(retarget(SparseProduct(fit.factors, fit.scale)), schedule.shape)
        others = fit.factors[:-1] if left_side else fit.factors[1:]
        factors = [*others, *split.factors] if left_side else [*split.factors, *others]
        fit = split._replace(factors=factors, scale=fit.scale * split.scale)
        if fit.status is Status.STOPPED:
            return Split(k + 1, _in_groups(schedule, fit), moments)
        return Split(k + 1, _global_step(session, schedule, f"global {k + 1}", moments, fit, limits), moments)


def _global_step(
    session: Session, schedule: Schedule, phase: str, moments: Moments, fit: Fit, limits: Limits
) -> Fit:
    """PALM for all factors so far, in sets of blocks that get tighter if the schedule lets them be regrouped.

    Codes that may change are one more factor, whose norm is in the scale.
    """

    def step(sets: Sequence[Constraint], fit: Fit, limits: Limits) -> Fit:
        if not isinstance(moments, CodedSignals):
            return descend(session, phase, moments, sets, fit.factors, fit.scale, limits)
        codes, size = moments.codes, frobenius(moments.codes)
        factors = [*fit.factors, codes / codes.real.dtype.type(size)]
        sets = [*sets, SparseColumns(codes.shape, moments.k)]
        found = descend(session, phase, Moments(moments.signals), sets, factors, fit.scale * size, limits)
        return found._replace(factors=found.factors[:-1], scale=found.scale / size)

    shares = _SHARES if schedule.regroup else ()
    some = limits._replace(max_iter=min(_STEPS, limits.max_iter), tol=0.0, inertia=True)
    for share in shares:
        with session.part(0.5 / len(shares)):
            sets = schedule.sets_for(fit.factors, share)
            fit = step(sets, fit, some)
        if fit.status is Status.STOPPED:
            return _in_groups(schedule, fit)
    with session.part(0.5 if schedule.regroup else 1.0):
        return step(schedule.sets_for(fit.factors), fit, limits)


def _entries(constraint: Constraint) -> Constraint:
    """A set with as many entries, wherever they are."""
    if not isinstance(constraint, SparseBlocks):
        return constraint
    return Sparse(constraint.shape, constraint.n_nonzero, every_column=constraint.every_column)


def _in_groups(schedule: Schedule, fit: Fit) -> Fit:
    """The factors of a fit that was stopped, in the sets of the schedule."""
    if not schedule.regroup:
        return fit
    sets = schedule.sets_for(fit.factors)
    factors = [each.project(factor) for each, factor in zip(sets, fit.factors, strict=True)]
    kept = np.prod([inner(new, old) for new, old in zip(factors, fit.factors, strict=True)])
    return fit._replace(factors=factors, scale=fit.scale * float(kept))


def _checked(moments: Any, shape: tuple[int, int]) -> Moments:
    if not isinstance(moments, Moments):
        raise TypeError(f"retarget must return Moments, got {type(moments).__name__}")
    if moments.shape != shape:
        raise ValueError(f"retarget must return Moments of shape {shape}, got {moments.shape}")
    return moments
