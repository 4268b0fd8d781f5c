"""Rotations: orthogonal targets, fast singular vectors, and orthogonal dictionaries of image patches.

``python benchmarks/orthogonal.py [targets] [svd] [dictionaries]`` prints some of the tables.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

import numpy as np
from common import best_times, clock
from peers import pyfaust
from scipy.fft import idct
from scipy.stats import ortho_group
from threadpoolctl import threadpool_limits

import papilio as pp
from papilio.kernels.givens import POLAR
from papilio.rotations.chain import Chain, depth
from papilio.rotations.growth import Growth, approached
from papilio.runtime.session import Session

N_PATCHES, SIDE, SPARSITY = 10_000, 8, 6
COMPLEXITIES = (0.15, 0.25, 0.375, 0.5)
LEARN_AIM = 5  # times faster than K-SVD
PROCRUSTES_STEPS = 60


@dataclass
class Table:
    """A section of RESULTS.md with columns of its own."""

    title: str
    note: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join([f"## {self.title}", "", self.note, "", *(f"| {' | '.join(row)} |" for row in lines), ""])


def run(folder: Path) -> list[Table]:
    return [make() for make in TABLES.values()]


# -- orthogonal targets ----------------------------------------------------------------------------------


def targets() -> Table:
    table = Table(
        "Orthogonal targets",
        "Random orthogonal matrices (mean of three). First, n·log₂n rotations: the greedy method of Rusu and "
        "Rosasco, one pair at a time from the identity, and layers from the best of two growths, before and after "
        "sweeps; errors are those of the best multiple. Then `factorize`, with the lowest errors of its methods.",
        ("n", "target", "method", "error", "relative entries"),
    )
    for n in (64, 128):
        count = int(n * np.log2(n))
        ways: dict[str, Callable[[np.ndarray], tuple[float, int]]] = {
            "one pair at a time": lambda M, count=count: one_at_a_time(M, count),
            "layers": lambda M, count=count: in_layers(M, count, 0),
            "layers, swept": lambda M, count=count: in_layers(M, count, 30),
        }
        matrices = [ortho_group.rvs(n, random_state=seed) for seed in range(3)]
        for name, way in ways.items():
            errors, sizes = zip(*map(way, matrices), strict=True)
            cells = f"{np.mean(errors):.3f}", f"{np.mean(sizes) / n**2:.2f}"
            table.rows.append((str(n), f"{count} rotations", name, *cells))
        for complexity in (0.25, 0.5):
            fit = pp.factorize(matrices[0], complexity=complexity)
            for method in ("rotations", "thresholding", "hierarchical"):
                found = [attempt for attempt in fit.attempts if attempt.method == method and attempt.nnz]
                best = min(found, key=lambda attempt: attempt.error)
                cells = f"{best.error:.3f}", f"{best.nnz / n**2:.2f}"
                name = f"**{method}**" if method == fit.method else method
                table.rows.append((str(n), f"complexity {complexity}", name, *cells))
    return table


def one_at_a_time(M: np.ndarray, count: int) -> tuple[float, int]:
    growth = Growth(POLAR, M.copy(), width=1)
    while growth.count < count and growth.add(1):
        pass
    return _error(np.trace(growth.matrix), len(M)), _entries(growth.chain())


def in_layers(M: np.ndarray, count: int, n_sweeps: int) -> tuple[float, int]:
    turned = approached(Session(), M, lambda growth: count - growth.count, n_sweeps)
    return _error(turned.trace, len(M)), _entries(turned.chain)


def _entries(chain: Chain) -> int:
    """The entries of a chain as a product, with the ones of coordinates that a layer does not change."""
    return chain.size * max(depth(chain), 1) + 2 * len(chain.pairs)


def _error(trace: float, n: int) -> float:
    return float(np.sqrt(1 - (trace / n) ** 2))


# -- singular vectors ------------------------------------------------------------------------------------


def svd() -> Table:
    table = Table(
        "Fast singular vectors",
        "`fast_svd` and `pyfaust.fact.svdtj` with as many rotations in each basis, n·log₂n for an n×n matrix: the "
        "relative error ‖A − U diag(σ) Vᵀ‖/‖A‖, with the best diagonal for the bases of either. Processor time.",
        ("matrix", "rotations", "papilio, no sweeps", "papilio", "pyfaust", "papilio takes", "pyfaust takes"),
    )
    random = np.random.default_rng(0)
    grid = np.linspace(0, 1, 128)
    matrices = {
        "Gaussian 128×128": random.standard_normal((128, 128)),
        "Gaussian 64×96": random.standard_normal((64, 96)),
        "smooth kernel 128×128, noise": np.exp(-8 * np.subtract.outer(grid, grid) ** 2)
        + 0.01 * random.standard_normal((128, 128)),
        "integration 128×128": np.tril(np.ones((128, 128))),
    }
    for name, A in matrices.items():
        count = int(max(A.shape) * np.log2(max(A.shape)))
        plain = pp.rotations.fast_svd(A, n_rotations=count, n_sweeps=0)
        fit, seconds = timed(lambda A=A, count=count: pp.rotations.fast_svd(A, n_rotations=count))
        theirs, taken = ("", "")
        if pyfaust is not None:
            (U, _, V), other = timed(lambda A=A, count=count: pyfaust.fact.svdtj(A, count))
            inner = U.toarray().T @ A @ V.toarray()
            theirs, taken = f"{off_diagonal(inner) / np.linalg.norm(A):.3f}", clock(other)
        row = name, str(count), f"{plain.error:.3f}", f"{fit.error:.3f}", theirs, clock(seconds), taken
        table.rows.append(row)
    return table


def off_diagonal(A: np.ndarray) -> float:
    return float(np.sqrt(max(np.linalg.norm(A) ** 2 - np.linalg.norm(A.diagonal()) ** 2, 0.0)))


def timed(call: Callable[[], object]) -> tuple[object, float]:
    """What a call returns the second time, and the processor time that it takes then."""
    call()
    begin = process_time()
    result = call()
    return result, process_time() - begin


# -- dictionaries ----------------------------------------------------------------------------------------


def dictionaries() -> Table:
    X, new = (pp.datasets.image_patches(N_PATCHES, SIDE, random_state=seed) for seed in (0, 1))
    table = Table(
        "Orthogonal dictionaries",
        f"{N_PATCHES:,} image patches of {SIDE}×{SIDE} less their means, {SPARSITY} atoms per patch: the relative "
        "error of these and of as many new patches of the same two photographs, the processor time of learning, "
        "how many times faster than "
        f"K-SVD of 64 atoms that is (aim: {LEARN_AIM}), and how many times faster than BLAS on one thread "
        "`operator_.T @ X` is for 256 and for 10,000 patches, as learned and after `optimized()`. The dense basis "
        f"has {PROCRUSTES_STEPS} steps of the same alternation with the full polar factor.",
        ("dictionary", "error", "of new patches", "learned in", "K-SVD ÷ this", "256", "10,000"),
    )
    cosines = idct(np.eye(SIDE), norm="ortho", axis=0)
    cosines = np.kron(cosines, cosines)
    dense, dense_seconds = timed(lambda: procrustes(X, cosines))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ksvd, ksvd_seconds = timed(lambda: pp.KSVD(64, SPARSITY, random_state=0).fit(X))
    for name, basis, seconds in (("cosines", cosines, None), ("dense, orthogonal", dense, dense_seconds)):
        cells = (f"{error_of(basis, each):.4f}" for each in (X, new))
        table.rows.append((name, *cells, "" if seconds is None else clock(seconds), "", "", ""))
    scores = (f"{-ksvd.score(each):.4f}" for each in (X, new))
    table.rows.append(("K-SVD, 64 atoms", *scores, clock(ksvd_seconds), "1", "", ""))
    for complexity in COMPLEXITIES:
        model, seconds = timed(lambda c=complexity: learn(X, c))
        errors = (f"{-model.score(each):.4f}" for each in (X, new))
        ratio = f"{ksvd_seconds / seconds:.1f}" + ("" if ksvd_seconds >= LEARN_AIM * seconds else " **missed**")
        speeds = (speedups(model.operator_.T, each) for each in (new[:256].T, new.T))
        count = len(model.operator_.factors)
        name = f"rotations, complexity {complexity}, {count} layers"
        table.rows.append((name, *errors, clock(seconds), ratio, *speeds))
    return table


def learn(X: np.ndarray, complexity: float) -> pp.OrthogonalDictionaryLearning:
    return pp.OrthogonalDictionaryLearning(SPARSITY, complexity=complexity, random_state=0).fit(X)


def procrustes(X: np.ndarray, basis: np.ndarray) -> np.ndarray:
    for _ in range(PROCRUSTES_STEPS):
        U, _, V = np.linalg.svd(X.T @ pp.omp(basis, X.T, SPARSITY).T.toarray())
        basis = U @ V
    return basis


def error_of(basis: np.ndarray, X: np.ndarray) -> float:
    codes = pp.omp(basis, X.T, SPARSITY)
    return float(np.linalg.norm(X.T - basis @ codes.toarray()) / np.linalg.norm(X))


def speedups(operator: pp.SparseProduct, block: np.ndarray) -> str:
    """The time of BLAS over that of the product, as it is and optimized, on one thread."""
    block, dense, optimized = np.ascontiguousarray(block), operator.toarray(), operator.optimized()
    threads = pp.get_num_threads()
    pp.set_num_threads(1)
    with threadpool_limits(1):
        calls = {
            "dense": lambda: dense @ block,
            "product": lambda: operator @ block,
            "optimized": lambda: optimized @ block,
        }
        times = best_times(calls, 20)
    pp.set_num_threads(threads)
    return f"{times['dense'] / times['product']:.2f}, {times['dense'] / times['optimized']:.2f}"


TABLES = {"targets": targets, "svd": svd, "dictionaries": dictionaries}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for chosen in sys.argv[1:] or TABLES:
        sys.stdout.write(TABLES[chosen]().markdown() + "\n")
        sys.stdout.flush()
