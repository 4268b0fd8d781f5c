"""Multiply random sparse factors, factorize the product, and compare."""

from functools import partial, reduce
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ...search.factorize import factorize
from ...typing import Array
from ...validation import as_integer
from ..tables import rounded
from ..trials import Ledger, OnProgress, Rows, run_trials

KEYS = ("size", "depth", "entries", "values", "trial")
RESULTS = (*KEYS, "planted", "product", "found", "error", "recovered", "method")
TIMES = (*KEYS, "seconds")
SIGNS, GAUSSIAN = "signs", "gaussian"
EXACT = 1e-6  # the largest relative error of a product that counts as recovered
ROOM = 1.1  # how many entries it may have, over those of the planted factors


class Draw(NamedTuple):
    """A planted product: ``depth`` square factors with so many ``entries`` per column."""

    size: int
    depth: int
    entries: int
    values: str
    trial: int


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each draw, and times.csv with the seconds of one core.

    ``planted``, ``product`` and ``found`` are numbers of entries: of the planted factors, of their product as one
    matrix, and of the factors that were found. A draw is ``recovered`` if the error is at most 1e-6 with at most
    10 % more entries than planted.
    """
    trials = as_integer("trials", settings["trials"], 1)

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [tuple(map(str, draw))]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [
        Draw(size, depth, entries, values, trial)
        for values in settings["values"]
        for size in settings["sizes"]
        for depth in settings["depths"]
        for entries in settings["entries"]
        for trial in range(trials)
    ]
    run_trials(draws, partial(measure, settings), table, times, jobs=jobs, progress=progress)


def measure(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The row of a draw in the table, and the one with its time."""
    factors = plant(settings["seed"], draw)
    M = reduce(np.matmul, factors)
    planted = sum(np.count_nonzero(factor) for factor in factors)
    begin = process_time()
    # What a user would say who knows about how sparse the factors are, but not how many.
    complexity = min(ROOM * planted / M.size, 1.0)
    fit = factorize(M, complexity=complexity, callback=lambda step: process_time() - begin > settings["seconds"])
    seconds = process_time() - begin
    found = fit.operator.nnz
    is_recovered = int(fit.error <= EXACT and found <= ROOM * planted)
    row = (*draw, planted, np.count_nonzero(M), found, rounded(fit.error, 3), is_recovered, fit.method)
    return [dict(zip(RESULTS, row, strict=True))], [dict(zip(TIMES, (*draw, rounded(seconds, 3)), strict=True))]


def plant(seed: int, draw: Draw) -> list[Array]:
    """The factors of a draw: in each column, entries at random places; signs, or Gaussian numbers."""
    random = np.random.default_rng([seed, *draw[:3], draw.trial, *draw.values.encode()])
    n, k = draw.size, draw.entries
    factors = []
    for _ in range(draw.depth):
        places = random.permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :k]
        numbers = random.standard_normal((n, k))
        factor = np.zeros((n, n))
        factor[places, np.arange(n)[:, None]] = np.sign(numbers) if draw.values == SIGNS else numbers
        factors.append(factor)
    return factors
