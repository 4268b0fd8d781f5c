"""Products of two block-sparse factors, and of two with single entries, against the dense matrix."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from common import OURS, Speeds, Table, best_times, clock

import papilio as pp

SHAPES = ((64, 128), (64, 256), (256, 1024), (1024, 4096))
COMPLEXITIES = (0.5, 0.25, 0.1)
VECTORS = (1, 256, 4096)
DTYPES = (np.float64, np.float32)
BLOCK = 4
SECONDS = 3.0  # of all measurements of one case, where they do not take longer
BURST = 0.06  # of each contestant in a row
SPINNING = 0.04  # seconds: after a product with BLAS, its threads keep a core busy for some 30 milliseconds
DENSE, BOUND = "dense", "bound"

# Orthogonal matching pursuit: shape, signals, atoms per signal.
PURSUITS = tuple(
    (shape, count, n_nonzero_coefs)
    for shape, count in (((1024, 4096), 200), ((1024, 4096), 2000), ((256, 1024), 2000))
    for n_nonzero_coefs in (5, 10)
)


def run(folder: Path) -> list["Table | Speeds"]:
    return [applying(), coding()]


HEADINGS = (
    *("shape", "vectors", "complexity", "blocks", "aim", "met", "blocks float32", "met", "bound", "bound float32"),
    *("single entries", "single entries float32", "dense", "dense float32"),
)


def product(
    shape: tuple[int, int], complexity: float, block: int | None, dtype: type = np.float64
) -> pp.SparseProduct:
    """Two factors with the entries that `Schedule.with_complexity` gives them, at random places."""
    rng = np.random.default_rng(0)
    sets = pp.Schedule.with_complexity(shape, complexity, block=block).constraints
    return pp.SparseProduct([each.project(rng.standard_normal(each.shape)).astype(dtype) for each in sets])


def applying() -> Speeds:
    table = Speeds(
        "Products in blocks",
        f"Two factors with {BLOCK}×{BLOCK} blocks at random places, and two with single entries at random places: "
        "the time of NumPy's dense matrix divided by papilio's, forward / adjoint. Columns without a precision "
        "are in float64. The bound is the time of the dense matrix divided by what it takes to read all vectors "
        "once and to write the results once into new memory: no product of any kind gains more. The aims are 0.75 "
        "divided by the complexity for blocks of vectors; one vector includes all of Python's overhead.",
        HEADINGS,
    )
    for shape in SHAPES:
        for vectors in VECTORS:
            both = [measured(shape, dtype, vectors) for dtype in DTYPES]
            for complexity in COMPLEXITIES:
                blocks, single = ([gains(times, (kind, complexity)) for times in both] for kind in (BLOCK, None))
                bounds = ["" if vectors == 1 else shown(gains(times, BOUND)) for times in both]
                aim = aimed(shape, vectors, complexity)
                mets = ["" if aim is None else "yes" if min(each) >= aim else "**no**" for each in blocks]
                dense = [" / ".join(clock(each[DENSE]) for each in times) for times in both]
                table.add(
                    f"{shape[0]}×{shape[1]}",
                    f"{vectors:,}",
                    f"{complexity:g}",
                    f"**{shown(blocks[0])}**",
                    "" if aim is None else f"≥ {aim:.3g}",
                    mets[0],
                    f"**{shown(blocks[1])}**",
                    mets[1],
                    *bounds,
                    *(shown(each) for each in single),
                    *dense,
                )
    return table


def aimed(shape: tuple[int, int], vectors: int, complexity: float) -> float | None:
    """The speed-up that blocks should have."""
    if vectors > 1:
        return 0.75 / complexity
    if shape == (1024, 4096):
        return 0.4 / complexity
    if shape == (256, 1024):
        return 1.2 if complexity <= 0.25 else None
    return 0.8 if complexity == 0.25 else None


def measured(shape: tuple[int, int], dtype: type, vectors: int) -> list[dict[object, float]]:
    """The best times of all contestants, forward and adjoint."""
    products = {(block, c): product(shape, c, block, dtype) for block in (BLOCK, None) for c in COMPLEXITIES}
    rng = np.random.default_rng(1)
    found = []
    for adjoint in (False, True):
        rows, columns = shape[::-1] if adjoint else shape
        matrix = rng.standard_normal((rows, columns)).astype(dtype)
        X = rng.standard_normal(columns if vectors == 1 else (columns, vectors)).astype(dtype)

        def read_and_write(X: np.ndarray = X, rows: int = rows, dtype: type = dtype) -> None:
            X.max()
            Y = np.empty((rows, X[0].size), dtype)
            Y[:] = X[0]  # stays in the first cache

        contestants: dict[object, Callable[[], object]] = {
            DENSE: lambda matrix=matrix, X=X: matrix @ X,
            BOUND: read_and_write,
        }
        for name, op in products.items():
            chosen = op.H if adjoint else op
            contestants[name] = lambda op=chosen, X=X: op @ X
        found.append(best_times(contestants, *repeats(contestants), pause=SPINNING))
    return found


def repeats(contestants: dict[object, Callable[[], object]]) -> tuple[int, int]:
    """The rounds, and how often each contestant runs in each, that take about `SECONDS`; at least two of four."""
    for call in contestants.values():
        call()
    begin = perf_counter()
    for call in contestants.values():
        call()
    seconds = perf_counter() - begin
    count = int(np.clip(SECONDS / seconds, 8, 4000))
    burst = int(np.clip(BURST / seconds * len(contestants), 4, count // 2))
    return count // burst, burst


def gains(times: list[dict[object, float]], name: object) -> list[float]:
    return [each[DENSE] / each[name] for each in times]


def shown(speeds: list[float]) -> str:
    return " / ".join(f"{speed:.3g}" for speed in speeds)


def coding() -> Table:
    table = Table("Orthogonal matching pursuit on products in blocks", "")
    notes = []
    for shape, count, n_nonzero_coefs in PURSUITS:
        op = product(shape, 0.1, BLOCK)
        D = op.toarray()
        X = np.asfortranarray(np.random.default_rng(1).standard_normal((shape[0], count)))
        contestants = {
            OURS: lambda op=op, X=X, k=n_nonzero_coefs: pp.omp(op, X, k),
            "papilio, dense matrix": lambda D=D, X=X, k=n_nonzero_coefs: pp.omp(D, X, k),
        }
        case = f"{shape[0]}×{shape[1]}, {count:,} signals, {n_nonzero_coefs} atoms"
        table.add(case, best_times(contestants, 5, 2))
        with TemporaryDirectory() as folder:
            files = {"pp.load": Path(folder) / "op.npz", "np.load": Path(folder) / "D.npy"}
            op.save(files["pp.load"])
            np.save(files["np.load"], D)
            used = [f"{memory(load, path, count, n_nonzero_coefs):.2f}" for load, path in files.items()]
        notes.append(f"{case} {' and '.join(used)} GB")
    table.note = (
        f"Two factors with {BLOCK}×{BLOCK} blocks at random places, complexity 0.1, against the dense matrix. "
        f"Peak memory, each in a process of its own, of the product and of the dense matrix: {'; '.join(notes)}."
    )
    return table


def memory(load: str, path: Path, count: int, n_nonzero_coefs: int) -> float:
    """Peak memory in GB of coding in a process that loads the dictionary from a file."""
    code = (
        f"import numpy as np, papilio as pp, common; D = {load}({str(path)!r});"
        f"X = np.asfortranarray(np.random.default_rng(1).standard_normal((D.shape[0], {count})));"
        f"pp.omp(D, X, {n_nonzero_coefs}); print(common.peak_memory())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    return float(done.stdout)
