"""Finding structure: butterflies with unknown supports, and matrices without any, beside the peers.

``python benchmarks/structure.py draws N`` counts, for N draws each, how often permuted butterflies are found.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from common import OURS, clock
from peers import Chain, ksd, pyfaust
from scipy.fft import dct, fft
from scipy.linalg import hadamard

import papilio as pp
from papilio.search.methods.sparse_factors import even_schedule

PLAIN = "papilio's hierarchical PALM alone"


@dataclass
class Comparison:
    """A table of errors and entries."""

    title: str
    note: str
    rows: list[str] = field(default_factory=list)

    def add(self, case: str, name: str, solve: Callable[[], tuple[np.ndarray, int]], matrix: np.ndarray) -> None:
        """One contestant on one matrix; what it raises is its result."""
        begin = perf_counter()
        try:
            product, entries = solve()
        except Exception as failure:
            reason = " ".join(str(failure).split())[:60]
            self.rows.append(f"| {case} | {name} | fails: {reason} | | |")
            return
        seconds = perf_counter() - begin
        error = np.linalg.norm(product - matrix) / np.linalg.norm(matrix)
        self.rows.append(f"| {case} | {name} | {error:.2g} | {entries} | {clock(seconds)} |")

    def markdown(self) -> str:
        head = "| matrix | by | relative error | entries | time |\n|---|---|---:|---:|---:|"
        return "\n".join([f"## {self.title}", "", self.note, "", head, *self.rows, ""])


def run(folder: Path) -> list[Comparison]:
    return [unknown_structure()]


def unknown_structure() -> Comparison:
    """One call without hints beside what the peers offer."""
    table = Comparison(
        "Structure that is not given",
        "papilio: `factorize(M)`, or with the complexity that is named. pyfaust and lazylinop: their butterfly "
        "factorizations in natural order, lazylinop's on the best of its own chains within that complexity; the "
        "hierarchical one with its Hadamard parameters or with the sets that "
        "papilio's own plain hierarchical PALM has. Times are of one run, compilation not counted.",
    )
    pp.factorize(np.eye(8) + 0.1)  # compiles
    for case, matrix, complexity in matrices():
        wish = {} if complexity is None else {"complexity": complexity}
        table.add(case, OURS, lambda M=matrix, wish=wish: _of(pp.factorize(M, **wish).operator), matrix)
        for name, solve in peers(matrix, complexity).items():
            table.add(case, name, solve, matrix)
    return table


def peers(matrix: np.ndarray, complexity: float | None) -> dict[str, Callable[[], tuple[np.ndarray, int]]]:
    found: dict[str, Callable[[], tuple[np.ndarray, int]]] = {}
    if complexity is not None:
        side = "right" if matrix.shape[0] < matrix.shape[1] else "left"
        schedule = even_schedule(matrix.shape, 2, int(complexity * matrix.size), side)
        found[PLAIN] = lambda: _of(pp.hierarchical(matrix, schedule).operator)
    if pyfaust is not None:
        found["pyfaust butterfly"] = lambda: _of_faust(pyfaust.fact.butterfly(matrix, type="bbtree"))
        if complexity is None:
            found["pyfaust hierarchical"] = lambda: _of_faust(pyfaust.fact.hierarchical(matrix, "hadamard"))
        else:
            found["pyfaust hierarchical"] = lambda: _of_faust(_faust_hierarchical(matrix, schedule))
    if ksd is not None:
        found["lazylinop ksd"] = lambda: _by_ksd(matrix, complexity)
    return found


def _of(op: pp.SparseProduct) -> tuple[np.ndarray, int]:
    return op.toarray(), op.nnz


def _by_ksd(matrix: np.ndarray, complexity: float | None) -> tuple[np.ndarray, int]:
    """lazylinop's chain of prime factors, or the better one of it and of its Monarch chain within the limit."""
    chains = [Chain.chainable(matrix.shape), *([] if complexity is None else [Chain.monarch(matrix.shape)])]
    counts = [sum(int(np.prod(pattern)) for pattern in chain.ks_patterns) for chain in chains]
    fits = [
        (ksd(matrix, chain).toarray(), count)
        for chain, count in zip(chains, counts, strict=True)
        if complexity is None or count <= complexity * matrix.size
    ]
    if not fits:
        raise ValueError("no chain has so few entries")
    return min(fits, key=lambda fit: float(np.linalg.norm(fit[0] - matrix)))


