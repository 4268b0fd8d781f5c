"""K-SVD and Sparse K-SVD as estimators."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.fft import idct

from ..dictionary.alternation import AlternationLimits
from ..dictionary.full_passes import Outcome, learn_dense
from ..dictionary.ksvd import ksvd_phase
from ..dictionary.sparse_ksvd import Base, learn_sparse_ksvd
from ..operators import SparseProduct
from ..samples import Samples
from ..transforms import dct
from ..typing import MatrixLike
from ..validation import as_flag, as_integer
from .base import DictionaryEstimator


class KSVD(DictionaryEstimator):
    """A dense dictionary by approximate K-SVD: `papilio.ksvd`.

    Parameters
    ----------
    n_components : int, optional
        The number of atoms; as many as features by default.
    n_nonzero_coefs : int, optional
        Atoms per sample, in learning and in `transform`; a tenth of the features by default, at least one.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when the error of all samples has not fallen by this share within ten iterations; 0 never stops early.
    positive : bool
        Whether codes must not be negative, in learning and in `transform`; the atoms may have any sign.
    transform_algorithm : {"omp", "lasso"}
        How `transform` codes, and `score`: by `papilio.omp`, or by `papilio.lasso`, with an ℓ1 penalty.
    transform_alpha : float, optional
        The penalty of "lasso", as in scikit-learn; 1.0 by default.
    transform_sparse : bool
        Whether `transform` returns a csr_array.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.
    checkpoint : path, optional
        A file in which `fit` saves its state after each phase and every half minute, and in the end its result.
        If the file exists, `fit` resumes from it, with the same result, and returns at once if the run was
        finished; data, parameters and the version of papilio must be the same. Delete it once the model is saved.
    verbose : int
        1 writes a line to the standard error for each phase, 2 for each iteration.

    Attributes
    ----------
    components_ : (n_components, n_features) array
        The atoms, one per row.
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): one dense factor.
    history_ : History
        Relative error, phase and seconds of each iteration.
    status_ : Status
        Why learning ended.
    n_iter_ : int
        The number of steps in ``history_``.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> codes = pp.KSVD(n_nonzero_coefs=5, random_state=0).fit_transform(X)
    >>> codes.shape
    (500, 32)
    """

    def _limits(self) -> AlternationLimits:
        """The limits after checks; a fast dictionary that starts from this estimator uses them too."""
        as_integer("max_iter", self.max_iter, 1)
        return AlternationLimits(self.max_iter, self.tol).checked()

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Outcome:
        start, sizes = partial(ksvd_phase, limits=self._limits()), (n_components, n_nonzero_coefs)
        positive = as_flag("positive", self.positive)
        with self._session() as session:
            return self._store(session, learn_dense(session, samples, *sizes, start, positive))


@dataclass(eq=False, repr=False, kw_only=True)
class SparseKSVD(DictionaryEstimator):
    """A dictionary whose atoms are sparse in a fast base: `papilio.sparse_ksvd`.

    Above 50,000 samples, or 200 per atom up to 100,000, it learns from a random sample of this size.

    Parameters
    ----------
    n_components : int, optional
        The number of atoms; as many as features by default.
    n_nonzero_coefs : int, optional
        Atoms per sample, in learning and in `transform`; a tenth of the features by default, at least one.
    base : SparseProduct or (n_features, n_base) matrix, optional
        The base dictionary, for synthesis: one base atom per column. The DCT by default, as a fast transform if
        the number of features is a power of two, else as one dense factor.
    k : int, optional
        Base atoms per atom: entries in each column of the sparse factor; 4 by default, fewer if the base is
        smaller.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when the error of all samples has not fallen by this share within ten iterations; 0 never stops early.
    positive : bool
        Whether codes must not be negative, in learning and in `transform`; the atoms may have any sign.
    transform_algorithm : {"omp", "lasso"}
        How `transform` codes, and `score`: by `papilio.omp`, or by `papilio.lasso`, with an ℓ1 penalty.
    transform_alpha : float, optional
        The penalty of "lasso", as in scikit-learn; 1.0 by default.
    transform_sparse : bool
        Whether `transform` returns a csr_array.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.
    checkpoint : path, optional
        A file in which `fit` saves its state after each phase and every half minute, and in the end its result.
        If the file exists, `fit` resumes from it, with the same result, and returns at once if the run was
        finished; data, parameters and the version of papilio must be the same. Delete it once the model is saved.
    verbose : int
        1 writes a line to the standard error for each phase, 2 for each iteration.

    Attributes
    ----------
    components_ : (n_components, n_features) array
        The atoms, one per row.
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): the base's factors and one sparse factor.
    history_ : History
        Relative error, phase and seconds of each iteration.
    status_ : Status
        Why learning ended.
    n_iter_ : int
        The number of steps in ``history_``.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.SparseKSVD(n_nonzero_coefs=5, k=3, random_state=0).fit(X)
    >>> model.operator_.factors[-1].size
    96
    """

    base: SparseProduct | MatrixLike | None = None
    k: int | None = None

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Outcome:
        as_integer("max_iter", self.max_iter, 1)
        limits = AlternationLimits(self.max_iter, self.tol).checked()
        n_features = samples.shape[1]
        base = Base.over(self._base(n_features, samples.dtype), n_features, self.k)
        with self._session() as session:
            outcome = learn_sparse_ksvd(
                session, samples, n_components, n_nonzero_coefs, base, limits, self.positive
            )
            return self._store(session, outcome)

    def _base(self, n_features: int, dtype: Any) -> Any:
        if self.base is not None:
            return self.base
        if n_features & (n_features - 1) == 0:
            return dct(n_features).T.astype(dtype)
        return idct(np.eye(n_features), axis=0, norm="ortho").astype(dtype)
