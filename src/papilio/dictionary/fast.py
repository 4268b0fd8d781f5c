"""Fast dictionaries: the paper's PROPOSED (section 4.2), and joint refinement."""

from contextlib import suppress
from functools import partial
from math import nan
from typing import Any, NamedTuple

from ..operators import SparseProduct
from ..results import Callback, Status
from ..runtime.session import Phase, Session, State
from ..samples import PassStopped, Samples, held
from ..solvers.hierarchical import Split, split_all
from ..solvers.moments import Moments
from ..solvers.palm import Fit, Limits
from ..solvers.schedule import Schedule
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_choice, as_integer, as_real
from .alternation import AlternationLimits
from .full_passes import Outcome, improve_on_all, learned, run_phases
from .ksvd import ksvd_phase
from .learner import LearnedDictionary, as_rows, as_sparsity, as_start, from_state, to_state
from .online import OnlineLimits, online_phase
from .refinement import descended, refine_phase
from .signals import Signals, open_signals
from .statistics import Statistics


def fast_dictionary(
    signals: ArrayLike,
    schedule: Schedule,
    n_nonzero_coefs: int | None = None,
    *,
    init: str | ArrayLike = "ksvd",
    refine: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary that is a product of sparse factors.

    The paper's PROPOSED: a dense dictionary D₀ with codes Γ, by `ksvd`, is factorized by `hierarchical`, whose
    splits see the residual of D₀ and whose global steps see the data, through the `Moments` of X and Γ; after each
    global step `omp` gives new codes. Then, with ``refine``, rounds of new codes and some steps of `palm` for all
    factors, on random shares of the signals that grow to all of them, as long as these lower the error.

    With very many signals, a random sample of them serves for D₀ and for the refinement; the hierarchy sees all,
    and so does the end: passes over all signals, each with new codes and steps of `palm`, as long as they pay.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    schedule : Schedule
        The sets of the factors; its shape is that of the dictionary, (d, a).
    n_nonzero_coefs : int, optional
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
        Called with a `Step` after each iteration of any phase: "ksvd", "split 1", "global 1", …, "refine",
        "all data"; a true result stops the learner, which returns what it has.

    Returns
    -------
    dictionary : SparseProduct
    codes : (a, n) csc_array
        Of the signals, by `omp`.
    history : History
        The error is relative: that of the residual in splits, that of the data else.
    """
    rows = as_rows(signals)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape[0] != rows.shape[1]:
        raise ValueError(
            f"schedule must be for {rows.shape[1]} features, as the signals have, got {schedule.shape[0]}"
        )
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, *schedule.shape)
    options = FastOptions(init, refine, max_iter, tol).checked()
    session = Session(callback, random_state=random_state)
    return learned(session, rows, learn_fast(session, held(rows), schedule, n_nonzero_coefs, options))


class FastOptions(NamedTuple):
    """The options of `fast_dictionary`. ``init`` may also be the limits of the learner that starts."""

    init: Any = "ksvd"
    refine: bool = True
    max_iter: int = 500
    tol: float = 1e-6

    def checked(self) -> "FastOptions":
        """The same after checks, with the limits of a learner in place of its name."""
        init = self.init
        if isinstance(init, str):
            starts = {"ksvd": AlternationLimits(), "online": OnlineLimits()}
            init = starts[as_choice("init", init, list(starts))]
        limits = as_integer("max_iter", self.max_iter, 1), as_real("tol", self.tol, 0.0)
        return FastOptions(init, bool(self.refine), *limits)


def learn_fast(
    session: Session, samples: Samples, schedule: Schedule, n_nonzero_coefs: int, options: FastOptions
) -> Outcome:
    """What `fast_dictionary` does, from samples of any size."""
    init, n_components = options.init, schedule.shape[1]
    is_learned = isinstance(init, AlternationLimits | OnlineLimits)
    start = None if is_learned else {"dictionary": to_state(as_start(init, schedule.shape, samples.dtype))}
    signals = open_signals(samples, n_nonzero_coefs, n_components, session)
    phases = []
    if isinstance(init, AlternationLimits):
        phases.append(ksvd_phase(session, signals, n_components, init))
    elif isinstance(init, OnlineLimits):
        phases.append(online_phase(session, signals, n_components, init))
    limits = Limits(schedule.order, options.max_iter, options.tol)
    phases.append(_hierarchy_phase(session, signals, schedule, limits))
    if options.refine:
        phases.append(refine_phase(session, signals.start, schedule))
    phases.append(
        improve_on_all(session, signals, partial(_improved, schedule), signals.n_passes if options.refine else 0)
    )
    outcome = run_phases(session, signals, phases, start)
    return outcome._replace(dictionary=_as_product(outcome.dictionary))


def _hierarchy_phase(session: Session, signals: Signals, schedule: Schedule, limits: Limits) -> Phase:
    """Algorithm 3 on a dense dictionary; its global steps see all signals with new codes."""

    def work(state: State) -> State:
        product = _as_product(from_state(state["dictionary"]))
        fit = Fit([factor.toarray() for factor in product.factors], product.scale, nan, Status.MAX_ITER)
        split = Split(int(state.get("levels", 0)), fit, Moments(product.toarray()))

        def now() -> State:
            product = SparseProduct(split.fit.factors, split.fit.scale)
            return {"levels": split.levels, "dictionary": to_state(product), "status": str(split.fit.status)}

        def after_level(level: Split) -> None:
            nonlocal split
            split = level
            session.keep(now())

        with suppress(PassStopped):
            split = split_all(
                session, schedule, limits, split, lambda op: signals.statistics(op).moments(op), after_level
            )
        return now()

    n_levels = len(schedule.factors)
    return Phase("hierarchy", n_levels * (0.3 + signals.pass_share), work)


def _improved(schedule: Schedule, dictionary: Any, statistics: Statistics) -> SparseProduct:
    """Some steps of PALM on the moments of all signals."""
    product = _as_product(dictionary)
    return descended(statistics.moments(product), schedule, product).astype(product.dtype)


def _as_product(dictionary: Array | SparseProduct) -> SparseProduct:
    return dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
