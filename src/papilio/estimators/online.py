"""Online dictionary learning as an estimator."""

from functools import partial
from typing import Any

from ..dictionary.atoms import first_atoms
from ..dictionary.dense import learn_dense
from ..dictionary.online import OnlineLimits, OnlineState, learn_online
from ..results import History, Step
from ..samples import Samples
from ..solvers.palm import Callback, Run
from ..typing import Array
from ..validation import as_integer, as_random
from .streams import StreamEstimator


class OnlineDictionaryLearning(StreamEstimator):
    """A dense dictionary from mini-batches: `papilio.online_dictionary`.

    Parameters
    ----------
    n_components, n_nonzero_coefs, transform_sparse, random_state, callback, checkpoint, verbose
        As for `KSVD`.
    batch_size : int, optional
        Samples a mini-batch; by default 512, or a quarter of all where these are fewer.
    memory : int, optional
        Mini-batches that count, for data that drift.
    max_iter : int
        Passes over the data.
    tol : float
        Stop when the mean error of a pass has not fallen by this share within ten passes; 0 never does.

    Attributes
    ----------
    components_, operator_, relative_complexity_, history_, n_iter_
        As for `KSVD`.
    """

    _state: OnlineState

    def __init__(
        self,
        n_components: int | None = None,
        n_nonzero_coefs: int | None = None,
        *,
        batch_size: int | None = None,
        memory: int | None = None,
        max_iter: int = 30,
        tol: float = 1e-4,
        transform_sparse: bool = False,
        random_state: Any = None,
        callback: Callback | None = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.batch_size = batch_size
        self.memory = memory
        self.max_iter = max_iter
        self.tol = tol
        self.transform_sparse = transform_sparse
        self.random_state = random_state
        self.callback = callback
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> None:
        limits = OnlineLimits(self.batch_size, self.memory, self.max_iter, self.tol).checked()
        run, checkpoint = Run(self._reporter()), self._opened_checkpoint()
        random = as_random(self.random_state)
        start = partial(learn_online, n_components=n_components, init=None, limits=limits)
        atoms, data = learn_dense(samples, n_components, n_nonzero_coefs, start, random, run, checkpoint)
        summary = data.summary(atoms.T) if data.latest is None else data.latest
        run.report("final", summary.error, 1.0, [atoms.T])
        self._store(atoms.T.copy(), run.history)
        self._state = self._state_from(atoms)
        self._state.remember(summary, data.unit)
        self._close(run, checkpoint)

    def _begin(self, rows: Array) -> None:
        n_components = self._sizes(rows.shape[1])[0]
        self._state = self._state_from(first_atoms(rows, n_components, None, as_random(self.random_state)))
        self.history_ = History()
        self._add(rows)

    def _add(self, rows: Array) -> None:
        error = self._state.learn(rows.astype(self._state.atoms.dtype, copy=False))
        self.history_.append(Step("partial fit", len(self.history_) + 1, error, 1.0, 0.0))
        self._store(self._state.atoms.T.copy(), self.history_)

    def _state_from(self, atoms: Array) -> OnlineState:
        memory = None if self.memory is None else as_integer("memory", self.memory, 1)
        return OnlineState(atoms, self._sizes(atoms.shape[1])[1], memory=memory)
