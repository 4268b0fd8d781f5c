"""Applying products of 256 to a million rows, against a chain of SciPy's CSR products and against fast transforms.

``python benchmarks/sizes.py`` measures all cases (some twenty minutes), and
``python benchmarks/sizes.py dct haar --sizes 4096 --dtypes float32`` some of them. With ``--memory`` they measure
memory instead of time, each case in a process of its own.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from time import perf_counter

import numpy as np
import pywt
import scipy.fft
import scipy.sparse as sp
from common import OURS, Speeds, Table, clock
from matplotlib.figure import Figure

import papilio as pp

SIZES = (256, 4096, 16384, 131072, 1 << 20)
COUNTS = (None, 1, 8, 64, 256)  # columns of the block; None is a vector
DTYPES = ("float64", "float32", "complex128")
SECONDS = 0.06  # for each case and contestant, where one call does not take longer
LARGEST = 1.5e8  # bytes of a block of vectors
CHAIN = "SciPy chain"
LEAST, LEAST_OF_BLOCKS = 0.9, 1.5  # times the speed of the chain, which is what we aim at
MOST_MEMORY = 3  # times that of factors, input and output


def banded(n: int) -> pp.SparseProduct:
    diagonals = np.random.default_rng(0).standard_normal((5, n))
    return pp.SparseProduct([sp.dia_array((diagonals, range(-2, 3)), shape=(n, n))])


def random_sparse(n: int) -> pp.SparseProduct:
    """Three factors with four entries per row at random places."""
    random = np.random.default_rng(0)
    factors = []
    for _ in range(3):
        columns, values = random.integers(n, size=(n, 4)), random.standard_normal((n, 4))
        factors.append(sp.csr_array((values.ravel(), columns.ravel(), range(0, 4 * n + 1, 4)), shape=(n, n)))
    return pp.SparseProduct(factors)


def nested(n: int) -> pp.SparseProduct:
    """The kernel of the README: nested low rank, found from a part of its entries."""
    x = np.sort(np.random.default_rng(0).random(n))
    kernel = lambda rows, columns: 1 / (np.abs(x[rows][:, None] - x[columns]) + 0.02)  # noqa: E731
    return pp.factorize(kernel, shape=(n, n), max_error=1e-4).operator


def blocks(n: int) -> pp.SparseProduct:
    """Two factors with three random 4×4 blocks in each row of blocks."""
    random = np.random.default_rng(0)
    factors = []
    for _ in range(2):
        columns = np.argsort(random.random((n // 4, min(n // 4, 64))), axis=1)[:, :3] * max(n // 4 // 64, 1)
        data = random.standard_normal((columns.size, 4, 4))
        starts = np.arange(0, columns.size + 1, 3)
        factors.append(sp.bsr_array((data, columns.ravel(), starts), shape=(n, n)))
    return pp.SparseProduct(factors)


KINDS: dict[str, Callable[[int], pp.SparseProduct]] = {
    "dct": pp.transforms.dct,
    "dft": pp.transforms.dft,
    "haar": pp.transforms.haar,
    "db4": pp.transforms.wavelet,
    "hadamard": pp.transforms.hadamard,
    "banded": banded,
    "random": random_sparse,
    "nested": nested,
    "blocks": blocks,
}
LARGEST_OF_KIND = {"nested": 16384, "random": 131072}
TRANSFORMS: dict[str, Callable[[np.ndarray], object]] = {
    "dct": lambda x: scipy.fft.dct(x, axis=0, norm="ortho"),
    "dft": lambda x: scipy.fft.fft(x, axis=0),
    "haar": lambda x: pywt.wavedec(x, "haar", mode="periodization", axis=0),
    "db4": lambda x: pywt.wavedec(x, "db4", mode="periodization", axis=0),
}


def best(calls: list[Callable[[], object]], warm_up: int) -> tuple[list[float], float, float]:
    """The best time of each call, measured in turns; and the first and the longest time of the first one.

    ``warm_up`` calls are made first: large operators are packed when they have been applied to 32 vectors.
    """
    early = []
    for _ in range(warm_up):
        begin = perf_counter()
        calls[0]()
        early.append(perf_counter() - begin)
    times = []
    for call in calls:
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    end = perf_counter() + SECONDS * len(calls)
    while perf_counter() + sum(times) < end:
        for i, call in enumerate(calls):
            stop = perf_counter() + 0.02
            while True:
                begin = perf_counter()
                call()
                now = perf_counter()
                times[i] = min(times[i], now - begin)
                if now > stop:
                    break
    return times, early[0], max(early)


def measured(
    kinds: list[str], sizes: list[int], dtypes: list[str], counts: list[int | None]
) -> Iterator[tuple[str, int, str, str, int | None, list[float], float, float, list[str]]]:
    random = np.random.default_rng(1)
    for kind in kinds:
        for n in sizes:
            if n > LARGEST_OF_KIND.get(kind, n):
                continue
            made = KINDS[kind](n)
            for name in dtypes:
                dtype = np.dtype(name)
                if made.dtype.kind == "c" and dtype.kind != "c":
                    continue
                op = made.astype(dtype)
                for direction, turned in (("forward", op), ("adjoint", op.H)):
                    factors = [sp.csr_array(factor) for factor in reversed(turned.factors)]
                    for count in counts:
                        shape = (n,) if count is None else (n, count)
                        if np.prod(shape) * dtype.itemsize > LARGEST:
                            continue
                        x = random.standard_normal(shape)
                        x = (x + 1j * random.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)
                        calls = {
                            OURS: lambda turned=turned, x=x: turned @ x,
                            CHAIN: lambda factors=factors, x=x: reduce(lambda v, f: f @ v, factors, x),
                        }
                        if kind in TRANSFORMS and direction == "forward":
                            calls["transform"] = lambda kind=kind, x=x: TRANSFORMS[kind](x)
                        times, first, packing = best(list(calls.values()), -(-32 // (count or 1)))
                        yield kind, n, name, direction, count, times, first, packing, list(calls)


def run(
    folder: Path,
    kinds: list[str] | None = None,
    sizes: list[int] | None = None,
    dtypes: list[str] | None = None,
    counts: list[int | None] | None = None,
) -> list[Table | Speeds]:
    table = Speeds(
        "Products of every size",
        "Time of a chain of SciPy's CSR products divided by papilio's, in the same process. A transform is "
        "scipy.fft's or PyWavelets'. The longest of the first calls packs. `python benchmarks/sizes.py`",
        (
            "kind",
            "n",
            "dtype",
            "direction",
            "columns",
            "SciPy chain ÷ papilio",
            "met",
            "transform ÷ papilio",
            "first ÷ best",
            "longest",
            "papilio",
        ),
    )
    curves: dict[str, list[tuple[int, float, float]]] = {}
    rows = measured(kinds or list(KINDS), sizes or list(SIZES), dtypes or list(DTYPES), counts or list(COUNTS))
    for kind, n, dtype, direction, count, times, first, packing, names in rows:
        gain = times[1] / times[0]
        aim = LEAST_OF_BLOCKS if count is not None and count >= 64 else LEAST
        transform = f"{times[2] / times[0]:.2f}" if "transform" in names else ""
        met = "yes" if gain >= aim else "**no**"
        columns = "vector" if count is None else f"{count}"
        table.add(
            kind,
            f"{n:,}",
            dtype,
            direction,
            columns,
            f"**{gain:.2f}**",
            met,
            transform,
            f"{first / times[0]:.1f}",
            clock(packing),
            clock(times[0]),
        )
        sys.stdout.write(table.rows[-1] + "\n")
        sys.stdout.flush()
        if (dtype, direction, count) in (("float64", "forward", 64), ("complex128", "forward", 64)):
            curves.setdefault(kind, []).append((n, times[0], times[1]))
    if kinds is None:
        draw(curves, folder / "sizes.png")
    return [table, memory(kinds)] if kinds is None else [table]


# -- memory --------------------------------------------------------------------------------------------


def memory(kinds: list[str] | None = None, sizes: list[int] | None = None) -> Table:
    table = Table("Memory of large products", "")
    rows = []
    for kind in kinds or list(KINDS):
        for n in sizes or SIZES[-2:]:
            if n > LARGEST_OF_KIND.get(kind, n):
                continue
            for direction in ("forward", "adjoint"):
                command = [sys.executable, __file__, "--peak", kind, str(n), direction]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                used, needed = json.loads(done.stdout)
                rows.append(f"{kind} {n:,}, {direction}: {used / needed:.2f}")
                sys.stdout.write(f"{rows[-1]} ({used / 1e6:.0f} MB of {needed / 1e6:.0f} MB)\n")
                sys.stdout.flush()
    table.note = (
        "Peak memory while a product or its adjoint is packed and applied to eight columns, beyond that of a "
        "process that has applied a small one, divided by the bytes of factors, input and output (aim: at most "
        f"{MOST_MEMORY}; Linux): {'; '.join(rows)}."
    )
    return table


def peak(kind: str, n: int, direction: str) -> tuple[int, int]:
    """The bytes that are used, and those of factors, input and output. What makes the factors does not count."""
    small = KINDS[kind](256)
    for turned in (small, small.H):
        for columns in (1, 8, 32):
            turned @ np.ones((256, columns), small.dtype)  # loads the kernels
    before = status("VmRSS")
    op = KINDS[kind](n)
    parts = [part for factor in op.factors for part in (factor.data, factor.indices, factor.indptr)]
    x = np.ones((n, 8), op.dtype)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # begins the measurement of the peak
    turned = op if direction == "forward" else op.H
    for _ in range(5):  # it is packed when it has been applied to 32 vectors
        y = turned @ x
    return status("VmHWM") - before, sum(part.nbytes for part in parts) + x.nbytes + y.nbytes


def status(field: str) -> int:
    """Bytes of memory of this process, as Linux tells them."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        if line.startswith(field)
    )
    return 1024 * int(line.split()[1])


def draw(curves: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    """Time against n, papilio solid and the chain dashed."""
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.add_subplot()
    for kind, points in curves.items():
        n, ours, chain = map(np.array, zip(*points, strict=True))
        (line,) = ax.loglog(n, ours * 1e3, marker="o", markersize=4, label=kind)
        ax.loglog(n, chain * 1e3, linestyle="--", linewidth=1, color=line.get_color())
    ax.set_xlabel("n")
    ax.set_ylabel("ms for 64 columns, best")
    ax.set_title("papilio (solid) and a chain of SciPy's CSR products (dashed)", fontsize=10)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []])
    parser.add_argument("--sizes", nargs="*", type=int)
    parser.add_argument("--dtypes", nargs="*", choices=[*DTYPES, "complex64"])
    parser.add_argument("--counts", nargs="*", type=int, help="columns; 0 for a vector")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        kind, size, direction = given.peak
        sys.exit(sys.stdout.write(json.dumps(peak(kind, int(size), direction))) < 0)
    if given.memory:
        sys.exit(not memory(given.kinds or None, given.sizes).note)
    chosen = None if given.counts is None else [count or None for count in given.counts]
    run(Path(__file__).parent, given.kinds or None, given.sizes, given.dtypes, chosen)
