"""What all dictionary estimators share: everything but learning. Samples are rows here, and columns elsewhere."""

import re
import warnings
from abc import abstractmethod
from collections.abc import Iterable
from textwrap import indent
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import typing as types
from ..coding import Atoms, as_alpha
from ..operators import SparseProduct
from ..operators.portable import namespace_of
from ..results import Callback, History, Status, Step
from ..runtime.session import Session
from ..runtime.threads import one_thread
from ..samples import Samples, as_samples, held, is_dask, is_large, map_reduce, with_checked_chunks
from ..typing import Array, ArrayLike, RandomState
from ..validation import (
    as_array,
    as_choice,
    as_flag,
    as_integer,
    as_sparse,
    require_finite,
    working_dtype,
)
from .learner import Found, Outcome, Plan, as_sparsity, learn, warn_if_few, warn_if_uneven
from .signals import Coder, Coding, enough, loss_of_part, merge_losses

_BATCH = 4096  # samples to learn from at a time, if a stream comes in smaller pieces

# What several estimators say about parameters and attributes: a line ``{name}`` in a docstring stands for it.
_SHARED = {
    "n_components": """n_components : int, optional
    The number of atoms; as many as features by default.""",
    "n_nonzero_coefs": """n_nonzero_coefs : int, optional
    Atoms per sample, in learning and in `transform`; a tenth of the features by default, at least one.""",
    "fit_algorithm": """fit_algorithm : {"omp", "lasso"}
    How samples are coded in learning: by `papilio.omp`, or by `papilio.lasso`, with an ℓ1 penalty. Errors in
    the history are then the root of the objective ½‖x − Dγ‖² + alpha·‖γ‖₁, relative to that of empty codes.""",
    "alpha": """alpha : float
    The penalty of ``fit_algorithm="lasso"``, as in scikit-learn.""",
    "tol": """tol : float
    Stop when the error of all samples has not fallen by this share within ten iterations; 0 never stops early.""",
    "positive": """positive : bool
    Whether codes must not be negative, in learning and in `transform`; the atoms may have any sign.""",
    "window": """window : int, optional
    About how many of the latest mini-batches count in `partial_fit` and `fit_stream`, for data that drift; no
    limit by default.""",
    "transform_algorithm": """transform_algorithm : {"omp", "lasso"}
    How `transform` codes, and `score`: by `papilio.omp`, or by `papilio.lasso`, with an ℓ1 penalty.""",
    "transform_alpha": """transform_alpha : float, optional
    The penalty of "lasso", as in scikit-learn; by default ``alpha`` if the estimator has one, else 1.0.""",
    "transform_sparse": """transform_sparse : bool
    Whether `transform` returns a csr_array.""",
    "random_state": """random_state : int, RandomState, Generator or None
    The source of the random numbers; None is NumPy's global state.""",
    "callback": """callback : callable, optional
    Called with a `papilio.results.Step` after each iteration; a true result stops learning. ``callback=print``
    writes a line for each.""",
    "checkpoint": """checkpoint : path, optional
    A file in which `fit` saves its state after each phase and every half minute, and in the end its result.
    If the file exists, `fit` resumes from it, with the same result, and returns at once if the run was
    finished; data, parameters and the version of papilio must be the same. Delete it once the model is saved.""",
    "components_": """components_ : (n_components, n_features) array
    The atoms, one per row.""",
    "learning": """history_ : History
    Relative error, phase and seconds of each iteration.
status_ : Status
    Why learning ended.
n_iter_ : int
    The number of steps in ``history_``.""",
}
for group, names in {
    "coding": ("transform_algorithm", "transform_alpha", "transform_sparse"),
    "running": ("random_state", "callback", "checkpoint"),
}.items():
    _SHARED[group] = "\n".join(_SHARED[name] for name in names)


class DictionaryEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A dictionary that codes samples. Subclasses are dataclasses with `_plan`, whose fields are parameters."""

    n_components: int | None
    n_nonzero_coefs: int | None
    positive: bool
    transform_algorithm: str
    transform_alpha: float | None
    transform_sparse: bool
    random_state: RandomState
    callback: Callback | None
    checkpoint: types.Path | None
    # What may differ between a run and the one that resumes it.
    _free: ClassVar[frozenset[str]] = frozenset(
        ("callback", "checkpoint", "transform_algorithm", "transform_alpha", "transform_sparse")
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)

        def text(found: re.Match[str]) -> str:
            return indent(_SHARED[found[2]], found[1])

        cls.__doc__ = re.sub(r"^( *)\{(\w+)\}$", text, cls.__doc__ or "", flags=re.MULTILINE)

    @abstractmethod
    def _plan(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Plan:
        """The stages of learning, after checks of the parameters."""

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
        if samples.is_held:
            warn_if_uneven(samples.load())
        plan, start = self._plan(samples, n_components, n_nonzero_coefs), self._given(samples, n_components)
        coder = self._coder(n_nonzero_coefs)
        with self._session() as session:
            outcome = learn(session, samples, n_components, coder, plan, start)
        self._store(outcome.dictionary, session.history, outcome.status)
        self._after_fit(outcome)
        if outcome.status is Status.MAX_ITER and getattr(self, "tol", None) != 0:
            limits = "effort" if hasattr(self, "effort") else "max_iter or tol"
            warnings.warn(
                f"the limit on the number of iterations was reached before the error settled: increase {limits}",
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
            The codes; for a Dask array a Dask array with such blocks. With scikit-learn's ``array_api_dispatch``,
            an array of the library of X, whose memory must be that of the CPU.
        """
        check_is_fitted(self)
        is_sparse = as_flag("transform_sparse", self.transform_sparse)
        library = namespace_of(X) if get_config()["array_api_dispatch"] and not is_sparse else None
        if library is not None:
            return library.asarray(self.transform(np.asarray(X)), device=X.device)
        if is_dask(X):
            return _lazily_coded(_checked_dask(X, self.operator_.shape[0]), self._coding(X), is_sparse)
        samples = self._samples(X, reset=False)
        coding = self._coding(samples)
        atoms = Atoms(coding.dictionary)
        parts = [coding.coder.codes(atoms, rows) for _, rows in samples.blocks()]
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
            return _lazily_decoded(_checked_dask(X, n_components), self.operator_)
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
        return -map_reduce(samples, loss_of_part, self._coding(samples), merge_losses).error

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

    def _given(self, samples: Samples, n_components: int) -> Found | None:
        """A dictionary that the first stage starts from, if the parameters have one."""
        return None

    def _after_fit(self, outcome: Outcome) -> None:
        """What is left to do when a dictionary was learned."""

    def _coder(self, n_nonzero_coefs: int) -> Coder:
        """How samples are coded in learning."""
        alpha = None
        if as_choice("fit_algorithm", getattr(self, "fit_algorithm", "omp"), ("omp", "lasso")) == "lasso":
            alpha = as_alpha("alpha", getattr(self, "alpha", 1.0))
        return Coder(n_nonzero_coefs, as_flag("positive", self.positive), alpha)

    def _coding(self, X: Any) -> Coding:
        """How to code X: in which dictionary and dtype, by which method, and with which signs."""
        operator = self.operator_.astype(np.result_type(working_dtype("X", X.dtype), self.operator_.dtype))
        dictionary = operator.toarray() if len(operator.factors) == 1 else operator
        n_nonzero_coefs = self._sizes(self.operator_.shape[0])[1]
        alpha = None
        if as_choice("transform_algorithm", self.transform_algorithm, ("omp", "lasso")) == "lasso":
            given = getattr(self, "alpha", 1.0) if self.transform_alpha is None else self.transform_alpha
            alpha = as_alpha("transform_alpha", given)
        return Coding(dictionary, Coder(n_nonzero_coefs, as_flag("positive", self.positive), alpha))

    def _session(self) -> Session:
        """A session for a run of this estimator, identified by its parameters."""
        identity = {name: _described(value) for name, value in self.get_params().items() if name not in self._free}
        return Session(
            self.callback,
            random_state=self.random_state,
            checkpoint=self.checkpoint,
            identity={"learner": type(self).__name__, **identity} if self.checkpoint is not None else None,
        )

    def _store(self, dictionary: Array | SparseProduct, history: History, status: Status) -> None:
        """Store what was learned."""
        self.operator_ = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        self.components_ = np.ascontiguousarray(self.operator_.toarray().T)
        self.history_, self.status_, self.n_iter_ = history, status, len(history)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class StreamEstimator(DictionaryEstimator):
    """A dictionary estimator with `partial_fit` and `fit_stream`."""

    window: int | None
    _state: Any  # learns from mini-batches: it has ``learn(rows)``, which returns their error, and ``dictionary``

    @abstractmethod
    def _state_after(self, outcome: Outcome) -> Any:
        """The state after `fit`, from which learning continues."""

    def _after_fit(self, outcome: Outcome) -> None:
        self._state = self._state_after(outcome)
        self._state.remember(outcome.statistics, outcome.signals.unit)

    def _begin(self, rows: Array) -> None:
        """Learn from the first mini-batch."""
        self.fit(rows)

    def _add(self, rows: Array) -> None:
        """Learn from another mini-batch; the error is that of the batch before learning."""
        error = self._state.learn(rows)
        history: History = getattr(self, "history_", None) or History()
        scale = getattr(self._state.dictionary, "scale", 1.0)
        history.append(Step("partial fit", len(history) + 1, error, scale, 0.0, (), 1.0))
        self._store(self._state.dictionary, history, Status.CONVERGED)

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
        about the latest tenth of all batches counts, and at most ``window`` of them. After `fit`, learning
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


