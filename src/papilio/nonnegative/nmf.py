"""Non-negative matrix factorization with several levels, as an estimator, and its codes of new samples."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..constraints import Constraint
from ..kernels.coordinates import nonnegative_codes
from ..linalg import in_units, shifted
from ..operators import SparseProduct
from ..results import Callback, Status
from ..typing import Array, MatrixLike, RandomState
from ..validation import as_array, as_integer, is_series
from .losses import FLOOR, LOSSES
from .multilayer import as_ranks, nonnegative_chain

_PASSES_PER_ITERATION = 100  # Passes of coordinate descent.
_TOL = 1e-10  # relative change of a code in a pass
_MULTIPLICATIVE_TOL = 1e-7  # the same for multiplicative steps, which converge slowly
_WORK_PER_CALL = 4e6  # multiplications of one pass over some samples; Ctrl-C works between calls
_STEPS_PER_CHECK = 10  # Multiplicative steps between two checks.


def least_squares_codes(X: Array, components: Array, max_iter: int) -> Array:
    """min ½‖x − c·components‖² over c ≥ 0 for each row x of X, in double precision."""
    rows, exponent = in_units(X.astype(np.float64))
    parts = components.astype(np.float64)
    codes = np.zeros((len(rows), len(parts)))
    gram, cross = parts @ parts.T, rows @ parts.T
    count = max(int(_WORK_PER_CALL / gram.size), 1)
    for begin in range(0, len(rows), count):
        some = slice(begin, begin + count)
        nonnegative_codes(codes[some], gram, cross[some], _PASSES_PER_ITERATION * max_iter, _TOL)
    return shifted(codes, exponent)


def divergence_codes(X: Array, components: Array, max_iter: int) -> Array:
    """min Σ v log(v/v̂) − v + v̂ with v̂ = c·components over c ≥ 0 for each row v of X, in double precision."""
    rows, exponent = in_units(X.astype(np.float64))
    parts = components.astype(np.float64)
    sums = parts.sum(axis=1)
    weights = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    codes = np.tile(weights, (len(rows), 1)) * rows.mean(axis=1, keepdims=True)
    active = np.arange(len(rows))
    for i in range(max_iter):
        now = codes[active]
        new = now * ((rows[active] / (now @ parts + FLOOR)) @ parts.T) * weights
        codes[active] = new
        if i % _STEPS_PER_CHECK == _STEPS_PER_CHECK - 1:
            # Each sample ends by itself: its code must not depend on others.
            change, largest = np.abs(new - now).max(axis=1), new.max(axis=1)
            active = active[change > _MULTIPLICATIVE_TOL * largest]
            if not active.size:
                break
    return shifted(codes, exponent)


# -- the estimator -------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class MultilayerNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Parts of parts: non-negative matrix factorization with components that are products of sparse factors.

    Samples are sums of components with non-negative codes, as in scikit-learn's ``NMF``. Components are sums of
    smaller parts, these of even smaller ones, level by level (Lyu and Wang, 2013):

        Xᵀ ≈ S₁S₂…S_L · codesᵀ,  all entries non-negative.

    Parameters
    ----------
    n_components : int, optional
        The number of components. By default the last of ``ranks``, or the number of features.
    ranks : sequence of int, optional
        The numbers of parts at each level, from the smallest parts, which are made of features, to the components;
        the last one is ``n_components``. By default there is one level, as in NMF.
    sparsity : int, Constraint or sequence, optional
        The largest number of entries per column of each factor: how many features a part has, and how many parts
        the next one. One for all factors, or one for each level; None is no limit. See `nonnegative_chain`.
    loss : {"frobenius", "kullback-leibler"}
        The loss to minimise: half the squared error, or the divergence, for counts.
    init : sequence of matrices, optional
        The first factors S₁, …, S_L, and the transposed codes. By default random.
    n_init : int, optional
        The number of random starts; by default 1, and up to 8 with ``sparsity``.
    max_iter : int, default=500
        The largest number of iterations, in `fit` and for codes.
    tol : float, default=1e-6
        Stop when the error changes by less from one iteration to the next.
    random_state : int, RandomState, Generator or None
        The source of the random starts.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration of `fit`; a true result stops it.

    Attributes
    ----------
    components_ : (n_components, n_features) array
        The components, whose entries sum to one, or are all zero.
    operator_ : SparseProduct
        The same as factors, (n_features, n_components), with one component per column.
    n_components_ : int
        The number of components.
    reconstruction_err_ : float
        ‖X − codes @ components_‖ for the Frobenius loss, and √(2·divergence) for the other, as in ``NMF``.
    n_iter_ : int
        Iterations.
    history_ : History
        The error after each iteration; it never rises.
    status_ : Status
        Why the iterations ended.

    See Also
    --------
    papilio.nonnegative.nonnegative_chain : The same for a matrix, with all factors, the codes among them.
    sklearn.decomposition.NMF : One level.

    Notes
    -----
    ``fit_transform(X)`` is ``fit(X).transform(X)``: with the components fixed, codes are the solution of a convex
    problem, so they are at least as good as those at the end of `fit`. Sparse X is made dense.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> rng = np.random.default_rng(0)
    >>> parts = np.kron(np.eye(4), [1, 1])  # two features each
    >>> X = rng.random((40, 2)) @ [[1, 1, 0, 0], [0, 0, 1, 1]] @ parts
    >>> model = pp.nonnegative.MultilayerNMF(ranks=(4, 2), sparsity=2, random_state=0).fit(X)
    >>> model.components_.shape, len(model.operator_.factors), bool(model.reconstruction_err_ < 1e-3)
    ((2, 8), 2, True)
    """

    n_components: int | None = None
    _: KW_ONLY
    ranks: Sequence[int] | None = None
    sparsity: int | Constraint | Sequence[int | Constraint | None] | None = None
    loss: str = "frobenius"
    init: Sequence[MatrixLike] | None = None
    n_init: int | None = None
    max_iter: int = 500
    tol: float = 1e-6
    random_state: RandomState = None
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the components.

        Parameters
        ----------
        X : (n_samples, n_features) array
            Non-negative, dense or sparse.
        y : object, optional
            Ignored.

        Returns
        -------
        self
        """
        X = self._validated(X, reset=True)
        ranks = self._ranks(X.shape[1])
        sparsity: Any = self.sparsity
        if sparsity is not None:
            # The codes, the last factor, have no limit.
            given = list(sparsity) if is_series(sparsity) else [sparsity] * len(ranks)
            if len(given) != len(ranks):
                raise ValueError(
                    f"sparsity must have one member for each of the {len(ranks)} levels, got {len(given)}"
                )
            sparsity = [*given, None]
        fit = nonnegative_chain(
            X.T,
            ranks,
            sparsity=sparsity,
            loss=self.loss,
            init=self.init,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            callback=self.callback,
            random_state=self.random_state,
        )
        self.operator_ = SparseProduct(fit.operator.factors[:-1])
        self.components_ = np.ascontiguousarray(self.operator_.toarray().T)
        self.n_components_ = ranks[-1]
        self.reconstruction_err_ = float(np.sqrt(2 * fit.objective))
        self.n_iter_, self.history_, self.status_ = fit.n_iter, fit.history, fit.status
        if fit.status is Status.MAX_ITER and self.tol != 0:
            warnings.warn(
                "the limit on the number of iterations was reached before the error settled: "
                "increase max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: Any) -> Array:
        """The non-negative codes of samples that minimise the loss, each sample by itself.

        Parameters
        ----------
        X : (n_samples, n_features) array
            Non-negative, dense or sparse.

        Returns
        -------
        (n_samples, n_components) array
            The codes.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        max_iter = as_integer("max_iter", self.max_iter, 1)
        solve = least_squares_codes if self.loss == LOSSES[0] else divergence_codes
        return solve(X, self.components_, max_iter).astype(X.dtype)

    def inverse_transform(self, X: Any) -> Array:
        """Samples from their codes: X @ components_, by the factors.

        Parameters
        ----------
        X : (n_samples, n_components) array
            The codes, dense or sparse.

        Returns
        -------
        (n_samples, n_features) array
            The samples.
        """
        check_is_fitted(self)
        codes = check_array(
            as_array("X", X) if sp.issparse(X) else X, dtype=[np.float64, np.float32], input_name="X"
        )
        if codes.shape[1] != self.n_components_:
            raise ValueError(f"X must have {self.n_components_} columns, one per component, got {codes.shape[1]}")
        return np.ascontiguousarray((self.operator_ @ codes.T).T)

    def _ranks(self, n_features: int) -> list[int]:
        if self.ranks is None:
            return [n_features if self.n_components is None else as_integer("n_components", self.n_components, 1)]
        ranks = as_ranks("ranks", self.ranks)
        if self.n_components is not None and as_integer("n_components", self.n_components, 1) != ranks[-1]:
            raise ValueError(f"n_components must be the last of ranks, {ranks[-1]}, got {self.n_components}")
        return ranks

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _validated(self, X: Any, reset: bool) -> Array:
        X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], accept_sparse=("csr", "csc"))
        check_non_negative(X, "MultilayerNMF (input X)")
        return as_array("X", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
