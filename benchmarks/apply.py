"""Applying an operator: blocks, single vectors, adjoints, precisions, and growth with the size."""

from itertools import cycle
from pathlib import Path

import numpy as np
import scipy.fft
from common import OURS, Table, best_times
from matplotlib.figure import Figure
from peers import applications, random_chain

import papilio as pp

AIMS = {
    64: {"dense NumPy": 1 / 1.1},
    256: {"dense NumPy": 2, "pyfaust": 8},
    1024: {"dense NumPy": 6, "SciPy CSR chain": 4, "pyfaust": 8, "lazylinop": 4, "scipy.fft.rfft": 1 / 1.1},
    4096: {"dense NumPy": 12},
}
VECTOR_AIMS = {256: {"dense NumPy": 1 / 1.2}, 1024: {"dense NumPy": 6, "pyfaust": 1.3}}
WIDTH = 256


def run(folder: Path) -> list[Table]:
    rng = np.random.default_rng(0)
    blocks = Table("Applying to a block", f"Hadamard product and a random chain times {WIDTH} vectors, float64.")
    vectors = Table("Applying to one vector", "All of Python's overhead included.")
    growth: dict[str, list[tuple[int, float]]] = {}
    for n in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        op = pp.transforms.hadamard(n)
        peers = applications(op)
        X = rng.standard_normal((n, WIDTH))
        contestants = {name: (lambda apply=apply, X=X: apply(X)) for name, apply in peers.items()}
        contestants["scipy.fft.rfft"] = lambda X=X: scipy.fft.rfft(X, axis=0)
        times = best_times(contestants, 60 if n <= 256 else 20 if n <= 1024 else 4)
        for name, seconds in times.items():
            growth.setdefault(name, []).append((n, seconds))
        if n in AIMS:
            blocks.add(f"Hadamard {n}", times, AIMS[n])
        if n in VECTOR_AIMS:
            x = X[:, 0].copy()
            singles = {name: (lambda apply=apply, x=x: apply(x)) for name, apply in peers.items()}
            vectors.add(f"Hadamard {n}", best_times(singles, 60, 20), VECTOR_AIMS[n])
    X = rng.standard_normal((512, WIDTH))
    contestants = {name: (lambda apply=apply: apply(X)) for name, apply in applications(random_chain()).items()}
    blocks.add("random chain, 5 × 512×512", best_times(contestants, 20), {"SciPy CSR chain": 2, "pyfaust": 3})
    draw(growth, folder / "growth.png")
    return [blocks, vectors, variants()]


def variants() -> Table:
    """papilio against itself: the adjoint, single precision, column-major blocks."""
    table = Table(
        "Adjoint, single precision, layout", f"Hadamard 1024 times {WIDTH} vectors, against float64 forward."
    )
    op = pp.transforms.hadamard(1024)
    single, adjoint = op.astype(np.float32), op.H
    X = np.random.default_rng(0).standard_normal((1024, WIDTH))
    narrow, by_columns = X.astype(np.float32), np.asfortranarray(X)
    cases = {
        "forward": lambda: op @ X,
        "adjoint": lambda: adjoint @ X,
        "float32": lambda: single @ narrow,
        "column-major": lambda: op @ by_columns,
    }
    times = best_times(cases, 60)
    aims = {"adjoint": 1 / 1.3, "float32": 1.5}
    for name in ("adjoint", "float32", "column-major"):
        aim = {"float64 forward": aims[name]} if name in aims else None
        table.add(name, {OURS: times[name], "float64 forward": times["forward"]}, aim)
    return table


def draw(growth: dict[str, list[tuple[int, float]]], path: Path) -> None:
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.add_subplot()
    markers = cycle("osv^Dx*P")
    for name, points in growth.items():
        n, seconds = zip(*points, strict=True)
        ours = name == OURS
        style = {"color": "black", "linewidth": 2.5, "zorder": 3} if ours else {"linewidth": 1.2, "alpha": 0.9}
        ax.loglog(n, np.array(seconds) * 1e6, marker=next(markers), markersize=5, label=name, **style)
    ax.set_xticks(n, labels=[str(size) for size in n])
    ax.minorticks_off()
    ax.set_xlabel("n, Hadamard product of size n × n")
    ax.set_ylabel(f"µs for {WIDTH} vectors, best")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=120)
