"""What all estimators share: everything but learning. Samples are rows here, columns in the learners."""

import sys
import warnings
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import typing as types
from ..coding import Coder, as_alpha
from ..dictionary.full_passes import Outcome
from ..dictionary.learner import as_sparsity, warn_if_few
from ..dictionary.statistics import Coding, loss_of_part, merge_losses
from ..operators import SparseProduct
from ..results import Callback, History, Status, Step
from ..runtime.session import Session
from ..samples import Samples, as_samples, held, is_dask, is_large, passed_over
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_array, as_choice, as_flag, as_integer, as_sparse, working_dtype
from .lazily import lazily_coded, lazily_decoded


@dataclass(eq=False, repr=False)
class DictionaryEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A dictionary that codes samples; subclasses say how it is learned, and may have more parameters."""

    n_components: int | None = None
    n_nonzero_coefs: int | None = None
    _: KW_ONLY
    max_iter: int = 100
    tol: float = 1e-4
    positive: bool = False
    transform_algorithm: str = "omp"
    transform_alpha: float | None = None
    transform_sparse: bool = False
    random_state: RandomState = None
    callback: Callback | None = None
    checkpoint: types.Path | None = None
    verbose: int = 0

    @abstractmethod
    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Outcome:
        """Learn from samples in a `_session`, and `_store` the result."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn a dictionary.

        Parameters
        ----------
        X : (n_samples, n_features) array
            Or data that need not fit into memory: a Dask array, a memory-mapped array, `datasets.on_disk`.
            Above 50,000 samples, or 200 per atom up to 100,000, learning starts from a random sample of this
            size, and reads all samples part by part, on the workers of the current Dask client if there is one,
            else on threads. Sums are taken in a fixed order: the result has the same bits on any number of threads
            and workers. Other chunks of a Dask array mean another order, and so another rounding, which may decide
            between equally good atoms: the score is about the same (within 6 % on 600 samples).
        y : object, optional
            Ignored.

        Returns
        -------
        self
        """
        samples = self._samples(X, reset=True)
        n_components, n_nonzero_coefs = self._sizes(samples.shape[1])
        warn_if_few(samples.shape, n_components)
        outcome = self._learn(samples, n_components, n_nonzero_coefs)
        # Refinement has its own limit, which max_iter does not raise.
        if outcome.status is Status.MAX_ITER and self.tol != 0 and not getattr(self, "refine", False):
            warnings.warn(
                "the limit on the number of iterations was reached before the error settled: "
                "increase max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: Any) -> Any:
        """Sparse codes of the samples, by `papilio.omp` or `papilio.lasso`, as ``transform_algorithm`` says.

        Parameters
        ----------
        X : (n_samples, n_features) array
            The samples, of any type that `fit` takes.

        Returns
        -------
        (n_samples, n_components) array, or csr_array with ``transform_sparse``
            The codes; for a Dask array a Dask array with such blocks.
        """
        check_is_fitted(self)
        is_sparse = as_flag("transform_sparse", self.transform_sparse)
        if is_dask(X):
            return lazily_coded(_checked_dask(X, self.operator_.shape[0]), self._coding(X), is_sparse)
        samples = self._samples(X, reset=False)
        coding = self._coding(samples)
        coder = Coder(coding.dictionary)
        parts = [coding.codes(coder, rows) for _, rows in samples.blocks()]
        codes = (parts[0] if len(parts) == 1 else sp.hstack(parts, format="csc")).T
        return sp.csr_array(codes) if is_sparse else codes.toarray()

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Signals from their codes: codes @ components_.

        Parameters
        ----------
        X : (n_samples, n_components) array, sparse array or Dask array
            The codes.

        Returns
        -------
        (n_samples, n_features) array
            The signals; for a Dask array a Dask array.
        """
        check_is_fitted(self)
        n_components = self.operator_.shape[1]
        if is_dask(X):
            return lazily_decoded(_checked_dask(X, n_components), self.operator_)
        if sp.issparse(X):
            as_sparse("X", X)  # before scikit-learn and SciPy trust its indices
        codes = check_array(X, accept_sparse=True, dtype=[np.float64, np.float32], input_name="X")
        if codes.shape[1] != n_components:
            raise ValueError(f"X must have {n_components} columns, one per component, got {codes.shape[1]}")
        signals = self.operator_ @ codes.T
        return signals.toarray().T if sp.issparse(signals) else signals.T

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the relative error of coding X, ‖X − codes·D‖_F / ‖X‖_F.

        Parameters
        ----------
        X : (n_samples, n_features) array
            The samples, of any type that `fit` takes.
        y : object, optional
            Ignored.

        Returns
        -------
        float
            At most 0, which means exact.
        """
        check_is_fitted(self)
        samples = self._samples(X, reset=False)
        return -passed_over(samples, loss_of_part, self._coding(samples), merge_losses).error

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
        """The number of atoms, and the number of atoms per sample."""
        n_components = n_features
        if self.n_components is not None:
            n_components = as_integer("n_components", self.n_components, 1)
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

    def _coding(self, X: Any) -> Coding:
        """How to code X: in which dictionary and dtype, by which method, and with which signs."""
        operator = self.operator_.astype(np.result_type(working_dtype("X", X.dtype), self.operator_.dtype))
        dictionary = operator.toarray() if len(operator.factors) == 1 else operator
        n_nonzero_coefs = self._sizes(self.operator_.shape[0])[1]
        alpha = None
        if as_choice("transform_algorithm", self.transform_algorithm, ("omp", "lasso")) == "lasso":
            alpha = 1.0 if self.transform_alpha is None else as_alpha("transform_alpha", self.transform_alpha)
        return Coding(dictionary, n_nonzero_coefs, positive=as_flag("positive", self.positive), alpha=alpha)

    def _session(self, **facts: Any) -> Session:
        """A session for a run of this estimator, identified by its parameters and ``facts``."""
        others = (
            "callback",
            "checkpoint",
            "transform_algorithm",
            "transform_alpha",
            "transform_sparse",
            "verbose",
        )
        parameters = {name: value for name, value in self.get_params().items() if name not in others}
        verbose = as_integer("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        identity = {name: _described(value) for name, value in (parameters | facts).items()}
        return Session(
            partial(write_line, [""], verbose, self.callback) if verbose else self.callback,
            random_state=self.random_state,
            checkpoint=self.checkpoint,
            identity={"learner": type(self).__name__, **identity} if self.checkpoint is not None else None,
        )

    def _store(self, session: Session, outcome: Outcome) -> Outcome:
        """Store what was learned."""
        self._store_dictionary(outcome.dictionary, session.history)
        self.status_ = outcome.status
        return outcome

    def _store_dictionary(self, dictionary: Array | SparseProduct, history: History) -> None:
        self.operator_ = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        self.components_ = np.ascontiguousarray(self.operator_.toarray().T)
        self.history_ = history
        self.n_iter_ = len(history)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _checked_dask(X: Any, n_columns: int) -> Any:
    if X.ndim != 2 or X.shape[1] != n_columns:
        raise ValueError(f"X must have {n_columns} columns, got shape {X.shape}")
    if X.dtype.kind == "c":
        raise ValueError(f"X must be real: complex data not supported, got {X.dtype}")
    return X


def write_line(last: list[str], verbose: int, callback: Callback | None, step: Step) -> Any:
    """Write a line to the standard error for each phase, or with ``verbose`` above 1 for each iteration."""
    if step.phase != last[0] or verbose > 1:
        of = f" of {step.share:.2g} of the samples" if step.share < 1 else ""
        sys.stderr.write(
            f"{step.seconds:8.2f} s  {step.phase} {step.iteration}: relative error {step.error:.6g}{of}\n"
        )
        last[0] = step.phase
    return callback(step) if callback is not None else None


def _described(value: Any) -> str:
    """A parameter as text that changes whenever it does: arrays as checksums, objects as their attributes."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return f"<{type(value).__name__}>"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}:{crc32(np.ascontiguousarray(value).data):08x}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_described(each)}' for key, each in sorted(value.items()))}}}"
    if sp.issparse(value):
        return _described(as_array("a parameter", value))  # whose indices nobody has checked
    if isinstance(value, SparseProduct):
        return f"SparseProduct({value.scale!r}, {_described(value.factors)})"
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return repr(value)
    return f"{type(value).__name__}({_described(vars(value))})"
