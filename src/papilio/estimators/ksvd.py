"""K-SVD and Sparse K-SVD as estimators."""

from functools import partial
from typing import Any

import numpy as np
from scipy.fft import idct

from ..dictionary.dense import learn_dense
from ..dictionary.ksvd import learn_ksvd
from ..dictionary.signals import opened
from ..dictionary.sparse_ksvd import Base, learn_sparse_ksvd
from ..samples import Samples
from ..solvers.palm import Callback, Run
from ..transforms import dct
from ..validation import as_integer, as_random, as_real
from .base import DictionaryEstimator


class KSVD(DictionaryEstimator):
    """A dense dictionary by approximate K-SVD: `papilio.ksvd`.

    Samples of a Dask array or in files are not loaded as a whole: where they are many, K-SVD learns from a sample
    of them, and passes over all of them improve its atoms.

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
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.
    checkpoint : path, optional
        A file in which `fit` keeps what it has after each phase and every half minute. If it is there, of the same
        data and parameters, `fit` goes on from it, to the same result. It is removed in the end, unless a callback
        stopped learning.
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
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.max_iter = max_iter
        self.tol = tol
        self.transform_sparse = transform_sparse
        self.random_state = random_state
        self.callback = callback
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> None:
        max_iter, tol = as_integer("max_iter", self.max_iter, 1), as_real("tol", self.tol, 0.0)
        run, checkpoint = Run(self._reporter()), self._opened_checkpoint()
        random = as_random(self.random_state)
        start = partial(learn_ksvd, n_components=n_components, init=None, max_iter=max_iter, tol=tol)
        atoms, data = learn_dense(samples, n_components, n_nonzero_coefs, start, random, run, checkpoint)
        if data.latest is not None:
            run.report("final", data.latest.error, 1.0, [atoms.T])
        self._store(atoms.T.copy(), run.history)
        self._close(run, checkpoint)


class SparseKSVD(DictionaryEstimator):
    """A dictionary whose atoms are sparse in a fast base: `papilio.sparse_ksvd`.

    It learns from samples in memory: Dask arrays and files are loaded as a whole.

    Parameters
    ----------
    n_components, n_nonzero_coefs, max_iter, tol, transform_sparse, random_state, callback, checkpoint, verbose
        As for `KSVD`.
    base : SparseProduct or (n_features, n_base) matrix, optional
        The base dictionary, for synthesis: one base atom a column. The DCT by default: as a fast transform if the
        number of features is a power of two, else as one dense factor.
    k : int, optional
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
        k: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        transform_sparse: bool = False,
        random_state: Any = None,
        callback: Callback | None = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.base = base
        self.k = k
        self.max_iter = max_iter
        self.tol = tol
        self.transform_sparse = transform_sparse
        self.random_state = random_state
        self.callback = callback
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> None:
        max_iter, tol = as_integer("max_iter", self.max_iter, 1), as_real("tol", self.tol, 0.0)
        base = Base.over(self._base(samples.shape[1], samples.dtype), samples.shape[1], self.k)
        run, checkpoint = Run(self._reporter()), self._opened_checkpoint()
        random = as_random(self.random_state)
        data = opened(samples, n_nonzero_coefs, n_components, random, run, checkpoint, can_hold=True)
        self._store(
            learn_sparse_ksvd(data.start, base, n_components, max_iter, tol, random, run, checkpoint), run.history
        )
        self._close(run, checkpoint)

    def _base(self, n_features: int, dtype: Any) -> Any:
        if self.base is not None:
            return self.base
        if n_features & (n_features - 1) == 0:
            return dct(n_features).T.astype(dtype)
        return idct(np.eye(n_features), axis=0, norm="ortho").astype(dtype)
