"""Kernels and covariances: nested low rank beside low rank, the hierarchical strategy and H²-matrices (minutes).

``python benchmarks/kernels.py line log`` runs single cases: line, log, multiquadric, matern, gravity.

The peer is h2tools (H²-matrices by the multicharge Barnes–Hut method), if it is installed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from common import best_times, clock
from peers import h2_entries, h2_matrix, mcbh
from scipy.sparse.linalg import svds
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_info

import papilio as pp

LINE = ((256, 0.12, 0.03), (1024, 0.05, 5e-3), (4096, 0.02, 5e-4))  # n, complexity, and the error that is aimed at
MAX_ERROR = 1e-3
BUDGET = 30.0  # seconds for the hierarchical strategy
BLOCK = 256  # vectors at a time
TOLERANCES = 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6  # of h2tools, to choose from
OURS_BEST = "nested, with coordinates"
LEAF = 50  # lines of its leaves
Apply = Callable[[np.ndarray], np.ndarray]


class Kernel(NamedTuple):
    name: str
    matrix: np.ndarray
    rows: np.ndarray
    columns: np.ndarray


class Compressed(NamedTuple):
    """A matrix in few entries: how many, how to apply it, and what it took to find it."""

    entries: int
    apply: Apply
    seconds: float
    work: float
    note: str = ""


def planar(f: Callable[[np.ndarray], np.ndarray], name: str) -> Kernel:
    points = np.random.default_rng(0).random((4096, 2))
    return Kernel(name, f(cdist(points, points)), points, points)


def log_kernel() -> Kernel:
    """log ‖x−y‖, and zero where x = y."""
    return planar(
        lambda distances: np.log(distances + np.eye(len(distances))), "log ‖x−y‖, 4,096 points in the plane"
    )


def multiquadric() -> Kernel:
    return planar(
        lambda distances: 1 / np.sqrt(1 + (distances / 0.1) ** 2),
        "inverse multiquadric of width 0.1, 4,096 points in the plane",
    )


def matern() -> Kernel:
    points = np.random.default_rng(0).random((2000, 3))
    distances = np.sqrt(3) * cdist(points, points) / 0.5
    return Kernel(
        "Matérn-3/2 covariance of length 0.5, 2,000 points in space",
        (1 + distances) * np.exp(-distances),
        points,
        points,
    )


def gravity() -> Kernel:
    """The vertical pull of masses in the ground, at places above it: neither square nor symmetric."""
    random = np.random.default_rng(0)
    places = np.column_stack([random.random((1000, 2)), np.full(1000, 0.05)])
    masses = random.random((3000, 3)) * [1, 1, -0.5]
    distances = cdist(places, masses)
    return Kernel(
        "gravity of 3,000 masses in the ground at 1,000 places",
        (places[:, 2:] - masses[:, 2]) / distances**3,
        places,
        masses,
    )


KERNELS = {"log": log_kernel, "multiquadric": multiquadric, "matern": matern, "gravity": gravity}


# -- contestants -----------------------------------------------------------------------------------------


def contestants(kernel: Kernel) -> Iterator[tuple[str, Compressed]]:
    """Each one's name and result; those without a choice of their own have as many entries as the first."""
    matrix, points = kernel.matrix, (kernel.rows, kernel.columns)
    nested = factorized(matrix, max_error=MAX_ERROR, method="nested", coordinates=points)
    yield OURS_BEST, nested
    yield "nested, without", factorized(matrix, max_error=MAX_ERROR, method="nested")
    complexity = nested.entries / matrix.size
    yield "truncated SVD", low_rank(matrix, nested.entries)
    yield (
        "hierarchical strategy",
        factorized(matrix, complexity=complexity, method="hierarchical", time_budget=BUDGET),
    )
    if mcbh is not None:
        yield "h2tools", by_h2tools(kernel)


def factorized(matrix: np.ndarray, **options: object) -> Compressed:
    begin, work = perf_counter(), process_time()
    fit = pp.factorize(matrix, **options)
    op = fit.operator
    return Compressed(op.nnz, lambda x: op @ x, perf_counter() - begin, process_time() - work, fit.status.value)


def low_rank(matrix: np.ndarray, entries: int) -> Compressed:
    """The truncated SVD, as two dense factors."""
    begin, work = perf_counter(), process_time()
    rank = entries // sum(matrix.shape)
    left, values, right = svds(matrix, rank, rng=0)
    left = left * values
    taken = perf_counter() - begin, process_time() - work
    return Compressed(rank * sum(matrix.shape), lambda x: left @ (right @ x), *taken, f"rank {rank}")


