"""K-SVD, dense dictionaries learned from data, and Sparse K-SVD, whose atoms are sparse in a fast base."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.fft import idct

from .. import typing as types
from ..coding import Atoms, as_alpha, omp_codes
from ..kernels.atom_updates import descend_atoms, direction_of, exchange_atom, group_by_atom, update_atoms
from ..linalg import column_norms
from ..operators import SparseProduct
from ..results import Callback
from ..runtime.session import Session, Stage
from ..samples import Samples
from ..transforms import dct
from ..typing import Array, ArrayLike, MatrixLike, RandomState
from ..validation import as_choice, as_flag, as_integer, as_matrix
from .estimator import DictionaryEstimator
from .learner import (
    Alternation,
    LearnedDictionary,
    Model,
    PassesOverAll,
    Plan,
    as_limits,
    as_rows,
    as_sparsity,
    dense_plan,
    first_atoms,
    learn_rows,
    replace_bad_atoms,
)
from .signals import Coder, Signals, energies_of, moments_of_rows


def ksvd(
    signals: ArrayLike,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    fit_algorithm: str = "omp",
    alpha: float = 1.0,
    init: ArrayLike | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    plain: bool = False,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary by approximate K-SVD (Aharon 2006, Rubinstein 2008).

    Each iteration codes signals, by `omp` or `lasso`, and then updates one atom after the other together with its
    coefficients g, by one step of alternating least squares on the residuals E of the signals that use it,

        d = E gᴴ/‖E gᴴ‖,  g = dᴴE.

    With ``positive``, g = max(dᵀE, 0); with "lasso", g stays.

    Unless ``plain``, three things keep it out of poor local minima. Atoms that are rarely used, or nearly equal to
    another one, are replaced by the signals with the largest errors. Three quarters of the iterations work on two
    fifths of the signals, drawn again each time. And in the first half of the iterations, half as many atoms code
    each signal.

    Above 50,000 signals, or 200 per atom up to 100,000, the iterations see a random sample of this size; passes
    over all signals then improve the dictionary.

    Parameters
    ----------
    signals : (d, n) array
        X, one signal per column.
    n_components : int
        The number of atoms.
    n_nonzero_coefs : int, optional
        Atoms per signal; a tenth of d by default, at least one.
    fit_algorithm : {"omp", "lasso"}
        How signals are coded: by `omp`, or by `lasso`, with an ℓ1 penalty. Errors in the history are then the root
        of the objective ½‖x − Dγ‖² + alpha·‖γ‖₁, relative to that of empty codes.
    alpha : float
        The penalty of "lasso".
    init : (d, n_components) array, optional
        The first dictionary; by default different signals, drawn at random.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when the error has not fallen by this share within ten iterations; 0 never stops early.
    plain : bool
        Whether to run the algorithm as published: each iteration codes all signals with all their atoms, and only
        atoms that no signal uses are replaced.
    positive : bool
        Whether codes must not be negative, as in `omp`; the atoms may have any sign.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.

    Returns
    -------
    LearnedDictionary
        The best dictionary seen, an array with unit-norm atoms, and the codes of the signals in it.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> learned = pp.dictionary.ksvd(X, 32, 5, random_state=0)
    >>> bool(learned.history.error[-1] < 0.02)
    True
    """
    rows = as_rows(signals)
    n_components = as_integer("n_components", n_components, 1)
    coder = as_coder(n_nonzero_coefs, rows.shape[1], n_components, fit_algorithm, alpha, positive)
    plan = dense_plan(ksvd_start(max_iter, tol, plain, init), not plain)
    return learn_rows(rows, n_components, coder, plan, random_state, callback)


def ksvd_start(max_iter: int = 100, tol: float = 1e-4, plain: bool = False, init: Any = None) -> Any:
    """The iterations of `ksvd`, after checks: a function of the session, the signals and the number of atoms."""
    return partial(KSVDIterations, **as_limits(max_iter, tol), plain=as_flag("plain", plain), init=init)


