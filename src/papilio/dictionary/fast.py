"""Fast dictionaries: the paper's PROPOSED (section 4.2), and joint refinement."""

from contextlib import suppress
from functools import partial
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..results import Callback, Status
from ..runtime.session import Phase, Session, State
from ..samples import PassStopped, Samples, held
from ..solvers.hierarchical import Split, split_all
from ..solvers.moments import Moments
from ..solvers.palm import Fit, Limits, is_rough
from ..solvers.schedule import Schedule
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_choice, as_flag, as_integer, as_real
from .alternation import AlternationLimits
from .full_passes import Outcome, improve_on_all, learned, run_phases
from .ksvd import ksvd_phase
from .learner import LearnedDictionary, as_rows, as_sparsity, as_start, from_state, to_state, warn_if_few
from .online import OnlineLimits, online_phase
from .refinement import descended, refine_phase, with_unit_atoms
from .signals import Signals, enough, open_signals
from .states import Layouts
from .statistics import Statistics

_KSVD = "ksvd"
_ITERATIONS = 16  # of K-SVD, for 10,000 signals and 256 atoms
_FEWEST, _MOST = 16, 100
_ROUGH, _FINE = 3e-4, 1e-6  # of PALM's relative error, where refinement follows, and where it does not


def fast_dictionary(
    signals: ArrayLike,
    schedule: Schedule,
    n_nonzero_coefs: int | None = None,
    *,
    init: str | ArrayLike = "ksvd",
    refine: bool = True,
    max_iter: int = 500,
    tol: float | None = None,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary that is a product of sparse factors.

    The paper's PROPOSED: a dense dictionary D₀ with codes Γ is learned by `ksvd` and factorized by `hierarchical`.
    Its splits see the residual of D₀; its global steps see the data, through the `Moments` of X and Γ, and `omp`
    gives new codes after each of them. With ``refine``, rounds of new codes and some steps of `palm` for all
    factors follow, on random shares of the signals that grow to all of them, as long as they lower the error.

    Above 50,000 signals, or 200 per atom up to 100,000, D₀ and the refinement see a random sample of this size.
    The hierarchy sees all signals, and so do passes at the end, each with new codes and some steps of `palm`, as
    long as they lower the error enough.

    Parameters
    ----------
    signals : (d, n) array
        X, one signal per column.
    schedule : Schedule
        The constraint sets of the factors; its shape is that of the dictionary, (d, a).
    n_nonzero_coefs : int, optional
        Atoms per signal; a tenth of d by default, at least one.
    init : {"ksvd", "online"} or (d, a) array
        D₀, or the learner of it: `ksvd`, with 16 to 100 iterations, fewer for more data, or `online_dictionary`.
    refine : bool
        Improve all factors and codes together at the end; False is the paper to the letter.
    max_iter : int
        The largest number of iterations of PALM in each split and each global step.
    tol : float, optional
        End these when the relative error changes by less; 0 never ends them early. By default 3e-4 with
        ``refine``, which goes on from there, and else 1e-6.
    positive : bool
        Whether codes must not be negative, as in `omp`; the factors may have any sign.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration of each phase: "ksvd", "split 1", "global 1", …,
        "refine", "all data"; a true result stops learning.

    Returns
    -------
    LearnedDictionary
        The dictionary is a `SparseProduct`; after a stop it may have fewer factors. In its history, the errors of
        splits are those of the residual, all others those of the data.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> schedule = pp.Schedule.with_complexity((32, 32), 0.4)
    >>> learned = pp.fast_dictionary(X, schedule, 5, max_iter=50, random_state=0)
    >>> bool(learned.dictionary.relative_complexity <= 0.4)
    True
    """
    rows = as_rows(signals)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape[0] != rows.shape[1]:
        raise ValueError(
            f"schedule must be for {rows.shape[1]} features, as the signals have, got {schedule.shape[0]}"
        )
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, *schedule.shape)
    options = FastOptions(init, refine, max_iter, tol, positive).checked()
    warn_if_few(rows.shape, schedule.shape[1])
    session = Session(callback, random_state=random_state)
    return learned(session, rows, learn_fast(session, held(rows), schedule, n_nonzero_coefs, options))


class FastOptions(NamedTuple):
    """The options of `fast_dictionary`. ``init`` may also be the limits of the learner of D₀."""

    init: Any = "ksvd"
    refine: bool = True
    max_iter: int = 500
    tol: float | None = None
    positive: bool = False

    def checked(self) -> "FastOptions":
        """The same after checks, with the limits of a learner in place of its name, if the data do not decide."""
        init = self.init
        if isinstance(init, str) and as_choice("init", init, [_KSVD, "online"]) != _KSVD:
            init = OnlineLimits()
        refine = as_flag("refine", self.refine)
        tol = (_ROUGH if refine else _FINE) if self.tol is None else as_real("tol", self.tol, 0.0)
        return FastOptions(
            init, refine, as_integer("max_iter", self.max_iter, 1), tol, as_flag("positive", self.positive)
        )


def ksvd_limits_for(n_signals: int, n_components: int) -> AlternationLimits:
    """Those of the learner of D₀: the time of an iteration grows with signals and atoms."""
    size = n_signals * n_components / (10_000 * 256)
    return AlternationLimits(int(np.clip(round(_ITERATIONS / size**0.35), _FEWEST, _MOST)))


def learn_fast(
    session: Session, samples: Samples, schedule: Schedule, n_nonzero_coefs: int, options: FastOptions
) -> Outcome:
    """`fast_dictionary` from samples of any size."""
    init, n_components = options.init, schedule.shape[1]
    if isinstance(init, str):
        init = ksvd_limits_for(min(len(samples), enough(n_components)), n_components)
    is_learned = isinstance(init, AlternationLimits | OnlineLimits)
    start = None if is_learned else {"dictionary": to_state(as_start(init, schedule.shape, samples.dtype))}
    signals = open_signals(samples, n_nonzero_coefs, n_components, session, options.positive)
    phases = []
    if isinstance(init, AlternationLimits):
        phases.append(ksvd_phase(session, signals, n_components, init))
    elif isinstance(init, OnlineLimits):
        phases.append(online_phase(session, signals, n_components, init))
    assert options.tol is not None
    limits = Limits(schedule.order, options.max_iter, options.tol, inertia=options.refine)
    phases.append(_hierarchy_phase(session, signals, schedule, limits))
    if options.refine:
        phases.append(refine_phase(session, signals.start, schedule))
    n_passes = signals.n_passes if options.refine else 0
    layouts, counts = Layouts.of(signals, n_components), [len(schedule.factors) + 1]
    phases += improve_on_all(session, signals, partial(_improved, schedule), n_passes, layouts, counts)
    outcome = run_phases(session, signals, phases, start)
    return outcome._replace(dictionary=_as_product(outcome.dictionary))


def _hierarchy_phase(session: Session, signals: Signals, schedule: Schedule, limits: Limits) -> Phase:
    """Algorithm 3 on a dense dictionary; its global steps see the moments of all signals with new codes."""

    def work(state: State) -> State:
        product = _as_product(from_state(state["dictionary"]))
        dtype, moments = product.dtype, Moments(product.toarray())
        # What single precision loses is far below a rough tolerance.
        in_single = limits.tol >= _ROUGH and is_rough(moments, schedule.constraints, 1.0)
        if in_single:
            product = product.astype(moments.in_single_precision.cross.dtype)
        fit = Fit([to_dense(factor) for factor in product.factors], product.scale, nan, Status.MAX_ITER)
        split = Split(int(state.get("levels", 0)), fit, Moments(product.toarray()))

        def found() -> SparseProduct:
            return SparseProduct(split.fit.factors, split.fit.scale).astype(dtype)

        def now() -> State:
            return {"levels": split.levels, "dictionary": to_state(found()), "status": str(split.fit.status)}

        def moments_with(product: SparseProduct) -> Moments:
            moments = signals.statistics(product).moments(product)
            return moments.in_single_precision if in_single else moments

        def after_level(level: Split) -> None:
            nonlocal split
            split = level
            session.keep(now())

        with suppress(PassStopped):
            split = split_all(session, schedule, limits, split, moments_with, after_level)
        product, _ = with_unit_atoms(found())
        return {**now(), "dictionary": to_state(product)}

    n_levels = len(schedule.factors)
    layout = Layouts.of(signals, schedule.shape[1]).hierarchy(n_levels)
    return Phase("hierarchy", n_levels * (0.3 + signals.pass_share), work, layout=layout)


def _improved(schedule: Schedule, dictionary: Any, statistics: Statistics) -> SparseProduct:
    """Some steps of PALM on the moments of all signals."""
    product = _as_product(dictionary)
    return with_unit_atoms(descended(statistics.moments(product), schedule, product, statistics.error))[0]


def _as_product(dictionary: Array | SparseProduct) -> SparseProduct:
    return dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
