"""Fast dictionaries: the paper's PROPOSED (section 4.2), and joint refinement."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from math import ceil, nan
from typing import Any, NamedTuple

import numpy as np

from .. import typing as types
from ..linalg import column_norms, frobenius
from ..operators import SparseProduct
from ..operators.cost import BLOCK
from ..operators.factors import to_dense
from ..results import Callback, Status
from ..runtime.checkpoint import stored
from ..runtime.session import Session, Stage
from ..samples import Samples
from ..search.pricing import schedule_with_speedup
from ..search.targets import as_speedup
from ..solvers.annealing import annealing_round, falling
from ..solvers.hierarchical import CodedSignals, Split, hierarchical, split_next
from ..solvers.moments import Moments
from ..solvers.palm import Fit, Limits, descend, is_rough, is_small
from ..solvers.schedule import Schedule
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_choice, as_integer, as_matrix, as_real
from .estimator import StreamEstimator
from .ksvd import KSVD, as_coder, ksvd_start
from .learner import (
    SETTLED,
    Found,
    LearnedDictionary,
    Outcome,
    PassesOverAll,
    Plan,
    as_rows,
    as_start,
    growing_share,
    learn_rows,
)
from .online import FadingMoments, OnlineDictionaryLearning, as_window, online_start
from .signals import Coder, Coding, Held, Signals, Statistics, code_part, multiplied, residuals_of

_ITERATIONS = 16  # Iterations of K-SVD for 10,000 signals and 256 atoms.
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 8, 100
_ROUGH, _FINE = 3e-4, 1e-6  # Tolerances of PALM: if refinement follows, and if not.
_ROUNDS = 8  # Rounds of refinement for 10,000 signals and 256 atoms.
_FEWEST_ROUNDS, _MOST_VISITS = 4, 160  # rounds; rounds times factors
_FEWEST_STEPS, _MOST_STEPS = 15, 30  # iterations of PALM in each of the two sets of a round
_STEPS_OF_SPLIT = 30  # Largest number of iterations in the hierarchy, if dictionaries are large and refined.
_WARM, _COLD = 0.15, 0.01  # How far sets are relaxed in the first and in the last round.
_ALONE = 30  # Iterations of PALM after a pass over all signals, or for a mini-batch.
_LEAST_GAIN = 1e-3  # Relative fall of the error for which another round with all signals follows.
_EQUAL = 0.99  # the inner product of two atoms of which one is too many
_RARE = 0.05  # Relative to the mean number of uses.
SIDE = 4  # rows and columns of blocks, by default
LEAST_SIDE = 64  # Dictionaries of at least this side have blocks by default.


def fast_dictionary(
    signals: ArrayLike,
    schedule: Schedule,
    n_nonzero_coefs: int | None = None,
    *,
    init: str | ArrayLike = "ksvd",
    effort: float = 1.0,
    order: str = "best",
    codes: str = "fixed",
    max_iter: int = 500,
    tol: float | None = None,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary that is a product of sparse factors.

    As in the paper's PROPOSED, a dense dictionary D₀ with codes Γ is learned by `ksvd` and factorized by
    `hierarchical`. Its splits see the residual of D₀; its global steps see the data, through the `Moments` of X
    and Γ, and `omp` gives new codes after each of them. Then, unless ``effort`` is 0, rounds of annealing follow:
    each has new codes, and `palm` of all factors, with noise, in larger sets and then in those of the schedule.
    They see random shares of the signals that grow to all of them, and the best product is the result.

    The paper to the letter, given the D₀ of its K-SVD, is ``effort=0, order="factor_first", codes="factor"``.

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
        D₀, or the learner of it: `ksvd`, with 8 to 100 iterations, fewer for more data, or `online_dictionary`.
    effort : float
        How much time to spend on improving all factors and codes together at the end, relative to the default; 0
        ends with the hierarchy.
    order : {"best", "residual_first", "factor_first"}
        Which of the two factors of a split each iteration of PALM updates first: the dense residual, or the sparse
        factor that is split off, as Algorithm 2 of the paper does it; global steps go on in this direction. "best"
        runs the hierarchy in both orders, where dictionaries are small and ``effort`` is not 0, and goes on from
        the one that codes the signals better; else it is "residual_first".
    codes : {"fixed", "factor"}
        What the codes are in a global step: fixed, so that it sees only moments; or one more factor, with
        ``n_nonzero_coefs`` entries in each column, as in line 5 of the paper's Algorithm 3. With very many signals
        such a step sees the random sample.
    max_iter : int
        The largest number of iterations of PALM in each split and each global step; 30 at most for large
        dictionaries that are refined.
    tol : float, optional
        End these when the relative error changes by less; 0 never ends them early. By default 1e-6 if ``effort``
        is 0, and else 3e-4: what follows goes on from there.
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
    >>> learned = pp.dictionary.fast_dictionary(X, schedule, 5, max_iter=50, random_state=0)
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
    coder = as_coder(n_nonzero_coefs, *schedule.shape, positive=positive)
    start = as_dense_start(init)
    hierarchy = HierarchyOptions(
        as_choice("order", order, ("best", "residual_first", "factor_first")),
        as_choice("codes", codes, ("fixed", "factor")) == "factor",
        as_integer("max_iter", max_iter, 1),
        None if tol is None else as_real("tol", tol, 0.0),
    )
    plan = fast_plan(schedule, start, as_real("effort", effort, 0.0), hierarchy)
    given = given_start(start, schedule.shape, rows.dtype)
    learned = learn_rows(rows, schedule.shape[1], coder, plan, random_state, callback, given)
    return learned._replace(dictionary=as_product(learned.dictionary))


def as_dense_start(init: Any) -> Any:
    """What learns D₀: None for K-SVD with limits that depend on the data, or a first stage; or D₀ itself."""
    if isinstance(init, KSVD | OnlineDictionaryLearning):
        return init._start()
    if not isinstance(init, str):
        return init
    return online_start() if as_choice("init", init, ["ksvd", "online"]) == "online" else None


def given_start(start: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Found | None:
    """D₀ if it is given."""
    return None if start is None or isinstance(start, partial) else Found(as_start(start, shape, dtype))


def ksvd_iterations_for(n_signals: int, n_components: int) -> int:
    """Those of the learner of D₀: the time of an iteration grows with signals and atoms."""
    size = n_signals * n_components / (10_000 * 256)
    return int(np.clip(round(_ITERATIONS / size**0.35), _FEWEST_ITERATIONS, _MOST_ITERATIONS))


def n_rounds_for(n_signals: int, schedule: Schedule) -> int:
    """Rounds of refinement: their time grows with signals, atoms and factors, and so there are fewer of them."""
    size = n_signals * schedule.shape[1] / (10_000 * 256)
    most = _MOST_VISITS // len(schedule.constraints)
    return int(np.clip(round(_ROUNDS / size**0.6), _FEWEST_ROUNDS, max(most, _FEWEST_ROUNDS)))


class HierarchyOptions(NamedTuple):
    """How `Hierarchy` runs: see `fast_dictionary`."""

    order: str = "best"
    with_codes: bool = False
    max_iter: int = 500
    tol: float | None = None

    def limits(self, schedule: Schedule, is_refined: bool) -> list[Limits]:
        """PALM's, for each order of updates that is tried."""
        tol = (_ROUGH if is_refined else _FINE) if self.tol is None else self.tol
        is_cheap = is_small(schedule.constraints)
        max_iter = min(self.max_iter, _STEPS_OF_SPLIT) if is_refined and not is_cheap else self.max_iter
        limits = Limits(schedule.order, max_iter, tol, inertia=is_refined)
        if self.order == "best":
            return [limits, limits.mirrored()] if is_refined and is_cheap else [limits]
        return [limits.mirrored() if self.order == "factor_first" else limits]


