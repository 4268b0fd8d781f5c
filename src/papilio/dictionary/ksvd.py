"""K-SVD: dense dictionaries learned from data."""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.atoms import group_by_atom, update_atoms
from ..results import Callback
from ..runtime.session import Phase, Session, State
from ..samples import held
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer
from .alternation import Alternation, AlternationLimits
from .atoms import first_atoms, replace_bad_atoms
from .full_passes import learn_dense, learned
from .learner import LearnedDictionary, as_rows, as_sparsity, to_state
from .signals import Signals
from .sums import energies_of


def ksvd(
    signals: ArrayLike,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    init: ArrayLike | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary by approximate K-SVD (Aharon 2006, Rubinstein 2008).

    Each iteration codes signals by `omp`, and then updates one atom after the other together with its
    coefficients g, by one step of alternating least squares on the residuals E of the signals that use it,

        d = E gᴴ/‖E gᴴ‖,  g = dᴴE.

    Two things keep it out of poor local minima. Atoms that are rarely used, or that another atom matches, are
    replaced by the signals that are represented worst. And early iterations work on a random share of the signals,
    which grows from a tenth to all of them in the last quarter of the iterations.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    n_components : int
    n_nonzero_coefs : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    init : (d, n_components) matrix, optional
        The first dictionary; by default different signals, drawn at random.
    max_iter : int
    tol : float
        Stop when the error of all signals has not fallen by this share within ten iterations; 0 never does.
    random_state : int, RandomState or None
    callback : callable, optional
        Called with a `Step` after each coding; a true result stops the learner.

    Returns
    -------
    dictionary : (d, n_components) array
        The best that was seen, with unit-norm atoms.
    codes : (n_components, n) csc_array
        Of the signals in it, by `omp`.
    history : History
        With the relative error ‖X − DΓ‖/‖X‖ of the signals that were coded.
    """
    rows = as_rows(signals)
    n_components = as_integer("n_components", n_components, 1)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, rows.shape[1], n_components)
    limits = AlternationLimits(max_iter, tol).checked()
    session = Session(callback, random_state=random_state)
    start = partial(ksvd_phase, limits=limits, init=init)
    return learned(session, rows, learn_dense(session, held(rows), n_components, n_nonzero_coefs, start))


def ksvd_phase(
    session: Session, signals: Signals, n_components: int, limits: AlternationLimits, init: Any = None
) -> Phase:
    """The iterations of `ksvd` on signals in memory, for the best dictionary."""
    in_memory = signals.start

    def work(state: State) -> State:
        alternation = Alternation("ksvd", in_memory, limits, session, state)
        if not alternation.model:
            alternation.model = {"atoms": first_atoms(in_memory.rows, n_components, init, session.random)}
        atoms = alternation.model["atoms"]
        for rows, codes, residuals in alternation.rounds():
            starts, entries, owners = uses_of(codes)
            update_atoms(atoms, residuals, codes.data, starts, entries, owners)
            replace_bad_atoms(atoms, np.diff(starts), rows, energies_of(rows, residuals))
        return {"dictionary": to_state(alternation.best["atoms"].T), "status": str(alternation.status)}

    return Phase("ksvd", 1.0, work)


def uses_of(codes: sp.csc_array) -> tuple[Array, Array, Array]:
    """Where each atom is used: see `group_by_atom`."""
    starts = np.empty(codes.shape[0] + 1, np.int64)
    entries, owners = np.empty((2, codes.nnz), np.int64)
    group_by_atom(codes.indptr, codes.indices, starts, entries, owners)
    return starts, entries, owners
