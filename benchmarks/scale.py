"""Learning from data larger than memory: ``python benchmarks/scale.py`` (about half an hour on two cores).

Four million image patches of 64 float32 (1 GB) in a file, 256 atoms, 5 per signal, complexity 0.4: the same fit
without a cluster, with one and with two worker processes of one thread; passes over 10⁵, 10⁶ and 4·10⁶ patches; a
stream of 10 GB. Each measurement has processes of its own, so that their memory is their own. ``run.py scale``
does it, too.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from common import clock, peak_memory

import papilio as pp
from papilio.dictionary import signals
from papilio.dictionary.signals import Coder, Coding, code_part, merge_statistics
from papilio.samples import as_samples, map_reduce

ATOMS, NONZERO, COMPLEXITY = 256, 5, 0.4
SAMPLES = 4_000_000
COUNTS = (100_000, 1_000_000, SAMPLES)
STREAM = 40_000_000  # 10 GB
BATCH = 100_000


@dataclass
class Results:
    title: str
    rows: list[str] = field(default_factory=list)

    def add(self, case: str, figure: str, aim: str = "", met: bool | None = None) -> None:
        said = "" if met is None else "yes" if met else "**no**"
        self.rows.append(f"| {case} | {figure} | {aim} | {said} |")
        sys.stdout.write(self.rows[-1] + "\n")
        sys.stdout.flush()

    def markdown(self) -> str:
        head = "| case | figure | aim | met |\n|---|---|---|---|"
        return "\n".join([f"## {self.title}", "", "`python benchmarks/run.py scale`", "", head, *self.rows, ""])


# -- data ----------------------------------------------------------------------------------------------


def patches(path: str, count: int, seed: int) -> Iterator[np.ndarray]:
    """So many patches, in batches: those of photographs, each with some of another one laid over it."""
    base = np.load(f"{path}.base.npy")
    random = np.random.RandomState(seed)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        one, other = random.randint(len(base), size=(2, size))
        weight = 0.3 * random.random_sample((size, 1)).astype(np.float32)
        yield base[one] + weight * base[other]


def write(path: str) -> None:
    np.save(f"{path}.base.npy", pp.datasets.image_patches(100_000, 8, random_state=0).astype(np.float32))
    array = np.lib.format.open_memmap(path, "w+", np.float32, (SAMPLES, 64))
    for i, batch in enumerate(patches(path, SAMPLES, 1)):
        array[i * BATCH : i * BATCH + len(batch)] = batch
    array.flush()


def learner(**options: Any) -> pp.FastDictionaryLearning:
    return pp.FastDictionaryLearning(ATOMS, NONZERO, complexity=COMPLEXITY, random_state=0, **options)


class Clock:
    """Sees a fit as it goes on: the seconds of each phase, and of each pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def __call__(self, step: pp.results.Step) -> None:
        now = perf_counter()
        self.seconds[step.phase] = self.seconds.get(step.phase, 0.0) + now - self._last
        self._last = now


