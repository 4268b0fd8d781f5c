"""Factorizing: the hierarchical strategy on Hadamard matrices, and PALM on small ones."""

import subprocess
import sys
from math import log2
from pathlib import Path

import numpy as np
from common import OURS, Table, best_times, clock
from peers import pyfaust

import papilio as pp


def run(folder: Path) -> list[Table]:
    return [hadamard(), small()]


def hadamard() -> Table:
    """The Hadamard matrix into log₂n factors, to an error of at most 1e-12."""
    table = Table("Hierarchical factorization of the Hadamard matrix", "")
    ours, notes = {}, []
    for n, aim, rounds, burst in ((256, 30, 3, 3), (512, 60, 2, 1)):
        H = pp.transforms.hadamard(n).toarray()
        contestants = {OURS: lambda H=H, n=n: pp.hierarchical(H, pp.Schedule.hadamard(n))}
        name = "pyfaust hierarchical, backend 2020"
        if pyfaust is not None:
            results = []

            def faust(H: np.ndarray = H, results: list = results) -> None:
                results.append(pyfaust.fact.hierarchical(H, "hadamard", backend=2020))

            contestants[name] = faust
        times = best_times(contestants, rounds, burst)
        if pyfaust is not None:
            error = np.linalg.norm(results[-1].toarray() - H) / np.linalg.norm(H)
            notes.append(f"n = {n}: pyfaust's error {error:.0e}")
        table.add(f"n = {n}", times, {name: aim})
        ours[n] = times[OURS]
    for n in (1024, 2048):
        ours[n], error, memory = alone(n)
        assert error <= 1e-12
        notes.append(f"n = {n}: papilio {clock(ours[n])}, error {error:.0e}, peak memory {memory:.2f} GB")
    order = log2(ours[2048] / ours[256]) / 3
    table.note = (
        f"{'; '.join(notes)}. From 256 to 2048 papilio's time grows as n^{order:.2f} (aim: at most 2.6); the aims "
        f"are 10 s at 1024, and 60 s and 2 GB at 2048."
    )
    return table


def alone(n: int) -> tuple[float, float, float]:
    """Seconds, error and peak memory in GB of one factorization in a process of its own."""
    code = (
        "import common, papilio as pp; from time import perf_counter as t;"
        "small = pp.transforms.hadamard(256).toarray(); pp.hierarchical(small, pp.Schedule.hadamard(256));"
        f"H = pp.transforms.hadamard({n}).toarray(); b = t(); r = pp.hierarchical(H, pp.Schedule.hadamard({n}));"
        "print(t() - b, r.error, common.peak_memory())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    seconds, error, memory = map(float, done.stdout.split())
    return seconds, error, memory


def small() -> Table:
    """PALM on 32×32 with five factors of 128 entries, 500 iterations."""
    X = np.random.default_rng(0).standard_normal((32, 32))
    sets = [pp.constraints.Sparse((32, 32), 128)] * 5
    contestants = {OURS: lambda: pp.palm(X, sets, max_iter=500, tol=0)}
    errors = [f"papilio {contestants[OURS]().error:.3f}"]
    if pyfaust is not None:
        for backend in (2016, 2020):
            params = pyfaust.factparams.ParamsPalm4MSA(
                [pyfaust.factparams.ConstraintInt("sp", 32, 32, 128)] * 5,
                pyfaust.factparams.StoppingCriterion(num_its=500),
                is_update_way_R2L=True,
            )
            run = lambda p=params, b=backend: pyfaust.fact.palm4msa(X, p, backend=b)  # noqa: E731
            contestants[f"pyfaust palm4msa, backend {backend}"] = run
            error = np.linalg.norm(run().toarray() - X) / np.linalg.norm(X)
            errors.append(f"pyfaust ({backend}) {error:.3f}")
    table = Table(
        "PALM on a small matrix",
        f"Gaussian 32×32, five factors of 128 entries, 500 iterations; relative errors: {', '.join(errors)}.",
    )
    table.add("500 iterations", best_times(contestants, 5, 2), dict.fromkeys(contestants, 3))
    return table
