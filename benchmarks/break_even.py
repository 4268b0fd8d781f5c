"""Where a product of sparse factors becomes faster than the dense matrix: by size, structure, entries and vectors.

Writes ``break_even.csv`` with all speed-ups, ``break_even.png``, and ``break_even.md``, the tables that the page
"Will it be faster?" shows.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.sparse as sp
from blocks import SPINNING
from common import best_times, clock, machine
from matplotlib import colormaps
from matplotlib.figure import Figure

import papilio as pp

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
COMPLEXITIES = (0.8, 0.4, 0.2, 0.1, 0.05)
VECTORS = (1, 256)
DTYPES = ("float64", "float32")
BLOCK = 4
ROUNDS = 3
BURST = 0.02  # seconds of each contestant in a row, or one call if that takes longer
KERNEL_ERROR = 1e-3
DENSE = "dense"

BLOCKS, ENTRIES, LOW_RANK = "4×4 blocks", "single entries", "low rank"
BUTTERFLY, NESTED = "butterfly", "nested"
SCALED = (BLOCKS, ENTRIES, LOW_RANK)  # that come with any number of entries
SCIPY, NUMPY, FFT = "SciPy CSR, one factor", "NumPy, low rank", "scipy.fft"

# Errors of simple methods beside those of `factorize`, at an equal number of entries.
ERROR_SIZE, ERROR_COMPLEXITY = 64, 0.25
SIMPLE = ("thresholding", "low_rank")


class Point(NamedTuple):
    """The speed-up of one product over the dense matrix: a row of the CSV file."""

    structure: str
    n: int
    complexity: float
    vectors: int
    dtype: str
    speedup: float
    seconds: float
    dense_seconds: float


@dataclass
class Section:
    """A section of RESULTS.md with a table of its own."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def table(self) -> str:
        lines = [self.headings, ("---", *["---:"] * (len(self.headings) - 1)), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def markdown(self) -> str:
        return "\n".join([f"## {self.title}", "", self.note, "", self.table(), ""])


def run(folder: Path) -> list[Section]:
    points = [point for n in SIZES for point in measured(n)]
    with (folder / "break_even.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Point._fields)
        for point in points:
            writer.writerow([f"{value:.4g}" if isinstance(value, float) else value for value in point])
    draw(points, folder / "break_even.png")
    sections = [break_even(points), given_structure(points), instead(points), errors()]
    text = "\n".join(f"### {each.title}\n\n{each.note}\n\n{each.table()}\n" for each in sections)
    where = f"*Measured on {date.today()}, with {pp.get_num_threads()} threads: {machine()}*"
    (folder / "break_even.md").write_text(f"{text}\n{where}\n")
    return sections


# -- measuring -----------------------------------------------------------------------------------------


def measured(n: int) -> Iterator[Point]:
    """All products of a size, each beside the dense matrix in the same turns."""
    operators = dict(products(n))
    for dtype in DTYPES:
        cast = {name: op.astype(dtype) for name, op in operators.items()}
        for vectors in VECTORS:
            contestants = dict(calls(n, cast, vectors, dtype))
            for (structure, complexity), seconds in best_of(contestants).items():
                if structure == DENSE:  # which comes first
                    dense = seconds
                else:
                    yield Point(structure, n, complexity, vectors, dtype, dense / seconds, seconds, dense)


def best_of(contestants: dict[Any, Callable[[], Any]]) -> dict[Any, float]:
    """The best time of each: in turns, after a pause, for as long as the others."""

    def seconds(call: Callable[[], Any]) -> float:
        return min(best_times({"": call}, 3, 1).values())

    bursts = {name: max(round(BURST / seconds(call)), 1) for name, call in contestants.items()}
    best = dict.fromkeys(contestants, np.inf)
    for _ in range(ROUNDS):
        for name, call in contestants.items():
            best[name] = min(best[name], best_times({name: call}, 1, bursts[name], pause=SPINNING)[name])
    return best


def products(n: int) -> Iterator[tuple[tuple[str, float], pp.SparseProduct]]:
    """Products by their structure and complexity."""
    rng = np.random.default_rng(n)
    for complexity in COMPLEXITIES:
        for name, block in ((BLOCKS, BLOCK), (ENTRIES, 1)):
            if complexity * n >= 2 * block:  # a block in each row of both factors
                factors = [scattered(n, complexity / 2, block, rng) for _ in range(2)]
                yield (name, complexity), pp.SparseProduct(factors)
        rank = ceil(complexity * n / 2)
        factors = [rng.standard_normal(shape) for shape in ((n, rank), (rank, n))]
        yield (LOW_RANK, complexity), pp.SparseProduct(factors)
    op = butterfly(n, rng)
    yield (BUTTERFLY, op.relative_complexity), op
    op = nested(n)
    yield (NESTED, op.relative_complexity), op


def scattered(n: int, density: float, block: int, rng: np.random.Generator) -> sp.csr_array:
    """A square matrix with blocks at random places, about equally many in all rows of blocks."""
    side = n // block
    counts = np.full(side, round(density * side * side) // side)
    counts[rng.permutation(side)[: round(density * side * side) % side]] += 1
    columns = np.concatenate([np.sort(rng.choice(side, count, replace=False)) for count in counts])
    values = rng.standard_normal((columns.size, block, block))
    return sp.csr_array(sp.bsr_array((values, columns, np.append(0, np.cumsum(counts))), shape=(n, n)))


def butterfly(n: int, rng: np.random.Generator) -> pp.SparseProduct:
    """log₂n factors with two entries per row and column, of random values."""
    factors = []
    for level in range(n.bit_length() - 1):
        support = sp.kron(
            sp.kron(sp.eye_array(n >> (level + 1)), np.ones((2, 2))), sp.eye_array(1 << level)
        ).tocsr()
        support.data = rng.standard_normal(support.nnz)
        factors.append(support)
    return pp.SparseProduct(factors)


def nested(n: int) -> pp.SparseProduct:
    """1/(|x − y| + 0.02) between n points of an interval, from its entries."""
    points = np.linspace(0, 1, n)

    def entries(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return 1 / (np.abs(np.subtract.outer(points[rows], points[columns])) + 0.02)

    return pp.factorize(entries, shape=(n, n), max_error=KERNEL_ERROR, method="nested").operator


def calls(
    n: int, operators: dict[tuple[str, float], pp.SparseProduct], vectors: int, dtype: str
) -> Iterator[tuple[tuple[str, float], Callable[[], Any]]]:
    """What is timed: the dense matrix, all products, and what other libraries do with the same entries."""
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((n, n)).astype(dtype)
    X = rng.standard_normal(n if vectors == 1 else (n, vectors)).astype(dtype)
    yield (DENSE, 1.0), lambda: matrix @ X
    for name, op in operators.items():
        yield name, lambda op=op: op @ X
    for complexity in (0.2, 0.05):
        one = scattered(n, complexity, 1, rng).astype(dtype)
        yield (SCIPY, complexity), lambda one=one: one @ X
        rank = ceil(complexity * n / 2)
        left, right = (rng.standard_normal(shape).astype(dtype) for shape in ((n, rank), (rank, n)))
        yield (NUMPY, complexity), lambda left=left, right=right: left @ (right @ X)
    signals = np.ascontiguousarray(X.T)  # each signal in one piece, as an FFT likes it best
    yield (FFT, 0.0), lambda: scipy.fft.rfft(signals, axis=-1)


# -- tables --------------------------------------------------------------------------------------------


def curve(points: list[Point], structure: str, n: int, vectors: int, dtype: str) -> list[Point]:
    """The points of one structure and size, from many entries to few."""
    wanted = (structure, n, vectors, dtype)
    found = [point for point in points if (point.structure, point.n, point.vectors, point.dtype) == wanted]
    return sorted(found, key=lambda point: -point.complexity)


def crossing(found: list[Point]) -> str:
    """The complexity at which a curve crosses a speed-up of one, between the two points around it."""
    if not found:
        return ""
    if found[0].speedup >= 1:
        return f"above {found[0].complexity:g}"
    for slow, fast in pairwise(found):
        if fast.speedup >= 1:
            share = np.log(1 / slow.speedup) / np.log(fast.speedup / slow.speedup)
            return f"{slow.complexity * (fast.complexity / slow.complexity) ** share:.2g}"
    return f"below {found[-1].complexity:g}"


def break_even(points: list[Point]) -> Section:
    """The complexity below which each structure is faster than the dense matrix."""
    cases = [(vectors, dtype) for vectors in VECTORS for dtype in DTYPES]
    section = Section(
        "Break-even",
        "The relative complexity below which a square product is faster than the dense matrix, by interpolation. "
        f"Two factors with {BLOCK}×{BLOCK} blocks or single entries at random places, or two dense factors of low "
        "rank.",
        ("structure", "n", *(f"{times(vectors)}, {dtype}" for vectors, dtype in cases)),
    )
    for structure in SCALED:
        for n in SIZES:
            cells = [crossing(curve(points, structure, n, *case)) for case in cases]
            section.rows.append((structure, f"{n:,}", *cells))
    return section


def given_structure(points: list[Point]) -> Section:
    """The speed-ups of products whose number of entries follows from their size."""
    cases = [(vectors, dtype) for vectors in VECTORS for dtype in DTYPES]
    section = Section(
        "Structures that come with their size",
        "Speed-up over the dense matrix. A butterfly has log₂n factors with two entries per row; the nested "
        "product is that of the kernel 1/(d + 0.02) of the distance d between points on a line, with a relative "
        f"error of at most {KERNEL_ERROR:g}.",
        ("structure", "n", "complexity", *(f"{times(vectors)}, {dtype}" for vectors, dtype in cases)),
    )
    for structure in (BUTTERFLY, NESTED):
        for n in SIZES:
            found = [curve(points, structure, n, *case)[0] for case in cases]
            cells = [rounded(each.speedup) for each in found]
            section.rows.append((structure, f"{n:,}", f"{found[0].complexity:.2g}", *cells))
    return section


def instead(points: list[Point]) -> Section:
    """What other libraries do with as many entries, and an FFT beside a butterfly."""
    section = Section(
        "Instead of a product in papilio",
        "The time of each in float64, divided by papilio's: above 1, papilio is faster. SciPy multiplies by one "
        "sparse matrix with as many single entries as papilio's two factors; NumPy by two factors of low rank, as "
        "papilio does; `scipy.fft.rfft` transforms as many real signals, each contiguous in memory, as the "
        "butterfly does.",
        (
            "n",
            "vectors",
            *(f"{name}, {complexity:g}" for complexity in (0.2, 0.05) for name in (SCIPY, NUMPY)),
            FFT,
        ),
    )
    for n in SIZES:
        for vectors in VECTORS:
            found = {
                (point.structure, point.complexity): point.seconds
                for point in points
                if (point.n, point.vectors, point.dtype) == (n, vectors, DTYPES[0])
            }
            cells = [
                ratio(found.get((peer, complexity)), found.get((ours, complexity)))
                for complexity in (0.2, 0.05)
                for peer, ours in ((SCIPY, ENTRIES), (NUMPY, LOW_RANK))
            ]
            ours = next(seconds for (structure, _), seconds in found.items() if structure == BUTTERFLY)
            section.rows.append((f"{n:,}", f"{vectors}", *cells, ratio(found[FFT, 0.0], ours)))
    return section


def ratio(peer: float | None, ours: float | None) -> str:
    return "" if peer is None or ours is None else rounded(peer / ours)


def rounded(number: float) -> str:
    """Two digits, also of large numbers: 210, not 2.1e+02."""
    return f"{float(f'{number:.2g}'):g}"


def times(vectors: int) -> str:
    return "one vector" if vectors == 1 else f"{vectors} vectors"


# -- errors --------------------------------------------------------------------------------------------


def matrices() -> dict[str, np.ndarray]:
    """Matrices of several kinds."""
    n, rng = ERROR_SIZE, np.random.default_rng(0)
    grid = np.linspace(0, 1, n)
    gap = np.abs(np.subtract.outer(grid, grid))
    hadamard = pp.transforms.hadamard(n).toarray()
    return {
        "Gaussian entries": rng.standard_normal((n, n)),
        "Gaussian entries that decay away from the diagonal": rng.standard_normal((n, n)) * np.exp(-30 * gap),
        "smooth kernel exp(−4(x − y)²)": np.exp(-4 * gap**2),
        "kernel 1/(d + 0.02) of the distance d": 1 / (gap + 0.02),
        "Hadamard, permuted": hadamard[rng.permutation(n)][:, rng.permutation(n)],
    }


def errors() -> Section:
    """The errors of simple methods and of `factorize`, with as many entries."""
    section = Section(
        "Errors at equal numbers of entries",
        f"Relative errors for {ERROR_SIZE}×{ERROR_SIZE} matrices at a relative complexity of "
        f"{ERROR_COMPLEXITY:g}: of the largest entries, of the truncated SVD, and of `factorize`, with the method "
        "that it chose and its time.",
        ("matrix", "thresholding", "low rank", "`factorize`", "method", "time"),
    )
    for name, matrix in matrices().items():
        simple = [pp.factorize(matrix, complexity=ERROR_COMPLEXITY, method=each).error for each in SIMPLE]
        begin = perf_counter()
        fit = pp.factorize(matrix, complexity=ERROR_COMPLEXITY)
        cells = [f"{error:.2g}" for error in (*simple, fit.error)]
        section.rows.append((name, *cells, str(fit.method), clock(perf_counter() - begin)))
    return section


# -- the figure ----------------------------------------------------------------------------------------


def draw(points: list[Point], path: Path) -> None:
    """Speed-ups by size: a row of panels for one vector and one for a block, a column for each structure."""
    figure = Figure(figsize=(9.2, 5.6), layout="constrained")
    axes = figure.subplots(len(VECTORS), 4, sharex=True, sharey=True)
    shades = [(0.15 + 0.7 * k / (len(COMPLEXITIES) - 1)) for k in range(len(COMPLEXITIES))]
    colours = {c: colormaps["viridis"](shade) for c, shade in zip(COMPLEXITIES, shades, strict=True)}
    for row, vectors in zip(axes, VECTORS, strict=True):
        for ax, structure in zip(row, SCALED, strict=False):
            for complexity in COMPLEXITIES:
                for dtype, line in zip(DTYPES, ("-", ":"), strict=True):
                    found = [
                        point
                        for point in points
                        if (point.structure, point.complexity) == (structure, complexity)
                        and (point.vectors, point.dtype) == (vectors, dtype)
                    ]
                    label = f"complexity {complexity:g}" if line == "-" else None
                    plotted(ax, found, line, colours[complexity], label)
        for structure, colour in ((BUTTERFLY, "tab:blue"), (NESTED, "tab:red")):
            for dtype, line in zip(DTYPES, ("-", ":"), strict=True):
                found = [p for p in points if (p.structure, p.vectors, p.dtype) == (structure, vectors, dtype)]
                plotted(row[3], found, line, colour, structure if line == "-" else None)
        for ax, structure in zip(row, (*SCALED, "butterfly and nested"), strict=True):
            ax.axhline(1, color="black", linewidth=1)
            ax.axhspan(0.01, 1, color="black", alpha=0.06, linewidth=0)
            ax.set_title(f"{structure},\n{times(vectors)}", fontsize=10)
            ax.grid(alpha=0.3)
        row[0].set_ylabel("speed-up over the dense matrix")
    for ax in axes[-1]:
        ax.set_xlabel("n, for n × n matrices")
    axes[0, 0].set_xscale("log", base=2)
    axes[0, 0].set_yscale("log")
    slowest = min(point.speedup for point in points if point.structure in (*SCALED, BUTTERFLY, NESTED))
    axes[0, 0].set_ylim(bottom=0.8 * slowest)
    axes[0, 0].set_xticks(SIZES[::2], labels=[str(n) for n in SIZES[::2]])
    axes[0, 0].set_yticks([1, 10, 100], labels=["1", "10", "100"])
    axes[1, 0].legend(frameon=False, fontsize=7.5, loc="upper left")
    axes[0, 3].legend(frameon=False, fontsize=7.5)
    figure.suptitle("Solid: float64, dotted: float32. In the shaded part the dense matrix is faster.", fontsize=10)
    figure.savefig(path, dpi=140)


def plotted(ax: Any, found: list[Point], line: str, colour: Any, label: str | None) -> None:
    x, y = [point.n for point in found], [point.speedup for point in found]
    ax.plot(x, y, line, color=colour, marker="o", markersize=3, label=label)
