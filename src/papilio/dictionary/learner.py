"""What all learners share: their arguments and results, alternations, passes over all signals, and first atoms."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..coding import Atoms, as_signals
from ..kernels.atom_updates import descend_atoms
from ..linalg import column_norms, largest_part, rescaled
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..results import Callback, History, Status
from ..runtime.checkpoint import store_as, stored
from ..runtime.session import Session, Stage
from ..runtime.threads import blas_threads
from ..samples import Samples, held
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_matrix, as_real
from .signals import Coder, Signals, Statistics, codes_of, open_signals, residuals_of, scaled, unit_for

RARE = 0.25  # atoms used less often than this share of the mean are replaced
COHERENT = 0.9  # If the inner product of two atoms exceeds this, one is replaced.
_FIRST_SHARE = 0.1  # Share of the signals in the first iteration of `growing_share`.
_EARLY_SHARE = 0.4  # Share of the signals in early iterations.
_USES = 10  # Least average number of uses of an atom in an iteration.
_FEW = 2  # samples per atom: with fewer, new samples gain nothing (see `warn_if_few`)
_FEATURES_TO_ONE, _LEAST_REST = 20, 1e-6  # the share of energy that more than one feature in twenty should have
_PATIENCE = 10  # iterations without progress after which a learner ends
_SETTLED = 0.03  # a fall of the error in the latest ten iterations that leaves little to gain
SETTLED = 0.01  # a fall of the error in the last round of refinement that is no reason to go on
_LEAST_GAIN = 1e-3  # Relative fall of the error for which another pass over all signals follows.
_SWEEPS = 5  # over all atoms, on the same moments

_CSR = ("data", "indices", "indptr", "shape")


def _content(op: SparseProduct) -> dict[str, Any]:
    """A product for a checkpoint, its dense factors in their order in memory: other orders have other rounding."""
    factors = [
        {part: getattr(factor, part) for part in _CSR} if sp.issparse(factor) else factor for factor in op.factors
    ]
    return {"factors": factors, "scale": op.scale}


def _product(content: dict[str, Any]) -> SparseProduct:
    """The inverse of `_content`."""
    factors = [
        sp.csr_array(tuple(factor[part] for part in _CSR[:3]), shape=tuple(factor["shape"]))
        if isinstance(factor, dict)
        else factor
        for factor in content["factors"]
    ]
    return SparseProduct(factors, content["scale"])


store_as(SparseProduct, _content, _product)


# -- arguments and results -----------------------------------------------------------------------------


class LearnedDictionary(NamedTuple):
    """What `ksvd`, `sparse_ksvd`, `online_dictionary` and `fast_dictionary` return.

    Attributes
    ----------
    dictionary : (d, a) ndarray or SparseProduct
        D, one atom per column.
    codes : (a, n) csc_array
        Γ, the codes of the signals in it by `omp`, one signal per column.
    history : History
        Relative error, phase and seconds of each iteration.
    status : Status
        Why learning ended.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> learned = pp.dictionary.ksvd(X, 32, 5, max_iter=10, random_state=0)
    >>> learned.dictionary.shape, learned.codes.shape
    ((32, 32), (32, 500))
    """

    dictionary: Array | SparseProduct
    codes: sp.csc_array
    history: History
    status: Status


def as_rows(signals: ArrayLike) -> Array:
    """Signals (d, n) as a C-contiguous array with one signal per row, copied only if necessary."""
    rows = np.ascontiguousarray(as_signals(signals).T)
    if not len(rows):
        raise ValueError(f"signals must hold at least one signal, got shape {rows.T.shape}")
    return rows


def as_start(init: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """A dictionary to start from, in the signals' dtype; far from one, it is divided by a power of two."""
    start = as_matrix("init", init, shape)
    if start.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError("init must be real, as the signals are, got a complex matrix")
    if not start.any():
        raise ValueError("init must not be zero, got a zero matrix")
    return rescaled(start).astype(dtype)


