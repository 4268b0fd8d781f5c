"""Sparse K-SVD: dictionaries whose atoms are sparse in a fast base."""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..kernels.atoms import direction_of, exchange_atom
from ..linalg import column_norms
from ..operators import SparseProduct
from ..results import Callback
from ..runtime.layout import array
from ..runtime.session import Session
from ..samples import Samples, held
from ..typing import Array, ArrayLike, MatrixLike, RandomState
from ..validation import as_flag, as_integer, as_matrix
from .alternation import AlternationLimits, Model, alternation_phase
from .atoms import first_atoms, replace_bad_atoms
from .full_passes import Outcome, improve_on_all, learned, run_phases
from .ksvd import uses_of
from .learner import LearnedDictionary, as_rows, as_sparsity, warn_if_few
from .signals import open_signals
from .states import Layouts
from .sums import energies_of


def sparse_ksvd(
    signals: ArrayLike,
    base: MatrixLike | SparseProduct,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    k: int | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
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
    >>> learned = pp.sparse_ksvd(X, pp.transforms.dct(32).T, 32, 5, k=3, max_iter=10, random_state=0)
    >>> learned.dictionary.factors[-1].size
    96
    """
    rows = as_rows(signals)
    in_base = Base.over(base, rows.shape[1], k)
    n_components = as_integer("n_components", n_components, 1)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, rows.shape[1], n_components)
    limits = AlternationLimits(max_iter, tol).checked()
    warn_if_few(rows.shape, n_components)
    session = Session(callback, random_state=random_state)
    outcome = learn_sparse_ksvd(session, held(rows), n_components, n_nonzero_coefs, in_base, limits, positive)
    return learned(session, rows.astype(outcome.dictionary.dtype, copy=False), outcome)


def learn_sparse_ksvd(
    session: Session,
    samples: Samples,
    n_components: int,
    n_nonzero_coefs: int,
    in_base: "Base",
    limits: AlternationLimits,
    positive: bool = False,
) -> Outcome:
    """`sparse_ksvd` from samples of any size."""
    signals = open_signals(samples, n_nonzero_coefs, n_components, session, as_flag("positive", positive))
    start = signals.start
    dtype = np.result_type(start.rows.dtype, in_base.dtype)
    in_base, start.rows = in_base.astype(dtype), start.rows.astype(dtype, copy=False)
    layouts, counts = Layouts.of(signals, n_components), [in_base.n_factors + 1]
    learning = alternation_phase(
        session,
        "sparse ksvd",
        start,
        limits,
        lambda: in_base.start(start.rows, n_components, session.random),
        partial(_update, in_base, start.positive),
        lambda model: in_base.product(model["sparse"]),
        {"atoms": layouts.atoms, "sparse": array((n_components, in_base.n_atoms), [dtype])},
    )
    end = improve_on_all(session, signals, lambda dictionary, statistics: dictionary, 0, layouts, counts)
    return run_phases(session, signals, [learning, *end])


def _update(
    in_base: "Base", positive: bool, model: Model, rows: Array, codes: sp.csc_array, residuals: Array
) -> None:
    """Update one atom after the other together with its coefficients, as in `ksvd`, but sparse in the base."""
    atoms, sparse = model["atoms"], model["sparse"]
    direction = np.empty(atoms.shape[1], atoms.dtype)
    starts, entries, owners = uses_of(codes)
    for j in range(len(atoms)):
        own = slice(starts[j], starts[j + 1])
        where = residuals, codes.data, entries[own], owners[own]
        if direction_of(atoms[j], *where, direction) > 0:
            new, column = in_base.nearest(direction[None])
            if column.any():
                exchange_atom(atoms[j], new[0], *where, positive)
                sparse[j] = column[0]
    uses = np.bincount(codes.indices[codes.data != 0], minlength=len(atoms))
    replaced = replace_bad_atoms(atoms, uses, rows, energies_of(rows, residuals), positive)
    if replaced.size:
        atoms[replaced], sparse[replaced] = in_base.nearest(atoms[replaced])


class Base:
    """A base dictionary B, and the number k of base atoms per atom."""

    def __init__(self, base: SparseProduct, k: int) -> None:
        self._base = base
        self._dense = base.toarray()
        self._coder = Coder(self._dense)
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
        uses = np.bincount(self._coder.code(rows.T, self._k).indices, minlength=self._base.shape[1])
        chosen = np.argsort(-uses, kind="stable")[:n_components]
        chosen = chosen[column_norms(self._dense[:, chosen]) > 0]
        others = first_atoms(rows, n_components - chosen.size, None, random)
        atoms, sparse = self.nearest(np.concatenate([self._dense.T[chosen], others]))
        return {"atoms": atoms, "sparse": sparse}

    def nearest(self, directions: Array) -> tuple[Array, Array]:
        """The nearest unit-norm combination of k base atoms for each row, and its coefficients."""
        coefficients = self._coder.code(directions.T, self._k).toarray().T
        atoms = coefficients @ self._dense.T
        norms = column_norms(atoms.T)[:, None]
        shrink = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(atoms.real.dtype)
        return np.ascontiguousarray(atoms * shrink), coefficients * shrink

    def product(self, coefficients: Array) -> SparseProduct:
        """B·S."""
        return self._base @ SparseProduct([sp.csr_array(coefficients.T)])
