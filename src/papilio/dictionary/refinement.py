"""Codes and all factors of a product, improved together: in rounds, and from one mini-batch after the other."""

from math import ceil
from typing import Any

import numpy as np

from ..operators import SparseProduct
from ..runtime.checkpoint import Checkpoint
from ..solvers.hierarchical import hierarchical
from ..solvers.moments import Moments
from ..solvers.palm import ORDERS, Run, palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .atoms import Progress, growing_share
from .full_passes import from_arrays, to_arrays
from .online import RECENT, forgetting
from .signals import Held
from .statistics import Summary, Task, summarised

STAGE = "refine"
_ROUNDS = 100  # at most
_STEPS = 30  # of PALM in each
_TOL = 1e-3


def refined(
    data: Held,
    schedule: Schedule,
    product: SparseProduct,
    run: Run,
    random: np.random.RandomState,
    checkpoint: Checkpoint,
    n_rounds: int = _ROUNDS,
) -> SparseProduct:
    """Rounds of new codes and of PALM for all factors with these, on growing shares of the signals: the best."""
    progress, first = Progress(_TOL), 0
    if saved := checkpoint.saved(STAGE):
        first, product = int(saved["round"]), from_arrays("now", saved)
        progress.restore(saved, from_arrays("best", saved))
    else:
        progress.record(data.error(product), product)

    def state() -> dict[str, Array]:
        products = {**to_arrays("now", product), **to_arrays("best", progress.best)}
        return {"round": np.array(i), **products, **progress.to_arrays()}

    for i in range(first, n_rounds):
        checkpoint.offer(STAGE, state)
        some = growing_share(data.rows, schedule.shape[1], data.n_nonzero_coefs, i, n_rounds - 1, random)
        part = data.part(some)
        product = descended(part.summary(product).moments(product), schedule, product)
        error = part.error(product)
        run.report(STAGE, error, product.scale, [factor.toarray() for factor in product.factors])
        if some is data.rows:
            progress.record(error, product)
        if run.stopped or progress.has_ended:
            break
    best: SparseProduct = progress.best
    return best


def order_of(schedule: Schedule) -> str:
    """The order of PALM's updates in which the residual comes first."""
    return ORDERS[0] if schedule.side == "left" else ORDERS[1]


def descended(moments: Moments, schedule: Schedule, product: SparseProduct) -> SparseProduct:
    """Some steps of PALM for all factors, from where they are."""
    return palm(
        moments,
        schedule.together(len(schedule.factors) - 1),
        init=product.factors,
        scale=product.scale,
        order=order_of(schedule),
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
    n_nonzero_coefs : int
        Atoms a signal.
    memory : int, optional
        Batches that count at most; no limit by default.
    """

    def __init__(
        self, operator: SparseProduct, schedule: Schedule, n_nonzero_coefs: int, memory: int | None = None
    ) -> None:
        self.operator = operator
        self.batches = 0
        self._schedule = schedule
        self._n_nonzero = n_nonzero_coefs
        self._memory = np.inf if memory is None else memory
        self._gram: Any = 0.0
        self._cross: Any = 0.0
        self._energy = 0.0
        self._unit = 1.0

    def remember(self, summary: Summary, unit: float) -> None:
        """Start from the moments of signals, as if they were batches that were learned, and take their unit."""
        self._unit = unit
        self._gram, self._cross, self._energy = summary.gram, summary.cross, summary.energy
        self.batches = ceil(1 / RECENT)

    def add(self, rows: Array) -> float:
        """Add a batch, one signal a row, to the moments; returns its relative error."""
        summary = summarised(iter([(0, rows)]), Task(self.operator, self._n_nonzero, 0, self._unit))
        self.batches += 1
        beta = forgetting(self.batches, memory=self._memory)
        self._gram = beta * self._gram + summary.gram
        self._cross = beta * self._cross + summary.cross
        self._energy = beta * self._energy + summary.energy
        return summary.error

    def learn(self, rows: Array) -> float:
        """Learn from a batch; returns its relative error before."""
        error = self.add(rows)
        if len(self.operator.factors) <= len(self._schedule.factors):  # learning was stopped before its end
            self.operator = hierarchical(self.operator.toarray(), self._schedule).operator.astype(rows.dtype)
        if self._gram.any():
            moments = Moments(self._cross.T, self._gram, self._energy)
            self.operator = descended(moments, self._schedule, self.operator).astype(self.operator.dtype)
        return error
