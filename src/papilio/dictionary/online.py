"""Online dictionary learning: mini-batches, moments and forgetting."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from .. import typing as types
from ..coding import Atoms
from ..kernels.atom_updates import descend_atoms
from ..linalg import largest_part
from ..results import Callback
from ..runtime.checkpoint import stored
from ..runtime.session import Session, Stage
from ..runtime.threads import blas_threads
from ..samples import Samples
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_random
from .estimator import StreamEstimator
from .ksvd import as_coder
from .learner import (
    Best,
    Found,
    LearnedDictionary,
    Outcome,
    Plan,
    as_limits,
    as_rows,
    dense_plan,
    first_atoms,
    learn_rows,
    replace_bad_atoms,
)
from .signals import Coder, Signals, Statistics, energies_of, moments_of_rows, residuals_of, scaled, unit_for

RECENT = 0.1  # the share of all batches so far that count: codes in earlier, poorer dictionaries only hold back
_BATCH = 512  # signals, at least, if there are enough


@stored
@dataclass(kw_only=True)
class FadingMoments:
    """The moments of mini-batches, of which the latest count most.

    With the t-th batch, the moments become A ← βA + ΓΓᴴ and B ← βB + XΓᴴ, where β = exp(−1/w) and w is the smaller
    of ``recent``·t and ``window``: about w batches count. Fewer make the dictionary move more, which leads out of
    poor minima as noise does; so w grows with t.
    """

    gram: Any = 0.0
    cross: Any = 0.0
    uses: Any = 0.0
    energy: float = 0.0
    batches: int = 0
    unit: float = 1.0
    recent: float = RECENT
    window: float = np.inf

    def remember(self, statistics: Statistics, unit: float) -> None:
        """Start from the moments of signals, as if they were earlier batches, and take over their unit."""
        self.gram, self.cross, self.uses = (
            each.copy() for each in (statistics.gram, statistics.cross, statistics.uses)
        )
        self.energy, self.unit = statistics.energy, unit
        self.batches = ceil(1 / self.recent)

    def follow(self, batch: Array) -> None:
        """Let the first batch set the unit; all moments have squares of it."""
        if not self.batches:
            self.unit = unit_for(largest_part(batch))

    def fade_and_add(self, gram: Array, cross: Array, uses: Array, energy: float = 0.0) -> None:
        """Add one more batch."""
        self.batches += 1
        beta = float(np.exp(-1 / min(self.recent * self.batches, self.window)))
        self.gram, self.cross = beta * self.gram + gram, beta * self.cross + cross
        self.uses, self.energy = beta * self.uses + uses, beta * self.energy + energy


@stored
@dataclass
class OnlineState(FadingMoments):
    """A dense dictionary that learns from one mini-batch after the other, on `FadingMoments`.

    ``atoms`` are the first atoms, one per row, with unit norm; they are changed in place.
    """

    atoms: Array
    coder: Coder

    @property
    def dictionary(self) -> Array:
        """The dictionary (d, a), as a copy."""
        return self.atoms.T.copy()

    def learn(self, batch: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(batch)
        batch = scaled(batch, self.unit).astype(self.atoms.dtype, copy=False)
        coder = self.coder.within(self.unit)
        codes = coder.codes(Atoms(self.atoms.T), batch)
        residuals = residuals_of(batch, self.atoms, codes)
        self.fade_and_add(*moments_of_rows(batch, codes), np.bincount(codes.indices, minlength=len(self.atoms)))
        energies = energies_of(batch, residuals)
        replaced = replace_bad_atoms(self.atoms, self.uses, batch, energies, self.coder.positive)
        self.gram[replaced], self.gram[:, replaced], self.cross[replaced] = 0, 0, 0
        self.uses[replaced] = self.uses.mean()
        descend_atoms(self.atoms, self.gram, self.cross)
        return coder.error(residuals, batch, codes)


def online_dictionary(
    signals: ArrayLike,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    fit_algorithm: str = "omp",
    alpha: float = 1.0,
    init: ArrayLike | None = None,
    batch_size: int | None = None,
    window: int | None = None,
    max_iter: int = 30,
    tol: float = 1e-4,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary from mini-batches, on moments (Mairal 2010), with codes by `omp` or `lasso`.

    Above 50,000 signals, or 200 per atom up to 100,000, the mini-batches are taken from a random sample of this
    size; passes over all signals then improve the dictionary.

    Parameters
    ----------
    signals : (d, n) array
        X, one signal per column.
    n_components : int
        The number of atoms.
    n_nonzero_coefs : int, optional
        Atoms per signal; a tenth of d by default, at least one.
    fit_algorithm : {"omp", "lasso"}
        How signals are coded: by `omp`, or by `lasso`, with an ℓ1 penalty. Errors in the history are then the root
        of the objective ½‖x − Dγ‖² + alpha·‖γ‖₁, relative to that of empty codes.
    alpha : float
        The penalty of "lasso".
    init : (d, n_components) array, optional
        The first dictionary; by default different signals, drawn at random.
    batch_size : int, optional
        Signals per mini-batch; by default 512, or two per atom if that is more, and at most a quarter of all.
    window : int, optional
        About how many of the latest mini-batches count, for data that drift. By default a share of the batches so
        far, which amounts to one pass at the end.
    max_iter : int
        The largest number of passes over the data.
    tol : float
        Stop when the mean error of a pass has not fallen by this share within ten passes; 0 never stops early.
    positive : bool
        Whether codes must not be negative, as in `omp`; the atoms may have any sign.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each pass; a true result stops learning.

    Returns
    -------
    LearnedDictionary
        The dictionary is an array with unit-norm atoms. The history has the mean relative error of the batches of
        each pass, and at the end that of all signals.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> learned = pp.dictionary.online_dictionary(X, 32, 5, random_state=0)
    >>> learned.dictionary.shape, learned.history.phase[-1]
    ((32, 32), 'final')
    """
    rows = as_rows(signals)
    n_components = as_integer("n_components", n_components, 1)
    coder = as_coder(n_nonzero_coefs, rows.shape[1], n_components, fit_algorithm, alpha, positive)
    plan = dense_plan(online_start(batch_size, window, max_iter, tol, init))
    return learn_rows(rows, n_components, coder, plan, random_state, callback)


