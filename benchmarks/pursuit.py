"""`omp` with few signals in large products, measured in products with D and Dᴴ, and against FAuST.

``python benchmarks/pursuit.py`` measures all cases, and
``python benchmarks/pursuit.py butterfly --sizes 16384`` some of them.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from common import OURS, Speeds, clock, peak
from sizes import nested

import papilio as pp

CASES = {  # signals and atoms, by the number of rows
    2048: ((1, 50), (64, 10), (64, 50)),
    16384: ((1, 50), (8, 10), (64, 50)),
    131072: ((1, 10), (8, 50), (64, 10)),
}
SECONDS = 0.4  # for each case and contestant, where one call does not take longer
LARGEST = {"scattered": 16384}
FAUST_WORK = 200_000  # rows × atoms: beyond, a call takes FAuST several seconds
STEPS = 5  # beyond the atoms, that are allowed; each has two products and two adjoints


def butterfly(n: int) -> pp.SparseProduct:
    """Random entries at the places of a Hadamard matrix's factors."""
    random, factors = np.random.default_rng(0), []
    for factor in pp.transforms.hadamard(n).factors:
        own = factor.copy()
        own.data = random.standard_normal(own.data.size)
        factors.append(own)
    return pp.SparseProduct(factors)


def scattered(n: int) -> pp.SparseProduct:
    """Three factors with eight entries per row at random places: neither orthogonal nor a butterfly."""
    random, factors = np.random.default_rng(0), []
    for _ in range(3):
        columns, values = random.integers(n, size=(n, 8)), random.standard_normal((n, 8))
        places = values.ravel(), columns.ravel(), range(0, 8 * n + 1, 8)
        factors.append(sp.csr_array(places, shape=(n, n)) + sp.eye_array(n))  # no column is empty
    return pp.SparseProduct(factors)


KINDS: dict[str, Callable[[int], pp.SparseProduct]] = {
    "hadamard": pp.transforms.hadamard,
    "dct": lambda n: pp.transforms.dct(n).T,
    "haar": lambda n: pp.transforms.haar(n).T,
    "db4": lambda n: pp.transforms.wavelet(n).T,
    "butterfly": butterfly,
    "union": lambda n: pp.operators.hstack([pp.transforms.dct(n).T, pp.transforms.haar(n).T]),
    "nested": nested,
    "scattered": scattered,
}


def best(call: Callable[[], object]) -> tuple[float, float]:
    """The first and the best time of a call."""
    times: list[float] = []
    end = perf_counter() + SECONDS
    while not times or (perf_counter() + min(times) < end and len(times) < 50):
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return times[0], min(times)


def plain(D: np.ndarray, x: np.ndarray, n_atoms: int) -> np.ndarray:
    """The atoms of a plain dense pursuit."""
    adjoint = (D / np.linalg.norm(D, axis=0)).conj().T
    chosen: list[int] = []
    left = x
    for _ in range(n_atoms):
        chosen.append(int(np.argmax(np.abs(adjoint @ left))))
        left = x - D[:, chosen] @ np.linalg.lstsq(D[:, chosen], x)[0]
    return np.sort(chosen)


def faust(op: pp.SparseProduct, x: np.ndarray, n_atoms: int) -> Callable[[], object] | None:
    """FAuST's pursuit, which has one signal and unit-norm atoms; None if it is not installed."""
    from peers import pyfaust  # not at the top: memory is measured without peers

    if pyfaust is None or op.dtype.kind == "c":
        return None
    F = op.to_faust()
    return lambda: pyfaust.tools.omp(x[:, None], F, maxiter=n_atoms)


def run(folder: Path, kinds: list[str] | None = None, sizes: list[int] | None = None) -> list[Speeds]:
    table = Speeds(
        "Pursuit in large products",
        "`omp` with float64 signals, best of some calls on the same operator; the first call also finds the norms "
        f"of the atoms, and packs. The limit is (atoms + {STEPS}) · 2 · (one product + one adjoint), with as many "
        "vectors as there are signals. `python benchmarks/pursuit.py`",
        ("dictionary", "n", "signals", "atoms", OURS, "limit ÷ papilio", "first", "FAuST ÷ papilio", "plain"),
    )
    random = np.random.default_rng(1)
    for kind in kinds or list(KINDS):
        for n in sizes or list(CASES):
            if n > LARGEST.get(kind, n):
                continue
            op = KINDS[kind](n)
            D = op.toarray() if n <= 2048 else None
            for count, n_atoms in CASES[n]:
                X = random.standard_normal((n, count))
                fresh = pp.SparseProduct(op.factors, op.scale)
                begin = perf_counter()
                codes = pp.omp(fresh, X, n_atoms)
                first = perf_counter() - begin
                _, ours = best(lambda op=fresh, X=X, k=n_atoms: pp.omp(op, X, k))
                Y = np.ones((op.shape[1], count))
                for turned, V in ((fresh, Y), (fresh.H, X)):
                    turned._packed()
                    turned @ V
                steps = [best(lambda op=fresh, Y=Y: op @ Y)[1], best(lambda op=fresh, X=X: op.H @ X)[1]]
                limit = 2 * (n_atoms + STEPS) * sum(steps)
                peer = faust(op, X[:, 0], n_atoms) if count == 1 and n * n_atoms <= FAUST_WORK else None
                theirs = "" if peer is None else f"{best(peer)[1] / ours:.1f}"
                same = ""
                if D is not None:
                    atoms = plain(D, X[:, 0], n_atoms)
                    same = "same" if np.array_equal(atoms, np.sort(codes[:, [0]].indices)) else "**other**"
                cells = f"**{limit / ours:.2f}**", clock(first), theirs, same
                table.add(kind, f"{n:,}", f"{count}", f"{n_atoms}", clock(ours), *cells)
                sys.stdout.write(table.rows[-1] + "\n")
                sys.stdout.flush()
    if kinds is None:
        code = "import pursuit; op = pursuit.KINDS['{}'](131072); X = np.random.default_rng(0).standard_normal("
        code += "(131072, 8)); pp.omp(op, X, 50)"
        used = [f"{kind} {peak(code.format(kind)):.2f} GB" for kind in ("hadamard", "butterfly", "union")]
        table.note += f" Peak memory with 131,072 rows, 8 signals and 50 atoms: {', '.join(used)}."
    return [table]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []])
    parser.add_argument("--sizes", nargs="*", type=int, choices=list(CASES))
    given = parser.parse_args()
    run(Path(__file__).parent, given.kinds or None, given.sizes)
