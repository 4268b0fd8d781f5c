"""Sparse K-SVD: dictionaries whose atoms are sparse in a fast base."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..kernels.atoms import direction_of, exchange_atom
from ..linalg import column_norms
from ..operators import SparseProduct
from ..results import Callback
from ..runtime.session import Phase, Session, State
from ..samples import Samples, held
from ..typing import Array, ArrayLike, MatrixLike, RandomState
from ..validation import as_integer, as_matrix
from .alternation import Alternation, AlternationLimits
from .atoms import first_atoms, replace_bad_atoms
from .full_passes import Outcome, improve_on_all, learned, run_phases
from .ksvd import uses_of
from .learner import LearnedDictionary, as_rows, as_sparsity, to_state
from .signals import open_signals
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
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary D = B·S with sparse columns of S over a base dictionary B (Rubinstein 2010).

    As `ksvd`, but the new atom is B s with s the sparse code of E gᴴ in B, found by `omp` and divided by ‖B s‖.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    base : SparseProduct or (d, b) matrix
        B: synthesis, one base atom a column, such as ``papilio.transforms.dct(d).T``.
    n_components : int
    n_nonzero_coefs : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    k : int, optional
        Base atoms an atom: entries in each column of S; 4 by default, or as many as there are.
    max_iter, tol, random_state, callback
        As for `ksvd`.

    Returns
    -------
    dictionary : SparseProduct
        The base's factors and one sparse factor more.
    codes : (n_components, n) csc_array
    history : History
    """
    rows = as_rows(signals)
    in_base = Base.over(base, rows.shape[1], k)
    n_components = as_integer("n_components", n_components, 1)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, rows.shape[1], n_components)
    limits = AlternationLimits(max_iter, tol).checked()
    session = Session(callback, random_state=random_state)
    outcome = learn_sparse_ksvd(session, held(rows), n_components, n_nonzero_coefs, in_base, limits)
    return learned(session, rows.astype(outcome.dictionary.dtype, copy=False), outcome)


def learn_sparse_ksvd(
    session: Session,
    samples: Samples,
    n_components: int,
    n_nonzero_coefs: int,
    in_base: "Base",
    limits: AlternationLimits,
) -> Outcome:
    """`sparse_ksvd` from samples of any size: of very many, from a random sample of them."""
    signals = open_signals(samples, n_nonzero_coefs, n_components, session)
    in_memory = signals.start
    dtype = np.result_type(in_memory.rows.dtype, in_base.dtype)
    in_base, in_memory.rows = in_base.astype(dtype), in_memory.rows.astype(dtype, copy=False)

    def work(state: State) -> State:
        alternation = Alternation("sparse ksvd", in_memory, limits, session, state)
        if not alternation.model:
            atoms, sparse = in_base.start(in_memory.rows, n_components, session.random)
            alternation.model = {"atoms": atoms, "sparse": sparse}
        for rows, codes, residuals in alternation.rounds():
            _update_sparse_atoms(in_base, alternation.model, rows, codes, residuals)
        product = in_base.product(alternation.best["sparse"])
        return {"dictionary": to_state(product), "status": str(alternation.status)}

    end = improve_on_all(session, signals, lambda dictionary, statistics: dictionary, 0)
    return run_phases(session, signals, [Phase("sparse ksvd", 1.0, work), end])


def _update_sparse_atoms(
    in_base: "Base", model: dict[str, Array], rows: Array, codes: sp.csc_array, residuals: Array
) -> None:
    """One atom after the other together with its coefficients, as in `ksvd`, but sparse in the base."""
    atoms, sparse = model["atoms"], model["sparse"]
    direction = np.empty(atoms.shape[1], atoms.dtype)
    starts, entries, owners = uses_of(codes)
    for j in range(len(atoms)):
        own = slice(starts[j], starts[j + 1])
        where = residuals, codes.data, entries[own], owners[own]
        if direction_of(atoms[j], *where, direction) > 0:
            new, column = in_base.nearest(direction[None])
            if column.any():
                exchange_atom(atoms[j], new[0], *where)
                sparse[j] = column[0]
    replaced = replace_bad_atoms(atoms, np.diff(starts), rows, energies_of(rows, residuals))
    if replaced.size:
        atoms[replaced], sparse[replaced] = in_base.nearest(atoms[replaced])


class Base:
    """A base dictionary that directions are coded in."""

    def __init__(self, base: SparseProduct, n_nonzero_coefs: int) -> None:
        self._base = base
        self._dense = base.toarray()
        if not self._dense.any():
            raise ValueError("base must not be zero, got a zero matrix")
        self._coder = Coder(self._dense)
        self._n_nonzero = n_nonzero_coefs
        self.dtype = base.dtype

    @classmethod
    def over(cls, base: Any, n_features: int, n_nonzero_coefs: int | None) -> "Base":
        """``base`` after checks, and how many base atoms make up an atom."""
        if not isinstance(base, SparseProduct):
            base = SparseProduct([as_matrix("base", base)])
        if base.shape[0] != n_features:
            raise ValueError(f"base must have {n_features} rows, as the signals have, got {base.shape[0]}")
        if n_nonzero_coefs is None:
            n_nonzero_coefs = min(4, *base.shape)
        return cls(base, as_integer("k", n_nonzero_coefs, 1, min(base.shape)))

    def astype(self, dtype: Any) -> "Base":
        return Base(self._base.astype(dtype), self._n_nonzero)

    def start(self, rows: Array, n_components: int, random: np.random.RandomState) -> tuple[Array, Array]:
        """The atoms of the base itself; where it has too few, then signals, and where too many, the most used."""
        uses = np.bincount(self._coder.code(rows.T, self._n_nonzero).indices, minlength=self._base.shape[1])
        chosen = np.argsort(-uses, kind="stable")[:n_components]
        chosen = chosen[column_norms(self._dense[:, chosen]) > 0]
        others = first_atoms(rows, n_components - chosen.size, None, random)
        return self.nearest(np.concatenate([self._dense.T[chosen], others]))

    def nearest(self, directions: Array) -> tuple[Array, Array]:
        """For each row the nearest sparse combination of base atoms, with unit norm, and its coefficients."""
        codes = self._coder.code(directions.T, self._n_nonzero)
        coefficients = codes.toarray().T
        atoms = coefficients @ self._dense.T
        norms = column_norms(atoms.T)[:, None]
        shrink = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(atoms.real.dtype)
        return np.ascontiguousarray(atoms * shrink), coefficients * shrink

    def product(self, coefficients: Array) -> SparseProduct:
        """B·S."""
        return self._base @ SparseProduct([sp.csr_array(coefficients.T)])
