"""The learners of dictionaries, ready for short runs, and what their tests share."""

import numpy as np

import papilio as pp
from papilio.datasets import rand, synthetic_signals
from papilio.linalg import wide
from papilio.metrics import rmse

from .helpers import as_array, gaussian

N_ATOMS, N_NONZERO = 12, 2
SCHEDULE = pp.Schedule.rectangular((8, N_ATOMS), 3, 3, 0.7)
SINGLE = (np.float32, np.complex64)


def dct(d, dtype=np.float64):
    return pp.transforms.dct(d).T.astype(np.float32 if dtype in SINGLE else np.float64)


def learn_sparse_ksvd(X, **options):
    return pp.dictionary.sparse_ksvd(X, dct(X.shape[0], X.dtype), N_ATOMS, N_NONZERO, k=3, **options)


LEARNERS = {
    "ksvd": lambda X, **options: pp.dictionary.ksvd(X, N_ATOMS, N_NONZERO, **options),
    "sparse_ksvd": learn_sparse_ksvd,
    "online_dictionary": lambda X, **options: pp.dictionary.online_dictionary(X, N_ATOMS, N_NONZERO, **options),
    "fast_dictionary": lambda X, **options: pp.dictionary.fast_dictionary(
        X, SCHEDULE, N_NONZERO, effort=0, **options
    ),
}


def signals(dtype=np.float64, n_signals=300):
    return synthetic_signals(gaussian((8, N_ATOMS), dtype), n_signals, 3, random_state=1)[0]


def relative_error(X, learned):
    D, codes = (matrix.astype(wide(matrix.dtype)) for matrix in (as_array(learned.dictionary), learned.codes))
    X = X.astype(wide(X.dtype))
    return np.linalg.norm(X - D @ codes.toarray()) / np.linalg.norm(X)


def assert_usable(learned, X):
    """Finite, of the right shape, and with codes of all signals that are as good as those of `omp`."""
    assert learned.dictionary.shape == (8, N_ATOMS)
    assert np.isfinite(as_array(learned.dictionary)).all()
    codes = pp.omp(learned.dictionary, X, N_NONZERO)
    errors = [np.linalg.norm(X - as_array(learned.dictionary) @ each.toarray()) for each in (learned.codes, codes)]
    assert errors[0] <= errors[1] + 1e-12 * np.linalg.norm(X)


def mean_rmse_on_rand(learn, seeds):
    """Of what ``learn(signals, seed)`` returns, over several draws of RAND."""
    draws = [rand(random_state=seed).signals for seed in range(seeds)]
    return np.mean([rmse(X, *learn(X, seed)[:2]) for seed, X in enumerate(draws)])