def as_coder(
    n_nonzero_coefs: int | None,
    n_features: int,
    n_components: int,
    fit_algorithm: str = "omp",
    alpha: float = 1.0,
    positive: bool = False,
) -> Coder:
    """How signals are coded in learning, after checks."""
    is_lasso = as_choice("fit_algorithm", fit_algorithm, ("omp", "lasso")) == "lasso"
    count = as_sparsity(n_nonzero_coefs, n_features, n_components)
    return Coder(count, as_flag("positive", positive), as_alpha("alpha", alpha) if is_lasso else None)


class KSVDIterations(Alternation):
    """The iterations of `ksvd` on signals in memory."""

    name = "ksvd"

    def update(self, model: Model, rows: Array, codes: sp.csc_array, residuals: Array) -> None:
        positive, alpha = self.signals.coder.positive, self.signals.coder.alpha
        starts, entries, owners = uses_of(codes)
        if alpha is None:
            update_atoms(model["atoms"], residuals, codes.data, starts, entries, owners, positive)
        else:  # coefficients of least squares would grow beyond what the penalty allows
            descend_atoms(model["atoms"], *moments_of_rows(rows, codes))
        uses = np.bincount(codes.indices[codes.data != 0], minlength=len(model["atoms"]))
        replace_bad_atoms(model["atoms"], uses, rows, energies_of(rows, residuals), positive, self.plain)


def uses_of(codes: sp.csc_array) -> tuple[Array, Array, Array]:
    """Where each atom is used: see `group_by_atom`."""
    starts = np.empty(codes.shape[0] + 1, np.int64)
    entries, owners = np.empty((2, codes.nnz), np.int64)
    group_by_atom(codes.indptr, codes.indices, starts, entries, owners)
    return starts, entries, owners


