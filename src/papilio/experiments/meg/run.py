"""Make a MEG gain matrix fast, and look for sources with it."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...coding import omp
from ...coding.coder import Coder
from ...linalg import frobenius
from ...operators import SparseProduct
from ...search.factorize import factorize
from ...typing import Array
from ..tables import rounded
from ..trials import Ledger, OnProgress, Rows, run_trials
from . import peers
from .gain import SIMULATED, Gain, load_gain
from .localisation import Draws, distances, draw

DENSE, PAPILIO, SVD, PYFAUST = "dense", "papilio", "truncated SVD", "pyfaust"
QUANTILES = (5, 25, 50, 75, 95)  # percent: the whiskers, the box and its middle

KEYS = ("kind", "ratio")
Result = TypeVar("Result")


class Case(NamedTuple):
    """A matrix with ``ratio`` times fewer entries than the dense one has."""

    kind: str
    ratio: int


def columns_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """The columns of table.csv: the quantiles of distances are those of each range."""
    places = [quantile_column(i, each) for i in range(len(settings["ranges"])) for each in QUANTILES]
    return (*KEYS, "matrix", "shape", "entries", "error", "method", *places)


def quantile_column(i: int, quantile: int) -> str:
    return f"range_{i + 1}_distance_{quantile}"


_SPEEDS = ("speedup_vector", "speedup_block", "omp_together", "dense_omp_together", "omp_one", "dense_omp_one")
TIMES = (*KEYS, "seconds", "cpu_seconds", *_SPEEDS)


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with errors and quantiles of distances, and times.csv; both have a row for each case.

    ``seconds`` are those of the factorization, on one thread, and ``cpu_seconds`` those in which the processor
    worked on it. Those of ``omp`` are per signal: of all signals
    together, and of one at a time with a dictionary that was prepared before; the dense matrix is timed beside
    each product.
    """

    def expected(case: Case) -> list[tuple[str, ...]]:
        return [tuple(map(str, case))]

    cases = cases_of(settings)
    table = Ledger[Case](folder / "table.csv", columns_of(settings), KEYS, expected)
    times = Ledger[Case](folder / "times.csv", TIMES, KEYS, expected)

    @cache
    def known() -> tuple[Gain, list[Draws]]:
        """What all cases share, if any is left."""
        _warm_up()
        gain = load_gain(settings["origin"], settings["n_sensors"], settings["n_sources"])
        return gain, draws_of(settings, gain)

    def work(case: Case) -> tuple[Rows, Rows]:
        return measure(settings, *known(), case)

    # One after the other: times are taken.
    run_trials(cases, work, table, times, jobs=1, progress=progress)


def cases_of(settings: dict[str, Any]) -> list[Case]:
    """All cases, in the order of the tables."""
    peer_ratios = settings["peer_ratios"] if peers.is_available() else []
    kinds = ((PAPILIO, settings["ratios"]), (SVD, settings["ratios"]), (PYFAUST, peer_ratios))
    return [Case(DENSE, 1), *(Case(kind, ratio) for kind, ratios in kinds for ratio in ratios)]


def draws_of(settings: dict[str, Any], gain: Gain) -> list[Draws]:
    """The same draws for all matrices, a set for each range of distances."""
    return [
        draw(gain, low, high, settings["draws"], (settings["seed"], i))
        for i, (low, high) in enumerate(settings["ranges"])
    ]