_DEFAULT = HierarchyOptions()


def fast_plan(
    schedule: Schedule, start: Any = None, effort: float = 1.0, options: HierarchyOptions = _DEFAULT
) -> Plan:
    """The stages of `fast_dictionary`."""
    refine = effort > 0

    def plan(session: Session, signals: Signals, n_components: int) -> list[Stage]:
        count, stages = len(signals.start.rows), []
        first = ksvd_start(ksvd_iterations_for(count, n_components)) if start is None else start
        if isinstance(first, partial):
            stages.append(first(session, signals, n_components))
        limits = options.limits(schedule, refine)
        stages.append(Hierarchy(session, signals, schedule, limits, options.with_codes))
        if refine:
            n_rounds = ceil(effort * n_rounds_for(count, schedule))
            stages.append(Refinement(session, signals.start, schedule, n_rounds))
        return [*stages, PassesOverAll(session, signals, partial(_improved, schedule) if refine else None)]

    return plan


def _improved(schedule: Schedule, dictionary: Any, statistics: Statistics) -> SparseProduct:
    """Some steps of PALM on the moments of all signals."""
    product = as_product(dictionary)
    return with_unit_atoms(descended(statistics.moments(product), schedule, product, statistics.error))[0]


def as_product(dictionary: Array | SparseProduct) -> SparseProduct:
    """A dictionary as a product, with one factor if it is dense."""
    return dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])


