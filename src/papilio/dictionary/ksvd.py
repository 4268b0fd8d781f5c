"""K-SVD: dense dictionaries learned from data."""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.atoms import group_by_atom, update_atoms
from ..results import Callback
from ..runtime.session import Phase, Session
from ..samples import held
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_flag, as_integer
from .alternation import AlternationLimits, Model, alternation_phase
from .atoms import first_atoms, replace_bad_atoms
from .full_passes import learn_dense, learned
from .learner import LearnedDictionary, as_rows, as_sparsity, warn_if_few
from .signals import Signals
from .states import Layouts
from .sums import energies_of


def ksvd(
    signals: ArrayLike,
    n_components: int,
    n_nonzero_coefs: int | None = None,
    *,
    init: ArrayLike | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn a dictionary by approximate K-SVD (Aharon 2006, Rubinstein 2008).

    Each iteration codes signals by `omp`, and then updates one atom after the other together with its
    coefficients g, by one step of alternating least squares on the residuals E of the signals that use it,

        d = E gᴴ/‖E gᴴ‖,  g = dᴴE.

    With ``positive``, g = max(dᵀE, 0).

    Three things keep it out of poor local minima. Atoms that are rarely used, or nearly equal to another one, are
    replaced by the signals with the largest errors. Three quarters of the iterations work on two fifths of the
    signals, drawn anew each time. And in the first half of the iterations, half as many atoms code each signal.

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
    init : (d, n_components) array, optional
        The first dictionary; by default different signals, drawn at random.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when the error has not fallen by this share within ten iterations; 0 never stops early.
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
    >>> learned = pp.ksvd(X, 32, 5, random_state=0)
    >>> bool(learned.history.error[-1] < 0.02)
    True
    """
    rows = as_rows(signals)
    n_components = as_integer("n_components", n_components, 1)
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, rows.shape[1], n_components)
    limits = AlternationLimits(max_iter, tol).checked()
    warn_if_few(rows.shape, n_components)
    session = Session(callback, random_state=random_state)
    start = partial(ksvd_phase, limits=limits, init=init)
    outcome = learn_dense(session, held(rows), n_components, n_nonzero_coefs, start, as_flag("positive", positive))
    return learned(session, rows, outcome)


def ksvd_phase(
    session: Session, signals: Signals, n_components: int, limits: AlternationLimits, init: Any = None
) -> Phase:
    """The iterations of `ksvd` on the signals in memory."""
    start, layout = signals.start, {"atoms": Layouts.of(signals, n_components).atoms}

    def begin() -> Model:
        return {"atoms": first_atoms(start.rows, n_components, init, session.random)}

    return alternation_phase(
        session,
        "ksvd",
        start,
        limits,
        begin,
        partial(_update, start.positive),
        lambda model: model["atoms"].T,
        layout,
    )


def _update(positive: bool, model: Model, rows: Array, codes: sp.csc_array, residuals: Array) -> None:
    starts, entries, owners = uses_of(codes)
    update_atoms(model["atoms"], residuals, codes.data, starts, entries, owners, positive)
    uses = np.bincount(codes.indices[codes.data != 0], minlength=len(model["atoms"]))
    replace_bad_atoms(model["atoms"], uses, rows, energies_of(rows, residuals), positive)


def uses_of(codes: sp.csc_array) -> tuple[Array, Array, Array]:
    """Where each atom is used: see `group_by_atom`."""
    starts = np.empty(codes.shape[0] + 1, np.int64)
    entries, owners = np.empty((2, codes.nnz), np.int64)
    group_by_atom(codes.indptr, codes.indices, starts, entries, owners)
    return starts, entries, owners