class Cluster:
    """Some worker processes of one thread, or none."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def __enter__(self) -> Any:
        if not self._workers:
            return None
        from distributed import Client, LocalCluster

        self._cluster = LocalCluster(n_workers=self._workers, threads_per_worker=1, dashboard_address=None)
        self._client = Client(self._cluster)
        return self._client

    def __exit__(self, *_: object) -> None:
        if self._workers:
            self._client.close()
            self._cluster.close()


def sent(dask_worker: Any) -> int:
    """Bytes of results that a worker has sent so far, to others and to the driver."""
    return sum(entry["total"] for entry in dask_worker.transfer_outgoing_log)


def dictionary(path: str) -> pp.SparseProduct:
    """One that was learned, in seconds, from some of the samples."""
    rows = np.array(np.load(path, mmap_mode="r")[:20_000])
    atoms = pp.OnlineDictionaryLearning(ATOMS, NONZERO, max_iter=5, random_state=0).fit(rows).components_.T
    schedule = pp.Schedule.with_complexity(atoms.shape, COMPLEXITY)
    return pp.hierarchical(atoms, schedule, max_iter=100).operator


# -- measurements, each in a process of its own --------------------------------------------------------


def fit(path: str, workers: int) -> dict[str, Any]:
    with Cluster(workers) as client:
        watch = Clock()
        begin = perf_counter()
        model = learner(callback=watch).fit(pp.datasets.on_disk(path))
        seconds = perf_counter() - begin
        memory = list(client.run(peak_memory).values()) if client else []
    return {
        "seconds": seconds,
        "error": model.history_[-1].error,
        "complexity": model.relative_complexity_,
        "phases": watch.seconds,
        "driver": peak_memory(),
        "workers": memory,
    }


class TimedCodes:
    """OMP that knows how long it has coded, on all threads together."""

    def __init__(self) -> None:
        self.seconds, self._codes = 0.0, signals.omp_codes

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        begin = perf_counter()
        codes = self._codes(*arguments, **options)
        self.seconds += perf_counter() - begin
        return codes


def timed() -> float:
    """Let passes in this process use that one; returns what it has taken so far."""
    if not isinstance(signals.omp_codes, TimedCodes):
        signals.omp_codes = TimedCodes()
    return float(signals.omp_codes.seconds)


def passes(path: str, workers: int) -> dict[str, Any]:
    """The best of three passes over some samples each, taken in turn; OMP's time in it, and what workers sent."""
    coding = Coding(dictionary(path), Coder(NONZERO))
    timed, sent = (getattr(import_module("scale"), name) for name in ("timed", "sent"))  # as workers find them
    with Cluster(workers) as client:

        def over_all(function: Any) -> list[Any]:
            return list(client.run(function).values()) if client else [function()] if function is timed else []

        best: dict[str, Any] = {str(count): {"seconds": np.inf} for count in COUNTS}
        over_all(timed)
        map_reduce(
            as_samples(np.load(path, mmap_mode="r")[:30_000]), code_part, coding, merge_statistics
        )  # compiles, loads
        for _ in range(3):
            for count in COUNTS:
                samples = as_samples(np.load(path, mmap_mode="r")[:count])
                coded, out = over_all(timed), over_all(sent)
                begin = perf_counter()
                map_reduce(samples, code_part, coding, merge_statistics)
                seconds = perf_counter() - begin
                coded = [after - before for after, before in zip(over_all(timed), coded, strict=True)]
                out = [after - before for after, before in zip(over_all(sent), out, strict=True)]
                if seconds < best[str(count)]["seconds"]:
                    best[str(count)] = {"seconds": seconds, "coding": sum(coded), "sent": out}
    return best


def stream(path: str) -> dict[str, Any]:
    """A stream of 10 GB, made on the fly, and the error of what was learned on samples that it did not have."""
    begin = perf_counter()
    model = learner().fit_stream(patches(path, STREAM, 2))
    seconds = perf_counter() - begin
    memory = peak_memory()
    test = next(patches(path, BATCH, 3))
    return {"seconds": seconds, "memory": memory, "error": relative_error(model, test)}


def batch(path: str) -> dict[str, Any]:
    """The batch fit on a tenth of that, tested in the same way."""
    model = learner().fit(np.load(path, mmap_mode="r"))
    return {"error": relative_error(model, next(patches(path, BATCH, 3)))}


def relative_error(model: Any, rows: np.ndarray) -> float:
    return -model.score(rows)


# -- all of them ---------------------------------------------------------------------------------------


def run(folder: Path) -> list[Results]:
    results = Results("Data larger than memory")
    with tempfile.TemporaryDirectory() as temporary:
        path = str(Path(temporary) / "patches.npy")
        write(path)
        _fits(results, path)
        _passes(results, path)
        _stream(results, path)
    return [results]


