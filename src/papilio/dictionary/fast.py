"""Fast dictionaries: the paper's PROPOSED (section 4.2), and joint refinement."""

from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..linalg import frobenius
from ..moments import Moments
from ..operators import SparseProduct
from ..results import Step
from ..solvers.hierarchical import hierarchical
from ..solvers.palm import Callback, Run, palm
from ..solvers.schedule import Schedule
from ..validation import Array, as_choice, as_integer, as_random, as_real
from .common import (
    Learned,
    Progress,
    as_rows,
    as_sparsity,
    as_start,
    growing_shares,
    in_range,
    moments_of_rows,
    relative,
    residuals_of,
)
from .ksvd import ksvd
from .online import RECENT, forgetting, online_dictionary

_ROUNDS = 100  # of refinement, at most
_STEPS = 30  # of PALM in each
_REFINE_TOL = 1e-3
_SAMPLE, _SAMPLE_PER_ATOM = 50_000, 200  # signals that are enough to start from, and to refine with


def fast_dictionary(
    signals: Any,
    schedule: Schedule,
    n_nonzero: int | None = None,
    *,
    init: Any = "ksvd",
    refine: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Learned:
    """Learn a dictionary that is a product of sparse factors.

    The paper's PROPOSED: a dense dictionary D₀ with codes Γ, by `ksvd`, is factorized by `hierarchical`, whose
    splits see the residual of D₀ and whose global steps see the data, through the `Moments` of X and Γ; after each
    global step `omp` gives new codes. Then, with ``refine``, rounds of new codes and some steps of `palm` for all
    factors, on random shares of the signals that grow to all of them, as long as these lower the error.

    With very many signals, a random sample of them serves for D₀ and for the refinement; the hierarchy sees all.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    schedule : Schedule
        The sets of the factors; its shape is that of the dictionary, (d, a).
    n_nonzero : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    init : {"ksvd", "online"} or (d, a) matrix
        D₀, or who learns it: `ksvd` or `online_dictionary`.
    refine : bool
        False is the paper to the letter.
    max_iter, tol
        Of each `palm` in the hierarchy.
    random_state : int, RandomState or None
        Of `ksvd`.
    callback : callable, optional
        Called with a `Step` after each iteration of any phase: "ksvd", "split 1", "global 1", …, "refine"; a true
        result stops the learner, which returns what it has.

    Returns
    -------
    dictionary : SparseProduct
    codes : (a, n) csc_array
        Of the signals, by `omp`.
    history : History
        The error is relative: that of the residual in splits, that of the data else.
    """
    rows, unit = in_range(as_rows(signals))
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape[0] != rows.shape[1]:
        raise ValueError(
            f"schedule must be for {rows.shape[1]} features, as the signals have, got {schedule.shape[0]}"
        )
    n_nonzero = as_sparsity(n_nonzero, *schedule.shape)
    max_iter, tol = as_integer("max_iter", max_iter, 1), as_real("tol", tol, 0.0)  # before the start is learned
    random = as_random(random_state)
    sample = _sample(rows, schedule.shape[1], random)
    run = Run(callback)
    if isinstance(init, str):
        learn = {"ksvd": ksvd, "online": online_dictionary}[as_choice("init", init, ("ksvd", "online"))]
        learned = learn(sample.T, schedule.shape[1], n_nonzero, random_state=random, callback=relayed(run))
        start = learned.dictionary
    else:
        start = as_start(init, schedule.shape, rows.dtype)
    data = _Data(rows, n_nonzero)
    product = SparseProduct([start]).astype(rows.dtype)
    if not run.stopped:
        fit = hierarchical(
            start,
            schedule,
            retarget=data.moments,
            polish=False,
            max_iter=max_iter,
            tol=tol,
            callback=relayed(run),
        )
        product = fit.operator
    if refine and not run.stopped:
        product = _refined(_Data(sample, n_nonzero), schedule, product, run, random)
    product = product.astype(rows.dtype)
    codes, error = data.code(product)
    run.report("final", error, product.scale, ())
    return Learned(product, codes * unit, run.history)


def _sample(rows: Array, n_atoms: int, random: np.random.RandomState) -> Array:
    """All signals, or so many of them, drawn at random, that more would not change what is learned much."""
    enough = max(_SAMPLE, _SAMPLE_PER_ATOM * n_atoms)
    if len(rows) <= enough:
        return rows
    return rows[np.sort(random.permutation(len(rows))[:enough])]


def relayed(run: Run) -> Callback:
    """A callback for an inner solver that reports to ``run``."""

    def report(step: Step) -> bool:
        if step.phase != "final":
            run.report(step.phase, step.error, step.scale, step.factors)
        return run.stopped

    return report


class _Data:
    """Signals as learners of products see them: codes, and moments for PALM."""

    def __init__(self, rows: Array, n_nonzero: int) -> None:
        self.rows = rows
        self.n_nonzero = n_nonzero

    def code(self, product: SparseProduct) -> tuple[sp.csc_array, float]:
        """The codes of the signals, and their relative error."""
        product = product.astype(self.rows.dtype)
        codes = Coder(product).code(self.rows.T, self.n_nonzero)
        atoms = np.ascontiguousarray(product.toarray().T)
        return codes, relative(residuals_of(self.rows, atoms, codes), frobenius(self.rows))

    def moments(self, product: SparseProduct) -> Moments:
        """The moments of the signals with new codes; if all signals are zero, the dictionary stands for them."""
        codes = Coder(product.astype(self.rows.dtype)).code(self.rows.T, self.n_nonzero)
        if codes.nnz == 0:
            return Moments(product.toarray())
        gram, cross = moments_of_rows(self.rows, codes)
        return Moments(cross.T, gram, frobenius(self.rows) ** 2)


def _refined(
    data: _Data, schedule: Schedule, product: SparseProduct, run: Run, random: np.random.RandomState
) -> SparseProduct:
    """Rounds of new codes and of PALM for all factors with these, on growing shares of the signals: the best."""
    progress = Progress(_REFINE_TOL)
    progress.record(data.code(product)[1], product)
    for some in growing_shares(data.rows, schedule.shape[1], data.n_nonzero, _ROUNDS - 1, random):
        part = _Data(some, data.n_nonzero)
        product = _descended(part.moments(product), schedule, product)
        error = part.code(product)[1]
        run.report("refine", error, product.scale, [factor.toarray() for factor in product.factors])
        if some is data.rows:
            progress.record(error, product)
        if run.stopped or progress.has_ended:
            break
    best: SparseProduct = progress.best
    return best


def _descended(moments: Moments, schedule: Schedule, product: SparseProduct) -> SparseProduct:
    """Some steps of PALM for all factors, from where they are."""
    return palm(
        moments,
        schedule.together(len(schedule.factors) - 1),
        init=product.factors,
        scale=product.scale,
        order="right_to_left" if schedule.side == "left" else "left_to_right",
        max_iter=_STEPS,
        tol=0.0,
        inertia=True,
    ).operator


class FastState:
    """A product of sparse factors that learns from one mini-batch after the other, on moments.

    Of t batches so far, the latest tenth counts, as for `OnlineState`.

    Parameters
    ----------
    operator : SparseProduct
        Where to start.
    schedule : Schedule
        Its last sets are those of the factors.
    n_nonzero : int
        Atoms a signal.
    """

    def __init__(self, operator: SparseProduct, schedule: Schedule, n_nonzero: int) -> None:
        self.operator = operator
        self.batches = 0
        self._schedule = schedule
        self._n_nonzero = n_nonzero
        self._gram: Any = 0.0
        self._cross: Any = 0.0
        self._energy = 0.0

    def remember(self, rows: Array, codes: sp.csc_array) -> None:
        """Start from the moments of signals with given codes, as if they were batches that were learned."""
        self._gram, self._cross = moments_of_rows(rows, codes)
        self._energy = frobenius(rows) ** 2
        self.batches = ceil(1 / RECENT)

    def add(self, rows: Array) -> float:
        """Add a batch, one signal a row, to the moments; returns its relative error."""
        codes, error = _Data(rows, self._n_nonzero).code(self.operator)
        gram, cross = moments_of_rows(rows, codes)
        self.batches += 1
        beta = forgetting(self.batches)
        self._gram = beta * self._gram + gram
        self._cross = beta * self._cross + cross
        self._energy = beta * self._energy + frobenius(rows) ** 2
        return error

    def learn(self, rows: Array) -> float:
        """Learn from a batch; returns its relative error before."""
        error = self.add(rows)
        if len(self.operator.factors) <= len(self._schedule.factors):  # learning was stopped before its end
            self.operator = hierarchical(self.operator.toarray(), self._schedule).operator.astype(rows.dtype)
        if self._gram.any():
            moments = Moments(self._cross.T, self._gram, self._energy)
            self.operator = _descended(moments, self._schedule, self.operator).astype(self.operator.dtype)
        return error