def as_sparsity(n_nonzero_coefs: int | None, n_features: int, n_components: int) -> int:
    """The number of atoms per signal: a tenth of the features, at least one, by default."""
    if n_nonzero_coefs is None:
        return min(max(n_features // 10, 1), n_components)
    return as_integer("n_nonzero_coefs", n_nonzero_coefs, 1, min(n_features, n_components))


def as_limits(max_iter: int, tol: float, least: int = 0) -> dict[str, Any]:
    """The two limits of iterations, after checks."""
    return {"max_iter": as_integer("max_iter", max_iter, least), "tol": as_real("tol", tol, 0.0)}


def warn_if_few(shape: tuple[int, ...], n_components: int, stacklevel: int = 3) -> None:
    """Warn the caller's caller if samples of this shape, (samples, features), are fewer than two per atom.

    With up to four, K-SVD with 64 or 128 atoms overfitted image patches, and coded new ones no better than with
    one per atom. Small data are usual in tests: the limit is where the error of learning says nothing.
    """
    n_samples, n_features = shape
    if n_samples < _FEW * n_components:
        is_wide = n_features > _FEW * n_components  # turned round, they would be enough
        advice = f"; or transpose the data, if they are {n_features:,} samples" if is_wide else ""
        samples = f"{n_samples:,} sample{'s' * (n_samples != 1)}"
        warnings.warn(
            f"{n_components:,} atoms are too many for {samples}: with fewer than {_FEW} samples per "
            "atom, the dictionary overfits, and new samples are coded poorly. Give fewer "
            f"atoms, or more samples{advice}",
            UserWarning,
            stacklevel=stacklevel,
        )


def warn_if_uneven(rows: Array, stacklevel: int = 3) -> None:
    """Warn the caller's caller if a few features carry nearly all energy: errors say nothing of the others."""
    unit = unit_for(largest_part(rows))
    rows = rows if unit == 1.0 else scaled(rows, unit)
    energies = np.sort(np.einsum("ij,ij->j", rows, rows.conj()).real)[::-1]
    few = max(len(energies) // _FEATURES_TO_ONE, 1)
    rest = float(energies[few:].sum() / energies.sum()) if energies[0] > 0 else 0.0
    if 0 < rest < _LEAST_REST:
        warnings.warn(
            f"{few} of {len(energies)} features carry all but {rest:.1g} of the energy, and errors say nothing "
            "about the others: give all features comparable scales",
            UserWarning,
            stacklevel=stacklevel,
        )


@stored
@dataclass
class Found:
    """The result of a stage of learning: a dictionary (d, a), why it ended, and sums over all signals.

    ``error`` is that of the signals in memory before the last step, if it is known.
    """

    dictionary: Any
    status: str = Status.CONVERGED
    statistics: Statistics | None = None
    error: float = np.inf


class Outcome(NamedTuple):
    """What `learn` returns: a dictionary (d, a), the statistics of the signals in it, and why it ended."""

    dictionary: Any
    statistics: Statistics
    signals: Signals
    status: Status


Plan: TypeAlias = Callable[[Session, Signals, int], list[Stage]]  # the stages for so many atoms


def learn(
    session: Session, samples: Samples, n_components: int, coder: Coder, plan: Plan, start: Found | None = None
) -> Outcome:
    """Run the stages of a plan, the last of which is `PassesOverAll`, on samples of any size."""
    signals = open_signals(samples, coder, n_components, session)
    found = session.run(plan(session, signals, n_components), start)
    dictionary, statistics = found.dictionary, found.statistics
    is_product = isinstance(dictionary, SparseProduct)
    factors = [to_dense(factor) for factor in dictionary.factors] if is_product else [dictionary]
    scale, share = dictionary.scale if is_product else 1.0, signals.start.share if session.stopped else 1.0
    session.report("final", statistics.error, scale, factors, 1.0, share)
    return Outcome(dictionary, statistics, signals, Status.STOPPED if session.stopped else Status(found.status))


def learn_rows(
    rows: Array,
    n_components: int,
    coder: Coder,
    plan: Plan,
    random_state: RandomState,
    callback: Callback | None,
    start: Found | None = None,
) -> LearnedDictionary:
    """What the learning functions do when their arguments are checked."""
    warn_if_few(rows.shape, n_components, stacklevel=4)
    warn_if_uneven(rows, stacklevel=4)
    session = Session(callback, random_state=random_state)
    dictionary, _, signals, status = learn(session, held(rows), n_components, coder, plan, start)
    if not isinstance(dictionary, SparseProduct):
        dictionary = np.ascontiguousarray(dictionary)
    codes = codes_of(signals, rows.astype(dictionary.dtype, copy=False), dictionary)
    return LearnedDictionary(dictionary, codes, session.history, status)


# -- iterations ----------------------------------------------------------------------------------------


@stored
@dataclass
class Best:
    """The best candidate so far, and for how many iterations the error has not fallen by a share ``tol``."""

    error: float = np.inf
    stale: int = 0
    candidate: Any = None
    trail: list[float] = field(default_factory=list)  # the lowest error after each of the latest iterations

    def record(self, error: float, candidate: Any, tol: float) -> None:
        """Take note of the error of one more iteration."""
        self.stale = 0 if error < self.error * (1 - tol) else self.stale + 1
        if error < self.error:
            self.error, self.candidate = error, candidate
        self.trail = [*self.trail[-_PATIENCE:], self.error]

    def has_settled(self, tol: float) -> bool:
        """Whether there was no progress for ten iterations (never with ``tol=0``), or the fit is exact."""
        return self.error == 0.0 or (tol > 0 and self.stale >= _PATIENCE)

    def status(self, stopped: bool, tol: float) -> Status:
        """Why the iterations ended."""
        if stopped:
            return Status.STOPPED
        is_flat = tol > 0 and len(self.trail) > _PATIENCE and self.error > (1 - _SETTLED) * self.trail[0]
        return Status.CONVERGED if is_flat or self.has_settled(tol) else Status.MAX_ITER


Model: TypeAlias = dict[str, Array]  # The ``atoms``, one per row, and any other arrays.


@stored
@dataclass
class AlternationState:
    """A model after some iterations, and the best one so far."""

    model: Model
    iteration: int = 0
    best: Best = field(default_factory=Best)
    is_done: bool = False


class Alternation(Stage):
    """K-SVD and its variants: code some signals, record the error, update the atoms.

    A learner of this kind has a ``name`` and `update`; if it does not start from signals, `begin`; and if its
    dictionary is not the matrix of its atoms, `finish`.
    """

    def __init__(
        self,
        session: Session,
        signals: Signals,
        n_components: int,
        *,
        max_iter: int,
        tol: float,
        plain: bool = False,
        init: Any = None,
    ) -> None:
        self.session, self.signals, self.n_components = session, signals.start, n_components
        self.max_iter, self.tol, self.plain = max_iter, tol, plain
        self._init = init

    def begin(self) -> Model:
        """The first model."""
        return {"atoms": first_atoms(self.signals.rows, self.n_components, self._init, self.session.random)}

    @abstractmethod
    def update(self, model: Model, rows: Array, codes: sp.csc_array, residuals: Array) -> None:
        """Change the arrays of a model in place, given signals (one per row), their codes and their residuals."""

    def finish(self, model: Model) -> Array | SparseProduct:
        """The dictionary (d, a) of a model."""
        return model["atoms"].T

    def init(self, before: Any) -> AlternationState:
        return AlternationState(self.begin())

    def step(self, state: AlternationState) -> AlternationState:
        session, signals, i, best = self.session, self.signals, state.iteration, state.best
        rows, coder, atoms = signals.rows, signals.coder, state.model["atoms"]
        with blas_threads(atoms.shape[0] * atoms.size):
            some, n_atoms = rows, coder.n_nonzero_coefs
            if not self.plain:
                some, n_atoms = early_signals(rows, len(atoms), n_atoms, i, self.max_iter, session.random)
            early = coder._replace(n_nonzero_coefs=n_atoms)
            codes = early.codes(Atoms(atoms.T), some)
            residuals = residuals_of(some, atoms, codes)
            error = early.error(residuals, some, codes)
            done, share = (i + 1) / (self.max_iter + 1), signals.part(some).share
            session.report(self.name, error, 1.0, [atoms.T.copy()], done, share)
            if some is rows and (early == coder or coder.alpha is not None):
                best.record(error, {key: array.copy() for key, array in state.model.items()}, self.tol)
            state.is_done = session.stopped or best.has_settled(self.tol) or i == self.max_iter
            if not state.is_done:
                self.update(state.model, some, codes, residuals)
        state.iteration += 1
        return state

    def done(self, state: AlternationState) -> bool:
        return state.is_done

    def result(self, state: AlternationState) -> Found:
        # There is no best model if the run stopped before all signals were coded.
        model = state.model if state.best.candidate is None else state.best.candidate
        return Found(self.finish(model), state.best.status(self.session.stopped, self.tol))


@stored
@dataclass
class PassesState:
    """A dictionary to measure in the next pass, and the best one so far with its statistics."""

    dictionary: Any
    status: str
    best: Any
    before: float  # the error before the last step of the stage before
    found: Statistics | None = None
    number: int = 0
    is_done: bool = False


class PassesOverAll(Stage):
    """The last stage of learning: passes over all signals improve a dictionary that was learned from a sample.

    Each pass codes the signals again, which gives the error of the dictionary and the statistics to ``improve``
    it, as long as that lowers the error enough. One more pass measures the result; without ``improve``, it is the
    only one.
    """

    name = "all data"
    closing = True
    has_long_steps = True

    def __init__(
        self,
        session: Session,
        signals: Signals,
        improve: Callable[[Any, Statistics], Any] | None = None,
        n_worst: int = 0,
    ) -> None:
        self._session, self._signals, self._improve, self._n_worst = session, signals, improve, n_worst
        self._n_passes = signals.n_passes if improve else 0
        self.share = (self._n_passes + 1) * signals.pass_share

    def init(self, before: Found) -> PassesState:
        dictionary = before.dictionary.astype(self._signals.start.rows.dtype)
        return PassesState(dictionary, before.status, dictionary, before.error)

    def step(self, state: PassesState) -> PassesState:
        session, n_passes, found = self._session, self._n_passes, state.found
        with session.part(1 / (n_passes + 1)):
            some = self._signals.start if session.stopped else self._signals
            statistics = some.statistics(state.dictionary, self._n_worst)
        if n_passes:
            share = 1.0 if some is self._signals else self._signals.start.share
            session.report(self.name, statistics.error, share=share)
        if found is None or statistics.error < found.error:
            state.found, state.best = statistics, state.dictionary
        pays = found is None or statistics.error < found.error * (1 - _LEAST_GAIN)
        state.is_done = not pays or session.stopped or statistics.error == 0 or state.number == n_passes
        if not state.is_done and self._improve is not None:
            state.dictionary = self._improve(state.dictionary, statistics)
            state.number += 1
        return state

    def done(self, state: PassesState) -> bool:
        return state.is_done

    def result(self, state: PassesState) -> Found:
        found = state.found or self._signals.start.statistics(state.best, self._n_worst)  # stopped in a pass
        has_settled = state.status == Status.MAX_ITER and found.error > (1 - SETTLED) * state.before
        return Found(state.best, Status.CONVERGED if has_settled else state.status, found)


def dense_plan(first: Callable[[Session, Signals, int], Stage], improves: bool = True) -> Plan:
    """A plan for a dense dictionary: a stage on signals in memory, and passes over all, which may improve it."""

    def plan(session: Session, signals: Signals, n_components: int) -> list[Stage]:
        def improve(dictionary: Array, statistics: Statistics) -> Array:
            return better_atoms(dictionary, statistics, signals.coder.positive)

        passes = PassesOverAll(session, signals, improve if improves else None, n_components)
        return [first(session, signals, n_components), passes]

    return plan


def better_atoms(dictionary: Array, statistics: Statistics, positive: bool = False) -> Array:
    """A dense dictionary (d, a) with its bad atoms replaced, after some sweeps over all atoms."""
    atoms = dictionary.T.copy()
    replaced = replace_bad_atoms(atoms, statistics.uses, statistics.worst, statistics.badness, positive)
    gram, cross = statistics.gram.copy(), statistics.cross.copy()
    gram[replaced], gram[:, replaced], cross[replaced] = 0, 0, 0
    for _ in range(_SWEEPS):
        descend_atoms(atoms, gram, cross)
    return atoms.T


# -- atoms ---------------------------------------------------------------------------------------------


def first_atoms(rows: Array, n_components: int, init: Any, random: np.random.RandomState) -> Array:
    """Unit-norm atoms to start from, one per row: those of ``init`` (d, a), or different signals drawn at random.

    If there are too few different signals, the rest are random directions.
    """
    if init is not None:
        atoms = as_start(init, (rows.shape[1], n_components), rows.dtype).T
    else:
        order = random.permutation(np.flatnonzero(rows.any(axis=1)))[: 4 * n_components]
        drawn = order[np.sort(np.unique(rows[order], axis=0, return_index=True)[1])][:n_components]
        filling = random.standard_normal((n_components - drawn.size, rows.shape[1]))
        atoms = np.concatenate([rows[drawn], filling.astype(rows.dtype)])
    atoms = rescaled(atoms, axis=1)
    norms = column_norms(atoms.T)
    if not norms.all():
        raise ValueError("init must have no zero column, got at least one")
    return np.ascontiguousarray(atoms / norms[:, None].astype(rows.real.dtype))


def growing_share(
    rows: Array,
    n_components: int,
    n_nonzero_coefs: int,
    iteration: int,
    max_iter: int,
    random: np.random.RandomState,
) -> Array:
    """The signals of an iteration: a random tenth at first, all of them in the last quarter.

    With few signals the dictionary moves more, which leads out of poor minima as noise does, and an iteration
    costs less. Each atom has at least ten uses on average.
    """
    least = max(_FIRST_SHARE, _USES * n_components / (len(rows) * n_nonzero_coefs))
    share = least + 1.2 * iteration / max(max_iter, 1)
    if share >= 1 or iteration == max_iter:
        return rows
    return _some(rows, share * len(rows), random)


def early_signals(
    rows: Array,
    n_components: int,
    n_nonzero_coefs: int,
    iteration: int,
    max_iter: int,
    random: np.random.RandomState,
) -> tuple[Array, int]:
    """The signals of an iteration from a poor start, and the number of atoms that code each.

    These are a random two fifths in the first three quarters of the iterations, and half as many atoms in the
    first half. While atoms are far from the truth, only the largest coefficients are right; smaller ones fit what
    others leave. And if each iteration sees the same signals, the dictionary soon fits just these. Each atom has
    at least ten uses on average.
    """
    count = max(_EARLY_SHARE * len(rows), _USES * n_components / n_nonzero_coefs)
    is_early = 4 * iteration < 3 * max_iter and count < len(rows)
    n_atoms = (n_nonzero_coefs + 1) // 2 if 2 * iteration < max_iter else n_nonzero_coefs
    return _some(rows, count, random) if is_early else rows, n_atoms


def _some(rows: Array, count: float, random: np.random.RandomState) -> Array:
    """So many rows, drawn at random, in their order."""
    return rows[np.sort(random.permutation(len(rows))[: ceil(count)])]


def replace_bad_atoms(
    atoms: Array, uses: Array, rows: Array, energies: Array, positive: bool = False, only_unused: bool = False
) -> Array:
    """Replace atoms that are rarely used, or nearly equal to another one, by the signals with the largest errors.

    ``energies`` are the squared errors of ``rows``. Atoms that differ by a factor of modulus 1 are equal, unless
    codes are ``positive``: then d and −d do not replace each other. Returns the indices of the atoms that were
    replaced.
    """
    bad = np.flatnonzero(uses == 0 if only_unused else _is_bad(atoms, uses, positive))
    bad = bad[: np.count_nonzero(energies)]
    if bad.size:
        worst = np.argpartition(-energies, min(bad.size, len(rows) - 1))[: bad.size]
        worst = worst[np.argsort(-energies[worst], kind="stable")]
        atoms[bad] = rows[worst] / column_norms(rows[worst].T)[:, None].astype(rows.real.dtype)
    return bad


def _is_bad(atoms: Array, uses: Array, positive: bool) -> Array:
    """Which atoms are rarely used, or, of two that are nearly equal, are used less."""
    products = atoms.conj() @ atoms.T
    matches = np.triu((products if positive else np.abs(products)) > COHERENT, 1)
    doubled = np.zeros(len(atoms), dtype=bool)
    for i, j in zip(*np.nonzero(matches), strict=True):
        if not doubled[i] and not doubled[j]:
            doubled[j if uses[j] <= uses[i] else i] = True
    return doubled | (uses < max(RARE * uses.mean(), 1))
