"""Online dictionary learning: mini-batches, moments and forgetting."""

from collections.abc import Iterator
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ..coding import Coder
from ..kernels.atoms import descend_atoms
from ..linalg import frobenius, largest_part, shifted
from ..results import Callback
from ..runtime.layout import either, mapping
from ..runtime.session import Phase, Session, State
from ..runtime.threads import blas_threads
from ..samples import held
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_flag, as_integer, as_real
from .atoms import first_atoms, replace_bad_atoms
from .full_passes import learn_dense, learned
from .learner import Best, LearnedDictionary, as_rows, as_sparsity, to_state, warn_if_few
from .signals import Signals
from .states import Layouts, loop
from .statistics import Statistics
from .sums import energies_of, moments_of_rows, relative, residuals_of, scaled

RECENT = 0.1  # the share of all batches so far that count: codes in earlier, poorer dictionaries only hold back
_ARRAYS = ("atoms", "gram", "cross", "uses")  # of an `OnlineState`
_BATCH = 512  # signals, at least, if there are enough
_MODERATE = 17  # bits above or below the unit: the squares of such numbers have room in single precision


class FadingMoments:
    """The moments of mini-batches, of which the latest count most.

    With the t-th batch, the moments become A ← βA + ΓΓᴴ and B ← βB + XΓᴴ, where β = exp(−1/w) and w is the smaller
    of ``recent``·t and ``memory``: about w batches count. Fewer make the dictionary move more, which leads out of
    poor minima as noise does; so w grows with t.
    """

    def __init__(self, n_components: int, recent: float = RECENT, memory: int | None = None) -> None:
        self.gram: Any = 0.0
        self.cross: Any = 0.0
        self.uses: Array = np.zeros(n_components)
        self.energy = 0.0
        self.batches = 0
        self.unit = 1.0
        self._recent = recent
        self._memory = np.inf if memory is None else memory

    def remember(self, statistics: Statistics, unit: float) -> None:
        """Start from the moments of signals, as if they were earlier batches, and take over their unit."""
        self.gram, self.cross, self.uses = (
            each.copy() for each in (statistics.gram, statistics.cross, statistics.uses)
        )
        self.energy, self.unit = statistics.energy, unit
        self.batches = ceil(1 / self._recent)

    def follow(self, batch: Array) -> None:
        """Change the unit if the batch, or what counts of those before, is far from it.

        So the first batch, for example, sets it. All moments have squares of the unit.
        """
        power = _exponent(self.unit) - 1  # the unit is 2^power
        sizes = [_exponent(largest_part(batch)) - power] if batch.any() else []
        if np.any(self.gram):
            sizes.append(_exponent(float(np.sqrt(np.diagonal(self.gram).real.max()))))
        change = max(sizes, default=0)
        if abs(change) > _MODERATE:
            change = min(change, 1023 - power)
            self.unit = 2.0 ** (power + change)
            self.energy = float(np.ldexp(self.energy, -2 * change))
            if np.ndim(self.gram):
                self.gram, self.cross = (shifted(each, -2 * change) for each in (self.gram, self.cross))

    def fade_and_add(self, gram: Array, cross: Array, uses: Array, energy: float = 0.0) -> None:
        """Add one more batch."""
        self.batches += 1
        beta = float(np.exp(-1 / min(self._recent * self.batches, self._memory)))
        self.gram, self.cross = beta * self.gram + gram, beta * self.cross + cross
        self.uses, self.energy = beta * self.uses + uses, beta * self.energy + energy


def _exponent(number: float) -> int:
    return int(np.frexp(number)[1])


