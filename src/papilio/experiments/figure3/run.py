"""Learn dictionaries for FACT and RAND with all methods of the paper's section 4.2, and measure them."""

from collections.abc import Iterator
from functools import partial
from itertools import count, product
from math import log2
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ... import datasets
from ...coding import omp
from ...dictionary.fast import fast_dictionary
from ...dictionary.ksvd import ksvd
from ...dictionary.online import online_dictionary
from ...dictionary.sparse_ksvd import sparse_ksvd
from ...metrics import rmse
from ...operators import SparseProduct
from ...solvers.schedule import Schedule
from ...transforms import dct, haar, hadamard
from ...typing import Array
from ...validation import as_integer
from ..tables import rounded
from ..trials import Ledger, OnProgress, Rows, run_trials

PROPOSED, KSVD, ONLINE, SPARSE_KSVD = "PROPOSED", "K-SVD", "online", "Sparse K-SVD"
DCT, HAAR, HAD = "DCT", "HAAR", "HAD"
ANALYTIC = (DCT, HAAR, HAD)

KEYS = ("data", "trial", "method", "Q", "p", "P")
RESULTS = (*KEYS, "relative_complexity", "entries", "rmse", "signal_rms")
TIMES = (*KEYS, "seconds")


class Draw(NamedTuple):
    """One trial with one of the data sets."""

    trial: int
    data: str


class Method(NamedTuple):
    """A method; PROPOSED has a configuration."""

    name: str
    Q: str = ""
    p: str = ""
    P: str = ""


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each method and draw, and times.csv with the seconds it took.

    ``rmse`` is ‖X − DΓ‖/√(d·n) with Γ by `omp`, for every method; ``entries`` are those of papilio's operator, and
    ``relative_complexity`` is as the paper counts it.
    """
    trials = as_integer("trials", settings["trials"], 1)
    columns = methods(settings)

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [(draw.data, str(draw.trial), *method) for method in columns]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [Draw(trial, data) for trial in range(trials) for data in settings["data"]]
    draws += _more_draws(table, trials, settings["data"])
    run_trials(draws, partial(learn, settings), table, times, jobs=jobs, progress=progress)


def methods(settings: dict[str, Any]) -> list[Method]:
    """All methods and configurations, in the order of the table."""
    configurations = product(settings["Q"], settings["p"], settings["P"])
    proposed = [Method(PROPOSED, str(Q), str(p), str(P)) for Q, p, P in configurations]
    return [*map(Method, (KSVD, ONLINE, SPARSE_KSVD, *ANALYTIC)), *proposed]


def _more_draws(table: Ledger[Draw], trials: int, data: list[str]) -> Iterator[Draw]:
    """Further draws that an earlier, longer run has left: they are kept."""
    for trial in count(trials):
        found = table.blocks([Draw(trial, name) for name in data])
        if not found:
            return
        yield from found


def seeds_of(seed: int, draw: Draw) -> tuple[int, int]:
    """The seeds of the data and of the learners, which depend on nothing but the draw."""
    stream = [seed, draw.trial, *draw.data.encode()]
    first, second = np.random.SeedSequence(stream).generate_state(2)
    return int(first), int(second)


def learn(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The rows of a draw in the table, and those with its times."""
    data_seed, seed = seeds_of(settings["seed"], draw)
    make = {"FACT": datasets.fact, "RAND": datasets.rand}[draw.data]
    X = make(
        settings["n_signals"],
        n_features=settings["n_features"],
        n_nonzero_coefs=settings["n_nonzero_coefs"],
        random_state=data_seed,
    ).signals
    signal_rms = float(np.sqrt(np.mean(X**2)))
    results, times = [], []
    start = None
    for method in methods(settings):
        begin = perf_counter()
        dictionary = _dictionary(settings, method, X, seed, start)
        seconds = perf_counter() - begin
        if method.name == KSVD:
            start = dictionary  # learned once: every PROPOSED starts from it
        op = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        error = rounded(rmse(X, op, omp(op, X, settings["n_nonzero_coefs"])), 12)
        values = complexity_of(method.name, op, settings), op.nnz, error, rounded(signal_rms, 12)
        key = draw.data, draw.trial, *method
        results.append(dict(zip(RESULTS, (*key, *values), strict=True)))
        times.append(dict(zip(TIMES, (*key, seconds), strict=True)))
    return results, times


def _dictionary(settings: dict[str, Any], method: Method, X: Array, seed: int, start: Any) -> Any:
    """The (d, d) dictionary of a method; PROPOSED begins at ``start``."""
    d, k = settings["n_features"], settings["n_nonzero_coefs"]
    if method.name in ANALYTIC:
        return {DCT: dct, HAAR: haar, HAD: hadamard}[method.name](d).H
    common = {"n_nonzero_coefs": k, "random_state": seed}
    if method.name == ONLINE:
        return online_dictionary(X, d, max_iter=settings["online_max_iter"], **common).dictionary
    kind = {KSVD: "ksvd", SPARSE_KSVD: "sparse_ksvd", PROPOSED: "palm"}[method.name]
    common |= {"max_iter": settings[f"{kind}_max_iter"], "tol": settings[f"{kind}_tol"]}
    if method.name == KSVD:
        return ksvd(X, d, **common).dictionary
    if method.name == SPARSE_KSVD:
        return sparse_ksvd(X, dct(d).H, d, k=settings["k"], **common).dictionary
    schedule = Schedule.paper(d, int(method.Q), int(method.p), float(method.P))
    return fast_dictionary(X, schedule, init=start, refine=settings["refine"], **common).dictionary


def complexity_of(method: str, op: SparseProduct, settings: dict[str, Any]) -> float:
    """The relative complexity as the paper counts it: the DCT as 2d·log₂d, all others by their entries."""
    d = settings["n_features"]
    if method == DCT:
        return 2 * log2(d) / d
    if method == SPARSE_KSVD:
        return 2 * log2(d) / d + settings["k"] / d
    return float(op.relative_complexity)
