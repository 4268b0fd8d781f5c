"""Butterflies on known supports: errors and times on chains of Kronecker-sparse factors, beside the peers.

``python benchmarks/butterflies.py errors``, ``bounds`` and ``times`` print one table each.
"""

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import OURS, Speeds, Table, best_times, clock
from peers import Chain, ksd, pyfaust

import papilio as pp
from papilio.search.known_supports import polish_factors
from papilio.transforms import butterfly_chain
from papilio.transforms.chains import Pattern

NOISES = (0.0, 0.01, 0.1, 0.5, 2.0)
FLOOR = 1e-14  # added to errors before they are divided: below, there is only rounding
STARTS = 20
SMALL = 128  # sides up to which least squares from random factors is affordable


def run(folder: Path) -> list[Table | Speeds]:
    return [errors(), bounds(), times()]


def random_chains(count: int) -> Iterator[tuple[list[Pattern], np.random.Generator]]:
    """Chains of two to six factors, square or not, of radices 2 to 8, ranks 1 to 3 and sides 64 to 1024."""
    rng = np.random.default_rng(1)
    while count:
        radices = rng.integers(2, 9, (rng.integers(2, 7), 2))
        if rng.random() < 0.4:
            radices[:, 1] = radices[:, 0]
        shape = tuple(int(side) for side in radices.prod(axis=0))
        if min(shape) >= 64 and max(shape) <= 1024:
            yield butterfly_chain(shape, radices.tolist(), rank=int(rng.integers(1, 4))), rng
            count -= 1


def random_product(chain: list[Pattern], rng: np.random.Generator) -> np.ndarray:
    """A product of factors with Gaussian entries on the supports of a chain, of norm one."""
    factors = [pattern.factor(rng.standard_normal((pattern.a * pattern.d, *pattern[1:3]))) for pattern in chain]
    product = factors[0].toarray()
    for factor in factors[1:]:
        product = product @ factor
    return product / np.linalg.norm(product)


