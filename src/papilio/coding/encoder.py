"""Learned encoders: a few layers of an iterative method with trained numbers, on NumPy and fast products."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..operators import SparseProduct
from ..results import Callback
from ..runtime.session import Session
from ..solvers.hierarchical import hierarchical
from ..solvers.schedule import Schedule
from ..typing import Array, ArrayLike, MatrixLike, RandomState
from ..validation import as_array, as_choice, as_integer, as_real
from .atoms import as_dictionary
from .basis_pursuit import as_alpha

_AT_ONCE = 1 << 20  # coefficients of a block of signals
_LEAST_SIDE, _BLOCK = 64, 4  # Products of at least this side have blocks.


# -- layers -------------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """z ← h(y + step·Wᵀ(x − By)) with y = z + momentum·(z − z₋), where z₋ is what z was one layer before."""

    synthesis: Array | SparseProduct  # B, (d, a)
    analysis: Array | SparseProduct  # W, (d, a)
    step: float
    momentum: float
    thresholds: Array  # one per group

    def astype(self, dtype: Any) -> "Layer":
        """In another precision."""
        same = self.synthesis is self.analysis
        synthesis = self.synthesis.astype(dtype)
        analysis = synthesis if same else self.analysis.astype(dtype)
        return self._replace(synthesis=synthesis, analysis=analysis, thresholds=self.thresholds.astype(dtype))


class Groups:
    """The groups of a penalty Σ_g ‖γ_g‖₂, by a label per atom; each atom is one of its own for the ℓ1 norm."""

    def __init__(self, labels: Array) -> None:
        self.labels = np.unique(labels, return_inverse=True)[1].ravel()
        self.count = int(self.labels.max()) + 1
        self.are_atoms = self.count == len(self.labels)
        if self.are_atoms:
            self.labels = np.arange(self.count)
        entries = np.ones(len(self.labels)), (self.labels, np.arange(len(self.labels)))
        self._members = sp.csr_array(entries, shape=(self.count, len(self.labels)))

    def norms(self, codes: Array) -> Array:
        """‖γ_g‖₂ of each code, one per column."""
        if self.are_atoms:
            return np.abs(codes)
        return np.sqrt(self._members.astype(codes.dtype) @ (codes * codes))

    def shrink(self, codes: Array, thresholds: Array) -> Array:
        """The minimum of ½‖γ − u‖² + Σ_g θ_g‖γ_g‖₂ for each u, one per column, in its place."""
        if self.are_atoms:
            codes -= np.clip(codes, -thresholds[:, None], thresholds[:, None])
            return codes
        norms = self.norms(codes)
        np.maximum(norms, np.finfo(codes.dtype).tiny, out=norms)
        factors = np.maximum(1 - thresholds[:, None] / norms, 0)
        codes *= factors[self.labels]
        return codes


def fista_layers(
    matrix: Array | SparseProduct, norm: float, n_layers: int, alpha: float, groups: Groups
) -> list[Layer]:
    """The first iterations of FISTA: steps 1/L, where ``norm`` is √L, and Nesterov's momenta."""
    step, layers = 1 / norm**2 if norm > 0 else 1.0, []
    before, t = 1.0, 1.0
    for _ in range(n_layers):
        layers.append(Layer(matrix, matrix, step, (before - 1) / t, np.full(groups.count, step * alpha)))
        before, t = t, (1 + np.sqrt(1 + 4 * t * t)) / 2
    return layers


def objectives(
    dictionary: Array | SparseProduct, signals: Array, codes: Array, alpha: float, groups: Groups
) -> Array:
    """½‖x − Dγ‖² + alpha·Σ_g ‖γ_g‖₂ of each signal, one per column."""
    left = signals - dictionary @ codes
    return 0.5 * (left * left).sum(axis=0) + alpha * groups.norms(codes).sum(axis=0)


