"""Implicit matrices, from a function of their entries: ``python benchmarks/operators.py`` (minutes).

A Fourier integral operator exp(2πi(xξ + c(x)|ξ|)), c(x) = (2 + sin 2πx)/8, and a non-uniform Fourier transform,
n = 2^13 to 2^17, to a relative error of 1e-6. Each size has a process of its own, so that its memory is its own.
The rows that the error is measured on are others than those that `factorize` looks at.
``python benchmarks/operators.py fio 4096`` prints the figures of one size as JSON.
"""

import json
import operator
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from math import log
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from common import best_times, clock, peak_memory

import papilio as pp

SIZES = tuple(2**power for power in range(13, 18))
MAX_ERROR = 1e-6
ROWS = 50
MOST_SECONDS, MOST_MEMORY, MOST_GROWTH, LEAST_GAIN = 120, 4.0, 1.2, 50
Entries = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fourier_integral(n: int) -> Entries:
    def entries(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        x, xi = rows[:, None] / n, columns - n / 2
        return np.exp(2j * np.pi * (x * xi + (2 + np.sin(2 * np.pi * x)) / 8 * np.abs(xi)))

    return entries


def times_of(n: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).random(n))


def non_uniform(n: int) -> Entries:
    times = times_of(n)
    return lambda rows, columns: np.exp(-2j * np.pi * times[rows][:, None] * (columns - n // 2))


OPERATORS = {"fio": fourier_integral, "nudft": non_uniform}
NAMES = {"fio": "Fourier integral operator", "nudft": "non-uniform Fourier transform"}


def measure(name: str, n: int) -> dict[str, Any]:
    """The figures of one operator."""
    entries = OPERATORS[name](n)
    pp.factorize(OPERATORS[name](512), shape=512, max_error=MAX_ERROR)  # compiles, or loads what is compiled
    begin, begin_process = perf_counter(), process_time()
    fit = pp.factorize(entries, shape=(n, n), max_error=MAX_ERROR)
    figures = {
        "seconds": perf_counter() - begin,
        "processor": process_time() - begin_process,
        "memory": peak_memory(),
        "estimate": fit.error,
        "entries": fit.operator.nnz,
        "method": fit.method,
        "status": str(fit.status),
    }
    rows = np.sort(np.random.default_rng(7).permutation(n)[:ROWS])
    exact = entries(rows, np.arange(n))
    found = reduce(operator.matmul, fit.operator.factors[1:], fit.operator.factors[0][rows]).toarray()
    figures["error"] = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    x = np.random.default_rng(1).standard_normal(n) + 0j
    contestants: dict[str, Callable[[], object]] = {
        "product": lambda: fit.operator @ x,
        "rows": lambda: entries(rows, np.arange(n)) @ x,
    }
    if name == "nudft" and (finufft := _finufft()) is not None:
        times = 2 * np.pi * times_of(n)
        transform = finufft.Plan(2, (n,), eps=MAX_ERROR, isign=-1)
        transform.setpts(times)
        contestants["finufft"] = lambda: transform.execute(x)
        peer = transform.execute(x)[rows]
        figures["finufft error"] = float(np.linalg.norm(peer - exact @ x) / np.linalg.norm(exact @ x))
        begin = perf_counter()
        finufft.Plan(2, (n,), eps=MAX_ERROR, isign=-1).setpts(times)
        figures["finufft plan"] = perf_counter() - begin
    measured = best_times(contestants, 3, 2)
    figures |= {f"{who} time": seconds for who, seconds in measured.items()}
    figures["rows time"] *= n / ROWS
    figures["memory after"] = peak_memory()
    return figures


def _finufft() -> Any:
    try:
        import finufft
    except ImportError:
        return None
    return finufft


@dataclass
class Sizes:
    """A table of sizes."""

    title: str
    note: str
    rows: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, n: int, found: dict[str, Any]) -> None:
        gain = found["rows time"] / found["product time"]
        cells = (
            f"{n:,}",
            f"{found['error']:.2g}",
            f"{found['estimate']:.2g}",
            f"{found['entries'] / n:.0f}",
            clock(found["seconds"]),
            clock(found["processor"]),
            f"{found['memory']:.2g} GB",
            clock(found["product time"]),
            f"{gain:.3g}",
            clock(found["finufft time"]) if "finufft time" in found else "",
        )
        self.rows.append(f"| {' | '.join(cells)} |")

    def markdown(self) -> str:
        head = (
            "| n | error on 50 other rows | estimate | entries ÷ n | build | of processors | memory | op @ x | "
            "rows computed ÷ op @ x | finufft |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        )
        return "\n".join([f"## {self.title}", "", self.note, "", head, *self.rows, "", *self.remarks, ""])


def run(folder: Path) -> list[Sizes]:
    return [_table(name) for name in OPERATORS]


def _table(name: str) -> Sizes:
    table = Sizes(
        f"From entries: {NAMES[name]}",
        f"`factorize(entries, shape=(n, n), max_error={MAX_ERROR:g})`. The memory is that of the process until "
        "the product is built. Rows are computed in blocks of 50, by NumPy.",
    )
    found = {n: _in_own_process(name, n) for n in SIZES}
    for n, figures in found.items():
        table.add(n, figures)
    first, last = found[SIZES[0]], found[SIZES[-1]]
    growth = log(last["processor"] / first["processor"]) / log(SIZES[-1] / SIZES[0])
    gain = min(each["rows time"] / each["product time"] for each in found.values())
    aims = {
        f"error at most {MAX_ERROR:g}": max(each["error"] for each in found.values()) <= MAX_ERROR,
        f"n = {SIZES[-1]:,} in {MOST_SECONDS} s": last["seconds"] <= MOST_SECONDS,
        f"and in {MOST_MEMORY:g} GB": last["memory"] <= MOST_MEMORY,
        f"processor time grows as n^{growth:.2f}, at most n^{MOST_GROWTH:g}": growth <= MOST_GROWTH,
        f"{LEAST_GAIN} times faster than computing rows": gain >= LEAST_GAIN,
    }
    table.remarks = [f"- {aim}: {'yes' if met else '**no**'}" for aim, met in aims.items()]
    table.remarks.append(f"- memory after applying it, at n = {SIZES[-1]:,}: {last['memory after']:.2g} GB")
    if "finufft time" in last:
        table.remarks.append(
            f"- finufft (eps = {MAX_ERROR:g}) knows the transform. At n = {SIZES[-1]:,} its error is "
            f"{last['finufft error']:.2g}, its plan takes {clock(last['finufft plan'])}, and it takes "
            f"{last['finufft time'] / last['product time']:.2g} times as long as the product for one vector."
        )
    return table


def _in_own_process(name: str, n: int) -> dict[str, Any]:
    command = [sys.executable, __file__, name, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    sys.stdout.write(f"{name} {n}: {found}\n")
    sys.stdout.flush()
    return found


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.stdout.write(json.dumps(measure(sys.argv[1], int(sys.argv[2]))) + "\n")
    else:
        sys.stdout.write("\n".join(table.markdown() for table in run(Path(__file__).parent)))