class OnlineState(FadingMoments):
    """A dense dictionary that learns from one mini-batch after the other, on `FadingMoments`.

    ``atoms`` are the first atoms, one per row, with unit norm; they are changed in place.
    """

    def __init__(
        self,
        atoms: Array,
        n_nonzero_coefs: int,
        recent: float = RECENT,
        memory: int | None = None,
        positive: bool = False,
    ) -> None:
        super().__init__(len(atoms), recent, memory)
        self.atoms = atoms
        self.n_nonzero_coefs, self.positive = n_nonzero_coefs, positive

    def to_state(self) -> State:
        """All that changes from batch to batch, for a checkpoint."""
        return {name: getattr(self, name) for name in (*_ARRAYS, "batches", "unit")}

    def restore(self, state: State) -> None:
        """Continue from what `to_state` returned."""
        self.atoms, self.gram, self.cross, self.uses = (state[name] for name in _ARRAYS)
        self.batches, self.unit = int(state["batches"]), float(state.get("unit", 1.0))

    def learn(self, batch: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(batch)
        batch = scaled(batch, self.unit).astype(self.atoms.dtype, copy=False)  # which has room for it in this unit
        codes = Coder(self.atoms.T).code(batch.T, self.n_nonzero_coefs, positive=self.positive)
        residuals = residuals_of(batch, self.atoms, codes)
        self.fade_and_add(*moments_of_rows(batch, codes), np.bincount(codes.indices, minlength=len(self.atoms)))
        energies = energies_of(batch, residuals)
        replaced = replace_bad_atoms(self.atoms, self.uses, batch, energies, self.positive)
        self.gram[replaced], self.gram[:, replaced], self.cross[replaced] = 0, 0, 0
        self.uses[replaced] = self.uses.mean()
        descend_atoms(self.atoms, self.gram, self.cross)
        return relative(residuals, frobenius(batch))


def online_dictionary(
    signals: ArrayLike,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    init: ArrayLike | None = None,
    batch_size: int | None = None,
    memory: int | None = None,
    max_iter: int = 30,
    tol: float = 1e-4,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary from mini-batches, on moments (Mairal 2010), with codes by `omp`.

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
    init : (d, n_components) array, optional
        The first dictionary; by default different signals, drawn at random.
    batch_size : int, optional
        Signals per mini-batch; by default 512, or two per atom if that is more, and at most a quarter of all.
    memory : int, optional
        The largest number of mini-batches that count, older ones less; for data that drift. By default a share of
        the batches so far, which amounts to one pass at the end.
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
    >>> learned = pp.online_dictionary(X, 32, 5, random_state=0)
    >>> learned.dictionary.shape, learned.history.phase[-1]
    ((32, 32), 'final')
    """
    rows = as_rows(signals)
    n_components = as_integer("n_components", n_components, 1)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, rows.shape[1], n_components)
    limits = OnlineLimits(batch_size, memory, max_iter, tol).checked()
    warn_if_few(rows.shape, n_components)
    session = Session(callback, random_state=random_state)
    start = partial(online_phase, limits=limits, init=init)
    outcome = learn_dense(session, held(rows), n_components, n_nonzero_coefs, start, as_flag("positive", positive))
    return learned(session, rows, outcome)


class OnlineLimits(NamedTuple):
    """The options of `online_dictionary`."""

    batch_size: int | None = None
    memory: int | None = None
    max_iter: int = 30
    tol: float = 1e-4

    def checked(self) -> "OnlineLimits":
        return OnlineLimits(
            None if self.batch_size is None else as_integer("batch_size", self.batch_size, 1),
            None if self.memory is None else as_integer("memory", self.memory, 1),
            as_integer("max_iter", self.max_iter, 1),
            as_real("tol", self.tol, 0.0),
        )


def online_phase(
    session: Session, signals: Signals, n_components: int, limits: OnlineLimits, init: Any = None
) -> Phase:
    """The passes of `online_dictionary` over the signals in memory."""
    rows, random = signals.start.rows, session.random
    # Each batch updates all atoms, which takes longer the more there are.
    batch_size = limits.batch_size or max(min(max(_BATCH, 2 * n_components), len(rows) // 4), 1)
    # At the end one pass counts: then all signals do, each with its latest code.
    recent = min(RECENT, 1 / limits.max_iter)

    def work(state: State) -> State:
        resumed = "learner" in state
        atoms = state["learner"]["atoms"] if resumed else first_atoms(rows, n_components, init, random)
        online = OnlineState(atoms, signals.n_nonzero_coefs, recent, limits.memory, signals.positive)
        if resumed:
            online.restore(state["learner"])
        best = Best(limits.tol, state.get("best", {}))

        def now() -> State:
            return {"pass": i, "learner": online.to_state(), "best": best.to_state()}

        with blas_threads(atoms.shape[0] * atoms.size):
            for i in range(int(state.get("pass", 0)), limits.max_iter):
                session.offer(now)
                error = float(np.mean([online.learn(batch) for batch in shuffled(rows, batch_size, random)]))
                best.record(error, None)
                done = (i + 1) / limits.max_iter
                session.report("online", error, 1.0, [atoms.T.copy()], done, signals.start.share)
                if session.stopped or best.has_settled:
                    break
        return {"dictionary": to_state(atoms.T), "status": str(best.status(session.stopped))}

    own = loop("pass", limits.max_iter, {"learner": Layouts.of(signals, n_components).fading}, None)
    return Phase("online", 1.0, work, layout=either(mapping({}), own))


def shuffled(rows: Array, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """All rows once, in batches, in random order."""
    order = random.permutation(len(rows))
    for start in range(0, len(rows), batch_size):
        yield rows[order[start : start + batch_size]]
