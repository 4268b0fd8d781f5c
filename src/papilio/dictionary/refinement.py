"""Improving all factors of a product together with the codes: in rounds, or on one mini-batch after the other."""

from ..operators import SparseProduct
from ..operators.csr import to_dense
from ..runtime.layout import either
from ..runtime.session import Phase, Session, State
from ..solvers.hierarchical import hierarchical
from ..solvers.moments import Moments
from ..solvers.palm import palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .atoms import growing_share
from .learner import Best, from_state, to_state
from .online import FadingMoments
from .signals import Held
from .states import Layouts, loop
from .statistics import Coding, code_part

PHASE = "refine"
_ROUNDS = 100  # at most
_STEPS = 30  # of PALM in each
_TOL = 1e-3


def refine_phase(session: Session, signals: Held, schedule: Schedule, n_rounds: int = _ROUNDS) -> Phase:
    """Rounds of new codes and of PALM for all factors, on growing shares of the signals, for the best product."""

    def work(state: State) -> State:
        product = from_state(state["dictionary"])
        best = Best(_TOL, state.get("best", {}))
        if best.candidate is None:
            best.record(signals.error(product), state["dictionary"])

        def now() -> State:
            return {"round": i, "dictionary": to_state(product), "best": best.to_state()}

        for i in range(int(state.get("round", 0)), n_rounds):
            session.offer(now)
            some = growing_share(
                signals.rows, schedule.shape[1], signals.n_nonzero_coefs, i, n_rounds - 1, session.random
            )
            part = signals.part(some)
            product = descended(part.statistics(product).moments(product), schedule, product)
            error = part.error(product)
            factors = [to_dense(factor) for factor in product.factors]
            session.report(PHASE, error, product.scale, factors, (i + 1) / n_rounds)
            if some is signals.rows:
                best.record(error, to_state(product))
            if session.stopped or best.has_settled:
                break
        return {"dictionary": best.candidate, "status": str(best.status(session.stopped))}

    layouts, counts = Layouts.of(signals, schedule.shape[1]), [len(schedule.factors) + 1]
    product_layout = layouts.dictionary(counts)
    own = loop("round", n_rounds, {"dictionary": product_layout}, product_layout)
    return Phase(PHASE, 8.0, work, layout=either(layouts.entered(counts), own))


def descended(moments: Moments, schedule: Schedule, product: SparseProduct) -> SparseProduct:
    """The product after some steps of PALM for all its factors."""
    return palm(
        moments,
        schedule.sets_for([to_dense(factor) for factor in product.factors]),
        init=product.factors,
        scale=product.scale,
        order=schedule.order,
        max_iter=_STEPS,
        tol=0.0,
        inertia=True,
    ).operator


class FastState(FadingMoments):
    """A product of sparse factors that learns from one mini-batch after the other, on `FadingMoments`.

    Its factors lie in the last sets of the schedule.
    """

    def __init__(
        self, operator: SparseProduct, schedule: Schedule, n_nonzero_coefs: int, memory: int | None = None
    ) -> None:
        super().__init__(operator.shape[1], memory=memory)
        self.operator = operator
        self._schedule = schedule
        self._n_nonzero_coefs = n_nonzero_coefs

    def learn(self, rows: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(rows)
        found = code_part(iter([(0, rows)]), Coding(self.operator, self._n_nonzero_coefs, 0, self.unit))
        self.fade_and_add(found.gram, found.cross, found.uses, found.energy)
        # An earlier fit may have stopped before its last split.
        if len(self.operator.factors) <= len(self._schedule.factors):
            self.operator = hierarchical(self.operator.toarray(), self._schedule).operator.astype(rows.dtype)
        if self.gram.any():
            moments = Moments(self.cross.T, self.gram, self.energy)
            self.operator = descended(moments, self._schedule, self.operator).astype(self.operator.dtype)
        return found.error
