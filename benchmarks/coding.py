"""Sparse coding: papilio's OMP against SPAMS and scikit-learn, and on a fast product against the dense matrix.

`spams.omp` is forward selection (orthogonal least squares): it takes the atom that lowers the residual most. OMP
takes the atom with the largest correlation. From the second atom on, the codes may differ.
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import OURS, Table, best_times, peak
from peers import spams, torch
from sklearn.linear_model import orthogonal_mp_gram

import papilio as pp

FEW = 1000  # signals for scikit-learn, which would take half a minute for all


def run(folder: Path) -> list[Table]:
    return [dense(), products(), large()]


def dense() -> Table:
    table = Table(
        "Orthogonal matching pursuit",
        f"Gaussian dictionaries and signals, float64. scikit-learn codes {FEW} of the signals, and its time is "
        "scaled to all of them. `spams.omp` is not OMP but forward selection (orthogonal least squares): it takes "
        "the atom that lowers the residual most, so that its codes may differ from OMP's, and its steps are "
        "others.",
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


def blocks(shape: tuple[int, int], complexity: float = 0.1) -> pp.SparseProduct:
    """Two factors of 4×4 blocks at random places, with about this relative complexity."""
    rng, (rows, columns) = np.random.default_rng(0), shape
    density = complexity * columns / (rows + columns)
    factors = []
    for width in (rows, columns):
        places = np.kron(rng.random((rows // 4, width // 4)) < density, np.ones((4, 4)))
        factors.append(sp.csr_array(places * rng.standard_normal((rows, width))))
    return pp.SparseProduct(factors)


def products() -> Table:
    table = Table("Orthogonal matching pursuit on a fast product", "")
    rng = np.random.default_rng(0)
    cases = (
        ("three random factors, 1024×4096", chain(), 10, ((200, 2.0), (2000, 1.2))),
        ("blocks of 4×4, 1024×4096", blocks((1024, 4096)), 5, ((200, 3.0), (2000, 3.0))),
        ("blocks of 4×4, 1024×4096", blocks((1024, 4096)), 10, ((200, 3.0), (2000, 3.0))),
        ("blocks of 4×4, 256×1024", blocks((256, 1024)), 5, ((200, 2.0), (2000, 2.0))),
        ("blocks of 4×4, 256×1024", blocks((256, 1024)), 10, ((200, 2.0), (2000, 2.0))),
    )
    for name, op, n_nonzero_coefs, aims in cases:
        D = op.toarray()
        for count, aim in aims:
            X = np.asfortranarray(rng.standard_normal((op.shape[0], count)))
            contestants = {
                OURS: lambda op=op, X=X, k=n_nonzero_coefs: pp.omp(op, X, k),
                "papilio, dense matrix": lambda D=D, X=X, k=n_nonzero_coefs: pp.omp(D, X, k),
            }
            times = best_times(contestants, 5, 5)
            case = f"{name}, {count} signals, {n_nonzero_coefs} atoms"
            table.add(case, times, {"papilio, dense matrix": aim})
    notes = [f"{count} signals {memory('op', count):.2f} and {memory('D', count):.2f} GB" for count in (200, 2000)]
    table.note = (
        "Products of three random sparse factors with a relative complexity of 0.05, and of two factors with 4×4 "
        "blocks at random places and 0.1. Peak memory of the first, 10 atoms, "
        f"each in a process of its own, of the product and of the dense matrix: {'; '.join(notes)}."
    )
    return table


def large(count: int = 10_000, few: int = 250, n_nonzero_coefs: int = 32) -> Table:
    """A dictionary as large as those of sparse autoencoders, beside the matching pursuit that is used there."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((768, 16384), dtype=np.float32)
    D /= np.linalg.norm(D, axis=0)
    X = rng.standard_normal((768, count), dtype=np.float32)
    table = Table("Pursuit in a large dense dictionary", "")
    sizes = {}

    def ours(positive: bool) -> None:
        left = X[:, :few] - D @ pp.omp(D, X, n_nonzero_coefs, positive=positive)[:, :few].toarray()
        sizes[positive] = np.linalg.norm(left) / np.linalg.norm(X[:, :few])

    contestants = {OURS: lambda: ours(False), "papilio, non-negative": lambda: ours(True)}
    pp.omp(D[:, :600], X[:, :50], 2)
    pp.omp(D[:, :600], X[:, :50], 2, positive=True)
    times = best_times(contestants, 1, 1)
    case, note = f"{count:,} signals, 768×16384, {n_nonzero_coefs} atoms, float32", ""
    if torch is not None:
        atoms, samples = torch.from_numpy(np.ascontiguousarray(D.T)), torch.from_numpy(X.T[:few].copy())

        def pursuit() -> None:
            sizes["torch"] = float(matching_pursuit(atoms, samples, n_nonzero_coefs).norm() / samples.norm())

        times["PyTorch, matching pursuit"] = best_times({"": pursuit}, 2, 1)[""] * count / few
        note = f"; PyTorch, whose time is scaled from {few} signals, {sizes['torch']:.3f}"
    alone = peak(
        "rng = np.random.default_rng(0); D, X = (rng.standard_normal((768, n), dtype=np.float32) for n in "
        f"(16384, {count})); pp.omp(D, X, {n_nonzero_coefs})"
    )
    table.note = (
        "Matching pursuit as in sparse autoencoders (sae-lens): non-negative and not orthogonal, with one product "
        f"of all atoms and residuals per step. Relative residuals: papilio {sizes[False]:.3f}, non-negative "
        f"{sizes[True]:.3f}{note}. Peak memory of papilio in a process of its own: {alone:.2f} GB."
    )
    table.add(case, times, {"PyTorch, matching pursuit": 5})
    return table


def matching_pursuit(atoms: "torch.Tensor", samples: "torch.Tensor", n_steps: int) -> "torch.Tensor":
    """What is left of samples after steps of non-negative matching pursuit in unit-norm atoms; both are rows."""
    left, codes = samples.clone(), torch.zeros(len(samples), len(atoms))
    rows = torch.arange(len(samples))
    for _ in range(n_steps):
        values, best = (left @ atoms.T).relu().max(1)
        codes[rows, best] += values
        left -= values[:, None] * atoms[best]
    return left


def memory(which: str, count: int) -> float:
    """Peak memory in GB of coding with the product (``op``) or with the dense matrix (``D``)."""
    return peak(
        "import coding; op = coding.chain();"
        + ("D = op.toarray();" if which == "D" else "")
        + f"X = np.asfortranarray(np.random.default_rng(0).standard_normal((1024, {count})));"
        f"pp.omp({which}, X, 10)"
    )
