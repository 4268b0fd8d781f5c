"""The sparse matrix transform: a covariance UΛUᵀ where U is a chain of rotations (Cao, Bachega, Bouman, 2011)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.model_selection import BaseCrossValidator, KFold, check_cv
from sklearn.utils.validation import validate_data

from ..kernels.givens import CORRELATION, gaussian_path, rotated_energies
from ..linalg import in_units, shifted
from ..typing import Array
from ..validation import as_flag, as_integer, as_real
from .chain import Chain
from .growth import Growth

FLOOR = 1e-10  # the least variance of a coordinate, relative to the mean variance
_ROTATIONS_PER_CALL = 256  # Ctrl-C works between calls
_ROTATIONS_PER_VARIABLE = 32  # Largest number that is tried.
_EXPONENTS = 0.6, 0.7, 0.8, 0.9, 1.0
# a/(1 − a) from 10⁻⁴ to 10², six per decade
_SHARES = (0.0, *(ratio / (1 + ratio) for ratio in np.geomspace(1e-4, 1e2, 37).tolist()))


class Shrinkage(NamedTuple):
    """Variances λ drawn towards their mean μ: scale · ((1 − share) μ (λ/μ)^exponent + share · μ)."""

    share: float
    exponent: float = 1.0
    scale: float = 1.0

    def apply(self, variances: Array) -> Array:
        mean = variances.mean()
        return self.scale * ((1 - self.share) * powers(variances, mean, self.exponent) + self.share * mean)


class Choice(NamedTuple):
    """How many rotations, and the shrinkage of their variances."""

    n_rotations: int
    shrinkage: Shrinkage
    log_likelihoods: Array  # per held-out sample after 0, 1, 2, … rotations, each with its best shrinkage


def powers(variances: Array, mean: float, exponent: float) -> Array:
    """μ (λ/μ)^exponent, where λ is at least `FLOOR` of the mean μ."""
    least = np.maximum(variances, FLOOR * mean)
    return least if exponent == 1 or not mean else mean * (least / mean) ** exponent


def most_rotations(n_variables: int) -> int:
    """The number of pairs, but at most 32 rotations per variable."""
    return min(n_variables * (n_variables - 1) // 2, _ROTATIONS_PER_VARIABLE * n_variables)


def most_correlated(covariance: Array, n_rotations: int) -> Chain:
    """Add rotations that each make the largest |correlation| zero; stop early if none is left."""
    growth = Growth(CORRELATION, covariance.copy(), width=1)
    while growth.count < n_rotations:
        count = min(_ROTATIONS_PER_CALL, n_rotations - growth.count)
        if growth.add_in_turn(count) < count:
            break
    return growth.chain()


def choose(
    signals: Array,
    splits: Sequence[tuple[Array, Array]],
    n_rotations: int | None,
    share: float | None,
    is_centered: bool,
) -> Choice:
    """The number of rotations and the shrinkage with the largest cross-validated Gaussian likelihood.

    Signals are columns; ``splits`` are the indices of those to learn from and of those that are held out. A given
    number or share is kept; with a given share, exponent and scale are 1.
    """
    size = len(signals)
    shares, exponents = (np.array(_SHARES), _EXPONENTS) if share is None else (np.array([share]), (1.0,))
    most = most_rotations(size) if n_rotations is None else n_rotations
    sums, total = np.zeros((2, len(exponents), len(shares), most + 1)), 0
    for inside, outside in splits:
        mean = 0.0 if is_centered else signals[:, inside].mean(axis=1, keepdims=True)
        learned, held = (np.ascontiguousarray(signals[:, part] - mean) for part in (inside, outside))
        if learned.any():
            sums += len(outside) * _path(learned, held, shares, exponents, most)
            total += len(outside)
    if not total:
        return Choice(n_rotations or 0, Shrinkage(1.0 if share is None else share), np.empty(0))
    logs, forms = sums / total
    scales = forms / size if share is None else np.ones_like(forms)
    losses = size * np.log(2 * np.pi * scales) + logs + forms / scales
    first = 0 if n_rotations is None else most
    e, a, k = np.unravel_index(losses[..., first:].argmin(), losses[..., first:].shape)
    shrinkage = Shrinkage(float(shares[a]), exponents[e], float(scales[e, a, first + k]))
    return Choice(first + int(k), shrinkage, -losses.min(axis=(0, 1)) / 2)


def _path(learned: Array, held: Array, shares: Array, exponents: Sequence[float], most: int) -> Array:
    """Σ log f and Σ h/f of held-out signals after 0 to ``most`` rotations, for each exponent and share."""
    chain = most_correlated(learned @ learned.T / learned.shape[1], most)
    variances, energies = (np.square(signals).mean(axis=1) for signals in (learned, held))
    mean = variances.mean()
    inside, outside = (np.empty(chain.pairs.shape) for _ in range(2))
    rotated_energies(learned, chain.pairs, chain.blocks, inside)
    rotated_energies(held, chain.pairs, chain.blocks, outside)
    sums = np.empty((2, len(exponents), len(shares), len(chain.pairs) + 1))
    for e, exponent in enumerate(exponents):
        before, after = (powers(values, mean, exponent) for values in (variances, inside))
        gaussian_path(before, energies, chain.pairs, after, outside, shares, mean, sums[0, e], sums[1, e])
    # If the rotations end early because no correlation is left, the path stays at its last value.
    return sums[..., np.minimum(np.arange(most + 1), len(chain.pairs))]


# -- the estimator -------------------------------------------------------------------------------------


_FOLDS = 10


class SparseMatrixTransform(EmpiricalCovariance):  # type: ignore[misc]
    """A covariance from few samples, U Λ Uᵀ, where U is a product of rotations (Cao, Bachega and Bouman, 2011).

    Each rotation makes the largest |correlation| of two coordinates zero. After few rotations the estimate is well
    conditioned, even from fewer samples than variables, whose sample covariance is singular. The variances λ of
    the coordinates are shrunk towards their mean μ, to

        scale · ((1 − shrinkage) μ (λ/μ)^exponent + shrinkage · μ).

    The number of rotations, the shrinkage, the exponent and the scale are those with the largest Gaussian
    log-likelihood of samples that are held out, in cross-validation.

    Parameters
    ----------
    n_rotations : int or "cv"
        The number of rotations; there are fewer if no correlation is left. "cv" chooses it, from 0 to the number
        of pairs, and at most 32 per variable.
    shrinkage : float or "cv"
        The share of the mean variance, from 0, as in the paper, to 1; exponent and scale are then 1. "cv" chooses
        all three.
    cv : int, splitter of scikit-learn or None
        The folds of the cross-validation; None is ten, or the number of samples if it is smaller.
    store_precision : bool
        Whether to store ``precision_``.
    assume_centered : bool
        Whether the mean of each variable is known to be zero; otherwise it is subtracted.

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
    papilio.rotations.Treelets : The same rotations as a tree.
    papilio.rotations.fast_eigenbasis : A fast eigenbasis of a matrix that is known.

    Notes
    -----
    Correlations do not depend on the units of variables, but shrinkage towards the mean variance does: scale
    variables that are not comparable. One greedy run per fold gives the likelihood of all numbers of rotations,
    for a rotation changes two of the variances alone.

    If samples have heavy tails, such as patches of images, a few of them have most of the variance; an exponent
    below one and a scale other than one then have a larger likelihood than shrinkage alone.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> X = pp.datasets.image_patches(64, random_state=0)
    >>> model = pp.rotations.SparseMatrixTransform().fit(X[:32])
    >>> model.operator_.shape, bool(model.eigenvalues_.min() > 0)
    ((64, 64), True)
    >>> diagonal = pp.rotations.SparseMatrixTransform(0, shrinkage=0).fit(X[:32])
    >>> bool(model.score(X[32:]) > diagonal.score(X[32:]))
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
