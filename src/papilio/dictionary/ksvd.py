"""K-SVD: dense dictionaries learned from data."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.atoms import group_by_atom, update_atoms
from ..runtime.checkpoint import Checkpoint
from ..solvers.palm import Callback, Run
from ..typing import Array
from ..validation import as_integer, as_random, as_real
from .alternation import Rounds
from .atoms import Learned, as_rows, as_sparsity, energies_of, first_atoms, replace_bad_atoms
from .signals import Held, as_learned


def ksvd(
    signals: Any,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    init: Any = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Learned:
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
    max_iter, tol = as_integer("max_iter", max_iter, 0), as_real("tol", tol, 0.0)
    random, run, data = as_random(random_state), Run(callback), Held(rows, n_nonzero_coefs)
    atoms = learn_ksvd(data, n_components, init, max_iter, tol, random, run, Checkpoint())
    return as_learned(data, atoms.T.copy(), run)


def learn_ksvd(
    data: Held,
    n_components: int,
    init: Any,
    max_iter: int,
    tol: float,
    random: np.random.RandomState,
    run: Run,
    checkpoint: Checkpoint,
) -> Array:
    """The iterations of `ksvd` on signals in memory: the best atoms, one a row."""
    rounds = Rounds("ksvd", data, max_iter, tol, random, run, checkpoint)
    model = rounds.restored() or {"atoms": first_atoms(data.rows, n_components, init, random)}
    atoms = model["atoms"]
    for rows, codes, residuals in rounds.over(model):
        starts, entries, owners = uses_of(codes)
        update_atoms(atoms, residuals, codes.data, starts, entries, owners)
        replace_bad_atoms(atoms, np.diff(starts), rows, energies_of(rows, residuals))
    data.codes = rounds.codes
    return rounds.best["atoms"]


def uses_of(codes: sp.csc_array) -> tuple[Array, Array, Array]:
    """Where each atom is used: see `group_by_atom`."""
    starts = np.empty(codes.shape[0] + 1, np.int64)
    entries, owners = np.empty((2, codes.nnz), np.int64)
    group_by_atom(codes.indptr, codes.indices, starts, entries, owners)
    return starts, entries, owners
