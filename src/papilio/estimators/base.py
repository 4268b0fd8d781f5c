"""What all estimators share: everything but learning. Samples are rows here, and columns everywhere else."""

import sys
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding import Coder
from ..dictionary.common import Learned, as_rows, as_sparsity
from ..metrics import rmse
from ..operators import SparseProduct
from ..results import History, Step
from ..solvers.palm import Callback
from ..validation import Array, as_integer


class DictionaryEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A dictionary that codes samples; how it is learned is for subclasses to say."""

    # Of the subclasses' constructors.
    n_components: int | None
    n_nonzero_coefs: int | None
    transform_sparse: bool
    callback: Callback | None
    verbose: int
    random_state: Any

    # Fitted.
    operator_: SparseProduct
    components_: Array
    history_: History
    n_iter_: int

    @abstractmethod
    def _learn(self, signals: Array, n_components: int, n_nonzero: int) -> Learned:
        """Learn from signals, one a column."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn a dictionary.

        Parameters
        ----------
        X : (n_samples, n_features) array
        y : ignored

        Returns
        -------
        self
        """
        rows = self._validated(X, reset=True)
        learned = self._learn(rows.T, *self._sizes(rows.shape[1]))
        self._store(learned.dictionary, learned.history)
        self._remember(as_rows(rows.T), learned.codes)
        return self

    def _remember(self, rows: Array, codes: sp.csc_array) -> None:
        """Keep what `partial_fit` needs to go on from a fit, where there is one."""

    def transform(self, X: Any) -> Any:
        """Sparse codes of the samples, by `papilio.omp` with ``n_nonzero_coefs`` atoms.

        Parameters
        ----------
        X : (n_samples, n_features) array

        Returns
        -------
        codes : (n_samples, n_components) array, or csr_array with ``transform_sparse``
        """
        check_is_fitted(self)
        codes = self._codes(self._validated(X, reset=False)).T
        return sp.csr_array(codes) if self.transform_sparse else codes.toarray()

    def inverse_transform(self, X: Any) -> Array:
        """Signals from their codes: codes @ components_.

        Parameters
        ----------
        X : (n_samples, n_components) array or sparse array

        Returns
        -------
        signals : (n_samples, n_features) array
        """
        check_is_fitted(self)
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
        X : (n_samples, n_features) array
        y : ignored
        """
        check_is_fitted(self)
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

    def _codes(self, rows: Array) -> sp.csc_array:
        operator = self.operator_.astype(np.result_type(rows.dtype, self.operator_.dtype))
        dictionary = operator.toarray() if len(operator.factors) == 1 else operator
        return Coder(dictionary).code(rows.T, self._sizes(rows.shape[1])[1])

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
