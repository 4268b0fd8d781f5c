"""K-SVD and Sparse K-SVD as estimators."""

from typing import Any

import numpy as np
from scipy.fft import idct

from ..dictionary.common import Learned
from ..dictionary.ksvd import ksvd
from ..dictionary.sparse_ksvd import sparse_ksvd
from ..operators import SparseProduct
from ..solvers.palm import Callback
from ..transforms import dct
from ..validation import Array, as_integer
from .base import DictionaryEstimator


class KSVD(DictionaryEstimator):
    """A dense dictionary by approximate K-SVD: `papilio.ksvd`.

    Parameters
    ----------
    n_components : int, optional
        Atoms; as many as features by default.
    n_nonzero_coefs : int, optional
        Atoms a signal, in learning and in `transform`; a tenth of the features by default, at least one.
    max_iter : int
    tol : float
        Stop when the error of all signals has not fallen by this share within ten iterations; 0 never does.
    transform_sparse : bool
        Let `transform` return a csr_array.
    random_state : int, RandomState or None
    callback : callable, optional
        Called with a `papilio.Step` after each iteration; a true result stops learning.
    verbose : int
        1 writes a line to the standard error for each phase, 2 for each iteration.

    Attributes
    ----------
    components_ : (n_components, n_features) array
        The atoms, one a row.
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): one dense factor.
    relative_complexity_ : float
    history_ : History
        Relative error, phase and seconds of each iteration.
    n_iter_ : int

    Examples
    --------
    >>> import papilio as pp
    >>> data = pp.datasets.rand(random_state=0)
    >>> codes = pp.KSVD(n_nonzero_coefs=5, random_state=0).fit_transform(data.signals.T)
    >>> codes.shape
    (500, 32)
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_nonzero_coefs: int | None = None,
        *,
        max_iter: int = 100,
        tol: float = 1e-4,
        transform_sparse: bool = False,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.max_iter = max_iter
        self.tol = tol
        self.transform_sparse = transform_sparse
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _learn(self, signals: Array, n_components: int, n_nonzero: int) -> Learned:
        return ksvd(
            signals,
            n_components,
            n_nonzero,
            max_iter=as_integer("max_iter", self.max_iter, 1),
            tol=self.tol,
            random_state=self.random_state,
            callback=self._reporter(),
        )


class SparseKSVD(DictionaryEstimator):
    """A dictionary whose atoms are sparse in a fast base: `papilio.sparse_ksvd`.

    Parameters
    ----------
    n_components, n_nonzero_coefs, max_iter, tol, transform_sparse, random_state, callback, verbose
        As for `KSVD`.
    base : SparseProduct or (n_features, n_base) matrix, optional
        The base dictionary, for synthesis: one base atom a column. The DCT by default: as a fast transform if the
        number of features is a power of two, else as one dense factor.
    atom_nonzero : int, optional
        Base atoms an atom; 4 by default, or as many as there are.

    Attributes
    ----------
    components_, relative_complexity_, history_, n_iter_
        As for `KSVD`.
    operator_ : SparseProduct
        The base's factors and one sparse factor.
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_nonzero_coefs: int | None = None,
        *,
        base: Any = None,
        atom_nonzero: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        transform_sparse: bool = False,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.base = base
        self.atom_nonzero = atom_nonzero
        self.max_iter = max_iter
        self.tol = tol
        self.transform_sparse = transform_sparse
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _learn(self, signals: Array, n_components: int, n_nonzero: int) -> Learned:
        base = self.base
        if base is None:
            features = len(signals)
            is_power = features & (features - 1) == 0
            base = dct(features).T if is_power else SparseProduct([idct(np.eye(features), axis=0, norm="ortho")])
            base = base.astype(signals.dtype)
        return sparse_ksvd(
            signals,
            base,
            n_components,
            n_nonzero,
            atom_nonzero=self.atom_nonzero,
            max_iter=as_integer("max_iter", self.max_iter, 1),
            tol=self.tol,
            random_state=self.random_state,
            callback=self._reporter(),
        )
