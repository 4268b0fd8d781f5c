"""Learning with an ℓ1 penalty, against SPAMS' `trainDL` and scikit-learn's `MiniBatchDictionaryLearning`.

The data are centred patches with unit norms of one photograph, as in the example of SPAMS. The objective is the
mean of ½‖x − Dγ‖² + alpha·‖γ‖₁, with the same exact codes for all.
"""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from common import Speeds, clock
from peers import spams
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning

import papilio as pp

ALPHA, SIDE, BATCH = 0.15, 8, 400
CASES = ((250_000, 100), (10_000, 256))  # patches, atoms
ITERATIONS = {250_000: (1000, 3000), 10_000: (200, 1000)}  # of SPAMS, a mini-batch in each; its example has 1000
PASSES = {250_000: 1, 10_000: 5}  # of scikit-learn


def patches(count: int) -> np.ndarray:
    """Patches at different places, one per row."""
    picture = load_sample_image("china.jpg").mean(axis=2)
    windows = np.lib.stride_tricks.sliding_window_view(picture, (SIDE, SIDE)).reshape(-1, SIDE**2)
    X = windows[np.random.default_rng(0).permutation(len(windows))[:count]]
    X = X - X.mean(axis=1, keepdims=True)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)


def objective(X: np.ndarray, D: np.ndarray) -> float:
    """The mean objective of exact codes in a dictionary (d, a)."""
    D = D / np.linalg.norm(D, axis=0)
    codes = pp.lasso(D, X.T, ALPHA)
    return float(0.5 * np.linalg.norm(X.T - D @ codes) ** 2 + ALPHA * np.abs(codes.data).sum()) / len(X)


def contestants(X: np.ndarray, n_atoms: int) -> dict[str, Callable[[], np.ndarray]]:
    """What learns a dictionary (d, a)."""
    options = {"n_components": n_atoms, "alpha": ALPHA, "random_state": 0}

    def online(**more: int) -> np.ndarray:
        model = pp.OnlineDictionaryLearning(fit_algorithm="lasso", **options, **more).fit(X)
        return model.components_.T

    def scikit() -> np.ndarray:
        model = MiniBatchDictionaryLearning(
            **options, fit_algorithm="cd", batch_size=BATCH, max_iter=PASSES[len(X)]
        )
        return model.fit(X).components_.T

    found = {"papilio, 5 passes": lambda: online(max_iter=5), "papilio": online}
    if spams is not None:
        F = np.asfortranarray(X.T)
        own = {"K": n_atoms, "lambda1": ALPHA, "batchsize": BATCH, "numThreads": 2, "verbose": False}
        for n in ITERATIONS[len(X)]:
            found[f"SPAMS, {n} iterations"] = lambda n=n: spams.trainDL(F, iter=n, **own)
    return found | {f"scikit-learn, passes: {PASSES[len(X)]}": scikit}


def run(folder: Path) -> list[Speeds]:
    table = Speeds(
        "Learning with an ℓ1 penalty",
        f"Centred {SIDE}×{SIDE} patches of a photograph, with unit norms; alpha {ALPHA}. The objective is that of "
        "exact codes of all patches, without the codes that a learner ends with.",
        ("patches, atoms", "learner", "time", "objective"),
    )
    pp.dictionary.online_dictionary(
        patches(1_000).T, 8, fit_algorithm="lasso", alpha=ALPHA, max_iter=1
    )  # compiles
    for count, n_atoms in CASES:
        X = patches(count)
        for name, learn in contestants(X, n_atoms).items():
            begin = perf_counter()
            D = learn()
            seconds = perf_counter() - begin
            table.add(f"{count:,}, {n_atoms}", name, clock(seconds), f"{objective(X, D):.5f}")
    return [table]


if __name__ == "__main__":
    import sys

    sys.stdout.write(run(Path(__file__).parent)[0].markdown())