def _of_faust(faust: object) -> tuple[np.ndarray, int]:
    return faust.toarray(), faust.nnz_sum()


def _faust_hierarchical(matrix: np.ndarray, schedule: pp.Schedule) -> object:
    """pyfaust's hierarchical factorization in the sets of ``schedule``."""
    parameters = pyfaust.factparams

    def translated(constraint: pp.constraints.Constraint) -> object:
        name = {"Sparse": "sp", "SparseRows": "splin", "SparseColumns": "spcol"}[type(constraint).__name__]
        count = constraint.n_nonzero if name == "sp" else constraint.k
        return parameters.ConstraintInt(name, *constraint.shape, count)

    stop = parameters.StoppingCriterion(num_its=500)
    wishes = parameters.ParamsHierarchical(
        [translated(constraint) for constraint in schedule.factors],
        [translated(constraint) for constraint in schedule.residuals],
        stop,
        stop,
        is_update_way_R2L=schedule.side == "left",
        is_fact_side_left=schedule.side == "right",  # which residual is split on
    )
    return pyfaust.fact.hierarchical(matrix, wishes)


# -- matrices --------------------------------------------------------------------------------------------


def matrices() -> list[tuple[str, np.ndarray, float | None]]:
    """Name, matrix, and the complexity to factorize with where there is no structure to find."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((64, 64))
    H = shuffled(hadamard(64) / 8, rng)
    return [
        ("Hadamard 64", hadamard(64) / 8, None),
        ("Hadamard 64, permuted", H, None),
        ("Hadamard 64, permuted, noise 0.01", H + 0.01 * noise * np.linalg.norm(H) / np.linalg.norm(noise), None),
        ("Fourier 64, permuted", shuffled(fft(np.eye(64)) / 8, rng), None),
        ("Fourier 60, permuted", shuffled(fft(np.eye(60)) / np.sqrt(60), rng), None),
        ("random butterfly 64, permuted", shuffled(random_butterfly(64, rng, False), rng), None),
        ("DCT 64, complexity 0.25", dct(np.eye(64), norm="ortho", axis=0), 0.25),
        ("random orthogonal 64, complexity 0.25", np.linalg.qr(noise)[0], 0.25),
        ("random orthogonal 64, complexity 0.5", np.linalg.qr(noise)[0], 0.5),
        ("Gaussian 64, complexity 0.5", noise, 0.5),
        ("product of five sparse factors 64, complexity 0.25", sparse_product(rng), 0.25),
        ("kernel 100×400, complexity 0.05", kernel(rng), 0.05),
    ]


def shuffled(matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With permuted rows and columns, and random signs."""
    m, n = matrix.shape
    signs = rng.choice([-1, 1], m)[:, None] * rng.choice([-1, 1], n)
    return matrix[rng.permutation(m)][:, rng.permutation(n)] * signs


def random_butterfly(n: int, rng: np.random.Generator, is_complex: bool) -> np.ndarray:
    """A product of log₂n butterfly factors with Gaussian entries, scaled to rows of norm one on average."""
    product = np.eye(n)
    for level in range(n.bit_length() - 1):
        support = np.kron(np.kron(np.eye(n >> (level + 1)), np.ones((2, 2))), np.eye(1 << level))
        values = rng.standard_normal((n, n))
        product = product @ (support * (values + 1j * rng.standard_normal((n, n)) if is_complex else values))
    return product * np.sqrt(n) / np.linalg.norm(product)


def sparse_product(rng: np.random.Generator) -> np.ndarray:
    """Five 64×64 factors with three Gaussian entries a row, at random places."""
    product = np.eye(64)
    for _ in range(5):
        factor = np.zeros((64, 64))
        for row in factor:
            row[rng.choice(64, 3, replace=False)] = rng.standard_normal(3)
        product = product @ factor
    return product * 8 / np.linalg.norm(product)


def kernel(rng: np.random.Generator) -> np.ndarray:
    """1/(1 + |x − y|²) between 100 points on an ellipse and 400 points on a wave."""
    t, s = np.sort(rng.uniform(0, 1, 100)), np.sort(rng.uniform(0, 1, 400))
    a, b, c = rng.uniform(0, 2 * np.pi, 3)
    x = np.stack([3 * np.cos(2 * np.pi * t + a), 2 * np.sin(2 * np.pi * t)], 1)
    y = np.stack([4 * s - 2 + np.cos(c), np.sin(5 * s + b)], 1)
    return 1 / (1 + ((x[:, None] - y) ** 2).sum(-1))


