"""Learned encoders: five trained layers against FISTA, and on fast products against dense matrices.

``python benchmarks/encoders.py`` prints the tables alone. It needs PyTorch to train.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from coding import blocks
from common import OURS, Table, best_times, clock
from peers import torch

import papilio as pp
from papilio.coding.encoder import Groups, encode, fista_layers, objectives

TRAINED_ON = 128  # signals, for two numbers per layer


def run(folder: Path) -> list[Table]:
    return [] if torch is None else [patches(), products()]


def fista(D: np.ndarray, X: np.ndarray, alpha: float, n_iter: int) -> np.ndarray:
    groups = Groups(np.arange(D.shape[1]))
    return encode(fista_layers(D, float(np.linalg.norm(D, 2)), n_iter, alpha, groups), X, groups)


def mean_objective(D: np.ndarray, X: np.ndarray, codes: np.ndarray, alpha: float) -> float:
    return float(objectives(D, X, codes, alpha, Groups(np.arange(D.shape[1]))).mean())


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1), 1e-12)[:, None]


def patches(alpha: float = 0.1, count: int = 40_000) -> Table:
    """64×256: what five layers reach on new patches, and what iterations of FISTA reach."""
    rows = unit(pp.datasets.image_patches(count + 3_000, 8, random_state=0))
    X, new = rows[:count], rows[count:].T.astype(np.float32)
    D = pp.KSVD(256, 5, max_iter=5, tol=0, random_state=0).fit(X[:10_000]).components_.T
    narrow, notes, trained = D.astype(np.float32), [], {}
    best = mean_objective(D, new, pp.lasso(D, new, alpha).toarray(), alpha)
    cases = {
        "steps": {"max_iter": 2},
        "matrices": {"learn": "matrices", "max_iter": 18},
    }
    for name, options in cases.items():
        begin = perf_counter()
        model = pp.coding.LearnedEncoder(D, 5, alpha=alpha, tol=0, random_state=0, **options).fit(X)
        reached = mean_objective(D, new, model.transform(new.T).T, alpha) / best - 1
        as_many = next(n for n in range(1, 1000) if above(D, new, alpha, n, best) <= reached)
        notes.append(
            f"five layers, {name}: {100 * reached:.2f} % above the optimum, as FISTA after {as_many} iterations "
            f"(trained in {clock(perf_counter() - begin)})"
        )
        trained[name] = model
    notes.append(f"FISTA, 30 iterations: {100 * above(D, new, alpha, 30, best):.2f} %")
    contestants: dict[str, Callable[[], object]] = {
        OURS: lambda: trained["matrices"].transform(new.T),
        "FISTA, 30 iterations": lambda: fista(narrow, new, alpha, 30),
        "papilio.lasso": lambda: pp.lasso(narrow, new, alpha),
    }
    table = Table("Learned encoders, 64×256", f"New patches, unit norm, alpha {alpha}. {'; '.join(notes)}.")
    table.add(f"{new.shape[1]:,} patches, float32", best_times(contestants, 3, 2), {"FISTA, 30 iterations": 3})
    return table


def above(D: np.ndarray, X: np.ndarray, alpha: float, n_iter: int, best: float) -> float:
    return mean_objective(D, X, fista(D.astype(X.dtype), X, alpha, n_iter), alpha) / best - 1


def products(alpha: float = 0.05, count: int = 512) -> Table:
    """1024×4096, relative complexity 0.25: the same encoder on the product and on its matrix."""
    op, rng = blocks((1024, 4096), 0.25).astype(np.float32), np.random.default_rng(0)
    op = op / float(np.median(np.linalg.norm(op.toarray(), axis=0)))
    D = op.toarray()
    sparse = rng.standard_normal((4096, TRAINED_ON + count)) * (rng.random((4096, TRAINED_ON + count)) < 0.005)
    rows = unit((D @ sparse.astype(np.float32)).T)
    X, new = rows[:TRAINED_ON], rows[TRAINED_ON:]
    options = {"alpha": alpha, "max_iter": 5, "tol": 0, "batch_size": 64, "random_state": 0}
    matrices = {OURS: op, "dense encoder": D}
    models = {name: pp.coding.LearnedEncoder(each, 5, **options).fit(X) for name, each in matrices.items()}
    scores = {name: -model.score(new) for name, model in models.items()}
    ratio = scores[OURS] / scores["dense encoder"] - 1
    exact = mean_objective(D, new.T, pp.lasso(op, new.T, alpha).toarray(), alpha)
    contestants = {name: lambda model=model: model.transform(new) for name, model in models.items()}
    table = Table(
        "Learned encoders on fast products, 1024×4096",
        f"Five layers with trained steps, alpha {alpha}, blocks of 4×4, relative complexity "
        f"{op.relative_complexity:.2f}. The objective differs by {100 * ratio:.2f} %; it is "
        f"{100 * (scores[OURS] / exact - 1):.1f} % above the optimum.",
    )
    table.add(f"{count} signals, float32", best_times(contestants, 3, 2), {"dense encoder": 2})
    return table


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in run(Path(__file__).parent):
        sys.stdout.write(each.markdown() + "\n")
        sys.stdout.flush()
