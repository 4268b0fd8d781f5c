"""Sparse coding: papilio's OMP against SPAMS and scikit-learn, and on a fast product against the dense matrix."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import OURS, Table, best_times
from peers import spams
from sklearn.linear_model import orthogonal_mp_gram

import papilio as pp

FEW = 1000  # signals for scikit-learn, which would take half a minute for all


def run(folder: Path) -> list[Table]:
    return [dense(), products()]


def dense() -> Table:
    table = Table(
        "Orthogonal matching pursuit",
        f"Gaussian dictionaries and signals, float64. scikit-learn codes {FEW} of the signals, and its time is "
        "scaled to all of them.",
    )
    rng = np.random.default_rng(0)
    for features, atoms, count, n_nonzero_coefs in ((64, 256, 100_000, 5), (256, 512, 20_000, 10)):
        D = rng.standard_normal((features, atoms))
        D = np.asfortranarray(D / np.linalg.norm(D, axis=0))
        X = np.asfortranarray(rng.standard_normal((features, count)))
        narrow = D.astype(np.float32), X.astype(np.float32)
        few = X[:, :FEW]

        def scikit_learn(
            D: np.ndarray = D, few: np.ndarray = few, n_nonzero_coefs: int = n_nonzero_coefs
        ) -> object:
            return orthogonal_mp_gram(D.T @ D, D.T @ few, n_nonzero_coefs=n_nonzero_coefs)

        contestants = {OURS: lambda D=D, X=X, k=n_nonzero_coefs: pp.omp(D, X, k)}
        if spams is not None:
            contestants["SPAMS, 2 threads"] = lambda D=D, X=X, k=n_nonzero_coefs: spams.omp(
                X, D, L=k, numThreads=2
            )
        contestants["scikit-learn"] = scikit_learn
        contestants["papilio, float32"] = lambda narrow=narrow, k=n_nonzero_coefs: pp.omp(*narrow, k)
        np.testing.assert_allclose(pp.omp(D, few, n_nonzero_coefs).toarray(), scikit_learn(), atol=1e-8)
        times = best_times(contestants, 5, 2)
        times["scikit-learn"] *= count / FEW
        case = f"{count:,} signals, {features}×{atoms}, {n_nonzero_coefs} atoms"
        single = times.pop("papilio, float32")
        table.add(case, times, {"SPAMS, 2 threads": 1, "scikit-learn": 15})
        table.add(f"{case}, float32", {OURS: single, "float64": times[OURS]}, {"float64": 1.3})
    return table


def chain(per_row: tuple[int, ...] = (64, 64, 77)) -> pp.SparseProduct:
    """1024×4096 with a relative complexity of 0.05, entries at random places."""
    rng = np.random.default_rng(0)
    factors = []
    for i, entries in enumerate(per_row):
        columns = 4096 if i == len(per_row) - 1 else 1024
        places = np.concatenate([rng.choice(columns, entries, replace=False) for _ in range(1024)])
        pointers = np.arange(0, 1024 * entries + 1, entries)
        factors.append(sp.csr_array((rng.standard_normal(places.size), places, pointers), shape=(1024, columns)))
    return pp.SparseProduct(factors)


def products() -> Table:
    table = Table("Orthogonal matching pursuit on a fast product", "")
    op = chain()
    D = op.toarray()
    rng = np.random.default_rng(0)
    for count, aim in ((200, 2.0), (2000, 1.2)):
        X = np.asfortranarray(rng.standard_normal((1024, count)))
        contestants = {OURS: lambda X=X: pp.omp(op, X, 10), "papilio, dense matrix": lambda X=X: pp.omp(D, X, 10)}
        times = best_times(contestants, 5, 5)
        table.add(f"{count} signals", times, {"papilio, dense matrix": aim})
    notes = [f"{count} signals {memory('op', count):.2f} and {memory('D', count):.2f} GB" for count in (200, 2000)]
    table.note = (
        "A 1024×4096 product of three random sparse factors, relative complexity 0.05, 10 atoms. Peak memory, "
        f"each in a process of its own, of the product and of the dense matrix: {'; '.join(notes)}."
    )
    return table


def memory(which: str, count: int) -> float:
    """Peak memory in GB of coding with the product (``op``) or with the dense matrix (``D``)."""
    code = (
        "import numpy as np, papilio as pp, coding, common; op = coding.chain();"
        + ("D = op.toarray();" if which == "D" else "")
        + f"X = np.asfortranarray(np.random.default_rng(0).standard_normal((1024, {count})));"
        f"pp.omp({which}, X, 10); print(common.peak_memory())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    return float(done.stdout)
