"""Online dictionary learning as an estimator."""

from typing import Any, Self

import scipy.sparse as sp

from ..dictionary.common import Learned, as_rows, first_atoms
from ..dictionary.online import OnlineState, online_dictionary
from ..results import History, Step
from ..solvers.palm import Callback
from ..validation import Array, as_integer, as_random
from .base import DictionaryEstimator


class OnlineDictionaryLearning(DictionaryEstimator):
    """A dense dictionary from mini-batches: `papilio.online_dictionary`.

    Parameters
    ----------
    n_components, n_nonzero_coefs, transform_sparse, random_state, callback, verbose
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
        self.verbose = verbose

    def _learn(self, signals: Array, n_components: int, n_nonzero: int) -> Learned:
        return online_dictionary(
            signals,
            n_components,
            n_nonzero,
            batch_size=self.batch_size,
            memory=self.memory,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
            callback=self._reporter(),
        )

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more mini-batch, from where `fit` ended; without it, the first one gives the first atoms.

        Parameters
        ----------
        X : (n_samples, n_features) array
        y : ignored

        Returns
        -------
        self
        """
        is_first = not hasattr(self, "_state")
        rows = as_rows(self._validated(X, reset=is_first).T)
        if is_first:
            n_components = self._sizes(rows.shape[1])[0]
            self._state = self._state_from(first_atoms(rows, n_components, None, as_random(self.random_state)))
            self.history_ = History()
        error = self._state.learn(rows.astype(self._state.atoms.dtype, copy=False))
        self.history_.append(Step("partial fit", len(self.history_) + 1, error, 1.0, 0.0))
        self._store(self._state.atoms.T.copy(), self.history_)
        return self

    def _state_from(self, atoms: Array) -> OnlineState:
        memory = None if self.memory is None else as_integer("memory", self.memory, 1)
        return OnlineState(atoms, self._sizes(atoms.shape[1])[1], memory=memory)

    def _remember(self, rows: Array, codes: sp.csc_array) -> None:
        self._state = self._state_from(self.components_.copy())
        self._state.remember(rows, codes)
