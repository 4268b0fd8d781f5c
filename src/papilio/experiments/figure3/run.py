"""Learn dictionaries for FACT and RAND with all methods of the paper's section 4.2, and measure them."""

from collections.abc import Callable, Iterator
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
        dictionary = _learners(settings, X, seed, start)[method.name](method)
        seconds = perf_counter() - begin
        if method.name == KSVD:
            start = dictionary  # learned once: every PROPOSED starts from it
        op = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        key = dict(zip(KEYS, (draw.data, draw.trial, *method), strict=True))
        results.append(
            {
                **key,
                "relative_complexity": complexity_of(method.name, op, settings),
                "entries": op.nnz,
                "rmse": rounded(rmse(X, op, omp(op, X, settings["n_nonzero_coefs"])), 12),
                "signal_rms": rounded(signal_rms, 12),
            }
        )
        times.append({**key, "seconds": seconds})
    return results, times


def _learners(settings: dict[str, Any], X: Array, seed: int, start: Any) -> dict[str, Callable[[Method], Any]]:
    """Functions that return the (d, d) dictionary of each method."""
    d, k = settings["n_features"], settings["n_nonzero_coefs"]
    dense = {"n_nonzero_coefs": k, "random_state": seed}

    def proposed(method: Method) -> Any:
        return fast_dictionary(
            X,
            Schedule.paper(d, int(method.Q), int(method.p), float(method.P)),
            init=start,
            refine=settings["refine"],
            max_iter=settings["palm_max_iter"],
            tol=settings["palm_tol"],
            **dense,
        ).dictionary

    return {
        KSVD: lambda _: (
            ksvd(X, d, max_iter=settings["ksvd_max_iter"], tol=settings["ksvd_tol"], **dense).dictionary
        ),
        ONLINE: lambda _: online_dictionary(X, d, max_iter=settings["online_max_iter"], **dense).dictionary,
        SPARSE_KSVD: lambda _: (
            sparse_ksvd(
                X,
                dct(d).H,
                d,
                k=settings["k"],
                max_iter=settings["sparse_ksvd_max_iter"],
                tol=settings["sparse_ksvd_tol"],
                **dense,
            ).dictionary
        ),
        DCT: lambda _: dct(d).H,
        HAAR: lambda _: haar(d).H,
        HAD: lambda _: hadamard(d).H,
        PROPOSED: proposed,
    }


def complexity_of(method: str, op: SparseProduct, settings: dict[str, Any]) -> float:
    """The relative complexity as the paper counts it: the DCT as 2d·log₂d, all others by their entries."""
    d = settings["n_features"]
    if method == DCT:
        return 2 * log2(d) / d
    if method == SPARSE_KSVD:
        return 2 * log2(d) / d + settings["k"] / d
    return float(op.relative_complexity)