# -- draws -----------------------------------------------------------------------------------------------


def draws(count: int) -> None:
    """How often permuted butterflies are found, with and without noise, and what annealing gains."""
    makers = {
        "Hadamard": lambda n, rng: hadamard(n) / np.sqrt(n),
        "Fourier": lambda n, rng: fft(np.eye(n)) / np.sqrt(n),
        "real butterfly": lambda n, rng: random_butterfly(n, rng, False),
        "complex butterfly": lambda n, rng: random_butterfly(n, rng, True),
    }
    for n in (16, 32, 64, 128, 256):
        for name, make in makers.items():
            regular = name in ("Hadamard", "Fourier")
            for sigma in (0, 1e-12, 1e-3, 1e-2, 1e-1, 0.3) if regular else (0, 1e-3, 1e-2):
                if sigma == 0 or n > 16:
                    _report(f"{name} {n}, noise {sigma:g}", sigma, regular, _errors(make, n, sigma, count))
    for name, complexity, make in (
        ("DCT 64", 0.25, lambda rng: shuffled(dct(np.eye(64), norm="ortho", axis=0), rng)),
        ("orthogonal 64", 0.25, lambda rng: np.linalg.qr(rng.standard_normal((64, 64)))[0]),
        ("orthogonal 64", 0.5, lambda rng: np.linalg.qr(rng.standard_normal((64, 64)))[0]),
        ("product of five", 0.25, sparse_product),
        ("kernel 100×400", 0.05, kernel),
    ):
        gains = []
        for seed in range(5):
            matrix = make(np.random.default_rng(seed))
            side = "right" if matrix.shape[0] < matrix.shape[1] else "left"
            budget = int(complexity * matrix.size)
            counts = [c for c in (2, 3) if budget >= max(matrix.shape) + (c - 1) * min(matrix.shape)]
            plain = [pp.hierarchical(matrix, even_schedule(matrix.shape, c, budget, side)).error for c in counts]
            attempts = ("hierarchical", "low_rank")  # the generic ones: a DCT is recognised otherwise
            fits = [pp.factorize(matrix, complexity=complexity, method=method) for method in attempts]
            gains.append(min(fit.error for fit in fits) / min(plain))
        sys.stdout.write(
            f"{name}, complexity {complexity}: error over that of plain hierarchical PALM, the better of "
            f"{' and '.join(map(str, counts))} factors: mean {np.mean(gains):.3f}, largest {max(gains):.3f}\n"
        )
        sys.stdout.flush()


def _errors(make: Callable, n: int, sigma: float, count: int) -> list[tuple[float, float]]:
    """For each draw, the residual and the distance to the clean matrix, both relative."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        clean = shuffled(make(n, rng), rng)
        noise = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if np.iscomplexobj(clean) else 0)
        matrix = clean + sigma * noise * np.linalg.norm(clean) / np.linalg.norm(noise)
        fit = pp.butterfly(matrix, random_state=0)
        product = fit.operator.toarray()
        if fit.status is pp.results.Status.NO_STRUCTURE:
            product = np.full_like(product, np.inf)
        size = np.linalg.norm(clean)
        found.append((np.linalg.norm(product - matrix) / size, np.linalg.norm(product - clean) / size))
    return found


def _report(case: str, sigma: float, regular: bool, errors: list[tuple[float, float]]) -> None:
    residual, distance = np.max(errors, axis=0)
    if sigma == 0:
        says = f"largest error {residual:.1e} (aim: 1e-12)"
    elif regular:
        says = f"largest distance to the clean matrix {distance / sigma:.3f} σ (aim: 0.6)"
    else:
        good = sum(error <= 1.05 * sigma for error, _ in errors)
        says = f"{good} of {len(errors)} residuals ≤ 1.05 σ, largest {residual / sigma:.3f} σ"
    sys.stdout.write(f"{case}: {says}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) == 3 and sys.argv[1] == "draws":
        draws(int(sys.argv[2]))
    else:
        sys.exit("use: structure.py draws N")