# -- the hierarchy -------------------------------------------------------------------------------------


@stored
@dataclass
class Levels:
    """Products after some splits, one per order of updates; whether they are computed in single precision."""

    products: list[SparseProduct]
    in_single: bool
    levels: int = 0
    status: str = Status.MAX_ITER  # why PALM ended last


class Hierarchy(Stage):
    """Algorithm 3 on a dense dictionary; its global steps see all signals with new codes, fixed or as a factor.

    With ``limits`` of both orders of updates, it ends with the product that codes the signals better.
    """

    name = "hierarchy"
    has_long_steps = True

    def __init__(
        self,
        session: Session,
        signals: Signals,
        schedule: Schedule,
        limits: list[Limits],
        with_codes: bool = False,
    ) -> None:
        self._session, self._signals, self._schedule, self._limits = session, signals, schedule, limits
        self._with_codes = with_codes
        self.share = len(limits) * len(schedule.factors) * (0.3 + signals.pass_share)

    def init(self, before: Found) -> Levels:
        product = as_product(before.dictionary)
        target = Moments(product.toarray())
        # What single precision loses is far below a rough tolerance.
        in_single = self._limits[0].tol >= _ROUGH and is_rough(target, self._schedule.constraints, 1.0)
        product = product.astype(target.in_single_precision.cross.dtype) if in_single else product
        return Levels([product] * len(self._limits), in_single)

    def step(self, state: Levels) -> Levels:
        products: list[SparseProduct] = []
        for product, limits in zip(state.products, self._limits, strict=True):
            fit = Fit([to_dense(factor) for factor in product.factors], product.scale, nan, Status.MAX_ITER)
            start = Split(state.levels, fit, Moments(product.toarray()))
            retarget = self._coded if self._with_codes else partial(self._moments, state.in_single)
            with self._session.part(1 / len(self._limits)):
                split = split_next(self._session, self._schedule, limits, start, retarget)
            products.append(SparseProduct(split.fit.factors, split.fit.scale))
            if self._session.stopped:
                break
        return Levels(products, state.in_single, split.levels, split.fit.status)

    def done(self, state: Levels) -> bool:
        return state.levels == len(self._schedule.factors)

    def result(self, state: Levels) -> Found:
        kind = self._signals.start.rows.dtype
        products = [with_unit_atoms(product.astype(kind))[0] for product in state.products]
        best = products[0] if len(products) == 1 else min(products, key=self._signals.start.error)
        return Found(best, state.status)

    def _coded(self, product: SparseProduct) -> Moments:
        """Signals in memory with their codes."""
        held = self._signals.start
        moments = held.statistics(product).moments(product)
        if moments.gram is None or held.codes is None:
            return moments
        codes = held.codes.toarray().astype(product.dtype)
        return CodedSignals(held.rows.T.astype(product.dtype), codes, held.coder.n_nonzero_coefs)

    def _moments(self, in_single: bool, product: SparseProduct) -> Moments:
        moments = self._signals.statistics(product).moments(product)
        return moments.in_single_precision if in_single else moments


# -- refinement ----------------------------------------------------------------------------------------


@stored
@dataclass
class Round:
    """A product after some rounds of refinement, the first, and the best one with its error for all signals."""

    product: SparseProduct
    first: SparseProduct
    best: SparseProduct
    number: int = 0
    error: float = np.inf
    has_settled: bool = False