def encode(layers: list[Layer], signals: Array, groups: Groups) -> Array:
    """The codes of signals, one per column, after all layers; they come in the dtype of the signals."""
    layers = [layer.astype(signals.dtype) for layer in layers]
    n_atoms, count = layers[0].synthesis.shape[1], signals.shape[1]
    codes = np.empty((count, n_atoms), signals.dtype)
    width = max(_AT_ONCE // n_atoms, 1)
    for start in range(0, count, width):
        codes[start : start + width] = _pass(layers, signals[:, start : start + width], groups).T
    return codes.T


def _pass(layers: list[Layer], signals: Array, groups: Groups) -> Array:
    x = np.ascontiguousarray(signals)  # row-major blocks are the fastest for products
    before = z = None
    for layer in layers:
        if z is None:
            u = layer.analysis.T @ x
            u *= u.dtype.type(layer.step)
        else:
            y = z
            if before is not None and layer.momentum != 0:
                y = z - before
                y *= y.dtype.type(layer.momentum)
                y += z
            elif layer.momentum != 0:
                y = z * z.dtype.type(1 + layer.momentum)
            left = layer.synthesis @ y
            np.subtract(x, left, out=left)
            u = layer.analysis.T @ left
            u *= u.dtype.type(layer.step)
            u += y
        before, z = z, groups.shrink(u, layer.thresholds)
    assert z is not None
    return z


# -- the estimator ------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class LearnedEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Approximate codes with an ℓ1 or group penalty, by a few trained layers: LISTA.

    The codes of x minimise ½‖x − Dγ‖² + alpha·‖γ‖₁, or with groups ½‖x − Dγ‖² + alpha·Σ_g ‖γ_g‖₂. Iterative
    methods take many steps to them. Here a layer is one step,

        y = z + m·(z − z₋),    z ← h(y + s·Wᵀ(x − By)),

    where z₋ is what z was a layer before and h is the soft threshold of the penalty, and `fit` trains the numbers
    in a fixed number of layers so that the mean objective after the last one is low (Gregor and LeCun, 2010).
    Training needs PyTorch, the extra ``torch``; `transform` does not.

    Parameters
    ----------
    dictionary : (n_features, n_components) matrix or SparseProduct, optional
        D, one atom per column, real. By default K-SVD learns as many atoms as features. The layers apply a
        `SparseProduct` by its fast transform.
    n_layers : int
        The number of layers.
    alpha : float
        The penalty, above 0, as in `papilio.lasso`.
    penalty : {"l1", "group"}
        The ℓ1 norm, or the sum of the ℓ2 norms of groups of coefficients (Sprechmann, Bronstein and Sapiro, 2012).
    groups : (n_components,) array, optional
        The label of each atom's group, for "group".
    learn : {"steps", "matrices"}
        What is trained: a step size s and a momentum m per layer, with W = B = D and thresholds s·alpha (Ablin et
        al., 2019, who have no momentum), which takes few samples; or the matrices W and B and the thresholds of
        each layer, too.
    complexity : float, optional
        Fast products in place of the layers' matrices: the largest relative complexity of each, from a
        factorization of D. The objective is still that of D. By default D itself is used.
    max_iter : int
        The largest number of passes over the samples.
    tol : float
        Stop when the objective has not fallen by this share within ten passes; 0 never stops early.
    batch_size : int
        Samples per step of Adam.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each pass; a true result stops training. Its ``error`` is the
        objective relative to that of empty codes, Σ ½‖x‖². ``callback=print`` writes a line for each.

    Attributes
    ----------
    operator_ : SparseProduct
        The dictionary D, (n_features, n_components).
    layers_ : list
        ``synthesis`` (B), ``analysis`` (W), ``step`` (s), ``momentum`` (m) and ``thresholds`` of each layer.
    history_ : History
        Relative objective, phase and seconds of each pass.
    status_ : Status
        Why training ended.
    n_iter_ : int
        The number of passes.

    See Also
    --------
    papilio.lasso : The exact codes.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> D = pp.KSVD(n_nonzero_coefs=5, max_iter=5, tol=0, random_state=0).fit(X).operator_
    >>> encoder = pp.coding.LearnedEncoder(D, n_layers=3, alpha=0.1, max_iter=5, random_state=0)
    >>> encoder.fit(X).transform(X).shape  # doctest: +SKIP
    (500, 32)
    """

    dictionary: MatrixLike | SparseProduct | None = None
    n_layers: int = 5
    _: KW_ONLY
    alpha: float = 1.0
    penalty: str = "l1"
    groups: ArrayLike | None = None
    learn: str = "steps"
    complexity: float | None = None
    max_iter: int = 50
    tol: float = 1e-4
    batch_size: int = 256
    random_state: RandomState = None
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train the layers.

        Parameters
        ----------
        X : (n_samples, n_features) array
            Samples like those to encode, in the same units.
        y : object, optional
            Ignored.

        Returns
        -------
        self
        """
        from .training import Training, require_torch, train

        require_torch()
        rows = validate_data(self, X, dtype=[np.float64, np.float32])
        n_layers, alpha = as_integer("n_layers", self.n_layers, 1, 1000), as_alpha("alpha", self.alpha)
        max_iter, tol = as_integer("max_iter", self.max_iter, 1), as_real("tol", self.tol, 0.0)
        batch_size = as_integer("batch_size", self.batch_size, 1)
        matrices = as_choice("learn", self.learn, ("steps", "matrices")) == "matrices"
        with Session(self.callback, random_state=self.random_state) as session:
            dictionary = self._dictionary_for(rows, session)
            groups = self._groups_for(dictionary.shape[1])
            matrix = self._matrix_for(dictionary)
            training = Training(dictionary, alpha, groups, matrices, max_iter, tol, batch_size)
            start = fista_layers(matrix, _spectral_norm(matrix), n_layers, alpha, groups)
            self.layers_, self.status_ = train(start, rows, training, session)
        self.operator_ = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        self.history_ = session.history
        self.n_iter_ = len(self.history_)
        self._groups = groups
        return self

    def transform(self, X: Any) -> Array:
        """Codes of the samples, after all layers.

        Parameters
        ----------
        X : (n_samples, n_features) array

        Returns
        -------
        (n_samples, n_components) array
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return encode(self.layers_, rows.T, self._groups).T

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean objective of the codes of X.

        Parameters
        ----------
        X : (n_samples, n_features) array
        y : object, optional
            Ignored.

        Returns
        -------
        float
        """
        codes = self.transform(X)
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        operator = self.operator_.astype(np.result_type(rows, codes))
        return -float(objectives(operator, rows.T, codes.T, self.alpha, self._groups).mean())

    @property
    def _n_features_out(self) -> int:
        return self.operator_.shape[1]

    def _dictionary_for(self, rows: Array, session: Session) -> Array | SparseProduct:
        if self.dictionary is None:
            from ..dictionary.ksvd import ksvd

            return ksvd(rows.T, rows.shape[1], max_iter=20, tol=0, random_state=session.random).dictionary
        found = as_dictionary(self.dictionary)
        if found.dtype.kind == "c":
            raise ValueError(f"dictionary must be real, got {found.dtype}")
        if found.shape[0] != rows.shape[1]:
            raise ValueError(
                f"dictionary must have {rows.shape[1]} rows, one per feature of X, got {found.shape[0]}"
            )
        return found

    def _groups_for(self, n_atoms: int) -> Groups:
        if as_choice("penalty", self.penalty, ("l1", "group")) == "l1":
            if self.groups is not None:
                raise ValueError("groups must not be given with penalty='l1': use penalty='group'")
            return Groups(np.arange(n_atoms))
        if self.groups is None:
            raise ValueError("groups must be given with penalty='group': one label per atom")
        labels = as_array("groups", self.groups)
        if labels.shape != (n_atoms,):
            raise ValueError(f"groups must have {n_atoms} labels, one per atom, got shape {labels.shape}")
        return Groups(labels)

    def _matrix_for(self, dictionary: Array | SparseProduct) -> Array | SparseProduct:
        """What the layers apply: the dictionary, or a product near it."""
        if self.complexity is None:
            if isinstance(dictionary, SparseProduct) and len(dictionary.factors) == 1:
                return dictionary.toarray()
            return dictionary
        dense = dictionary.toarray() if isinstance(dictionary, SparseProduct) else dictionary
        block = _BLOCK if min(dense.shape) >= _LEAST_SIDE else None
        schedule = Schedule.with_complexity(dense.shape, self.complexity, None, block)
        return hierarchical(dense, schedule, max_iter=100).operator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _spectral_norm(matrix: Array | SparseProduct) -> float:
    return (matrix if isinstance(matrix, SparseProduct) else SparseProduct([matrix])).norm(2)