def measure(settings: dict[str, Any], gain: Gain, draws: list[Draws], case: Case) -> tuple[Rows, Rows]:
    """The row of a case in the table, and that with its times."""
    row: dict[str, Any] = {**case._asdict(), "matrix": gain.origin, "shape": "×".join(map(str, gain.matrix.shape))}
    times: dict[str, Any] = case._asdict()
    budget, seconds = gain.matrix.size // case.ratio, (0.0, 0.0)
    if case.kind == PAPILIO:
        fit, seconds = _timed(partial(factorize, gain.matrix, complexity=1 / case.ratio))
        row |= {"entries": fit.operator.nnz, "error": rounded(fit.error, 6), "method": fit.method}
        if case.ratio in settings["located"]:
            row |= _located(gain, draws, fit.operator)
            times |= {f"speedup_{name}": rounded(value, 4) for name, value in fit.speedup._asdict().items()}
            times |= _omp_seconds(settings, gain.matrix, fit.operator, draws)
    elif case.kind == SVD:
        (rank, error), seconds = _timed(partial(truncated_svd, gain.matrix, budget))
        row |= {"entries": rank * sum(gain.matrix.shape), "error": rounded(error, 6)}
    elif case.kind == PYFAUST:
        peer = peers.factorize(gain.matrix, budget, settings["peer_seconds"])
        seconds = peer.seconds, peer.cpu_seconds
        row |= {"entries": peer.entries, "error": rounded(peer.error, 6)}
    else:
        row |= {"entries": gain.matrix.size, "error": 0.0} | _located(gain, draws, gain.matrix)
    times |= {name: rounded(value, 4) for name, value in zip(("seconds", "cpu_seconds"), seconds, strict=True)}
    return [row], [times]


def _timed(call: Callable[[], Result]) -> tuple[Result, tuple[float, float]]:
    """What ``call`` returns, its seconds, and those of the processor."""
    begin, cpu_begin = perf_counter(), process_time()
    result = call()
    return result, (perf_counter() - begin, process_time() - cpu_begin)


def truncated_svd(matrix: Array, budget: int) -> tuple[int, float]:
    """The largest rank that ``budget`` entries allow, and its relative error."""
    rank = budget // sum(matrix.shape)
    values = np.linalg.svd(matrix, compute_uv=False)
    return rank, frobenius(values[rank:]) / frobenius(values)


def _located(gain: Gain, draws: list[Draws], matrix: Array | SparseProduct) -> dict[str, float]:
    """Quantiles of the distances between sources and what is found for them, for each range."""
    found = {}
    for i, each in enumerate(draws):
        values = np.percentile(distances(matrix, gain, each), QUANTILES)
        for quantile, value in zip(QUANTILES, values, strict=True):
            found[quantile_column(i, quantile)] = rounded(float(value), 5)
    return found


def _omp_seconds(
    settings: dict[str, Any], dense: Array, product: SparseProduct, draws: list[Draws]
) -> dict[str, float]:
    """Seconds per signal, the best of some rounds, in which all take turns."""
    signals = np.hstack([each.signals for each in draws])
    few = signals[:, :: max(signals.shape[1] // settings["one_by_one"], 1)][:, : settings["one_by_one"]]
    ready, dense_ready = Coder(product), Coder(dense)
    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "omp_together": (partial(omp, product, signals, 2), signals.shape[1]),
        "dense_omp_together": (partial(omp, dense, signals, 2), signals.shape[1]),
        "omp_one": (partial(_code_each, ready, few), few.shape[1]),
        "dense_omp_one": (partial(_code_each, dense_ready, few), few.shape[1]),
    }
    best = dict.fromkeys(calls, np.inf)
    for _ in range(settings["timing_rounds"]):
        for name, (call, count) in calls.items():
            begin = perf_counter()
            call()
            best[name] = min(best[name], (perf_counter() - begin) / count)
    return {name: rounded(value, 4) for name, value in best.items()}


def _code_each(coder: Coder, signals: Array) -> None:
    for i in range(signals.shape[1]):
        coder.code(signals[:, i : i + 1], 2)


def _warm_up() -> None:
    """Compile the kernels, which must not count."""
    gain = load_gain(SIMULATED, 8, 128)
    fit = factorize(gain.matrix, complexity=0.25)
    for matrix in (gain.matrix, fit.operator):
        omp(matrix, gain.matrix[:, :40], 2)
