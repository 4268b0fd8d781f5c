"""What all learners share: their arguments and result, the best dictionary so far, states for checkpoints."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..coding import as_signals
from ..linalg import rescaled
from ..operators import SparseProduct
from ..operators.files import from_arrays, to_arrays
from ..results import History, Status
from ..runtime.session import State
from ..typing import Array, ArrayLike
from ..validation import as_integer, as_matrix

_FEW = 2  # samples per atom: with fewer, new samples gain nothing (see `warn_if_few`)
_PATIENCE = 10  # iterations without progress after which a learner ends


class LearnedDictionary(NamedTuple):
    """What `ksvd`, `sparse_ksvd`, `online_dictionary` and `fast_dictionary` return.

    Attributes
    ----------
    dictionary : (d, a) ndarray or SparseProduct
        D, one atom per column.
    codes : (a, n) csc_array
        Γ, the codes of the signals in it by `omp`, one signal per column.
    history : History
        Relative error, phase and seconds of each iteration.
    status : Status
        Why learning ended.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> learned = pp.ksvd(X, 32, 5, max_iter=10, random_state=0)
    >>> learned.dictionary.shape, learned.codes.shape
    ((32, 32), (32, 500))
    """

    dictionary: Array | SparseProduct
    codes: sp.csc_array
    history: History
    status: Status


def as_rows(signals: ArrayLike) -> Array:
    """Signals (d, n) as a C-contiguous array with one signal per row, copied only if necessary."""
    rows = np.ascontiguousarray(as_signals(signals).T)
    if not len(rows):
        raise ValueError(f"signals must hold at least one signal, got shape {rows.T.shape}")
    return rows


def as_start(init: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """A dictionary to start from, in the signals' dtype; far from one, it is divided by a power of two."""
    start = as_matrix("init", init, shape)
    if start.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError("init must be real, as the signals are, got a complex matrix")
    if not start.any():
        raise ValueError("init must not be zero, got a zero matrix")
    return rescaled(start).astype(dtype)


def as_sparsity(n_nonzero_coefs: int | None, n_features: int, n_components: int) -> int:
    """The number of atoms per signal: a tenth of the features, at least one, by default."""
    if n_nonzero_coefs is None:
        return min(max(n_features // 10, 1), n_components)
    return as_integer("n_nonzero_coefs", n_nonzero_coefs, 1, min(n_features, n_components))


def warn_if_few(shape: tuple[int, ...], n_components: int) -> None:
    """Warn the caller's caller if samples of this shape, (samples, features), are fewer than two per atom.

    With up to four, K-SVD with 64 or 128 atoms overfitted image patches, and coded new ones no better than with
    one per atom. Small data are usual in tests: the limit is where the error of learning says nothing.
    """
    n_samples, n_features = shape
    if n_samples < _FEW * n_components:
        is_wide = n_features > _FEW * n_components  # turned round, they would be enough
        advice = f"; or transpose the data, if they are {n_features:,} samples" if is_wide else ""
        warnings.warn(
            f"{n_components:,} atoms are too many for {n_samples:,} samples: with fewer than {_FEW} samples per "
            "atom, the dictionary overfits, and new samples are coded poorly. Give fewer "
            f"atoms, or more samples{advice}",
            UserWarning,
            stacklevel=3,
        )


class Best:
    """The best candidate so far, and whether the error still falls: by the share ``tol``, to count as progress.

    ``state`` is what `to_state` returned, to continue from; empty at the start.
    """

    def __init__(self, tol: float, state: State) -> None:
        self._tol = tol
        self._stale = int(state.get("stale", 0))
        self.error = float(state.get("error", np.inf))
        self.candidate: Any = state.get("candidate")

    def record(self, error: float, candidate: Any) -> None:
        """Take note of the error of one more iteration."""
        self._stale = 0 if error < self.error * (1 - self._tol) else self._stale + 1
        if error < self.error:
            self.error, self.candidate = error, candidate

    def to_state(self) -> State:
        """The best so far, for a checkpoint."""
        candidate = {} if self.candidate is None else {"candidate": self.candidate}
        return {"error": self.error, "stale": self._stale, **candidate}

    @property
    def has_settled(self) -> bool:
        """Whether there was no progress for ten iterations (never with ``tol=0``), or the fit is exact."""
        return self.error == 0.0 or (self._tol > 0 and self._stale >= _PATIENCE)

    def status(self, stopped: bool) -> Status:
        """Why the iterations ended."""
        if stopped:
            return Status.STOPPED
        return Status.CONVERGED if self.has_settled else Status.MAX_ITER


def to_state(dictionary: Array | SparseProduct) -> State:
    """A dictionary (d, a) for a checkpoint."""
    return to_arrays(dictionary) if isinstance(dictionary, SparseProduct) else {"dense": dictionary}


def from_state(state: Mapping[str, Any]) -> Any:
    """The inverse of `to_state`."""
    return state["dense"] if "dense" in state else from_arrays(state)
