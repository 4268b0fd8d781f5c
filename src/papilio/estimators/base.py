"""What all estimators share: everything but learning. Samples are rows here, and columns everywhere else."""

import pickle
import sys
from abc import ABC, abstractmethod
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..dictionary.atoms import as_sparsity
from ..dictionary.statistics import Task, merged, summarised
from ..metrics import rmse
from ..operators import SparseProduct
from ..results import History, Step
from ..runtime.checkpoint import Checkpoint
from ..samples import Samples, as_samples, held, is_dask, is_large, passed_over
from ..solvers.palm import Callback, Run
from ..typing import Array
from ..validation import as_integer, working_dtype
from .lazily import BlockCoder, lazily_coded, lazily_decoded


class DictionaryEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A dictionary that codes samples; how it is learned is for subclasses to say."""

    # Of the subclasses' constructors.
    n_components: int | None
    n_nonzero_coefs: int | None
    transform_sparse: bool
    callback: Callback | None
    checkpoint: Any
    verbose: int
    random_state: Any

    # Fitted.
    operator_: SparseProduct
    components_: Array
    history_: History
    n_iter_: int

    @abstractmethod
    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> None:
        """Learn from samples, and store what was learned."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn a dictionary.

        Parameters
        ----------
        X : (n_samples, n_features) array
            Or what need not fit into memory: a Dask array, a memory-mapped array, or `papilio.datasets.on_disk`.
            These are passed over part by part, on the workers of the current Dask client where there is one, else
            on threads. Sums are taken in a fixed order: the result has the same bits on any number of threads and
            workers. Other chunks of a Dask array have another order. That is rounding alone, but early on it
            decides between atoms that are equally good: the atoms may be others, of about the same score (within
            6 % on 600 samples).
        y : ignored

        Returns
        -------
        self
        """
        samples = self._samples(X, reset=True)
        self._learn(samples, *self._sizes(samples.shape[1]))
        return self

    def transform(self, X: Any) -> Any:
        """Sparse codes of the samples, by `papilio.omp` with ``n_nonzero_coefs`` atoms.

        Parameters
        ----------
        X : (n_samples, n_features) array, or any that `fit` takes

        Returns
        -------
        codes : (n_samples, n_components) array, or csr_array with ``transform_sparse``
            Of a Dask array a Dask array, with blocks of that kind.
        """
        check_is_fitted(self)
        if is_dask(X):
            return lazily_coded(self._checked_dask(X), self._coding(X), self.transform_sparse)
        if is_large(X):
            samples = self._samples(X, reset=False)
            coder = BlockCoder(*self._coding(samples))
            codes = sp.hstack([coder.code(rows) for _, rows in samples.blocks()], format="csc").T
        else:
            codes = self._codes(self._validated(X, reset=False)).T
        return sp.csr_array(codes) if self.transform_sparse else codes.toarray()

    def inverse_transform(self, X: Any) -> Array:
        """Signals from their codes: codes @ components_.

        Parameters
        ----------
        X : (n_samples, n_components) array, sparse array or Dask array

        Returns
        -------
        signals : (n_samples, n_features) array; of a Dask array a Dask array
        """
        check_is_fitted(self)
        if is_dask(X):
            if X.ndim != 2 or X.shape[1] != self.operator_.shape[1]:
                raise ValueError(f"X must have {self.operator_.shape[1]} columns, one a component, got {X.shape}")
            if X.dtype.kind == "c":
                raise ValueError(f"X must be real: complex data not supported, got {X.dtype}")
            return lazily_decoded(X, self.operator_)
        codes = check_array(X, accept_sparse=True, dtype=[np.float64, np.float32], input_name="X")
        if codes.shape[1] != self.operator_.shape[1]:
            raise ValueError(
                f"X must have {self.operator_.shape[1]} columns, one a component, got {codes.shape[1]}"
            )
        signals = self.operator_ @ codes.T
        return signals.toarray().T if sp.issparse(signals) else signals.T

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the root mean square error of coding X, ‖X − codes·D‖_F / √(n_samples·n_features).

        Parameters
        ----------
        X : (n_samples, n_features) array, or any that `fit` takes
        y : ignored
        """
        check_is_fitted(self)
        if is_large(X):
            samples = self._samples(X, reset=False)
            task = Task(*self._coding(samples), 0, 1.0)
            return -float(
                np.sqrt(passed_over(samples, summarised, task, merged).residual / np.prod(samples.shape))
            )
        rows = self._validated(X, reset=False)
        return -rmse(rows.T, self.components_.T, self._codes(rows))

    @property
    def relative_complexity_(self) -> float:
        """Entries of the factors, relative to those of the dense dictionary."""
        check_is_fitted(self)
        return self.operator_.relative_complexity

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _validated(self, X: Any, reset: bool) -> Array:
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def _sizes(self, n_features: int) -> tuple[int, int]:
        """The numbers of atoms, and of atoms a signal."""
        n_components = n_features
        if self.n_components is not None:
            n_components = as_integer("n_components", self.n_components, 1)
        if self.n_nonzero_coefs is not None:
            as_integer("n_nonzero_coefs", self.n_nonzero_coefs, 1, min(n_features, n_components))
        return n_components, as_sparsity(self.n_nonzero_coefs, n_features, n_components)

    def _samples(self, X: Any, reset: bool) -> Samples:
        """X after checks, as samples."""
        if not is_large(X):
            return held(self._validated(X, reset))
        samples = as_samples(X)
        validate_data(self, X=samples, reset=reset, skip_check_array=True)
        if samples.dtype.kind == "c":
            raise ValueError(f"X must be real: complex data not supported, got {samples.dtype}")
        return samples

    def _checked_dask(self, X: Any) -> Any:
        if X.ndim != 2 or X.shape[1] != self.operator_.shape[0]:
            raise ValueError(f"X must have {self.operator_.shape[0]} columns, one a feature, got shape {X.shape}")
        if X.dtype.kind == "c":
            raise ValueError(f"X must be real: complex data not supported, got {X.dtype}")
        return X

    def _codes(self, rows: Array) -> sp.csc_array:
        return BlockCoder(*self._coding(rows)).code(rows)

    def _coding(self, X: Any) -> tuple[SparseProduct | Array, int]:
        """The dictionary that codes X, in the dtype for it, and the number of atoms a sample."""
        operator = self.operator_.astype(np.result_type(working_dtype("X", X.dtype), self.operator_.dtype))
        dictionary = operator.toarray() if len(operator.factors) == 1 else operator
        return dictionary, self._sizes(self.operator_.shape[0])[1]

    def _opened_checkpoint(self, **facts: Any) -> Checkpoint:
        """Of this estimator with its parameters, or one that keeps nothing."""
        if self.checkpoint is None:
            return Checkpoint()
        others = ("callback", "checkpoint", "transform_sparse", "verbose")
        parameters = {key: value for key, value in self.get_params().items() if key not in others}
        described = {key: _described(value) for key, value in (parameters | facts).items()}
        return Checkpoint(self.checkpoint, {"learner": type(self).__name__, **described})

    def _close(self, run: Run, checkpoint: Checkpoint) -> None:
        """After a fit: a checkpoint is needed no more, unless a callback stopped it."""
        if not run.stopped:
            checkpoint.remove()

    def _store(self, dictionary: Any, history: History) -> None:
        self.operator_ = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        self.components_ = np.ascontiguousarray(self.operator_.toarray().T)
        self.history_ = history
        self.n_iter_ = len(history)

    def _reporter(self) -> Callback | None:
        """The user's callback, and with ``verbose`` a line on the standard error for each phase or iteration."""
        if not self.verbose:
            return self.callback
        last = ""

        def report(step: Step) -> Any:
            nonlocal last
            if step.phase != last or self.verbose > 1:
                line = f"{step.seconds:8.2f} s  {step.phase} {step.iteration}: relative error {step.error:.6g}\n"
                sys.stderr.write(line)
                last = step.phase
            return self.callback(step) if self.callback is not None else None

        return report

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _described(value: Any) -> str:
    """A parameter in few words: arrays, and whatever else is more than a number or a word, by their contents."""
    if isinstance(value, np.random.RandomState):
        return "<RandomState>"
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return repr(value)
    return blake2b(pickle.dumps(value), digest_size=8).hexdigest()
