"""The sparse matrix transform as an estimator of covariances."""

from typing import Any, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.model_selection import BaseCrossValidator, KFold, check_cv
from sklearn.utils.validation import validate_data

from ..linalg import in_units, shifted
from ..rotations.chain import Chain
from ..rotations.covariance import Choice, Shrinkage, choose, most_correlated
from ..typing import Array
from ..validation import as_flag, as_integer, as_real

_FOLDS = 10


class SparseMatrixTransform(EmpiricalCovariance):  # type: ignore[misc]
    """A covariance from few samples, U Λ Uᵀ, where U is a product of rotations (Cao, Bachega and Bouman, 2011).

    Each rotation takes the pair of coordinates with the largest |correlation|, and makes it zero. Few rotations
    leave a well conditioned estimate, also from fewer samples than variables, for which the sample covariance is
    singular. The variances λ of the coordinates are shrunk towards their mean μ, to

        scale · ((1 − shrinkage) μ (λ/μ)^exponent + shrinkage · μ).

    The number of rotations, the shrinkage, the exponent and the scale are those with the largest Gaussian
    log-likelihood of samples that are held out, in cross-validation.

    Parameters
    ----------
    n_rotations : int or "cv"
        The number of rotations; fewer, if nothing is correlated any more. "cv" chooses it, from 0 to the number of
        pairs, and at most 32 per variable.
    shrinkage : float or "cv"
        The share of the mean variance, from 0, which is the method as published, to 1. Exponent and scale are 1
        then. "cv" chooses all three.
    cv : int, splitter of scikit-learn or None
        The folds of the cross-validation. None are ten, or as many as samples if there are fewer.
    store_precision : bool
        Whether to store ``precision_``.
    assume_centered : bool
        Whether the mean of each variable is known to be zero. Otherwise it is taken off.

    Attributes
    ----------
    covariance_ : (n_features, n_features) array
        The estimate, U diag(eigenvalues_) Uᵀ.
    precision_ : (n_features, n_features) array
        Its inverse; only with ``store_precision``.
    location_ : (n_features,) array
        The mean of each variable; zero with ``assume_centered``.
    operator_ : SparseProduct
        U, the eigenvectors of the estimate as a fast transform, one per column.
    eigenvalues_ : (n_features,) array
        The eigenvalues of the estimate, descending; at least 10⁻¹⁰ of their mean before shrinkage.
    n_rotations_ : int
        The number of rotations.
    shrinkage_, exponent_, scale_ : float
        How the variances were shrunk.
    log_likelihoods_ : (n + 1,) array
        The cross-validated log-likelihood per sample after 0 to n rotations, each with its best shrinkage, of all
        variables that are not constant; empty if nothing was chosen.

    See Also
    --------
    papilio.Treelets : The same rotations as a tree.
    papilio.fast_eigenbasis : A fast eigenbasis of a matrix that is known.

    Notes
    -----
    Correlations do not depend on the units of variables, but shrinkage towards the mean variance does: scale
    variables that are not comparable. One greedy run per fold gives the likelihood of all numbers of rotations,
    for a rotation changes two of the variances alone.

    In samples with heavy tails, such as patches of images, few samples have most of the variance; then an exponent
    below one and a scale other than one have a larger likelihood than shrinkage alone.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> X = pp.datasets.image_patches(64, random_state=0)
    >>> model = pp.SparseMatrixTransform().fit(X[:32])
    >>> model.operator_.shape, bool(model.eigenvalues_.min() > 0)
    ((64, 64), True)
    >>> print(f"{model.score(X[32:]) > pp.SparseMatrixTransform(0, shrinkage=0).fit(X[:32]).score(X[32:])}")
    True
    """

    def __init__(
        self,
        n_rotations: int | str = "cv",
        *,
        shrinkage: float | str = "cv",
        cv: int | BaseCrossValidator | None = None,
        store_precision: bool = True,
        assume_centered: bool = False,
    ) -> None:
        super().__init__(store_precision=store_precision, assume_centered=assume_centered)
        self.n_rotations = n_rotations
        self.shrinkage = shrinkage
        self.cv = cv

    def fit(self, X: Any, y: Any = None) -> Self:
        """Estimate the covariance.

        Parameters
        ----------
        X : (n_samples, n_features) array
            At least two samples.
        y : object, optional
            Ignored.

        Returns
        -------
        self
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        n_rotations = None if _is_cv(self.n_rotations) else as_integer("n_rotations", self.n_rotations, 0)
        share = None if _is_cv(self.shrinkage) else as_real("shrinkage", self.shrinkage, 0.0, 1.0)
        is_centered = as_flag("assume_centered", self.assume_centered)
        rows, exponent = in_units(X.astype(np.float64))
        mean = np.zeros(X.shape[1]) if is_centered else rows.mean(axis=0)
        centered = np.ascontiguousarray((rows - mean).T)
        # A variable without variance says nothing, and would have an infinite likelihood.
        is_varying = (rows != (0 if is_centered else rows[0])).any(axis=0)
        choice = Choice(n_rotations or 0, Shrinkage(1.0 if share is None else share), np.empty(0))
        if (n_rotations is None or share is None) and is_varying.any():
            signals = np.ascontiguousarray(rows.T[is_varying])
            choice = choose(signals, self._splits(X), n_rotations, share, is_centered)
        chain = most_correlated(centered @ centered.T / len(X), choice.n_rotations)
        self._store(centered, chain, choice, exponent, X.dtype)
        self.location_ = shifted(mean, exponent).astype(X.dtype)
        unit = np.count_nonzero(is_varying) * exponent * np.log(2)
        self.log_likelihoods_ = choice.log_likelihoods - unit
        return self

    def _splits(self, X: Array) -> list[tuple[Array, Array]]:
        folds = KFold(min(_FOLDS, len(X))) if self.cv is None else check_cv(self.cv)
        return list(folds.split(X))

    def _store(self, signals: Array, chain: Chain, choice: Choice, exponent: int, dtype: Any) -> None:
        variances = np.square(chain.apply(signals, inverse=True)).mean(axis=1)
        shrunk = choice.shrinkage.apply(variances)
        order = np.argsort(-shrunk, kind="stable")
        basis = chain.apply(np.eye(chain.size))[:, order]
        eigenvalues = shifted(shrunk[order], 2 * exponent)
        self.eigenvalues_ = eigenvalues.astype(dtype)
        self.operator_ = chain.as_product(dtype, order, is_short=True)
        self.covariance_ = ((basis * eigenvalues) @ basis.T).astype(dtype)
        inverse = np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=eigenvalues > 0)
        self.precision_ = ((basis * inverse) @ basis.T).astype(dtype) if self.store_precision else None
        self.n_rotations_ = len(chain.pairs)
        self.shrinkage_, self.exponent_, self.scale_ = choice.shrinkage


def _is_cv(value: Any) -> bool:
    return isinstance(value, str) and value == "cv"
