"""Estimators that learn from one mini-batch after the other, each seen once."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..dictionary.signals import enough
from ..operators import SparseProduct
from ..results import History, Status, Step
from ..samples import is_large
from ..typing import Array
from .base import DictionaryEstimator

_BATCH = 4096  # samples that are learned from at a time, where a stream comes in smaller pieces


class StreamEstimator(DictionaryEstimator):
    """A dictionary estimator with `partial_fit` and `fit_stream`."""

    _state: Any

    @abstractmethod
    def _begin(self, rows: Array) -> None:
        """Learn from the first mini-batch."""

    @abstractmethod
    def _add(self, rows: Array) -> None:
        """Learn from one more."""

    def _store_batch(self, dictionary: Array | SparseProduct, error: float) -> None:
        """Store what was learned from a mini-batch, which had this error before."""
        history: History = getattr(self, "history_", None) or History()
        scale = getattr(dictionary, "scale", 1.0)
        history.append(Step("partial fit", len(history) + 1, error, scale, 0.0, (), 1.0))
        self._store_dictionary(dictionary, history)
        self.status_ = Status.CONVERGED

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more mini-batch, from where `fit` ended; without it, the first one begins.

        Parameters
        ----------
        X : (n_samples, n_features) array, or Dask array or memory-mapped array, whose parts are mini-batches
        y : ignored

        Returns
        -------
        self
        """
        is_first = not hasattr(self, "_state")
        if is_large(X):
            return self.fit_stream(rows for _, rows in self._samples(X, reset=is_first).blocks())
        rows = np.ascontiguousarray(self._validated(X, reset=is_first))
        (self._begin if is_first else self._add)(rows)
        return self

    def fit_stream(self, batches: Iterable[Any]) -> Self:
        """Learn from a stream, each sample of which is seen once; memory does not grow with its length.

        What comes first is held until it is enough to begin with, about 200 samples an atom. From then on
        mini-batches add to the moments of the data, whose past counts less and less: of all batches so far the
        latest tenth counts, and at most ``memory`` of them. After a fit, learning goes on from there.

        Parameters
        ----------
        batches : iterable of (n_samples, n_features) arrays
            Of any sizes; small ones are put together.

        Returns
        -------
        self
        """
        waiting: list[Array] = []
        for batch in batches:
            is_first = not hasattr(self, "_state")
            waiting.append(self._validated(batch, reset=is_first and not waiting))
            count = sum(map(len, waiting))
            if count >= (enough(self._sizes(waiting[0].shape[1])[0]) if is_first else _BATCH):
                self.partial_fit(np.concatenate(waiting))
                waiting = []
        if waiting:
            self.partial_fit(np.concatenate(waiting))
        if not hasattr(self, "_state"):
            raise ValueError("batches must hold at least one mini-batch, got none")
        return self