def online_start(
    batch_size: int | None = None,
    window: int | None = None,
    max_iter: int = 30,
    tol: float = 1e-4,
    init: Any = None,
) -> Any:
    """The first stage of `online_dictionary`, after checks: a function of session, signals and number of atoms."""
    size = None if batch_size is None else as_integer("batch_size", batch_size, 1)
    return partial(
        OnlinePasses, batch_size=size, window=as_window(window), **as_limits(max_iter, tol, 1), init=init
    )


def as_window(window: int | None) -> float:
    """The number of mini-batches that count; infinity by default."""
    return np.inf if window is None else as_integer("window", window, 1)


@stored
@dataclass
class PassesInMemory:
    """A learner after some passes, and the lowest mean error of a pass."""

    learner: OnlineState
    number: int = 0
    best: Best = field(default_factory=Best)


class OnlinePasses(Stage):
    """The passes of `online_dictionary` over the signals in memory."""

    name = "online"

    def __init__(
        self,
        session: Session,
        signals: Signals,
        n_components: int,
        *,
        batch_size: int | None,
        window: float,
        max_iter: int,
        tol: float,
        init: Any = None,
    ) -> None:
        self._session, self._signals, self._n_components = session, signals.start, n_components
        # Each batch updates all atoms, which takes longer the more there are.
        most = len(signals.start.rows) // 4
        self._batch_size = batch_size or max(min(max(_BATCH, 2 * n_components), most), 1)
        self._window, self._max_iter, self._tol, self._init = window, max_iter, tol, init

    def init(self, before: Any) -> PassesInMemory:
        atoms = first_atoms(self._signals.rows, self._n_components, self._init, self._session.random)
        # At the end one pass counts: then all signals do, each with its latest code.
        recent = min(RECENT, 1 / self._max_iter)
        return PassesInMemory(OnlineState(atoms, self._signals.coder, recent=recent, window=self._window))

    def step(self, state: PassesInMemory) -> PassesInMemory:
        session, rows, learner = self._session, self._signals.rows, state.learner
        with blas_threads(learner.atoms.shape[0] * learner.atoms.size):
            batches = shuffled(rows, self._batch_size, session.random)
            error = float(np.mean([learner.learn(batch) for batch in batches]))
        state.best.record(error, None, self._tol)
        state.number += 1
        done = state.number / self._max_iter
        session.report(self.name, error, 1.0, [learner.dictionary], done, self._signals.share)
        return state

    def done(self, state: PassesInMemory) -> bool:
        return state.number == self._max_iter or state.best.has_settled(self._tol)

    def result(self, state: PassesInMemory) -> Found:
        return Found(state.learner.atoms.T, state.best.status(self._session.stopped, self._tol))


def shuffled(rows: Array, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """All rows once, in batches, in random order."""
    order = random.permutation(len(rows))
    for start in range(0, len(rows), batch_size):
        yield rows[order[start : start + batch_size]]


@dataclass(eq=False, repr=False)
class OnlineDictionaryLearning(StreamEstimator):
    """A dense dictionary from mini-batches: `papilio.dictionary.online_dictionary`.

    Parameters
    ----------
    {n_components}
    {n_nonzero_coefs}
    {fit_algorithm}
    {alpha}
    batch_size : int, optional
        Samples per mini-batch; by default 512, or two per atom if that is more, and at most a quarter of
        all samples.
    max_iter : int
        The largest number of passes over the data.
    tol : float
        Stop when the mean error of a pass has not fallen by this share within ten passes; 0 never stops early.
    {window}
    {positive}
    {coding}
    {running}

    Attributes
    ----------
    {components_}
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): one dense factor.
    {learning}

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.OnlineDictionaryLearning(n_nonzero_coefs=5, random_state=0).fit(X)
    >>> model.components_.shape
    (32, 32)
    """

    n_components: int | None = None
    n_nonzero_coefs: int | None = None
    _: KW_ONLY
    fit_algorithm: str = "omp"
    alpha: float = 1.0
    batch_size: int | None = None
    max_iter: int = 30
    tol: float = 1e-4
    window: int | None = None
    positive: bool = False
    transform_algorithm: str = "omp"
    transform_alpha: float | None = None
    transform_sparse: bool = False
    random_state: RandomState = None
    callback: Callback | None = None
    checkpoint: types.Path | None = None

    def _plan(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Plan:
        return dense_plan(self._start())

    def _start(self) -> Any:
        """The first stage; a fast dictionary that starts from this estimator uses it, too."""
        return online_start(self.batch_size, self.window, self.max_iter, self.tol)

    def _state_after(self, outcome: Outcome) -> OnlineState:
        coder = self._coder(self._sizes(outcome.dictionary.shape[0])[1])
        return OnlineState(outcome.dictionary.T.copy(), coder, window=as_window(self.window))

    def _begin(self, rows: Array) -> None:
        n_components, n_nonzero_coefs = self._sizes(rows.shape[1])
        atoms = first_atoms(rows, n_components, None, as_random(self.random_state))
        self._state = OnlineState(atoms, self._coder(n_nonzero_coefs), window=as_window(self.window))
        self._add(rows)