def by_h2tools(kernel: Kernel) -> Compressed:
    """With the largest tolerance that reaches the error on some random vectors; only its time counts.

    If the kernel is symmetric, h2tools knows.
    """
    vectors = np.random.default_rng(1).standard_normal((kernel.matrix.shape[1], 64))
    exact = kernel.matrix @ vectors
    for tolerance in TOLERANCES:
        begin, work = perf_counter(), process_time()
        found = h2_matrix(*kernel[1:], LEAF, tolerance)
        taken = perf_counter() - begin, process_time() - work
        result = Compressed(h2_entries(found), found.dot, *taken, f"tolerance {tolerance:g}")
        if np.linalg.norm(found.dot(vectors) - exact) <= MAX_ERROR * np.linalg.norm(exact):
            break
    return result


def error_of(matrix: np.ndarray, apply: Apply) -> float:
    """The relative error, exact: by the columns of the identity."""
    n = matrix.shape[1]
    lost = 0.0
    for begin in range(0, n, 1024):
        columns = np.eye(n, min(1024, n - begin), -begin)
        lost += np.linalg.norm(apply(columns) - matrix[:, begin : begin + 1024]) ** 2
    return float(np.sqrt(lost) / np.linalg.norm(matrix))


# -- tables ----------------------------------------------------------------------------------------------


@dataclass
class Cells:
    """A table of cells."""

    title: str
    note: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)
        sys.stderr.write(" | ".join(cells) + "\n")

    def markdown(self) -> str:
        rules = ["---", "---", *["---:"] * (len(self.head) - 2)]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.head, *self.rows)]
        lines.insert(1, f"|{'|'.join(rules)}|")
        return "\n".join([f"## {self.title}", "", self.note, "", *lines, "", *self.remarks, ""])


def _warm_up() -> None:
    """Compile what is needed, or load what is compiled."""
    x = np.linspace(0, 1, 300)
    matrix = 1 / (np.abs(x[:, None] - x) + 0.02)
    op = pp.factorize(matrix, max_error=MAX_ERROR, method="nested", coordinates=(x, x)).operator
    for vectors in (matrix[0], matrix[:, :BLOCK]):
        op @ vectors
    if mcbh is not None:
        h2_matrix(matrix, x[:, None], x[:, None], LEAF, MAX_ERROR)


def line() -> Cells:
    """1/(|x−y| + 0.02), in order and shuffled."""
    _warm_up()
    table = Cells(
        "The kernel 1/(|x−y| + 0.02) on a line",
        "`factorize(M, complexity=c, method='nested')`, without coordinates. Shuffled: rows and columns in two "
        "random orders, which `factorize` does not know; the aim is then twice the error.",
        ("n", "lines", "limit", "complexity", "error", "aim", "met", "time", "CPU"),
    )
    for n, complexity, aim in LINE:
        x = np.linspace(0, 1, n)
        matrix = 1 / (np.abs(x[:, None] - x) + 0.02)
        random = np.random.default_rng(n)
        shuffled = matrix[random.permutation(n)][:, random.permutation(n)]
        for lines, M, most in (("in order", matrix, aim), ("shuffled", shuffled, 2 * aim)):
            begin, work = perf_counter(), process_time()
            fit = pp.factorize(M, complexity=complexity, method="nested")
            taken = clock(perf_counter() - begin), clock(process_time() - work)
            error = error_of(M, lambda x, op=fit.operator: op @ x)
            figures = f"{fit.operator.relative_complexity:.3g}", f"{error:.2g}", f"≤ {most:g}"
            met = "yes" if error <= most and fit.operator.relative_complexity <= complexity else "**no**"
            table.add(f"{n:,}", lines, f"{complexity:g}", *figures, met, *taken)
    return table


class Figures(NamedTuple):
    """What is shown of a result."""

    error: float
    complexity: float
    seconds: float
    work: float
    one: float
    many: float


