"""Online dictionary learning: mini-batches, moments and forgetting."""

from collections.abc import Iterator, Mapping
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ..coding import Coder
from ..kernels.atoms import descend_atoms
from ..linalg import frobenius, wide
from ..results import Callback
from ..runtime.session import Phase, Session, State
from ..runtime.threads import blas_threads
from ..samples import held
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_real
from .atoms import first_atoms, replace_bad_atoms
from .full_passes import learn_dense, learned
from .learner import Best, LearnedDictionary, as_rows, as_sparsity, to_state
from .signals import Signals
from .statistics import Statistics
from .sums import energies_of, moments_of_rows, relative, residuals_of, scaled

RECENT = 0.1  # the share of all batches so far that count: codes of earlier, poorer dictionaries only hold back
_ARRAYS = ("atoms", "gram", "cross", "uses")  # of a state


def forgetting(batches: int, recent: float = RECENT, memory: float = np.inf) -> float:
    """What the past counts for at the t-th batch: exp(−1/w), with w the smaller of ``recent``·t and ``memory``."""
    return float(np.exp(-1 / min(recent * batches, memory)))


class OnlineState:
    """A dictionary that learns from one mini-batch after the other.

    With the t-th batch, the moments become A ← βA + ΓΓᴴ and B ← βB + XΓᴴ, where β = exp(−1/w) with w the smaller
    of ``recent``·t and ``memory``: about w batches count. Fewer make the dictionary move more, which leads out of
    poor minima as noise does; so w grows with t.

    Parameters
    ----------
    atoms : (a, d) array
        Unit-norm atoms to start from, one a row; they are changed in place.
    n_nonzero_coefs : int
        Atoms a signal.
    recent : float
        The share of all batches so far that count.
    memory : int, optional
        Batches that count at most; no limit by default.
    """

    def __init__(
        self, atoms: Array, n_nonzero_coefs: int, recent: float = RECENT, memory: int | None = None
    ) -> None:
        kind = wide(atoms.dtype)
        self.atoms = atoms
        self.n_nonzero_coefs = n_nonzero_coefs
        self.gram = np.zeros((len(atoms), len(atoms)), kind)
        self.cross = np.zeros(atoms.shape, kind)
        self.uses = np.zeros(len(atoms))
        self.batches = 0
        self._recent = recent
        self._memory = np.inf if memory is None else memory
        self._unit = 1.0

    def remember(self, statistics: Statistics, unit: float) -> None:
        """Start from the moments of signals, as if they were batches that were learned, and take their unit."""
        self._unit = unit
        self.gram, self.cross, self.uses = (
            each.copy() for each in (statistics.gram, statistics.cross, statistics.uses)
        )
        self.batches = ceil(1 / self._recent)

    def to_arrays(self) -> dict[str, Array]:
        """The state, for a checkpoint."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return {**arrays, "batches": np.array(self.batches)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `to_arrays` returned; from the start if it is empty."""
        if not arrays:
            return
        self.atoms, self.gram, self.cross, self.uses = (arrays[name] for name in _ARRAYS)
        self.batches = int(arrays["batches"])

    def learn(self, batch: Array) -> float:
        """Learn from a batch, one signal a row; returns its relative error before."""
        batch = scaled(batch, self._unit)
        codes = Coder(self.atoms.T).code(batch.T, self.n_nonzero_coefs)
        residuals = residuals_of(batch, self.atoms, codes)
        self.batches += 1
        beta = forgetting(self.batches, self._recent, self._memory)
        gram, cross = moments_of_rows(batch, codes)
        self.gram = beta * self.gram + gram
        self.cross = beta * self.cross + cross
        self.uses = beta * self.uses + np.bincount(codes.indices, minlength=len(self.atoms))
        replaced = replace_bad_atoms(self.atoms, self.uses, batch, energies_of(batch, residuals))
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
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary from mini-batches, on moments (Mairal 2010), with codes by `omp`.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    n_components : int
    n_nonzero_coefs : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    init : (d, n_components) matrix, optional
        The first dictionary; by default different signals, drawn at random.
    batch_size : int, optional
        Signals a mini-batch; by default 512, or a quarter of all where these are fewer.
    memory : int, optional
        Mini-batches that count, the older the less; by default a share of those so far that
        makes up one pass in the end.
    max_iter : int
        Passes over the data.
    tol : float
        Stop when the mean error of a pass has not fallen by this share within ten passes; 0 never does.
    random_state : int, RandomState or None
    callback : callable, optional
        Called with a `Step` after each pass; a true result stops the learner.

    Returns
    -------
    dictionary : (d, n_components) array
    codes : (n_components, n) csc_array
    history : History
        With the mean relative error of the batches of each pass, and in the end that of all signals.
    """
    rows = as_rows(signals)
    n_components = as_integer("n_components", n_components, 1)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, rows.shape[1], n_components)
    limits = OnlineLimits(batch_size, memory, max_iter, tol).checked()
    session = Session(callback, random_state=random_state)
    start = partial(online_phase, limits=limits, init=init)
    return learned(session, rows, learn_dense(session, held(rows), n_components, n_nonzero_coefs, start))


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
    """The passes of `online_dictionary` over signals in memory."""
    rows, random = signals.start.rows, session.random
    batch_size = limits.batch_size or max(min(512, len(rows) // 4), 1)
    # In the end one pass counts: then all signals do, each with its latest code.
    recent = min(RECENT, 1 / limits.max_iter)

    def work(state: State) -> State:
        learner = state.get("learner", {})
        atoms = learner["atoms"] if learner else first_atoms(rows, n_components, init, random)
        online = OnlineState(atoms, signals.n_nonzero_coefs, recent, limits.memory)
        online.restore(learner)
        best = Best(limits.tol, state.get("progress", {}))
        with blas_threads(online.atoms.shape[0] * online.atoms.size):
            for i in range(int(state.get("pass", 0)), limits.max_iter):
                session.offer(partial(_state_of, i, online, best))
                error = float(np.mean([online.learn(batch) for batch in shuffled(rows, batch_size, random)]))
                best.record(error, None)
                session.report("online", error, 1.0, [online.atoms.T.copy()], (i + 1) / limits.max_iter)
                if session.stopped or best.has_settled:
                    break
        return {"dictionary": to_state(online.atoms.T), "status": str(best.status(session.stopped))}

    return Phase("online", 1.0, work)


def _state_of(i: int, online: OnlineState, best: Best) -> State:
    return {"pass": i, "learner": online.to_arrays(), "progress": best.to_state()}


def shuffled(rows: Array, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """All rows once, in batches, in random order."""
    order = random.permutation(len(rows))
    for start in range(0, len(rows), batch_size):
        yield rows[order[start : start + batch_size]]
