"""Learning dictionaries: K-SVD and online learning against their peers, and PALM on few and many signals."""

import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from common import OURS, Table, best_times, clock
from peers import dictlearn, ksvd_package, spams

import papilio as pp

PATCHES, ATOMS, N_NONZERO = 10_000, 256, 5


def run(folder: Path) -> list[Table]:
    return [dense(), fast()]


def error(X: np.ndarray, D: np.ndarray) -> float:
    """The relative error of coding X; the same judge for all."""
    D = D / np.linalg.norm(D, axis=0)
    return float(np.linalg.norm(X - D @ pp.omp(D, X, N_NONZERO)) / np.linalg.norm(X))


def dense() -> Table:
    X = np.asfortranarray(pp.datasets.image_patches(PATCHES, 8, random_state=0).T)
    table = Table("Learning a dense dictionary", "")
    found: dict[str, np.ndarray] = {}
    notes = []

    def ours() -> None:
        found["papilio K-SVD"] = pp.dictionary.ksvd(
            X, ATOMS, N_NONZERO, max_iter=10, tol=0, random_state=0
        ).dictionary

    def package() -> None:
        model = ksvd_package.ApproximateKSVD(n_components=ATOMS, max_iter=10, transform_n_nonzero_coefs=N_NONZERO)
        np.random.seed(0)  # noqa: NPY002 - the package draws from it
        found["ksvd package"] = model.fit(X.T).components_.T

    def toolbox() -> None:
        model = dictlearn.DictionaryLearning(ATOMS, n_nonzero_coefs=N_NONZERO, max_iter=10, random_state=0)
        found["dictlearn"] = model.fit(X.T).components_.T

    contestants = {OURS: ours}
    if ksvd_package is not None:
        contestants["ksvd package"] = package
    if dictlearn is not None:
        contestants["dictlearn, approximate K-SVD"] = toolbox
    times = best_times(contestants, 2, 1)
    table.add("K-SVD, 10 iterations", times, {"ksvd package": 8, "dictlearn, approximate K-SVD": 1})
    notes.append("10 iterations of K-SVD: " + ", ".join(f"{k} {error(X, D):.4f}" for k, D in found.items()))

    found.clear()

    def online() -> None:
        found["papilio online"] = pp.dictionary.online_dictionary(
            X, ATOMS, N_NONZERO, tol=0, random_state=0
        ).dictionary

    def train() -> None:
        found["SPAMS trainDL"] = spams.trainDL(
            X, mode=3, lambda1=N_NONZERO, K=ATOMS, iter=1000, numThreads=2, verbose=False
        )

    contestants = {OURS: online}
    if spams is not None:
        contestants["SPAMS trainDL, mode 3, 1000 iterations"] = train
    times = best_times(contestants, 2, 1)
    table.add("online, 30 passes", times, {"SPAMS trainDL, mode 3, 1000 iterations": 1})
    notes.append("long runs: " + ", ".join(f"{k} {error(X, D):.4f}" for k, D in found.items()))
    table.note = (
        f"{PATCHES:,} patches of 8×8, {ATOMS} atoms, {N_NONZERO} per signal. Relative errors, coded by papilio's "
        f"OMP: {'; '.join(notes)}."
    )
    return table


def fast() -> Table:
    """The paper's fit, PALM's time on few and on many signals, and a large fit."""
    data = pp.datasets.rand(random_state=0)
    schedule = pp.Schedule.paper(32, 5, 2, 512)
    start = pp.dictionary.ksvd(data.signals, 32, 5, random_state=0).dictionary
    times = best_times(
        {OURS: lambda: pp.dictionary.fast_dictionary(data.signals, schedule, 5, init=start, effort=0)}, 5, 2
    )
    table = Table("Learning a fast dictionary", "")
    paper = f"The paper's fit (Q = 5, p = 2, P = 512, 500 signals of 32, K-SVD excluded): {clock(times[OURS])}"
    few, many = (palm_on_moments(count) for count in (5_000, 500_000))
    table.add(
        "PALM on the moments of 500,000 signals",
        {OURS: many, "of 5,000 signals": few},
        {"of 5,000 signals": 1 / 1.2},
    )
    seconds, memory, complexity, final = large()
    table.note = (
        f"{paper} (aim 0.5 s). 500,000 patches of 64, 256 atoms, complexity {complexity:.3f}: {seconds:.0f} s and "
        f"{memory:.2f} GB (aims 180 s and 4 GB), relative error {final:.4f}."
    )
    return table


def palm_on_moments(count: int) -> float:
    """The time of 100 iterations of PALM for a 64×256 dictionary of three factors, on moments of signals."""
    rng = np.random.default_rng(0)
    X = pp.datasets.image_patches(count, 8, random_state=0).T
    D = rng.standard_normal((64, 256))
    moments = pp.Moments.of(X, pp.omp(D, X, 5))
    schedule = pp.Schedule.with_complexity((64, 256), 0.4, 3)
    sets = schedule.together(1)
    best = float("inf")
    for _ in range(5):
        fresh = pp.Moments(moments.cross, moments.gram, moments.energy)
        begin = perf_counter()
        pp.palm(fresh, sets, order="left_to_right", max_iter=100, tol=0)
        best = min(best, perf_counter() - begin)
    return best


def large() -> tuple[float, float, float, float]:
    """Seconds, peak memory, complexity and error of a fit on 500,000 patches, in a process of its own."""
    code = (
        "import common, papilio as pp; from time import perf_counter as t;"
        "X = pp.datasets.image_patches(500_000, 8, random_state=0); b = t();"
        "m = pp.FastDictionaryLearning(256, 5, complexity=0.4, random_state=0).fit(X);"
        "print(t() - b, common.peak_memory(), m.relative_complexity_,"
        "m.history_[-1].error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    seconds, memory, complexity, final = map(float, done.stdout.split())
    return seconds, memory, complexity, final
