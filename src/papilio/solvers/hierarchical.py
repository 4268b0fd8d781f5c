"""The hierarchical strategy: the paper's Algorithm 3."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..constraints import Constraint
from ..moments import Moments
from ..operators import SparseProduct
from ..results import Factorization, Status
from ..validation import Array, as_choice, as_integer, as_matrix, as_real
from .palm import ORDERS, Callback, Run, default_start
from .polish import polish as fit_on_supports
from .schedule import Schedule

_PATIENCE = 3  # iterations without a change of any support after which supports count as settled


def hierarchical(
    target: Any,
    schedule: Schedule,
    *,
    retarget: Callable[[SparseProduct], Moments] | None = None,
    order: str = "right_to_left",
    polish: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
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
        Once supports have settled, fit the values on them by least squares instead of more gradient steps (for
        sets that are "scale × support"). False is the paper's algorithm to the letter.
    max_iter, tol
        Of each `palm`, split or global. With ``tol=0`` none stops early.
    callback : callable, optional
        Called with a `Step` after each iteration, whose phase is "split 1", "global 1", "split 2", …; a true
        result stops the solver after the current split.

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
    solve = _Solver(
        Run(callback),
        order if left_side else ORDERS[1 - ORDERS.index(order)],
        as_integer("max_iter", max_iter, 1),
        as_real("tol", tol, 0.0),
        polish,
    )
    scale = 1.0
    moments = Moments(residual)
    factors = [residual]
    for k in range(len(schedule.factors)):
        pair = schedule.split(k)
        start = default_start(pair, solve.order, residual.dtype)
        split, split_scale, _, _ = solve(f"split {k + 1}", Moments(residual), pair, start, 1.0)
        if retarget is not None:
            moments = retarget(SparseProduct(factors, scale))
        factors = [*factors[:-1], *split] if left_side else [*split, *factors[1:]]
        factors, scale, error, status = solve(
            f"global {k + 1}", moments, schedule.together(k), factors, scale * split_scale
        )
        residual = factors[-1] if left_side else factors[0]
    return solve.run.factorization(factors, scale, error, status)


class _Solver:
    """`palm`, and a fit on the supports where they have settled, with the options of one run."""

    def __init__(self, run: Run, order: str, max_iter: int, tol: float, polish: bool) -> None:
        self.run = run
        self.order = order
        self._max_iter = max_iter
        self._tol = tol
        self._polish = polish

    def __call__(
        self, phase: str, moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], scale: float
    ) -> tuple[list[Array], float, float, Status]:
        patience = _PATIENCE if self._polish and self._tol > 0 else None
        left, best = self._max_iter, np.inf
        while True:
            begun = len(self.run.history)
            factors, scale, error, status = self.run.descend(
                phase, moments, sets, factors, scale, self.order, left, self._tol, patience
            )
            left -= len(self.run.history) - begun
            if not self._polish:
                return factors, scale, error, status
            factors, scale, error = fit_on_supports(moments, sets, factors, scale, self.order)
            # The fit may have freed supports to change again: go on as long as that pays.
            if left <= 0 or self.run.stopped or best - error < self._tol:
                return factors, scale, error, status
            best = error
