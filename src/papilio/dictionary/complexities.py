"""Fast dictionaries of the same signals at many complexities."""

from collections.abc import Iterator, Sequence
from math import prod
from time import perf_counter

from ..linalg import frobenius
from ..operators import SparseProduct
from ..operators.factors import entries, to_dense
from ..results import Callback, Status, Tradeoff, TradeoffPoint
from ..runtime.session import Session
from ..search.tradeoff import as_complexities, never_rising
from ..solvers.hierarchical import Split, split_all
from ..solvers.moments import Moments
from ..solvers.palm import Fit, Limits, palm
from ..solvers.schedule import Schedule
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_factor_count, as_integer
from .fast import Refinement, descended
from .ksvd import KSVDIterations
from .learner import Found, as_limits, as_rows, as_sparsity, warn_if_few, warn_if_uneven
from .signals import Coder, Held, enough

_ROUNDS = 25  # Rounds of refinement; few, because the start from a neighbour is good.


def dictionary_tradeoff(
    signals: ArrayLike,
    n_components: int | None = None,
    n_nonzero_coefs: int | None = None,
    *,
    complexities: int | Sequence[float] | None = None,
    n_factors: int | None = None,
    random_state: RandomState = 0,
    callback: Callback | None = None,
) -> Tradeoff:
    """The error of fast dictionaries at many complexities, in one call.

    The dictionaries are those of `fast_dictionary`, but they share their work: the dense dictionary D₀ is learned
    once, and each point starts from the better of two: D₀ factorized, or the factors of its neighbour projected
    onto the tighter sets. On 10,000 image patches this gives the errors of separate fits in a third of their time.
    The error never rises with the complexity.

    Parameters
    ----------
    signals : (d, n) array
        X, one signal per column.
    n_components : int, optional
        The number of atoms; d by default.
    n_nonzero_coefs : int, optional
        Atoms per signal; a tenth of d by default, at least one.
    complexities : int or sequence of float, optional
        The largest relative complexities, each above 0 and at most 1; or their number, in equal ratios from 0.05
        (or the least possible, if that is more) to 0.8. By default 12 of them.
    n_factors : int, optional
        The number of factors of each product; 2 by default.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops, with the points so far.

    Returns
    -------
    Tradeoff
        One point per complexity; ``dense_error`` is the error of D₀.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> result = pp.dictionary.dictionary_tradeoff(X, 32, 5, complexities=[0.3, 0.6])
    >>> bool(result.at(0.6).error <= result.at(0.3).error)
    True
    """
    begin = perf_counter()
    rows = as_rows(signals)
    n_features = rows.shape[1]
    n_components = n_features if n_components is None else as_integer("n_components", n_components, 2)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, n_features, n_components)
    n_factors = 2 if n_factors is None else as_factor_count("n_factors", n_factors)
    shape = n_features, n_components
    limits = as_complexities(complexities, shape, n_factors, "signals")
    schedules = [Schedule.with_complexity(shape, limit, n_factors) for limit in limits]
    warn_if_few(rows.shape, n_components)
    warn_if_uneven(rows)
    session = Session(callback, random_state=random_state)
    neighbours = _Neighbours(session, Held(rows, Coder(n_nonzero_coefs)), n_components)
    # From the loosest to the tightest: a projection onto tighter sets is a better start than the reverse.
    fits = neighbours.fits(schedules[::-1])
    found = [TradeoffPoint(limit, error, op) for limit, (op, error) in zip(limits[::-1], fits, strict=False)]
    points = never_rising(found[::-1])
    status = Status.STOPPED if session.stopped else Status.CONVERGED
    name = f"relative error, {n_nonzero_coefs} atom{'s' * (n_nonzero_coefs > 1)} per signal"
    return Tradeoff(tuple(points), neighbours.dense_error, status, perf_counter() - begin, name)


class _Neighbours:
    """Dictionaries for one schedule after the other, each starting from the previous one."""

    def __init__(self, session: Session, signals: Held, n_components: int) -> None:
        self._session = session
        self._signals = self._sample = signals
        count, wanted = len(signals.rows), enough(n_components)
        if count > wanted:
            drawn = session.random.permutation(count)[:wanted]
            drawn.sort()
            self._sample = signals.part(signals.rows[drawn])
        self._n_components = n_components
        self.dense_error = float("inf")

    def fits(self, schedules: Sequence[Schedule]) -> Iterator[tuple[SparseProduct, float]]:
        """The dictionary of each schedule and its relative error, until the session stops; at least one."""
        session, share = self._session, 1 / (len(schedules) + 1)
        with session.part(share):
            ksvd = KSVDIterations(session, self._sample, self._n_components, **as_limits(100, 1e-4))
            dense = session.iterate(ksvd, ksvd.init(None)).dictionary
        self.dense_error = self._signals.error(dense)
        before: SparseProduct | None = None
        for i, schedule in enumerate(schedules):
            with session.part(share, f"point {i + 1} of {len(schedules)}: "):
                product = self._start(dense, schedule, before)
                if not session.stopped:
                    refine = Refinement(session, self._sample, schedule, _ROUNDS)
                    with session.part(0.9):
                        product = session.iterate(refine, refine.init(Found(product))).dictionary
            if session.stopped and before is not None:
                return
            before = product.astype(self._signals.rows.dtype)
            yield before, self._signals.error(before)
            if session.stopped:
                return

    def _start(self, dense: Array, schedule: Schedule, before: SparseProduct | None) -> SparseProduct:
        """D₀ factorized or the neighbour projected, whichever is better after some steps of PALM."""
        session, sets = self._session, schedule.constraints
        if session.stopped:
            return palm(dense, sets, max_iter=1).operator
        whole = Split(0, Fit([dense], 1.0, 0.0, Status.MAX_ITER), Moments(dense))
        with session.part(0.1):
            fit = split_all(session, schedule, Limits(schedule.order), whole, self._moments).fit
        if len(fit.factors) < len(sets):  # stopped before the last split: the residual is too dense
            return palm(dense, sets, max_iter=1).operator
        factorized = SparseProduct(fit.factors, fit.scale)
        if before is None or session.stopped:
            return factorized
        scale = before.scale * prod(frobenius(entries(factor)) for factor in before.factors)
        members = [c.project(to_dense(factor)) for c, factor in zip(sets, before.factors, strict=True)]
        starts = [SparseProduct(members, scale), factorized]
        found = [(start, self._sample.statistics(start)) for start in starts]
        starts = [descended(sums.moments(start), schedule, start, sums.error) for start, sums in found]
        return min(starts, key=self._sample.error)

    def _moments(self, product: SparseProduct) -> Moments:
        return self._sample.statistics(product).moments(product)
