"""Improving all factors of a product together with the codes: in rounds, or on one mini-batch after the other."""

import numpy as np

from ..linalg import column_norms, frobenius
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..results import Status
from ..runtime.session import Phase, Session, State
from ..solvers.hierarchical import hierarchical
from ..solvers.moments import Moments
from ..solvers.palm import Limits, descend, is_rough
from ..solvers.schedule import Schedule
from ..typing import Array
from .atoms import growing_share
from .learner import from_state, to_state
from .online import FadingMoments
from .reseeding import reseeded
from .signals import Held
from .states import Layouts
from .statistics import Coding, code_part
from .sums import multiplied

PHASE = "refine"
_ROUNDS = 5  # for 10,000 signals and 256 atoms
_FEWEST, _MOST = 5, 100  # rounds
_STEPS = 20  # of PALM in each round
_ALONE = 30  # of PALM after a pass over all signals, or for a mini-batch: there are few of these
_LEAST_GAIN = 1e-3  # in relative error, that makes another round with all signals worth its time


def n_rounds_for(n_signals: int, n_components: int) -> int:
    """Rounds of refinement: their time grows with signals and atoms, and so there are fewer of them."""
    size = n_signals * n_components / (10_000 * 256)
    return int(np.clip(round(_ROUNDS / size**0.6), _FEWEST, _MOST))


def refine_phase(session: Session, signals: Held, schedule: Schedule, n_rounds: int | None = None) -> Phase:
    """Rounds of new codes and of PALM for all factors, on growing shares of the signals.

    The errors that it reports are those of the new codes of a round, before PALM. The result is the last product,
    unless the one before the first round has a lower error.
    """
    count = n_rounds_for(len(signals.rows), schedule.shape[1]) if n_rounds is None else n_rounds

    def work(state: State) -> State:
        product, first = from_state(state["dictionary"]), state.get("first", state["dictionary"])
        error = float(state.get("error", np.inf))  # of the last round with all signals

        def now() -> State:
            return {"round": i, "dictionary": to_state(product), "first": first, "error": error}

        status = Status.MAX_ITER
        for i in range(int(state.get("round", 0)), count):
            session.offer(now)
            some = growing_share(
                signals.rows, schedule.shape[1], signals.n_nonzero_coefs, i, count - 1, session.random
            )
            part = signals.part(some)
            found = part.statistics(product)
            if some is signals.rows:
                if found.error > (1 - _LEAST_GAIN) * error or found.error == 0.0:
                    status = Status.CONVERGED
                    break
                error = found.error
            descent = descended(found.moments(product), schedule, product, found.error, _STEPS)
            if some is not signals.rows:  # the last rounds only improve what there is
                descent = reseeded(descent, part, found.uses)
            product, _ = with_unit_atoms(descent)
            factors = [to_dense(factor) for factor in product.factors]
            session.report(PHASE, found.error, product.scale, factors, (i + 1) / count, part.share)
            if session.stopped:
                status = Status.STOPPED
                break
        last, before = (signals.error(each) for each in (product, from_state(first)))
        return {"dictionary": to_state(product) if last <= before else first, "status": str(status)}

    layout = Layouts.of(signals, schedule.shape[1]).refinement(count, [len(schedule.factors) + 1])
    return Phase(PHASE, 2.0, work, layout=layout)


def descended(
    moments: Moments, schedule: Schedule, product: SparseProduct, error: float, steps: int = _ALONE
) -> SparseProduct:
    """The product after some steps of PALM for all its factors; ``error`` is the relative one before them.

    Unless the error is small, single precision is enough, and steps of large factors take half the time.
    """
    sets, start = schedule.sets_for([to_dense(factor) for factor in product.factors]), product
    if is_rough(moments, sets, error):
        moments = moments.in_single_precision
        start = product.astype(moments.cross.dtype)
    factors = [to_dense(factor) for factor in start.factors]
    limits = Limits(schedule.order, steps, tol=0.0, inertia=True)
    fit = descend(Session(None), PHASE, moments, sets, factors, start.scale, limits)
    return SparseProduct(fit.factors, fit.scale).astype(product.dtype)


def with_unit_atoms(product: SparseProduct) -> tuple[SparseProduct, Array]:
    """The product with its columns, the atoms, at unit norm, and their norms before; those of zero are left alone.

    The last factor takes the diagonal, and has unit norm itself. Its support stays.
    """
    norms = column_norms(multiplied(product))
    norms[norms == 0] = 1.0
    *others, last = product.factors
    scaled = to_dense(last) * (product.scale / norms).astype(product.dtype)
    size = frobenius(scaled)
    return SparseProduct([*others, scaled / scaled.real.dtype.type(size)], size), norms


class FastState(FadingMoments):
    """A product of sparse factors that learns from one mini-batch after the other, on `FadingMoments`.

    Its factors lie in the last sets of the schedule.
    """

    def __init__(
        self,
        operator: SparseProduct,
        schedule: Schedule,
        n_nonzero_coefs: int,
        memory: int | None = None,
        positive: bool = False,
    ) -> None:
        super().__init__(operator.shape[1], memory=memory)
        self.operator = operator
        self._schedule = schedule
        self._n_nonzero_coefs, self._positive = n_nonzero_coefs, positive

    def learn(self, rows: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(rows)
        coding = Coding(self.operator, self._n_nonzero_coefs, 0, self.unit, self._positive)
        found = code_part(iter([(0, rows)]), coding)
        self.fade_and_add(found.gram, found.cross, found.uses, found.energy)
        # An earlier fit may have stopped before its last split.
        if len(self.operator.factors) <= len(self._schedule.factors):
            self.operator = hierarchical(self.operator.toarray(), self._schedule).operator.astype(rows.dtype)
        if self.gram.any():
            moments = Moments(self.cross.T, self.gram, self.energy)
            product = descended(moments, self._schedule, self.operator, found.error)
            self.operator, norms = with_unit_atoms(product)
            # The codes grow as the atoms shrink.
            self.gram, self.cross = self.gram * np.multiply.outer(norms, norms), self.cross * norms[:, None]
        return found.error
