"""Treelets: rotations that merge the most correlated variables, two at a time, into a tree."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernels.givens import CORRELATION
from ..linalg import in_units, shifted
from ..typing import Array, ArrayLike
from ..validation import as_flag, as_integer
from .chain import Chain
from .growth import Growth


class Tree(NamedTuple):
    """Merges from the leaves upwards, fewer than variables; the basis of level l is G₁…G_l."""

    chain: Chain  # one rotation per level
    merges: Array  # (n_levels, 2), the variable that stays as the sum, and the difference, which retires
    correlations: Array  # (n_levels,), of the two before the rotation, from −1 to 1
    variances: Array  # (n_levels, 2), of the two after the rotation
    leaves: Array  # (p,), the variances before any rotation

    def energies(self, n_components: int) -> Array:
        """The share of the total variance in the ``n_components`` largest coordinates of each level, from 0."""
        total = self.leaves.sum()
        if not total or n_components == len(self.leaves):
            return np.ones(len(self.merges) + 1)
        energies = np.empty(len(self.merges) + 1)
        for level in range(len(energies)):
            energies[level] = np.partition(self.at_level(level), -n_components)[-n_components:].sum() / total
        return energies

    def at_level(self, level: int) -> Array:
        """The variances of all coordinates at a level."""
        variances = self.leaves.copy()
        # A coordinate is written by its last merge: assignment with repeated indices keeps the last value.
        variances[self.merges[:level].ravel()] = self.variances[:level].ravel()
        return variances

    def basis(self, level: int) -> Chain:
        """The rotations up to a level."""
        return Chain(self.chain.size, self.chain.pairs[:level], self.chain.blocks[:level])


def grow_tree(covariance: Array, n_levels: int) -> Tree:
    """Merge the two variables with the largest |correlation|, again and again (Lee, Nadler, Wasserman, 2008).

    The Jacobi rotation of the two makes them uncorrelated. The one with the lower variance is then the difference,
    which retires; the other, the sum, may be merged again. The tree ends early, as a forest, if no remaining
    variables are correlated beyond rounding. A variable without variance is never merged.
    """
    leaves = np.array(covariance.diagonal())
    growth = Growth(CORRELATION, covariance.copy(), width=1)
    merges, correlations, variances = [], [], []
    before = leaves.copy()
    while growth.count < n_levels:
        if not growth.add(1):
            break
        pair, block = growth.last()
        after = growth.matrix.diagonal()[pair]
        # The rotation made the covariance of the pair zero: it was an entry of G·diag(after)·Gᵀ.
        covaried = block[0] @ (after * block[1])
        correlations.append(covaried / np.sqrt(before[pair[0]] * before[pair[1]]))
        order = [0, 1] if after[0] >= after[1] else [1, 0]
        merges.append(pair[order])
        variances.append(after[order])
        before[pair] = after
        growth.retire(int(pair[order[1]]))
    return Tree(
        growth.chain(),
        np.array(merges, np.int64).reshape(-1, 2),
        np.clip(np.array(correlations, np.float64), -1, 1),
        np.array(variances, np.float64).reshape(-1, 2),
        leaves,
    )


# -- the estimator -------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Treelets(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A multiscale orthonormal basis from data, and a tree of their variables (Lee, Nadler and Wasserman, 2008).

    At each level the two variables with the largest |correlation| are merged: a rotation, by the angle of Jacobi's
    method, replaces them by two uncorrelated coordinates. The one with the lower variance is their difference,
    which is not rotated again. The other is their sum, and may be merged again. The basis of level l is the
    product of the first l rotations. Its vectors are sums and differences of groups of variables, and zero
    elsewhere.

    The best basis of K vectors is that of the level at which the K coordinates with the highest variances have the
    most energy: the largest share of the sum of all variances.

    Parameters
    ----------
    n_components : int, optional
        K. By default all vectors of the last level.
    n_levels : int, optional
        The largest number of merges, by default n_features − 1. There are fewer if no remaining variables are
        correlated.
    assume_centered : bool
        Whether the mean of each variable is known to be zero; otherwise it is subtracted.

    Attributes
    ----------
    components_ : (n_components, n_features) array
        The basis vectors, one per row, by descending energy.
    operator_ : SparseProduct
        The same as a fast transform, (n_features, n_components): one basis vector per column. Several layers of
        rotations are one factor where that takes fewer entries.
    energies_ : (n_components,) array
        The energy of each component: its share of the sum of all variances.
    level_ : int
        The level of the basis: how many merges it has.
    level_energies_ : (n_levels + 1,) array
        The energy of the best K coordinates of each level, from level 0, which has the variables themselves.
    merges_ : (n_levels, 2) array
        The tree: the two variables that were merged at each level, first the one that stays as the sum.
    correlations_ : (n_levels,) array
        The correlations of the two before they were merged.
    mean_ : (n_features,) array
        The mean of each variable; zero with ``assume_centered``.

    See Also
    --------
    papilio.rotations.SparseMatrixTransform : The same rotations without a tree, for an estimate of the covariance.
    papilio.plot.treelets : The tree and its basis vectors as a figure.

    Notes
    -----
    Correlations do not depend on the units of the variables, but variances, and so angles and energies, do: scale
    variables that are not comparable. Memory and time grow with the square of the number of variables.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(rng.standard_normal((50, 2)), 3, axis=1) + 0.1 * rng.standard_normal((50, 6))
    >>> model = pp.rotations.Treelets(n_components=2).fit(X)
    >>> model.groups(model.level_)
    array([0, 0, 0, 1, 1, 1])
    >>> np.abs(model.components_).round(1)
    array([[0. , 0. , 0. , 0.6, 0.6, 0.6],
           [0.6, 0.6, 0.6, 0. , 0. , 0. ]])
    """

    n_components: int | None = None
    _: KW_ONLY
    n_levels: int | None = None
    assume_centered: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Build the tree, and choose the level.

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
        X = self._validated(X, reset=True)
        n_features = X.shape[1]
        n_levels, n_components = n_features - 1, n_features
        if self.n_levels is not None:
            n_levels = as_integer("n_levels", self.n_levels, 0, n_features - 1)
        if self.n_components is not None:
            n_components = as_integer("n_components", self.n_components, 1, n_features)
        rows, exponent = in_units(X.astype(np.float64))
        mean = np.zeros(n_features) if as_flag("assume_centered", self.assume_centered) else rows.mean(axis=0)
        rows = rows - mean
        tree = grow_tree(rows.T @ rows / len(rows), n_levels)

        self.level_energies_ = tree.energies(n_components)
        is_chosen = n_components < n_features
        self.level_ = int(self.level_energies_.argmax()) if is_chosen else len(tree.merges)
        variances = tree.at_level(self.level_)
        order = np.argsort(-variances, kind="stable")[:n_components]
        self.operator_ = tree.basis(self.level_).as_product(X.dtype, order, is_short=True)
        self.components_ = np.ascontiguousarray(self.operator_.toarray().T)
        self.energies_ = variances[order] / (variances.sum() or 1.0)
        self.merges_, self.correlations_ = tree.merges, tree.correlations
        self.mean_ = shifted(mean, exponent).astype(X.dtype)
        return self

    def transform(self, X: Any) -> Array:
        """The coordinates of samples in the basis, (X − mean_) @ components_.T, by the fast transform.

        Parameters
        ----------
        X : (n_samples, n_features) array
            The samples.

        Returns
        -------
        (n_samples, n_components) array
            The coordinates.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        return np.ascontiguousarray((self.operator_.T @ (X - self.mean_).T).T)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Samples from their coordinates: X @ components_ + mean_.

        Parameters
        ----------
        X : (n_samples, n_components) array
            The coordinates.

        Returns
        -------
        (n_samples, n_features) array
            The samples; with fewer components than features, their projections.
        """
        check_is_fitted(self)
        coordinates = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        n_components = self.operator_.shape[1]
        if coordinates.shape[1] != n_components:
            raise ValueError(f"X must have {n_components} columns, one per component, got {coordinates.shape[1]}")
        return (self.operator_ @ coordinates.T).T + self.mean_

    def groups(self, level: int) -> Array:
        """The groups of variables that are merged at a level, as labels.

        Parameters
        ----------
        level : int
            How many merges, from 0, where each variable is a group of its own, to the number of ``merges_``.

        Returns
        -------
        (n_features,) array of int
            The group of each variable: 0, 1, … in the order in which groups appear.
        """
        check_is_fitted(self)
        level = as_integer("level", level, 0, len(self.merges_))
        label = np.arange(self.n_features_in_)
        for total, difference in self.merges_[:level]:
            label[label == label[difference]] = label[total]
        _, first, of = np.unique(label, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[of]

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _validated(self, X: Any, reset: bool) -> Array:
        least = 2 if reset else 1
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
