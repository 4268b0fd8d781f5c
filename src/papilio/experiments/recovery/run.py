"""Plant dictionaries with non-negative codes in signals, learn them again, and measure what was found."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ...coding import omp
from ...datasets import random_dictionary, synthetic_signals
from ...dictionary.ksvd import ksvd
from ...linalg import column_norms
from ...metrics import mean_max_cosine, recovery_rate
from ...typing import Array
from ...validation import as_integer
from ..tables import rounded
from ..trials import Ledger, OnProgress, Rows, run_trials

START, KSVD, TRUE = "signals drawn at random", "K-SVD", "true dictionary"

KEYS = ("atoms", "features", "signals", "values", "trial", "method")
RESULTS = (*KEYS, "cosine", "recovered", "correlation", "error")
TIMES = (*KEYS, "seconds")


class Draw(NamedTuple):
    """A planted dictionary and its signals."""

    atoms: int
    features: int
    signals: int
    values: str
    trial: int


class Planted(NamedTuple):
    """A dictionary with unit-norm atoms, signals to learn from, and new ones with their codes."""

    dictionary: Array
    training: Array
    held_out: Array
    codes: sp.csc_array


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each draw and method, and times.csv with the seconds of one core.

    ``cosine`` is the mean over the true atoms of the largest cosine with a learned one, with its sign;
    ``recovered`` is the share of true atoms with a cosine above 0.99. ``correlation`` and ``error`` are those of
    non-negative codes of new signals (see `mean_correlation`; the error is relative).
    """
    trials = as_integer("trials", settings["trials"], 1)

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [tuple(map(str, (*draw, method))) for method in (START, KSVD, TRUE)]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [
        Draw(atoms, features, signals, values, trial)
        for values in settings["values"]
        for atoms, features, signals in settings["sizes"]
        for trial in range(trials)
    ]
    run_trials(draws, partial(measure, settings), table, times, jobs=jobs, progress=progress)


def measure(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The rows of a draw in the table, and those with its times."""
    planted, seed = plant(settings, draw)
    truth, k = planted.dictionary, settings["n_nonzero_coefs"]
    results, times = [], []
    for method, dictionary, seconds in _dictionaries(settings, planted, seed):
        codes = omp(dictionary, planted.held_out, k, positive=True)
        rest = planted.held_out - dictionary @ codes
        values = (
            mean_max_cosine(dictionary, truth, signed=True),
            recovery_rate(dictionary, truth),
            mean_correlation(codes, planted.codes),
            float(np.linalg.norm(rest) / np.linalg.norm(planted.held_out)),
        )
        row = (*draw, method, *(rounded(value, 6) for value in values))
        results.append(dict(zip(RESULTS, row, strict=True)))
        times.append(dict(zip(TIMES, (*draw, method, rounded(seconds, 3)), strict=True)))
    return results, times


def plant(settings: dict[str, Any], draw: Draw) -> tuple[Planted, int]:
    """The data of a draw and the seed of the learner, which depend on nothing but the draw."""
    stream = [settings["seed"], *draw[:3], draw.trial, *draw.values.encode()]
    first, seed = np.random.SeedSequence(stream).generate_state(2)
    random = np.random.RandomState(first)
    dictionary = random_dictionary(draw.features, draw.atoms, random_state=random)
    dictionary /= column_norms(dictionary)
    training, held_out = (
        synthetic_signals(dictionary, count, settings["n_nonzero_coefs"], values=draw.values, random_state=random)
        for count in (draw.signals, settings["n_held_out"])
    )
    return Planted(dictionary, training[0], *held_out), int(seed)


def mean_correlation(codes: sp.csc_array, truth: sp.csc_array) -> float:
    """The mean correlation coefficient of codes with the true ones: what is published for sparse autoencoders.

    Each true atom is paired with one learned atom, such that the mean of |correlation| over all pairs is largest.
    """
    correlations = np.abs(_standardised(truth) @ _standardised(codes).T)
    return float(correlations[linear_sum_assignment(correlations, maximize=True)].mean())


def _standardised(codes: sp.csc_array) -> Array:
    """Rows with mean zero and norm one; constant rows become zero."""
    rows = codes.toarray()
    rows -= rows.mean(axis=1, keepdims=True)
    norms = column_norms(rows.T)
    return rows / np.where(norms > 0, norms, 1.0)[:, None]


def _dictionaries(settings: dict[str, Any], planted: Planted, seed: int) -> Iterator[tuple[str, Array, float]]:
    """What K-SVD starts from, what it learns in so many seconds, and the truth.

    The seconds are those of the processor, as other work beside it should not count.
    """
    X, n_atoms, k = planted.training, planted.dictionary.shape[1], settings["n_nonzero_coefs"]
    learn = partial(ksvd, X, n_atoms, k, positive=True, random_state=seed)
    yield START, np.asarray(learn(max_iter=0).dictionary), 0.0
    begin = process_time()
    learned = np.asarray(learn(max_iter=settings["max_iter"]).dictionary)
    yield KSVD, learned, process_time() - begin
    yield TRUE, planted.dictionary, 0.0
