"""Codes and all factors of a product, improved together: in rounds, and from one mini-batch after the other."""

from math import ceil
from typing import Any

import numpy as np

from ..operators import SparseProduct
from ..runtime.session import Phase, Session, State
from ..solvers.hierarchical import hierarchical
from ..solvers.moments import Moments
from ..solvers.palm import palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .atoms import growing_share
from .learner import Best, from_state, to_state
from .online import RECENT, forgetting
from .signals import Held
from .statistics import Coding, Statistics, code_part

PHASE = "refine"
_ROUNDS = 100  # at most
_STEPS = 30  # of PALM in each
_TOL = 1e-3


def refine_phase(session: Session, signals: Held, schedule: Schedule, n_rounds: int = _ROUNDS) -> Phase:
    """Rounds of new codes and of PALM for all factors with these, on growing shares of the signals: the best."""

    def work(state: State) -> State:
        product = from_state(state["dictionary"])
        best = Best(_TOL, state.get("progress", {}), from_state(state["best"]) if "best" in state else None)
        if best.candidate is None:
            best.record(signals.error(product), product)

        def now() -> State:
            both = {"dictionary": to_state(product), "best": to_state(best.candidate)}
            return {"round": i, "progress": best.to_state(), **both}

        for i in range(int(state.get("round", 0)), n_rounds):
            session.offer(now)
            some = growing_share(
                signals.rows, schedule.shape[1], signals.n_nonzero_coefs, i, n_rounds - 1, session.random
            )
            part = signals.part(some)
            product = descended(part.statistics(product).moments(product), schedule, product)
            error = part.error(product)
            factors = [factor.toarray() for factor in product.factors]
            session.report(PHASE, error, product.scale, factors, (i + 1) / n_rounds)
            if some is signals.rows:
                best.record(error, product)
            if session.stopped or best.has_settled:
                break
        return {"dictionary": to_state(best.candidate), "status": str(best.status(session.stopped))}

    return Phase(PHASE, 8.0, work)


def descended(moments: Moments, schedule: Schedule, product: SparseProduct) -> SparseProduct:
    """Some steps of PALM for all factors, from where they are."""
    return palm(
        moments,
        schedule.constraints,
        init=product.factors,
        scale=product.scale,
        order=schedule.order,
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
        self._n_nonzero_coefs = n_nonzero_coefs
        self._memory = np.inf if memory is None else memory
        self._gram: Any = 0.0
        self._cross: Any = 0.0
        self._energy = 0.0
        self._unit = 1.0

    def remember(self, statistics: Statistics, unit: float) -> None:
        """Start from the moments of signals, as if they were batches that were learned, and take their unit."""
        self._unit = unit
        self._gram, self._cross, self._energy = statistics.gram, statistics.cross, statistics.energy
        self.batches = ceil(1 / RECENT)

    def add(self, rows: Array) -> float:
        """Add a batch, one signal a row, to the moments; returns its relative error."""
        statistics = code_part(iter([(0, rows)]), Coding(self.operator, self._n_nonzero_coefs, 0, self._unit))
        self.batches += 1
        beta = forgetting(self.batches, memory=self._memory)
        self._gram = beta * self._gram + statistics.gram
        self._cross = beta * self._cross + statistics.cross
        self._energy = beta * self._energy + statistics.energy
        return statistics.error

    def learn(self, rows: Array) -> float:
        """Learn from a batch; returns its relative error before."""
        error = self.add(rows)
        if len(self.operator.factors) <= len(self._schedule.factors):  # learning was stopped before its end
            self.operator = hierarchical(self.operator.toarray(), self._schedule).operator.astype(rows.dtype)
        if self._gram.any():
            moments = Moments(self._cross.T, self._gram, self._energy)
            self.operator = descended(moments, self._schedule, self.operator).astype(self.operator.dtype)
        return error