class Refinement(Stage):
    """Rounds of new codes and annealing of all factors, on growing shares of the signals.

    Each is a round of `annealed` on the moments of the new codes; the relaxation falls from 0.15 to 0.01, since
    more would destroy what the codes know. The errors that it reports are those of the new codes of a round,
    before it changes the factors. The result is the best product that has coded all signals, the first one
    included.
    """

    name = "refine"
    share = 2.0

    def __init__(self, session: Session, signals: Held, schedule: Schedule, n_rounds: int) -> None:
        self._session, self._signals, self._schedule, self._count = session, signals, schedule, n_rounds
        # With many signals, codes take most of the time, and more steps are worth it.
        signals_per_atom = len(signals.rows) // schedule.shape[1]
        self._steps = int(np.clip(signals_per_atom // 3, _FEWEST_STEPS, _MOST_STEPS))

    def init(self, before: Found) -> Round:
        return Round(before.dictionary, before.dictionary, before.dictionary)

    def step(self, state: Round) -> Round:
        signals, session, schedule, i = self._signals, self._session, self._schedule, state.number
        n_nonzero_coefs, last = signals.coder.n_nonzero_coefs, self._count - 1
        some = growing_share(signals.rows, schedule.shape[1], n_nonzero_coefs, i, last, session.random)
        part = signals.part(some)
        found = part.statistics(state.product)
        relaxation = falling(_WARM, _COLD, i, self._count)
        product = annealed_once(session, found, schedule, state.product, relaxation, self._steps)
        if some is not signals.rows:  # the last rounds only improve what there is
            product = reseeded(product, part, found.uses)
        else:
            state.has_settled = found.error > (1 - SETTLED) * state.error
            if found.error < state.error:
                state.error, state.best = found.error, state.product
        state.product, _ = with_unit_atoms(product)
        state.number += 1
        factors, done = [to_dense(factor) for factor in state.product.factors], state.number / self._count
        session.report(self.name, found.error, state.product.scale, factors, done, part.share)
        return state

    def done(self, state: Round) -> bool:
        return state.number == self._count or state.error == 0.0

    def result(self, state: Round) -> Found:
        status = Status.CONVERGED if state.has_settled else Status.MAX_ITER
        product = min([state.first, state.best, state.product], key=self._signals.error)
        return Found(product, Status.STOPPED if self._session.stopped else status, error=state.error)


def annealed_once(
    session: Session,
    found: Statistics,
    schedule: Schedule,
    product: SparseProduct,
    relaxation: float,
    steps: int,
) -> SparseProduct:
    """The product after one round of annealing on the moments of codes in it; `Interrupted` after a stop."""
    moments, factors = in_precision(found.moments(product), schedule, product, found.error)
    limits = Limits(schedule.order, steps, tol=0.0, inertia=True)
    quiet, random = session.aside(), session.random
    fit = annealing_round(quiet, random, "", moments, schedule, factors, relaxation, limits)
    session.check()
    return SparseProduct(fit.factors, fit.scale).astype(product.dtype)


def descended(
    moments: Moments, schedule: Schedule, product: SparseProduct, error: float, steps: int = _ALONE
) -> SparseProduct:
    """The product after some steps of PALM for all its factors; ``error`` is the relative one before them."""
    moments, factors = in_precision(moments, schedule, product, error)
    limits = Limits(schedule.order, steps, tol=0.0, inertia=True)
    sets = schedule.sets_for(factors)
    fit = descend(Session(None), "refine", moments, sets, factors, product.scale, limits)
    return SparseProduct(fit.factors, fit.scale).astype(product.dtype)


def in_precision(
    moments: Moments, schedule: Schedule, product: SparseProduct, error: float
) -> tuple[Moments, list[Array]]:
    """The moments and the factors, as dense matrices, in the precision of the next steps.

    Unless the error is small, single precision is enough, and steps of large factors take half the time.
    """
    if is_rough(moments, schedule.constraints, error):
        moments = moments.in_single_precision
    return moments, [to_dense(factor).astype(moments.cross.dtype) for factor in product.factors]


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


# -- atoms that do nothing -----------------------------------------------------------------------------


def reseeded(product: SparseProduct, signals: Held, uses: Array) -> SparseProduct:
    """The product with new values for atoms that are hardly used, or parallel to an atom that is used more.

    ``signals`` have codes in a dictionary near the product. An atom is L s, with L all factors but the last and s
    its column there. It becomes the direction, among those that the support of s allows, in which the residuals of
    the signals have most energy. With few entries per column, such spans are small, and PALM alone makes some of
    their atoms equal: these never differ again. An atom that is zero gets one entry.
    """
    atoms = multiplied(product)
    bad = _bad_atoms(atoms, uses)
    if not bad.size or signals.codes is None:
        return product
    left = to_dense(product.factors[0])
    for factor in product.factors[1:-1]:
        left = left @ to_dense(factor)
    residuals = residuals_of(signals.rows, np.ascontiguousarray(atoms.T), signals.codes)
    energy = residuals.T @ residuals.conj()
    last = to_dense(product.factors[-1]).copy()
    for j in bad:
        support = np.flatnonzero(last[:, j])
        if not atoms[:, j].any():  # a support that gives nothing: one entry in its place, for which there is room
            support, last[:, j] = _best_entry(left, energy), 0
        best = _strongest(left[:, support], energy)
        if best is None:
            continue
        values, atom = best
        last[support, j] = values / product.scale
        # The next one takes another direction.
        energy = energy - np.outer(atom, atom.conj() @ energy)
        energy = energy - np.outer(energy @ atom, atom.conj())
    return SparseProduct([*product.factors[:-1], last], product.scale)


def _bad_atoms(atoms: Array, uses: Array) -> Array:
    """The atoms that are hardly used, and of two parallel ones that with fewer uses."""
    norms = column_norms(atoms)
    unit = atoms / np.where(norms > 0, norms, 1)
    order = np.argsort(-uses, kind="stable")
    likeness = np.triu(np.abs(unit[:, order].conj().T @ unit[:, order]), 1)
    is_doubled = np.zeros(uses.size, dtype=bool)
    is_doubled[order] = (likeness > _EQUAL).any(axis=0)
    return np.flatnonzero(is_doubled | (uses < _RARE * uses.mean()))


def _best_entry(left: Array, energy: Array) -> Array:
    """The column of L in whose direction there is most energy."""
    norms = column_norms(left)
    along = np.einsum("ij,ij->j", left.conj(), energy @ left).real
    return np.array([np.argmax(along / np.where(norms > 0, norms, np.inf) ** 2)])


def _strongest(base: Array, energy: Array) -> tuple[Array, Array] | None:
    """Coefficients in a base, and the unit vector that they give: the direction of most energy in its span."""
    directions, sizes, turned = np.linalg.svd(base, full_matrices=False)
    kept = sizes > 1e-6 * sizes.max(initial=0.0)
    directions = directions[:, kept]
    if not directions.size:
        return None
    within = directions.conj().T @ energy @ directions
    values, vectors = np.linalg.eigh(within)
    if not values[-1] > 0:
        return None
    chosen = vectors[:, -1]
    coefficients = turned[kept].conj().T @ (chosen / sizes[kept])
    return coefficients, directions @ chosen


# -- the estimator -------------------------------------------------------------------------------------


@dataclass
class FastState(FadingMoments):
    """A product of sparse factors that learns from one mini-batch after the other, on `FadingMoments`.

    Its factors lie in the last sets of the schedule.
    """

    dictionary: SparseProduct
    schedule: Schedule
    coder: Coder

    def learn(self, rows: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(rows)
        product = self.dictionary
        found = code_part(iter([(0, rows)]), Coding(product, self.coder, 0, self.unit))
        self.fade_and_add(found.gram, found.cross, found.uses, found.energy)
        # An earlier fit may have stopped before its last split.
        if len(product.factors) <= len(self.schedule.factors):
            product = hierarchical(product.toarray(), self.schedule).operator.astype(rows.dtype)
        if self.gram.any():
            moments = Moments(self.cross.T, self.gram, self.energy)
            product, norms = with_unit_atoms(descended(moments, self.schedule, product, found.error))
            # The codes grow as the atoms shrink.
            self.gram, self.cross = self.gram * np.multiply.outer(norms, norms), self.cross * norms[:, None]
        self.dictionary = product
        return found.error


@dataclass(eq=False, repr=False)
class FastDictionaryLearning(StreamEstimator):
    """A dictionary that is a product of sparse factors, and so a fast transform.

    It is what `papilio.dictionary.fast_dictionary` learns, for scikit-learn.

    Parameters
    ----------
    {n_components}
    {n_nonzero_coefs}
    complexity : float, optional
        The largest relative complexity: entries of all factors over those of the dense dictionary. By default 0.5,
        or the least possible if that is more. There are two factors; from 64 features and atoms on, in blocks of
        4×4 entries, which run two to three times as fast as single ones, and had the lowest errors on new data at
        equal speed.
    speedup : float, optional
        In place of ``complexity``: how many times faster than the dense dictionary the product should be on this
        machine, above 1, with 256 vectors at a time. The dictionary then has as many entries as that allows.
        Results depend on the machine; ``complexity`` is the way to repeat them.
    schedule : Schedule, optional
        In place of both: the constraint sets of the factors. `Schedule.with_complexity` and
        `Schedule.with_speedup` have options for the number of factors, blocks, and vectors at a time.
    init : {"ksvd", "online"}, KSVD, OnlineDictionaryLearning or (n_components, n_features) array
        The dense dictionary to factorize, or the learner of it: "ksvd" has 8 to 100 iterations, fewer for more
        data. An estimator such as ``KSVD(max_iter=20)`` is not fitted itself: only its limits are used.
    effort : float
        How much time to spend on improving all factors and codes together at the end, relative to the default.
        With 0, learning ends with the paper's hierarchical factorization, which then descends further.
    {window}
    {positive}
    {coding}
    {running}

    Attributes
    ----------
    {components_}
    operator_ : SparseProduct
        The dictionary, (n_features, n_components), as a fast transform.
    {learning}

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.FastDictionaryLearning(n_nonzero_coefs=5, complexity=0.4, random_state=0).fit(X)
    >>> bool(model.relative_complexity_ <= 0.4)
    True
    """

    n_components: int | None = None
    n_nonzero_coefs: int | None = None
    _: KW_ONLY
    complexity: float | None = None
    speedup: float | None = None
    schedule: Schedule | None = None
    init: str | ArrayLike | KSVD | OnlineDictionaryLearning = "ksvd"
    effort: float = 1.0
    window: int | None = None
    positive: bool = False
    transform_algorithm: str = "omp"
    transform_alpha: float | None = None
    transform_sparse: bool = False
    random_state: RandomState = None
    callback: Callback | None = None
    checkpoint: types.Path | None = None

    def _plan(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Plan:
        self._schedule = self._schedule_for((samples.shape[1], n_components), samples.dtype)
        as_window(self.window)
        return fast_plan(self._schedule, self._start(), as_real("effort", self.effort, 0.0))

    def _start(self) -> Any:
        is_learned = isinstance(self.init, str | KSVD | OnlineDictionaryLearning)
        return as_dense_start(self.init if is_learned else as_matrix("init", self.init).T)

    def _given(self, samples: Samples, n_components: int) -> Found | None:
        return given_start(self._start(), (samples.shape[1], n_components), samples.dtype)

    def _schedule_for(self, shape: tuple[int, int], dtype: Any) -> Schedule:
        given = [name for name in ("complexity", "speedup", "schedule") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} cannot be combined: give one of them")
        block = SIDE if min(shape) >= LEAST_SIDE else None
        if self.speedup is not None:
            speedup = as_speedup("speedup", self.speedup)
            return schedule_with_speedup(shape, dtype, speedup, BLOCK, None, block)
        if self.schedule is None:
            return Schedule.with_complexity(shape, self.complexity, None, block)
        if not isinstance(self.schedule, Schedule):
            raise TypeError(f"schedule must be a Schedule, got {type(self.schedule).__name__}")
        if self.schedule.shape != shape:
            raise ValueError(
                f"schedule must be for (n_features, n_components) = {shape}, got one for {self.schedule.shape}"
            )
        return self.schedule

    def _state_after(self, outcome: Outcome) -> FastState:
        coder = self._coder(self._sizes(outcome.dictionary.shape[0])[1])
        return FastState(self.operator_, self._schedule, coder, window=as_window(self.window))
