"""The last phase of learning: a dictionary learned from a sample is improved on all signals."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..kernels.atoms import descend_atoms
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..results import Status
from ..runtime.checkpoint import FINISHED
from ..runtime.session import Phase, Session, State
from ..samples import PassStopped, Samples
from ..typing import Array
from .atoms import replace_bad_atoms
from .learner import LearnedDictionary, from_state, to_state
from .signals import Signals, codes_of, open_signals
from .states import Layouts
from .statistics import Statistics

PHASE = "all data"
_LEAST_GAIN = 1e-3  # in relative error, that makes another pass worth its time
_SWEEPS = 5  # over all atoms, on the same moments

Dictionary = TypeVar("Dictionary", SparseProduct, Array)


class Outcome(NamedTuple):
    """What a learner returns: a dictionary (d, a), the statistics of the signals in it, and why it ended."""

    dictionary: Any
    statistics: Statistics
    signals: Signals
    status: Status


def run_phases(session: Session, signals: Signals, phases: list[Phase], state: State | None = None) -> Outcome:
    """Run the phases of a learner, the last of which are those of `improve_on_all`."""
    end = session.run(phases, state)
    dictionary, statistics = from_state(end["dictionary"]), Statistics.from_state(end["statistics"])
    is_product = isinstance(dictionary, SparseProduct)
    factors = [to_dense(factor) for factor in dictionary.factors] if is_product else [dictionary]
    scale, share = dictionary.scale if is_product else 1.0, signals.start.share if session.stopped else 1.0
    session.report("final", statistics.error, scale, factors, 1.0, share)
    status = Status.STOPPED if session.stopped else Status(str(end.get("status", Status.CONVERGED)))
    return Outcome(dictionary, statistics, signals, status)


def learned(session: Session, rows: Array, outcome: Outcome) -> LearnedDictionary:
    """The result of a learning function, with the codes of the signals ``rows``."""
    dictionary = outcome.dictionary
    if not isinstance(dictionary, SparseProduct):
        dictionary = np.ascontiguousarray(dictionary)
    return LearnedDictionary(
        dictionary, codes_of(outcome.signals, rows, dictionary), session.history, outcome.status
    )


def improve_on_all(
    session: Session,
    signals: Signals,
    improve: Callable[[Dictionary, Statistics], Dictionary],
    n_passes: int,
    layouts: Layouts,
    n_factors: Collection[int],
    n_worst: int = 0,
) -> list[Phase]:
    """Passes over all signals as long as they lower the error enough, for the best dictionary.

    Each pass codes the signals again, which gives the error of the dictionary and the statistics to improve it.
    After ``n_passes`` improvements, one more pass measures the result. A second phase, in which nothing is left to
    do, keeps it in the checkpoint. ``layouts`` and ``n_factors`` say what a checkpoint must hold.
    """

    def work(state: State) -> State:
        first, status = int(state.get("pass", 0)), state.get("status", Status.CONVERGED)
        dictionary = from_state(state["dictionary"]).astype(signals.start.rows.dtype)
        best = from_state(state["best"]) if "best" in state else dictionary
        found = Statistics.from_state(state["found"]) if "found" in state else None
        try:
            for i in range(first, n_passes + 1):
                if i > first:
                    known = {} if found is None else {"found": found._asdict()}
                    both = {"dictionary": to_state(dictionary), "best": to_state(best)}
                    session.keep({"pass": i, "status": str(status), **both, **known})
                with session.part(1 / (n_passes + 1)):
                    some = signals.start if session.stopped else signals
                    statistics = some.statistics(dictionary, n_worst)
                if n_passes:
                    session.report(PHASE, statistics.error, share=1.0 if some is signals else signals.start.share)
                pays = found is None or statistics.error < found.error * (1 - _LEAST_GAIN)
                if found is None or statistics.error < found.error:
                    found, best = statistics, dictionary
                if not pays or session.stopped or statistics.error == 0:
                    break
                if i < n_passes:
                    dictionary = improve(dictionary, statistics)
        except PassStopped:
            found = found or signals.start.statistics(best, n_worst)
        assert found is not None
        return {"dictionary": to_state(best), "statistics": found._asdict(), "status": str(status)}

    share, layout = (n_passes + 1) * signals.pass_share, layouts.passes(n_passes, n_factors)
    return [
        Phase(PHASE, share, work, closing=True, layout=layout),
        Phase(FINISHED, 0.0, session.finished, layout=layouts.result(n_factors)),
    ]


def learn_dense(
    session: Session,
    samples: Samples,
    n_components: int,
    n_nonzero_coefs: int,
    start: Callable[[Session, Signals, int], Phase],
    positive: bool = False,
) -> Outcome:
    """A dense dictionary, learned by the phase ``start`` from signals in memory and then improved on all."""
    signals = open_signals(samples, n_nonzero_coefs, n_components, session, positive)
    layouts, improve = Layouts.of(signals, n_components), partial(better_atoms, positive=positive)
    end = improve_on_all(session, signals, improve, signals.n_passes, layouts, [0], n_components)
    return run_phases(session, signals, [start(session, signals, n_components), *end])


def better_atoms(dictionary: Array, statistics: Statistics, positive: bool = False) -> Array:
    """A dense dictionary (d, a) with its bad atoms replaced, after some sweeps over all atoms."""
    atoms = dictionary.T.copy()
    replaced = replace_bad_atoms(atoms, statistics.uses, statistics.worst, statistics.badness, positive)
    gram, cross = statistics.gram.copy(), statistics.cross.copy()
    gram[replaced], gram[:, replaced], cross[replaced] = 0, 0, 0
    for _ in range(_SWEEPS):
        descend_atoms(atoms, gram, cross)
    return atoms.T
