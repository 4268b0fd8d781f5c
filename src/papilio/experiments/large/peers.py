"""Dictionaries by other packages, within a limit of time."""

from importlib.util import find_spec
from time import perf_counter
from warnings import catch_warnings, simplefilter

import numpy as np

from ...typing import Array

SCIKIT_LEARN, SPAMS = "scikit-learn", "SPAMS"
_BATCH = 512  # patches


def available() -> list[str]:
    """The packages at hand: SPAMS is optional."""
    return [SCIKIT_LEARN, *([SPAMS] if find_spec("spams") is not None else [])]


def learn(
    name: str, rows: Array, n_components: int, n_nonzero_coefs: int, limit: float, seed: int
) -> tuple[Array, float, float]:
    """Atoms, one per row, the seconds that they took, and how often each patch was seen, at the most once or so.

    Both packages learn with an ℓ1 penalty that gives about the number of atoms per patch that is wanted.
    """
    if name == SPAMS:
        return _spams(rows, n_components, n_nonzero_coefs, limit)
    return _scikit_learn(rows, n_components, limit, seed)


def _scikit_learn(rows: Array, n_components: int, limit: float, seed: int) -> tuple[Array, float, float]:
    """Mini-batches of different patches until the time is over, or all were seen."""
    from sklearn.decomposition import MiniBatchDictionaryLearning

    random = np.random.default_rng(seed)
    order, begin, seen = random.permutation(len(rows)), perf_counter(), 0
    batch = min(_BATCH, len(rows))
    penalty = float(np.abs(rows[np.sort(order[:batch])]).mean())  # in the unit of the data
    learner = MiniBatchDictionaryLearning(
        n_components, alpha=penalty, fit_algorithm="cd", batch_size=batch, random_state=seed, n_jobs=None
    )
    with catch_warnings():
        simplefilter("ignore")  # codes of the first mini-batches need not be exact
        while seen < len(rows) and (seen == 0 or perf_counter() - begin < limit):
            learner.partial_fit(np.asarray(rows[np.sort(order[seen : seen + batch])]))
            seen += batch
    return learner.components_, perf_counter() - begin, min(seen / len(rows), 1.0)


def _spams(rows: Array, n_components: int, n_nonzero_coefs: int, limit: float) -> tuple[Array, float, float]:
    """SPAMS counts its own time: a negative number of iterations is a number of seconds."""
    import spams

    begin = perf_counter()
    atoms = spams.trainDL(
        np.asfortranarray(rows.T, dtype=np.float64),
        K=n_components,
        mode=3,  # orthogonal matching pursuit
        lambda1=n_nonzero_coefs,
        iter=-max(int(limit), 1),
        batchsize=_BATCH,
        numThreads=-1,
        verbose=False,
    )
    return atoms.T, perf_counter() - begin, float("nan")