def _fits(results: Results, path: str) -> None:
    fits = {workers: measure("fit", path, workers) for workers in (0, 1, 2)}
    for workers, found in fits.items():
        case = f"{SAMPLES:.0e} patches, " + (f"{workers} worker(s)" if workers else "no cluster")
        during = {name: seconds for name, seconds in found["phases"].items() if name.startswith("pass")}
        palm = sum(seconds for name, seconds in found["phases"].items() if name.startswith(("split", "global")))
        results.add(
            f"{case}: fit",
            f"{found['seconds']:.0f} s: {len(during)} passes of {np.mean(list(during.values())):.1f} s, start "
            f"{found['phases']['ksvd']:.0f} s, hierarchy {palm:.1f} s, refined {found['phases']['refine']:.0f} s",
        )
        memory = max(found["driver"], *found["workers"], 0)
        says = f"driver {found['driver']:.2f} GB" + "".join(f", worker {each:.2f} GB" for each in found["workers"])
        results.add(f"{case}: peak memory", says, "< 1 GB", memory < 1)
    errors = [found["error"] for found in fits.values()]
    spread = max(errors) / min(errors) - 1
    results.add("errors of the three fits", f"{errors[0]:.6f}, spread {spread:.1e}", "≤ 1e-6", spread <= 1e-6)


def _passes(results: Results, path: str) -> None:
    found = {workers: measure("passes", path, workers) for workers in (0, 1, 2)}
    one, two = (found[workers][str(SAMPLES)] for workers in (1, 2))
    ratio = one["seconds"] / one["coding"]
    says = f"{one['seconds']:.1f} s / {one['coding']:.1f} s = {ratio:.2f}"
    results.add("a pass, 1 worker, over its OMP time", says, "≤ 1.3", ratio <= 1.3)
    ratio = one["seconds"] / two["seconds"]
    results.add("a pass, 2 workers", f"{two['seconds']:.1f} s, {ratio:.2f}× faster", "≥ 1.6", ratio >= 1.6)
    for workers, each in found.items():
        seconds = [each[str(count)]["seconds"] for count in COUNTS]
        rates = np.divide(seconds, COUNTS)
        figures = ", ".join(f"{count:.0e}: {clock(second)}" for count, second in zip(COUNTS, seconds, strict=True))
        spread = max(rates) / min(rates) - 1
        case = "a pass, " + (f"{workers} worker(s)" if workers else "no cluster")
        results.add(case, f"{figures}; seconds per sample differ by {spread:.0%}", "≤ 15 %", spread <= 0.15)
        if workers:
            traffic = ", ".join(f"{count:.0e}: {max(each[str(count)]['sent']) / 1e6:.1f} MB" for count in COUNTS)
            sums = 8 * (ATOMS * ATOMS + 64 * ATOMS) / 1e6
            says = f"{traffic}; A and B have {sums:.2f} MB"
            results.add(f"sent by a worker in a pass, {workers} worker(s), at most", says)


def _stream(results: Results, path: str) -> None:
    found, other = measure("stream", path), measure("batch", path)
    results.add(
        "stream of 10 GB",
        f"{found['seconds']:.0f} s, {1e3 * found['memory']:.0f} MB",
        "< 500 MB",
        found["memory"] < 0.5,
    )
    ratio = found["error"] / other["error"]
    says = f"{found['error']:.4f} / {other['error']:.4f} = {ratio:.3f}"
    results.add("its error over that of a batch fit on a tenth", says, "≤ 1.03", ratio <= 1.03)


def measure(name: str, *arguments: Any) -> Any:
    """What a measurement returns, from a process of its own."""
    command = [sys.executable, __file__, name, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        run(Path(__file__).parent)
    else:
        name, path, *numbers = sys.argv[1:]
        sys.stdout.write(json.dumps(globals()[name](path, *map(int, numbers))) + "\n")
