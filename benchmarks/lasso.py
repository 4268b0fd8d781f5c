"""Codes with an ℓ1 penalty: papilio against scikit-learn, SPAMS and celer, and on a product against its matrix.

``python benchmarks/lasso.py`` prints the tables alone.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from coding import blocks
from common import OURS, Table, best_times
from peers import spams
from sklearn.decomposition import sparse_encode

import papilio as pp

FEW = 500  # signals for scikit-learn, which takes minutes for all
SOME = 20  # signals whose optimum celer finds


def run(folder: Path) -> list[Table]:
    return [dense(), products()]


def objectives(D: np.ndarray, X: np.ndarray, codes: object, alpha: float) -> np.ndarray:
    return 0.5 * ((X - D @ codes) ** 2).sum(axis=0) + alpha * np.abs(codes).sum(axis=0)


def celer_codes(D: np.ndarray, X: np.ndarray, alpha: float) -> np.ndarray | None:
    try:
        from celer import Lasso
    except ImportError:
        return None
    model = Lasso(alpha=alpha / len(D), fit_intercept=False, tol=1e-13, max_iter=1000, max_epochs=1_000_000)
    return np.transpose([model.fit(np.asfortranarray(D), x).coef_ for x in X.T])


def above_optimum(D: np.ndarray, X: np.ndarray, alpha: float) -> str:
    """By how much the objectives of papilio differ from celer's, at most, over ½‖x‖²."""
    some = X[:, :SOME]
    reference = celer_codes(D, some, alpha)
    if reference is None:
        return "celer is not installed"
    ours = objectives(D, some, pp.lasso(D, some, alpha).toarray(), alpha)
    excess = (ours - objectives(D, some, reference, alpha)) / (0.5 * (some**2).sum(axis=0))
    return f"{excess.max():.1e} above celer's at most, and {-excess.min():.1e} below"


def dense(count: int = 20_000) -> Table:
    table = Table("Lasso codes, 64×256", "")
    rng, notes = np.random.default_rng(0), []
    random = rng.standard_normal((64, 256))
    patches = pp.datasets.image_patches(count, 8, random_state=0).T
    learned = pp.KSVD(256, 5, max_iter=10, tol=0, random_state=0).fit(patches.T[:10_000]).components_.T
    cases = {
        "Gaussian": (random / np.linalg.norm(random, axis=0), rng.standard_normal((64, count))),
        "patches, K-SVD": (learned, patches),
    }
    for name, (D, X) in cases.items():
        D, X = np.asfortranarray(D), np.asfortranarray(X / np.maximum(np.linalg.norm(X, axis=0), 1e-12))
        for alpha in (0.3, 0.15, 0.05):

            def scikit_learn(D: np.ndarray = D, X: np.ndarray = X[:, :FEW], alpha: float = alpha) -> object:
                return sparse_encode(X.T, D.T, algorithm="lasso_cd", alpha=alpha, n_jobs=2, max_iter=1000)

            contestants = {
                OURS: lambda D=D, X=X, alpha=alpha: pp.lasso(D, X, alpha),
                "scikit-learn, 2 jobs": scikit_learn,
            }
            if spams is not None:
                contestants["SPAMS, 2 threads"] = lambda D=D, X=X, alpha=alpha: spams.lasso(
                    X, D, lambda1=alpha, mode=2, numThreads=2
                )
            times = best_times(contestants, 2, 2)
            times["scikit-learn, 2 jobs"] *= count / FEW
            codes = pp.lasso(D, X, alpha)
            case = f"{count:,} signals, {name}, alpha {alpha}, {codes.nnz / count:.1f} atoms each"
            table.add(case, times, {"scikit-learn, 2 jobs": 5, "SPAMS, 2 threads": 1})
            notes.append(f"{name}, {alpha}: {above_optimum(D, X, alpha)}")
    table.note = (
        f"Signals of unit norm, float64. scikit-learn codes {FEW} of them, to its tolerance of 1e-4, and its time "
        f"is scaled to all. Objectives of {SOME} signals over ½‖x‖²: {'; '.join(notes)}."
    )
    return table


def products(count: int = 256) -> Table:
    table = Table("Lasso codes on a fast product", "")
    op, rng, notes = blocks((1024, 4096)), np.random.default_rng(0), []
    op = op / float(np.median(np.linalg.norm(op.toarray(), axis=0)))
    D = op.toarray()
    sparse = np.zeros((4096, count))
    for code in sparse.T:
        code[rng.choice(4096, 30, replace=False)] = rng.standard_normal(30)
    X = D @ sparse
    X += 0.1 * rng.standard_normal(X.shape) * np.linalg.norm(X, axis=0) / 32
    X = np.asfortranarray(X / np.linalg.norm(X, axis=0))
    for alpha in (0.1, 0.05, 0.02):
        contestants = {
            OURS: lambda alpha=alpha: pp.lasso(op, X, alpha),
            "papilio, dense matrix": lambda alpha=alpha: pp.lasso(D, X, alpha),
        }
        times = best_times(contestants, 2, 2)
        codes = pp.lasso(op, X, alpha)
        case = f"{count} signals, 1024×4096, blocks of 4×4, alpha {alpha}, {codes.nnz / count:.0f} atoms each"
        table.add(case, times, {"papilio, dense matrix": 2})
        notes.append(f"{alpha}: {above_optimum(D, X[:, :4], alpha)}")
    table.note = (
        "A relative complexity of 0.1; signals of 30 atoms with 10 % noise, of unit norm, float64. Objectives of "
        f"4 signals over ½‖x‖²: {'; '.join(notes)}."
    )
    return table


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in run(Path(__file__).parent):
        sys.stdout.write(each.markdown() + "\n")
        sys.stdout.flush()
