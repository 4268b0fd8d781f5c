"""K-SVD: dense dictionaries learned from data."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..kernels.atoms import group_by_atom, update_atoms
from ..kernels.threads import blas_threads
from ..linalg import frobenius
from ..solvers.palm import Callback, Run
from ..validation import Array, as_integer, as_random, as_real
from .common import (
    Learned,
    Progress,
    as_rows,
    as_sparsity,
    first_atoms,
    growing_shares,
    in_range,
    relative,
    replace_bad_atoms,
    residuals_of,
)


def ksvd(
    signals: Any,
    n_atoms: int,
    n_nonzero: int | None = None,
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
    n_atoms : int
    n_nonzero : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    init : (d, n_atoms) matrix, optional
        The first dictionary; by default different signals, drawn at random.
    max_iter : int
    tol : float
        Stop when the error of all signals has not fallen by this share within ten iterations; 0 never does.
    random_state : int, RandomState or None
    callback : callable, optional
        Called with a `Step` after each coding; a true result stops the learner.

    Returns
    -------
    dictionary : (d, n_atoms) array
        The best that was seen, with unit-norm atoms.
    codes : (n_atoms, n) csc_array
        Of the signals in it, by `omp`.
    history : History
        With the relative error ‖X − DΓ‖/‖X‖ of the signals that were coded.
    """
    rows, unit = in_range(as_rows(signals))
    n_atoms = as_integer("n_atoms", n_atoms, 1)
    n_nonzero = as_sparsity(n_nonzero, rows.shape[1], n_atoms)
    random = as_random(random_state)
    atoms = first_atoms(rows, n_atoms, init, random)
    max_iter = as_integer("max_iter", max_iter, 0)
    run, progress = Run(callback), Progress(as_real("tol", tol, 0.0))
    with blas_threads(atoms.shape[0] * atoms.size):
        for some in growing_shares(rows, n_atoms, n_nonzero, max_iter, random):
            codes = Coder(atoms.T).code(some.T, n_nonzero)
            residuals = residuals_of(some, atoms, codes)
            error = relative(residuals, frobenius(some))
            run.report("ksvd", error, 1.0, [atoms.T.copy()])
            if some is rows:
                progress.record(error, (atoms.T.copy(), codes.copy()))
            if run.stopped or progress.has_ended or len(run.history) > max_iter:
                break
            starts, entries, owners = uses_of(codes)
            update_atoms(atoms, residuals, codes.data, starts, entries, owners)
            replace_bad_atoms(atoms, np.diff(starts), some, residuals)
    if progress.best is None:  # stopped before all signals were coded
        progress.best = atoms.T.copy(), Coder(atoms.T).code(rows.T, n_nonzero)
    dictionary, codes = progress.best
    return Learned(dictionary, codes * unit, run.history)


def uses_of(codes: sp.csc_array) -> tuple[Array, Array, Array]:
    """Where each atom is used: see `group_by_atom`."""
    starts = np.empty(codes.shape[0] + 1, np.int64)
    entries, owners = np.empty((2, codes.nnz), np.int64)
    group_by_atom(codes.indptr, codes.indices, starts, entries, owners)
    return starts, entries, owners