def compared(names: Sequence[str]) -> Cells:
    """The kernels in the hands of each contestant."""
    peer = "the largest tolerance with this error, leaves of 50 lines, from the matrix and coordinates"
    peer = f"h2tools: {peer}." if mcbh is not None else "h2tools is not installed, and left out."
    table = Cells(
        "Kernels and covariances, to an error of 1e-3",
        f"Nested low rank: `factorize(M, max_error={MAX_ERROR:g}, method='nested')`. The truncated SVD (two "
        f"dense factors) and the hierarchical strategy ({BUDGET:g} seconds): as many entries as nested low rank "
        f"with coordinates. {peer} Speed-ups are over the dense matrix in NumPy, for one vector and for 256 at "
        f"once. {_threads()}",
        ("kernel", "by", "error", "complexity", "build", "CPU", "speed-up, 1", "256", ""),
    )
    figures: dict[str, dict[str, Figures]] = {}
    _warm_up()
    for name in names:
        kernel = KERNELS[name]()
        found = {}
        for by, each in contestants(kernel):
            found[by] = each
            sys.stderr.write(f"{name}, {by}: {each}\n")
        one, many = (speedups(kernel.matrix, found, count) for count in (1, BLOCK))
        figures[kernel.name] = {}
        for by, each in found.items():
            error, complexity = error_of(kernel.matrix, each.apply), each.entries / kernel.matrix.size
            figures[kernel.name][by] = Figures(error, complexity, each.seconds, each.work, one[by], many[by])
            cells = f"{error:.2g}", f"{complexity:.3g}", clock(each.seconds), clock(each.work)
            table.add(kernel.name, by, *cells, f"{one[by]:.3g}", f"{many[by]:.3g}", each.note)
    table.remarks = verdict(figures) if figures else []
    return table


def verdict(figures: dict[str, dict[str, Figures]]) -> list[str]:
    """Wins and losses of nested low rank with coordinates, in a sentence about each contestant."""

    def ratios(by: str, name: str, is_ours_over: bool) -> str:
        pairs = [
            (getattr(each[OURS_BEST], name), getattr(each[by], name)) for each in figures.values() if by in each
        ]
        values = [ours / theirs if is_ours_over else theirs / ours for ours, theirs in pairs]
        return " to ".join(
            f"{value:.2g}" if value < 10 else f"{value:,.0f}" for value in (min(values), max(values))
        )

    said = [
        f"- With as many entries, the error of the {by} is {ratios(by, 'error', False)} times that of nested low "
        f"rank, and its speed {ratios(by, 'one', False)} times for one vector and {ratios(by, 'many', False)} "
        "times for 256."
        for by in ("truncated SVD", "hierarchical strategy")
    ]
    said.append(
        f"- Without coordinates, nested low rank takes {ratios('nested, without', 'work', False)} times the "
        f"processor time, and {ratios('nested, without', 'complexity', False)} times the entries."
    )
    if all("h2tools" in each for each in figures.values()):
        said.append(
            f"- h2tools stores {ratios('h2tools', 'complexity', False)} times as many numbers (a symmetric block "
            f"once). Nested low rank is applied {ratios('h2tools', 'one', True)} times as fast to one vector and "
            f"{ratios('h2tools', 'many', True)} times as fast to 256, but takes "
            f"{ratios('h2tools', 'work', True)} times the processor time to build: it searches for "
            "levels and ranks in the whole matrix, and h2tools looks at some entries."
        )
    return said


def _threads() -> str:
    """How many threads there are. Peers change environment variables when imported, so those say nothing."""
    blas = [each for each in threadpool_info() if each["user_api"] == "blas" and "numpy" in each["filepath"]]
    count = blas[0]["num_threads"] if blas else "an unknown number of"
    return f"Threads: {count} of NumPy's BLAS, {pp.get_num_threads()} of papilio."


def speedups(matrix: np.ndarray, found: dict[str, Compressed], count: int) -> dict[str, float]:
    x = np.random.default_rng(1).standard_normal((matrix.shape[1], count))
    x = x[:, 0] if count == 1 else x
    times = best_times(
        {"dense": lambda: matrix @ x} | {by: lambda run=each.apply: run(x) for by, each in found.items()},
        rounds=5,
        burst=3,
    )
    return {by: times["dense"] / times[by] for by in found}


def run(folder: Path, names: list[str] | None = None) -> list[Cells]:
    return [line(), compared(names or list(KERNELS))]


if __name__ == "__main__":
    chosen = sys.argv[1:]
    unknown = set(chosen) - {"line", *KERNELS}
    if unknown or not chosen:
        sys.exit(f"choose some of line, {', '.join(KERNELS)}")
    tables = [line()] if "line" in chosen else []
    if names := [name for name in chosen if name != "line"]:
        tables.append(compared(names))
    sys.stdout.write("\n".join(table.markdown() for table in tables))
