"""Covariances from few samples: held-out likelihoods beside scikit-learn's estimators; treelets on planted blocks.

``python benchmarks/covariance.py [FIRST]`` prints both tables, for the ten draws from seed FIRST on.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

import numpy as np
from common import OURS, clock
from sklearn.covariance import OAS, EmpiricalCovariance, GraphicalLassoCV, LedoitWolf

import papilio as pp

N_DRAWS, N_TEST, SIDE = 10, 20_000, 8
SAMPLES = 32, 64, 128
PUBLISHED = "papilio, shrinkage=0"
N_TREES = 100


@dataclass
class Likelihoods:
    """A table of log-likelihoods."""

    title: str
    note: str
    rows: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        head = "| samples of | n | by | log-likelihood | papilio − it | draws won | time |\n"
        head += "|---|---:|---|---:|---:|---:|---:|"
        return "\n".join([f"## {self.title}", "", self.note, "", head, *self.rows, ""])


def run(folder: Path, first: int = 0) -> list[Likelihoods]:
    found = sum(is_recovered(*blocks(first + seed)) for seed in range(N_TREES))
    table = Likelihoods(
        "Covariances from few samples",
        f"Gaussian log-likelihood per sample of {N_TEST:,} samples that no estimator has seen: means over "
        f"{N_DRAWS} draws of n samples, and how many of the draws papilio wins. Patches have 8×8 pixels; normal "
        "samples have their covariance, or one whose eigenvectors are 64 random rotations of 64 variables. "
        "GraphicalLassoCV sees standardised variables, for it fails otherwise; a draw in which it still fails is "
        "left out of its mean. Times are of one fit and its score, of the processor. Treelets: three planted "
        f"blocks of variables among {blocks(0)[0].shape[1]} are groups of the tree, from 80 samples, in {found} "
        f"of {N_TREES} draws (aim: 95).",
    )
    pp.rotations.SparseMatrixTransform().fit(np.random.default_rng(0).standard_normal((9, 4)))  # compiles
    for case, test, draw in sources():
        for n in SAMPLES:
            _compare(table, case, n, [draw(n, first + seed) for seed in range(N_DRAWS)], test)
    return [table]


def estimators() -> dict[str, EmpiricalCovariance]:
    return {
        OURS: pp.rotations.SparseMatrixTransform(),
        PUBLISHED: pp.rotations.SparseMatrixTransform(shrinkage=0),
        "LedoitWolf": LedoitWolf(),
        "OAS": OAS(),
        "GraphicalLassoCV": GraphicalLassoCV(),
    }


def _compare(table: Likelihoods, case: str, n: int, draws: list[np.ndarray], test: np.ndarray) -> None:
    scores, times = {}, {}
    for name, estimator in estimators().items():
        begin = process_time()
        scores[name] = np.array([_score(estimator, X, test) for X in draws])
        times[name] = (process_time() - begin) / len(draws)
    for name, values in scores.items():
        known = np.isfinite(values)
        gains = scores[OURS][known] - values[known]
        cells = [case, str(n), name]
        if known.any():
            compared = (
                ["", ""] if name == OURS else [f"{gains.mean():+.2f}", f"{(gains > 0).sum()} of {known.sum()}"]
            )
            cells += [f"{values[known].mean():.2f}", *compared, clock(times[name])]
        else:
            cells += ["fails", "", "", clock(times[name])]
        table.rows.append(f"| {' | '.join(cells)} |")


def _score(estimator: EmpiricalCovariance, X: np.ndarray, test: np.ndarray) -> float:
    """The log-likelihood of the test samples; NaN if the estimator fails."""
    unit = X.std(axis=0) if isinstance(estimator, GraphicalLassoCV) else np.ones(X.shape[1])
    try:
        return estimator.fit(X / unit).score(test / unit) - np.log(unit).sum()
    except FloatingPointError:
        return np.nan


def sources() -> Iterator[tuple[str, np.ndarray, Callable[[int, int], np.ndarray]]]:
    """What samples are of, those to test with, and a function of their number and a seed."""
    for case, remove_mean in (("patches, less their means", True), ("patches", False)):

        def patches(n: int, seed: int, remove_mean: bool = remove_mean) -> np.ndarray:
            return 255 * pp.datasets.image_patches(n, SIDE, remove_mean=remove_mean, random_state=seed)

        test = patches(N_TEST, 10**6)
        yield case, test, patches
    yield "normal, as patches", *_normal(np.cov(test, rowvar=False))
    yield "normal, planted rotations", *_normal(planted(SIDE**2, SIDE**2))


def _normal(covariance: np.ndarray) -> tuple[np.ndarray, Callable[[int, int], np.ndarray]]:
    def draw(n: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).multivariate_normal(np.zeros(len(covariance)), covariance, n)

    return draw(N_TEST, 10**6), draw


def planted(size: int, n_rotations: int) -> np.ndarray:
    """A covariance whose eigenvectors are a product of random rotations, with eigenvalues from 1 to 0.001."""
    rng = np.random.default_rng(5)
    U = np.eye(size)
    for _ in range(n_rotations):
        pair = rng.choice(size, 2, replace=False)
        angle = rng.uniform(0.3, np.pi / 2 - 0.3)
        U[:, pair] = U[:, pair] @ [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return (U * rng.permutation(np.geomspace(1, 1e-3, size))) @ U.T


def blocks(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """80 samples of three blocks of variables, each with its own factor, and of 30 variables that are noise."""
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat([0, 1, 2, -1], [20, 30, 40, 30]))
    factors = np.c_[rng.standard_normal((80, 3)) * [1.5, 1.25, 1.0], np.zeros(80)]
    return factors[:, block] + 0.5 * rng.standard_normal((80, len(block))), block


def is_recovered(X: np.ndarray, block: np.ndarray) -> bool:
    """Whether each block is a group of the tree at some level."""
    model = pp.rotations.Treelets().fit(X)
    groups = [model.groups(level) for level in range(len(model.merges_) + 1)]
    members = [block == each for each in range(3)]
    return all(any(((group == group[own.argmax()]) == own).all() for group in groups) for own in members)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in run(Path(__file__).parent, *map(int, sys.argv[1:])):
        sys.stdout.write(each.markdown())
