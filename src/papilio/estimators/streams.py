"""Estimators that also learn from a stream of mini-batches, each seen once."""

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

_BATCH = 4096  # samples to learn from at a time, if a stream comes in smaller pieces


class StreamEstimator(DictionaryEstimator):
    """A dictionary estimator with `partial_fit` and `fit_stream`."""

    _state: Any

    @abstractmethod
    def _begin(self, rows: Array) -> None:
        """Learn from the first mini-batch."""

    @abstractmethod
    def _add(self, rows: Array) -> None:
        """Learn from another mini-batch."""

    def _store_batch(self, dictionary: Array | SparseProduct, error: float) -> None:
        """Store what was learned from a mini-batch; ``error`` is that of the batch before learning."""
        history: History = getattr(self, "history_", None) or History()
        scale = getattr(dictionary, "scale", 1.0)
        history.append(Step("partial fit", len(history) + 1, error, scale, 0.0, (), 1.0))
        self._store_dictionary(dictionary, history)
        self.status_ = Status.CONVERGED

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more mini-batch; the first one starts learning, unless `fit` was called before.

        Parameters
        ----------
        X : (n_samples, n_features) array
            The mini-batch; a Dask array or memory-mapped array is read as a stream of several.
        y : object, optional
            Ignored.

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
        """Learn from a stream in which each sample is seen once; memory does not grow with its length.

        The first samples are collected until there are enough to start from: 50,000, or 200 per atom up to
        100,000. Then each mini-batch is added to the moments of the data, in which the past counts less and less:
        about the latest tenth of all batches counts, and at most ``memory`` of them. After `fit`, learning
        continues from its result.

        Parameters
        ----------
        batches : iterable of (n_samples, n_features) arrays
            Mini-batches of any size; small ones are copied and combined.

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
            else:
                waiting[-1] = waiting[-1].copy()  # its producer may use the memory again
        if waiting:
            self.partial_fit(np.concatenate(waiting))
        if not hasattr(self, "_state"):
            raise ValueError("batches must hold at least one mini-batch, got none")
        return self
