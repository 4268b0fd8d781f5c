"""Online dictionary learning: mini-batches, moments and forgetting."""

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..kernels.atoms import descend_atoms
from ..kernels.threads import blas_threads
from ..linalg import frobenius, wide
from ..solvers.palm import Callback, Run
from ..validation import Array, as_integer, as_random, as_real
from .common import (
    Learned,
    Progress,
    as_rows,
    as_sparsity,
    first_atoms,
    in_range,
    moments_of_rows,
    relative,
    replace_bad_atoms,
    residuals_of,
)

RECENT = 0.1  # the share of all batches so far that count: codes of earlier, poorer dictionaries only hold back


def forgetting(batches: int, recent: float = RECENT, memory: float = np.inf) -> float:
    """What the past counts for at the t-th batch: exp(−1/w), with w the smaller of ``recent``·t and ``memory``."""
    return float(np.exp(-1 / min(recent * batches, memory)))


class OnlineState:
    """A dictionary that learns from one mini-batch after the other.

    With the t-th batch, the moments become A ← βA + ΓΓᴴ and B ← βB + XΓᴴ, where β = exp(−1/w) with w the smaller
    of ``recent``·t and ``memory``: about w batches count. Fewer make the dictionary move more, which leads out of
    poor minima as noise does; so w grows with t.

    Parameters
    ----------
    atoms : (a, d) array
        Unit-norm atoms to start from, one a row; they are changed in place.
    n_nonzero : int
        Atoms a signal.
    recent : float
        The share of all batches so far that count.
    memory : int, optional
        Batches that count at most; no limit by default.
    """

    def __init__(self, atoms: Array, n_nonzero: int, recent: float = RECENT, memory: int | None = None) -> None:
        kind = wide(atoms.dtype)
        self.atoms = atoms
        self.n_nonzero = n_nonzero
        self.gram = np.zeros((len(atoms), len(atoms)), kind)
        self.cross = np.zeros(atoms.shape, kind)
        self.uses = np.zeros(len(atoms))
        self.batches = 0
        self._recent = recent
        self._memory = np.inf if memory is None else memory

    def remember(self, rows: Array, codes: sp.csc_array) -> None:
        """Start from the moments of signals with given codes, as if they were batches that were learned."""
        self.gram, self.cross = moments_of_rows(rows, codes)
        self.uses = np.bincount(codes.indices, minlength=len(self.atoms)).astype(float)
        self.batches = ceil(1 / self._recent)

    def learn(self, batch: Array) -> float:
        """Learn from a batch, one signal a row; returns its relative error before."""
        codes = Coder(self.atoms.T).code(batch.T, self.n_nonzero)
        residuals = residuals_of(batch, self.atoms, codes)
        self.batches += 1
        beta = forgetting(self.batches, self._recent, self._memory)
        gram, cross = moments_of_rows(batch, codes)
        self.gram = beta * self.gram + gram
        self.cross = beta * self.cross + cross
        self.uses = beta * self.uses + np.bincount(codes.indices, minlength=len(self.atoms))
        replaced = replace_bad_atoms(self.atoms, self.uses, batch, residuals)
        self.gram[replaced], self.gram[:, replaced], self.cross[replaced] = 0, 0, 0
        self.uses[replaced] = self.uses.mean()
        descend_atoms(self.atoms, self.gram, self.cross)
        return relative(residuals, frobenius(batch))


def online_dictionary(
    signals: Any,
    n_atoms: int,
    n_nonzero: int | None = None,
    *,
    init: Any = None,
    batch_size: int | None = None,
    memory: int | None = None,
    max_iter: int = 30,
    tol: float = 1e-4,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Learned:
    """Learn a dictionary from mini-batches, on moments (Mairal 2010), with codes by `omp`.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    n_atoms : int
    n_nonzero : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    init : (d, n_atoms) matrix, optional
        The first dictionary; by default different signals, drawn at random.
    batch_size : int, optional
        Signals a mini-batch; by default 512, or a quarter of all where these are fewer.
    memory : int, optional
        Mini-batches that count, the older the less; by default a share of those so far that
        makes up one pass in the end.
    max_iter : int
        Passes over the data.
    tol : float
        Stop when the mean error of a pass has not fallen by this share within ten passes; 0 never does.
    random_state : int, RandomState or None
    callback : callable, optional
        Called with a `Step` after each pass; a true result stops the learner.

    Returns
    -------
    dictionary : (d, n_atoms) array
    codes : (n_atoms, n) csc_array
    history : History
        With the mean relative error of the batches of each pass, and in the end that of all signals.
    """
    rows, unit = in_range(as_rows(signals))
    n_atoms = as_integer("n_atoms", n_atoms, 1)
    n_nonzero = as_sparsity(n_nonzero, rows.shape[1], n_atoms)
    if batch_size is None:
        batch_size = max(min(512, len(rows) // 4), 1)
    batch_size = as_integer("batch_size", batch_size, 1)
    memory = None if memory is None else as_integer("memory", memory, 1)
    max_iter = as_integer("max_iter", max_iter, 1)
    random = as_random(random_state)
    # In the end one pass counts: then all signals do, each with its latest code.
    recent = min(RECENT, 1 / max_iter)
    state = OnlineState(first_atoms(rows, n_atoms, init, random), n_nonzero, recent, memory)
    run, progress = Run(callback), Progress(as_real("tol", tol, 0.0))
    with blas_threads(state.atoms.shape[0] * state.atoms.size):
        for _ in range(max_iter):
            error = float(np.mean([state.learn(batch) for batch in shuffled(rows, batch_size, random)]))
            progress.record(error, None)
            run.report("online", error, 1.0, [state.atoms.T.copy()])
            if run.stopped or progress.has_ended:
                break
    codes = Coder(state.atoms.T).code(rows.T, n_nonzero)
    run.report("final", relative(residuals_of(rows, state.atoms, codes), frobenius(rows)), 1.0, [state.atoms.T])
    return Learned(state.atoms.T.copy(), codes * unit, run.history)


def shuffled(rows: Array, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """All rows once, in batches, in random order."""
    order = random.permutation(len(rows))
    for start in range(0, len(rows), batch_size):
        yield rows[order[start : start + batch_size]]
