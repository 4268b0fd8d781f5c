"""What the benchmarks share: fair timing, tables, and a description of the machine."""

import hashlib
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, sleep

import papilio

OURS = "papilio"


def best_times(
    contestants: dict[str, Callable[[], object]], rounds: int, burst: int = 5, pause: float = 0.0
) -> dict[str, float]:
    """The best time of each, in seconds.

    Rounds are interleaved, so that a busy moment of the machine hits all of them. In each round a contestant runs
    several times in a row, after a ``pause`` in seconds: the threads of other libraries still spin for a while
    after their own turn, and take a core from the next one.
    """
    best = {}
    for name, run in contestants.items():
        run()  # compile, load, warm up
        best[name] = float("inf")
    for _ in range(rounds):
        for name, run in contestants.items():
            sleep(pause)
            for _ in range(burst):
                begin = perf_counter()
                run()
                best[name] = min(best[name], perf_counter() - begin)
    return best


@dataclass
class Table:
    """A section of RESULTS.md: ratios first."""

    title: str
    note: str
    rows: list[str] = field(default_factory=list)

    def add(self, case: str, times: dict[str, float], aims: dict[str, float] | None = None) -> None:
        """One case: papilio's time, and each peer's time divided by it, with the ratio that is aimed at."""
        ours = times[OURS]
        for name, seconds in times.items():
            if name == OURS:
                continue
            aim = (aims or {}).get(name)
            aimed = "" if aim is None else f"≥ {aim:g}"
            met = "" if aim is None else ("yes" if seconds / ours >= aim else "**no**")
            cells = (case, name, f"**{seconds / ours:.3g}**", aimed, met, clock(ours), clock(seconds))
            self.rows.append(f"| {' | '.join(cells)} |")

    def markdown(self) -> str:
        head = "| case | peer | peer ÷ papilio | aim | met | papilio | peer |\n|---|---|---:|---:|---|---:|---:|"
        return "\n".join([f"## {self.title}", "", self.note, "", head, *self.rows, ""])


@dataclass
class Speeds:
    """A section of RESULTS.md with headings of its own."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: list[str] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(f"| {' | '.join(cells)} |")

    def markdown(self) -> str:
        head = f"| {' | '.join(self.headings)} |\n|---|{'---:|' * (len(self.headings) - 1)}"
        return "\n".join([f"## {self.title}", "", self.note, "", head, *self.rows, ""])


def clock(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def peak_memory() -> float:
    """The most memory that this process had so far, in GB.

    The kernel's own mark: what getrusage says starts, in a child process, with the size of its parent.
    """
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def source() -> str:
    """The first digits of a hash of papilio's sources, which tell what was measured."""
    folder, found = Path(papilio.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:10]


def peak(code: str) -> float:
    """Peak memory in GB of some code, in a process of its own."""
    code = f"import numpy as np, papilio as pp, common; {code}; print(common.peak_memory())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    return float(done.stdout)


def machine() -> str:
    """The processor, its cores and the versions of what is compared."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
            model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = (
        "papilio",
        "numpy",
        "scipy",
        "numba",
        "scikit-learn",
        "pyfaust",
        "lazylinop",
        "spams-bin",
        "ksvd",
        "dictlearn",
        "h2tools",
    )
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} not installed")
    versions[0] = f"papilio {papilio.__version__} (source {source()})"
    return f"{model}, {cores} cores, Python {platform.python_version()}; {', '.join(versions)}."
