"""The whole dial in one call, against as many separate fits: time, and the error at each point."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from common import OURS, Table, clock

import papilio as pp

AIM = 2  # times faster than separate fits


def run(folder: Path) -> list[Table]:
    table = Table("The trade-off of complexity and error, 12 points", "")
    notes = []
    for name, M in matrices().items():
        notes.append(compared(table, name, lambda M=M: pp.tradeoff(M), lambda c, M=M: factorized(M, c)))
    X = pp.datasets.image_patches(10_000, 8, random_state=0)
    sweep = lambda: pp.dictionary.dictionary_tradeoff(X.T, 128, 5)  # noqa: E731
    notes.append(compared(table, "10,000 patches of 8×8, 128 atoms, 5 per patch", sweep, lambda c: learned(X, c)))
    table.note = (
        "`tradeoff` against a separate `factorize(M, complexity=c)` or "
        "`FastDictionaryLearning(complexity=c).fit(X)` for each point, one after the other in one process. Error "
        "of the sweep over that of the separate fit, from "
        f"complexity 0.05 to 0.8: {'; '.join(notes)}. No error rises with the complexity."
    )
    return [table]


def matrices() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    x, y = np.sort(random.random((2, 64)), axis=1)
    cosine = pp.transforms.dct(64).toarray()[random.permutation(64)]
    return {
        "Gaussian 64×64": random.standard_normal((64, 64)),
        "kernel 1/(abs(x − y) + 0.02), 64×64": 1 / (np.abs(x[:, None] - y) + 0.02),
        "permuted DCT with noise of 0.1, 64×64": cosine + 0.1 / 8 * random.standard_normal((64, 64)),
    }


def factorized(M: np.ndarray, complexity: float) -> float:
    return pp.factorize(M, complexity=complexity).error


def learned(X: np.ndarray, complexity: float) -> float:
    return pp.FastDictionaryLearning(128, 5, complexity=complexity, random_state=0).fit(X).history_[-1].error


def compared(table: Table, name: str, sweep: Callable[[], pp.Tradeoff], separate: Callable[[float], float]) -> str:
    """Adds a row; returns the errors in words."""
    separate(0.3)  # compiles
    begin = perf_counter()
    dial = sweep()
    ours = perf_counter() - begin
    errors = [point.error for point in dial.points]
    assert errors == sorted(errors, reverse=True)
    begin = perf_counter()
    others = [separate(point.complexity) for point in dial.points]
    theirs = perf_counter() - begin
    table.add(name, {OURS: ours, "12 separate fits": theirs}, {"12 separate fits": AIM})
    ratios = np.array(errors) / np.array(others)
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{name} ({clock(ours)}): {listed}, mean {ratios.mean():.3f}"