# -- Dask arrays, coded lazily ---------------------------------------------------------------------------


def _lazily_coded(X: Any, coding: Coding, as_sparse: bool) -> Any:
    """The codes of a Dask array as a Dask array, with one block per chunk along samples."""
    dtype, n_components = coding.dictionary.dtype, coding.dictionary.shape[1]
    meta = sp.csr_array((0, n_components), dtype=dtype) if as_sparse else np.empty((0, n_components), dtype)
    return _by_blocks(with_checked_chunks(X), _coded, coding.dictionary, meta, coding.coder, as_sparse)


def _lazily_decoded(codes: Any, operator: SparseProduct) -> Any:
    """The signals of a Dask array of codes as a Dask array."""
    dtype = np.result_type(working_dtype("X", codes.dtype), operator.dtype)
    codes = with_checked_chunks(codes, accept_sparse=True)
    return _by_blocks(codes, _decoded, operator, np.empty((0, operator.shape[0]), dtype))


def _by_blocks(X: Any, function: Any, shared: Any, meta: Any, *options: Any) -> Any:
    """``function(rows, shared, *options)`` for each chunk along samples; ``meta`` is an empty result."""
    import dask

    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    chunks = X.chunks[0], (meta.shape[1],)
    shared = dask.delayed(shared, traverse=False)
    return X.map_blocks(function, shared, *options, dtype=meta.dtype, chunks=chunks, meta=meta)


def _coded(rows: Any, dictionary: Any, coder: Coder, as_sparse: bool, block_id: Any = None) -> Any:
    rows = np.asarray(rows, dtype=working_dtype("X", rows.dtype))
    require_finite(f"X, chunk {block_id[0] if block_id else 0},", rows)
    with one_thread():
        codes = coder.codes(Atoms(dictionary), rows).T
    return sp.csr_array(codes) if as_sparse else codes.toarray()


def _decoded(codes: Any, operator: Any, block_id: Any = None) -> Array:
    codes = sp.csc_array(codes.T) if sp.issparse(codes) else np.asarray(codes).T
    require_finite(f"X, chunk {block_id[0] if block_id else 0},", codes.data if sp.issparse(codes) else codes)
    with one_thread():
        signals = operator @ codes
    return signals.toarray().T if sp.issparse(signals) else signals.T


def _checked_dask(X: Any, n_columns: int) -> Any:
    if X.ndim != 2 or X.shape[1] != n_columns:
        raise ValueError(f"X must have {n_columns} columns, got shape {X.shape}")
    if X.dtype.kind == "c":
        raise ValueError(f"X must be real: complex data not supported, got {X.dtype}")
    return X


# -- the identity of a run -------------------------------------------------------------------------------


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
        return _described(as_array("a parameter", value))  # Its indices have not been checked.
    if isinstance(value, SparseProduct):
        return f"SparseProduct({value.scale!r}, {_described(value.factors)})"
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return repr(value)
    return f"{type(value).__name__}({_described(vars(value))})"