def with_noise(clean: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    disturbance = rng.standard_normal(clean.shape)
    return clean + noise * disturbance / np.linalg.norm(disturbance)


def by_ksd(matrix: np.ndarray, chain: list[Pattern], ortho: bool = True) -> np.ndarray:
    """lazylinop's product, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return ksd(matrix, Chain([tuple(pattern) for pattern in chain]), ortho=ortho)


def errors(n_chains: int = 100) -> Speeds:
    table = Speeds(
        f"Butterflies on {n_chains} random chains: errors",
        "Products of two to six Gaussian factors, radices 2 to 8, ranks 1 to 3, sides 64 to 1024, plus white "
        "noise of this relative size. Relative errors, and distances to the clean matrix, of papilio over those "
        "of lazylinop's `ksd`; `least_error` is papilio's own bound from below. Splits alone are "
        "`butterfly(…, polish=False)`.",
        (
            *("noise", "error ÷ ksd ortho: mean", "largest"),
            *("distance ÷ ksd ortho: mean", "largest", "above 1.001"),
            *("splits alone, error ÷ ksd ortho: mean", "distance: mean", "above 1.001"),
            *("error ÷ ksd without ortho: mean", "error ÷ least_error, of √(L − 1): largest"),
        ),
    )
    found: dict[float, list[tuple[float, ...]]] = {noise: [] for noise in NOISES}
    for chain, rng in random_chains(n_chains):
        clean = random_product(chain, rng)
        for noise in NOISES:
            matrix = with_noise(clean, noise, rng)
            fit = pp.butterfly(matrix, chain)
            peers = (by_ksd(matrix, chain, ortho).toarray() for ortho in (True, False))
            splits = pp.butterfly(matrix, chain, polish=False)
            products = [fit.operator.toarray(), splits.operator.toarray(), *peers]
            sizes = [
                np.linalg.norm(product - target) / np.linalg.norm(target) + FLOOR
                for product in products
                for target in (matrix, clean)
            ]
            share = fit.error / (fit.least_error * np.sqrt(len(chain) - 1) + FLOOR)
            ours = (size / sizes[4 + k % 2] for k, size in enumerate(sizes[:4]))
            found[noise].append((*ours, sizes[0] / sizes[6], share))
    for noise, ratios in found.items():
        error, distance, split, nearer, plain, share = np.array(ratios).T
        above, above_alone = (f"{np.sum(each > 1.001)} of {n_chains}" for each in (distance, nearer))
        table.add(
            *(f"{noise:g}", f"**{error.mean():.5f}**", f"{error.max():.5f}"),
            *(f"**{distance.mean():.4f}**", f"{distance.max():.4f}", above),
            *(f"{split.mean():.5f}", f"{nearer.mean():.4f}", above_alone),
            *(f"{plain.mean():.4f}", f"{share.max():.4f}"),
        )
    return table


def bounds(n_chains: int = 12) -> Speeds:
    """Whether least squares from many random factors finds an error below ``least_error``."""
    table = Speeds(
        "Butterflies: the bound from below",
        f"`least_error` over the least error of papilio's own fit and of {STARTS} runs of least squares from "
        "random factors, and papilio's error over it. A bound above 1 would be wrong.",
        ("noise", "chains", "least_error ÷ best of all: largest", "error ÷ best of all: largest", "mean"),
    )
    found: dict[float, list[tuple[float, float]]] = {noise: [] for noise in NOISES[1:]}
    small = (each for each in random_chains(100) if max(each[0][0].shape[0], each[0][-1].shape[1]) <= SMALL)
    for (chain, rng), _ in zip(small, range(n_chains), strict=False):
        clean = random_product(chain, rng)
        for noise in found:
            matrix = with_noise(clean, noise, rng)
            fit = pp.butterfly(matrix, chain)
            best = min([fit.error, *(_from_random(matrix, chain, rng) for _ in range(STARTS))])
            found[noise].append((fit.least_error / best, fit.error / best))
    for noise, ratios in found.items():
        least, error = np.array(ratios).T
        cells = f"**{least.max():.4f}**", f"{error.max():.5f}", f"{error.mean():.5f}"
        table.add(f"{noise:g}", f"{len(least)}", *cells)
    return table


def _from_random(matrix: np.ndarray, chain: list[Pattern], rng: np.random.Generator) -> float:
    masks = [pattern.support() for pattern in chain]
    starts = [pattern.factor(rng.standard_normal((pattern.a * pattern.d, *pattern[1:3]))) for pattern in chain]
    product = np.linalg.multi_dot([np.eye(len(matrix)), *polish_factors(matrix, masks, starts)])
    return float(np.linalg.norm(product - matrix) / np.linalg.norm(matrix))


def times() -> Table:
    """A random butterfly of radix two, exact and with noise; two Monarch factors; wide chains of rank two."""
    table = Table("Butterflies on known supports: times", "")
    cases: list[tuple[str, list[Pattern], tuple[float, ...]]] = [
        (f"n = {n}", butterfly_chain((n, n)), (0.0, 0.1)) for n in (64, 256, 1024)
    ]
    cases += [
        ("n = 4096", butterfly_chain((4096, 4096)), (0.1,)),
        ("Monarch, n = 1024", butterfly_chain((1024, 1024), n_factors=2), (0.1,)),
        ("4×4, rank 2, n = 1024", butterfly_chain((1024, 1024), [4] * 5, rank=2), (0.1,)),
        ("60×960, rank 2", butterfly_chain((60, 960), rank=2), (0.1,)),
    ]
    for name, chain, noises in cases:
        rng = np.random.default_rng(0)
        clean = random_product(chain, rng)
        is_dyadic = all(pattern[1:3] == (2, 2) for pattern in chain)
        for noise in noises:
            matrix = with_noise(clean, noise, rng)
            contestants: dict[str, Callable[[], object]] = {OURS: lambda M=matrix, c=chain: pp.butterfly(M, c)}
            if pyfaust is not None and is_dyadic and len(matrix) <= 1024:
                contestants["pyfaust butterfly"] = lambda M=matrix: pyfaust.fact.butterfly(M, type="bbtree")
            contestants["lazylinop ksd, ortho"] = lambda M=matrix, c=chain: by_ksd(M, c)
            contestants["lazylinop ksd"] = lambda M=matrix, c=chain: by_ksd(M, c, False)
            rounds = 5 if len(matrix) <= 1024 else 1
            found = best_times(contestants, rounds, rounds)
            table.add(f"{name}, noise {noise:g}", found, dict.fromkeys(list(found)[1:], 1))
    size = 8192
    code = (
        "from time import perf_counter; import numpy as np; import papilio as pp\n"
        "from papilio.transforms import butterfly_chain\n"
        "from common import peak_memory\n"
        "pp.butterfly(np.eye(64) + 0.1 * np.ones((64, 64)), butterfly_chain((64, 64)))\n"
        f"n = {size}; before = peak_memory(); M = np.random.default_rng(0).standard_normal((n, n))\n"
        "begin = perf_counter(); pp.butterfly(M, butterfly_chain((n, n)))\n"
        "print(perf_counter() - begin, (peak_memory() - before) * 1e9 / M.nbytes)"
    )
    seconds, share = map(
        float,
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
        ).stdout.split(),
    )
    table.note = (
        f"n = {size}, white noise: {clock(seconds)}; peak memory {share:.2g} times the matrix, itself included."
    )
    return table


if __name__ == "__main__":
    for each in sys.argv[1:]:
        sys.stdout.write({"errors": errors, "bounds": bounds, "times": times}[each]().markdown() + "\n")
