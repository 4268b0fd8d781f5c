"""Fast graph Fourier transforms beside pyfaust's ``eigtj``: errors at equal rotations, seconds, and products.

``python benchmarks/graphs.py community ring`` measures some graphs only.
"""

import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log2
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from common import OURS, Table, best_times, clock

import papilio as pp

PATIENCE = 300  # seconds for the peer
NAMES = ("community", "sensor", "ring", "Minnesota")


@dataclass
class Bases:
    """A table of errors and seconds."""

    rows: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        note = (
            "Relative error ‖L − UΛUᵀ‖/‖L‖ with n·log₂n and 2n·log₂n rotations: `rotations.graph_fourier` "
            "without and with sweeps, and pyfaust's `eigtj` with its default, n/2 rotations per factor, and with "
            "one per factor, which is as greedy as it gets (its product then has as many factors as rotations). "
            f"Graphs of PyGSP. A dash: not done after {PATIENCE} s."
        )
        head = (
            "| graph | n | rotations | greedy | swept | factors | time | eigtj | time | one per factor | time |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        )
        return "\n".join(["## Graph Fourier transforms", "", note, "", head, *self.rows, ""])


def run(folder: Path, names: tuple[str, ...] = NAMES) -> list[Table | Bases]:
    bases = Bases()
    applied = Table(
        "Products with a graph Fourier transform",
        "U with n·log₂n rotations, as found above, in double precision.",
    )
    pp.rotations.graph_fourier(sp.csr_array(1 - np.eye(8)))  # kernels are compiled
    for name in names:
        L = laplacian_of(name)
        n = L.shape[0]
        for times in (1, 2):
            count = int(times * n * log2(n))
            greedy = pp.rotations.graph_fourier(L, n_rotations=count, n_sweeps=0)
            begin = perf_counter()
            fit = pp.rotations.graph_fourier(L, n_rotations=count)
            seconds = perf_counter() - begin
            peers = [
                with_patience(eigtj, L.toarray(), count, each) for each in (None, 1) if each is None or n < 1000
            ]
            figures = [f"{found[0]:.4f} | {clock(found[1])}" if found else "– | –" for found in peers]
            figures += ["– | –"] * (2 - len(figures))
            cells = (name, n, count, f"{greedy.error:.4f}", f"{fit.error:.4f}", len(fit.operator.factors))
            bases.rows.append(f"| {' | '.join(map(str, cells))} | {clock(seconds)} | {' | '.join(figures)} |")
            if times == 1:
                factors = peers[0][2] if peers[0] else None
                add_products(applied, name, fit.operator, factors)
    return [bases, applied]


def laplacian_of(name: str) -> sp.csr_array:
    logging.disable(logging.CRITICAL)  # PyGSP reports each graph
    from pygsp import graphs

    make: dict[str, Callable[[], object]] = {
        "community": lambda: graphs.Community(N=256, seed=0),
        "sensor": lambda: graphs.Sensor(N=256, seed=0),
        "ring": lambda: graphs.Ring(256),
        "Minnesota": graphs.Minnesota,
    }
    return sp.csr_array(make[name]().L.astype(float))


def eigtj(L: np.ndarray, count: int, per_factor: int | None) -> tuple[float, float, list[sp.csr_array]]:
    """The error, seconds and factors of the peer."""
    warnings.simplefilter("ignore")
    from pyfaust.fact import eigtj

    begin = perf_counter()
    values, basis = eigtj(L, nGivens=count, nGivens_per_fac=per_factor, enable_large_Faust=True)
    seconds = perf_counter() - begin
    dense = basis.toarray()
    error = np.linalg.norm(L - (dense * values) @ dense.T) / np.linalg.norm(L)
    factors = [] if per_factor else [sp.csr_array(basis.factors(i)) for i in range(basis.numfactors())]
    return float(error), seconds, factors


def with_patience(call: Callable[..., object], *arguments: object) -> object:
    """What a call returns, in a process of its own; None if it takes too long."""
    context = get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_put, args=(results, call, *arguments), daemon=True)
    process.start()
    try:
        return results.get(timeout=PATIENCE)
    except Empty:
        return None
    finally:
        process.terminate()


def _put(results: object, call: Callable[..., object], *arguments: object) -> None:
    results.put(call(*arguments))


def add_products(table: Table, name: str, op: pp.SparseProduct, factors: list[sp.csr_array] | None) -> None:
    n, random = op.shape[0], np.random.default_rng(0)
    dense, ways = op.toarray(), {}
    if factors:
        warnings.simplefilter("ignore")
        import pyfaust

        ways["pyfaust"] = pyfaust.Faust([sp.csr_matrix(each) for each in factors])
    for count in (1, 256):
        x = random.standard_normal((n, count))
        x = x[:, 0] if count == 1 else np.asfortranarray(x)
        times = {OURS: lambda x=x: op @ x, "dense": lambda x=x: dense @ x}
        times |= {each: lambda x=x, way=way: way @ x for each, way in ways.items()}
        table.add(f"{name}, {count} vector{'s' * (count > 1)}", best_times(times, rounds=3, burst=3))


if __name__ == "__main__":
    sys.stdout.write("\n".join(table.markdown() for table in run(Path(), tuple(sys.argv[1:]) or NAMES)))
