"""Factorizing: the hierarchical strategy on Hadamard matrices, and PALM on small ones."""

import resource
from math import log2
from pathlib import Path
from time import perf_counter

import numpy as np
from common import OURS, Table, best_times, clock
from peers import pyfaust

import papilio as pp


def run(folder: Path) -> list[Table]:
    return [hadamard(), small()]


def hadamard() -> Table:
    """The Hadamard matrix into log₂n factors, to an error of at most 1e-12."""
    table = Table("Hierarchical factorization of the Hadamard matrix", "")
    pp.hierarchical(pp.transforms.hadamard(256).toarray(), pp.Schedule.hadamard(256))  # compile
    ours, notes = {}, []
    for n in (256, 512, 1024, 2048):
        H = pp.transforms.hadamard(n).toarray()
        repeats = 3 if n <= 512 else 1
        for _ in range(repeats):
            begin = perf_counter()
            result = pp.hierarchical(H, pp.Schedule.hadamard(n))
            ours[n] = min(ours.get(n, np.inf), perf_counter() - begin)
        assert result.error <= 1e-12
        notes.append(f"n = {n}: {clock(ours[n])}, error {result.error:.0e}")
        aim = {256: 30, 512: 60}.get(n)
        if pyfaust is not None and aim:
            begin = perf_counter()
            faust = pyfaust.fact.hierarchical(H, "hadamard", backend=2020)
            seconds = perf_counter() - begin
            error = np.linalg.norm(faust.toarray() - H) / np.linalg.norm(H)
            name = "pyfaust hierarchical, backend 2020"
            table.add(f"n = {n}", {OURS: ours[n], name: seconds}, {name: aim})
            notes.append(f"pyfaust's error {error:.0e}")
    order = log2(ours[2048] / ours[256]) / 3
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    table.note = (
        f"papilio: {'; '.join(notes)}. From 256 to 2048 the time grows as n^{order:.2f} (aim: at most 2.6); the "
        f"aims are 10 s at 1024 and 60 s at 2048. Peak memory of the process {memory:.2f} GB (aim: below 2)."
    )
    return table


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