@dataclass(eq=False, repr=False)
class KSVD(DictionaryEstimator):
    """A dense dictionary by approximate K-SVD: `papilio.dictionary.ksvd`.

    Parameters
    ----------
    {n_components}
    {n_nonzero_coefs}
    {fit_algorithm}
    {alpha}
    max_iter : int
        The largest number of iterations.
    {tol}
    plain : bool
        Whether to run the algorithm as published: each iteration codes all samples with all their atoms, and only
        atoms that no sample uses are replaced.
    {positive}
    {coding}
    {running}

    Attributes
    ----------
    {components_}
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): one dense factor.
    {learning}

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> codes = pp.KSVD(n_nonzero_coefs=5, random_state=0).fit_transform(X)
    >>> codes.shape
    (500, 32)
    """

    n_components: int | None = None
    n_nonzero_coefs: int | None = None
    _: KW_ONLY
    fit_algorithm: str = "omp"
    alpha: float = 1.0
    max_iter: int = 100
    tol: float = 1e-4
    plain: bool = False
    positive: bool = False
    transform_algorithm: str = "omp"
    transform_alpha: float | None = None
    transform_sparse: bool = False
    random_state: RandomState = None
    callback: Callback | None = None
    checkpoint: types.Path | None = None

    def _plan(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Plan:
        return dense_plan(self._start(), not self.plain)

    def _start(self) -> Any:
        """The first stage; a fast dictionary that starts from this estimator uses it, too."""
        return ksvd_start(as_integer("max_iter", self.max_iter, 1), self.tol, self.plain)


# -- Sparse K-SVD --------------------------------------------------------------------------------------


def sparse_ksvd(
    signals: ArrayLike,
    base: MatrixLike | SparseProduct,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    k: int | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    plain: bool = False,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary D = B·S with sparse columns of S over a base dictionary B (Rubinstein 2010).

    Like `ksvd`, but the new atom is B s, where s is the sparse code of E gᴴ in B by `omp`, divided by ‖B s‖.

    Above 50,000 signals, or 200 per atom up to 100,000, it learns from a random sample of this size; one pass
    over all signals then measures the error.

    Parameters
    ----------
    signals : (d, n) array
        X, one signal per column.
    base : SparseProduct or (d, b) matrix
        B, for synthesis: one base atom per column, such as ``papilio.transforms.dct(d).T``.
    n_components : int
        The number of atoms.
    n_nonzero_coefs : int, optional
        Atoms per signal; a tenth of d by default, at least one.
    k : int, optional
        Base atoms per atom: entries in each column of S; 4 by default, fewer if B is smaller.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when the error has not fallen by this share within ten iterations; 0 never stops early.
    plain : bool
        Whether to run the algorithm as published: each iteration codes all signals with all their atoms, and only
        atoms that no signal uses are replaced.
    positive : bool
        Whether codes must not be negative, as in `omp`; the entries of S may have any sign.
    random_state : int, RandomState, Generator or None
        The source of the random numbers; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.

    Returns
    -------
    LearnedDictionary
        The dictionary is a `SparseProduct`: the factors of the base, and S.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> learned = pp.dictionary.sparse_ksvd(X, pp.transforms.dct(32).T, 32, 5, k=3, max_iter=10, random_state=0)
    >>> learned.dictionary.factors[-1].size
    96
    """
    rows = as_rows(signals)
    in_base = Base.over(base, rows.shape[1], k)
    n_components = as_integer("n_components", n_components, 1)
    coder = as_coder(n_nonzero_coefs, rows.shape[1], n_components, positive=positive)
    plan = _sparse_plan(in_base, max_iter, tol, plain)
    return learn_rows(rows, n_components, coder, plan, random_state, callback)


def _sparse_plan(in_base: "Base", max_iter: int, tol: float, plain: bool) -> Plan:
    """The stages of `sparse_ksvd`, after checks of the options."""
    limits = {**as_limits(max_iter, tol), "plain": as_flag("plain", plain)}

    def plan(session: Session, signals: Signals, n_components: int) -> list[Stage]:
        start = signals.start
        dtype = np.result_type(start.rows.dtype, in_base.dtype)
        start.rows = start.rows.astype(dtype, copy=False)
        iterations = SparseKSVDIterations(in_base.astype(dtype), session, signals, n_components, **limits)
        return [iterations, PassesOverAll(session, signals)]

    return plan


class SparseKSVDIterations(Alternation):
    """The iterations of `sparse_ksvd` on signals in memory; a model has the atoms' codes in the base, too."""

    name = "sparse ksvd"

    def __init__(
        self, base: "Base", session: Session, signals: Signals, n_components: int, **options: Any
    ) -> None:
        super().__init__(session, signals, n_components, **options)
        self.base = base

    def begin(self) -> Model:
        return self.base.start(self.signals.rows, self.n_components, self.session.random)

    def finish(self, model: Model) -> SparseProduct:
        return self.base.product(model["sparse"])

    def update(self, model: Model, rows: Array, codes: sp.csc_array, residuals: Array) -> None:
        """Update one atom after the other together with its coefficients, as in `ksvd`, but sparse in the base."""
        atoms, sparse = model["atoms"], model["sparse"]
        direction = np.empty(atoms.shape[1], atoms.dtype)
        starts, entries, owners = uses_of(codes)
        for j in range(len(atoms)):
            own = slice(starts[j], starts[j + 1])
            where = residuals, codes.data, entries[own], owners[own]
            if direction_of(atoms[j], *where, direction) > 0:
                new, column = self.base.nearest(direction[None])
                if column.any():
                    exchange_atom(atoms[j], new[0], *where, self.signals.coder.positive)
                    sparse[j] = column[0]
        uses = np.bincount(codes.indices[codes.data != 0], minlength=len(atoms))
        positive, energies = self.signals.coder.positive, energies_of(rows, residuals)
        replaced = replace_bad_atoms(atoms, uses, rows, energies, positive, self.plain)
        if replaced.size:
            atoms[replaced], sparse[replaced] = self.base.nearest(atoms[replaced])


class Base:
    """A base dictionary B, and the number k of base atoms per atom."""

    def __init__(self, base: SparseProduct, k: int) -> None:
        self._base = base
        self._dense = base.toarray()
        self._ready = Atoms(self._dense)
        self._k = k
        self.dtype, self.n_atoms, self.n_factors = base.dtype, base.shape[1], len(base.factors)

    @classmethod
    def over(cls, base: Any, n_features: int, k: int | None) -> "Base":
        """A base after checks of ``base`` and ``k``."""
        if not isinstance(base, SparseProduct):
            base = SparseProduct([as_matrix("base", base)])
        if base.shape[0] != n_features:
            raise ValueError(f"base must have {n_features} rows, as the signals have, got {base.shape[0]}")
        if not base.toarray().any():
            raise ValueError("base must not be zero, got a zero matrix")
        return cls(base, min(4, *base.shape) if k is None else as_integer("k", k, 1, min(base.shape)))

    def astype(self, dtype: Any) -> "Base":
        return Base(self._base.astype(dtype), self._k)

    def start(self, rows: Array, n_components: int, random: np.random.RandomState) -> Model:
        """The base atoms that the signals use most; if there are too few, some signals too."""
        uses = np.bincount(omp_codes(self._ready, rows.T, self._k).indices, minlength=self._base.shape[1])
        chosen = np.argsort(-uses, kind="stable")[:n_components]
        chosen = chosen[column_norms(self._dense[:, chosen]) > 0]
        others = first_atoms(rows, n_components - chosen.size, None, random)
        atoms, sparse = self.nearest(np.concatenate([self._dense.T[chosen], others]))
        return {"atoms": atoms, "sparse": sparse}

    def nearest(self, directions: Array) -> tuple[Array, Array]:
        """The nearest unit-norm combination of k base atoms for each row, and its coefficients."""
        coefficients = omp_codes(self._ready, directions.T, self._k).toarray().T
        atoms = coefficients @ self._dense.T
        norms = column_norms(atoms.T)[:, None]
        shrink = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(atoms.real.dtype)
        return np.ascontiguousarray(atoms * shrink), coefficients * shrink

    def product(self, coefficients: Array) -> SparseProduct:
        """B·S."""
        return self._base @ SparseProduct([sp.csr_array(coefficients.T)])


@dataclass(eq=False, repr=False)
class SparseKSVD(DictionaryEstimator):
    """A dictionary whose atoms are sparse in a fast base: `papilio.dictionary.sparse_ksvd`.

    Above 50,000 samples, or 200 per atom up to 100,000, it learns from a random sample of this size.

    Parameters
    ----------
    {n_components}
    {n_nonzero_coefs}
    base : SparseProduct or (n_features, n_base) matrix, optional
        The base dictionary, for synthesis: one base atom per column. The DCT by default, as a fast transform if
        the number of features is a power of two, else as one dense factor.
    k : int, optional
        Base atoms per atom: entries in each column of the sparse factor; 4 by default, fewer if the base is
        smaller.
    max_iter : int
        The largest number of iterations.
    {tol}
    plain : bool
        Whether to run the algorithm as published: each iteration codes all samples with all their atoms, and only
        atoms that no sample uses are replaced.
    {positive}
    {coding}
    {running}

    Attributes
    ----------
    {components_}
    operator_ : SparseProduct
        The dictionary, (n_features, n_components): the base's factors and one sparse factor.
    {learning}

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.SparseKSVD(n_nonzero_coefs=5, k=3, random_state=0).fit(X)
    >>> model.operator_.factors[-1].size
    96
    """

    n_components: int | None = None
    n_nonzero_coefs: int | None = None
    _: KW_ONLY
    base: SparseProduct | MatrixLike | None = None
    k: int | None = None
    max_iter: int = 100
    tol: float = 1e-4
    plain: bool = False
    positive: bool = False
    transform_algorithm: str = "omp"
    transform_alpha: float | None = None
    transform_sparse: bool = False
    random_state: RandomState = None
    callback: Callback | None = None
    checkpoint: types.Path | None = None

    def _plan(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Plan:
        max_iter, n_features = as_integer("max_iter", self.max_iter, 1), samples.shape[1]
        base = Base.over(self._base(n_features, samples.dtype), n_features, self.k)
        return _sparse_plan(base, max_iter, self.tol, self.plain)

    def _base(self, n_features: int, dtype: Any) -> Any:
        if self.base is not None:
            return self.base
        if n_features & (n_features - 1) == 0:
            return dct(n_features).T.astype(dtype)
        return idct(np.eye(n_features), axis=0, norm="ortho").astype(dtype)
