"""Learn dictionaries of image patches at several complexities; measure their errors and their times."""

from collections.abc import Iterator
from math import isqrt
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ...coding import omp
from ...datasets import image_patches
from ...dictionary.fast import fast_dictionary
from ...dictionary.ksvd import ksvd
from ...images.dct import redundant_dct
from ...operators import SparseProduct
from ...operators.speed import compare
from ...runtime.threads import one_thread
from ...solvers.schedule import Schedule
from ...typing import Array
from ..tables import rounded, write_table
from ..trials import OnProgress

DENSE, SINGLE, BLOCKS, DCT = "dense", "single entries", "blocks", "redundant DCT"

KEYS = ("atoms", "kind", "complexity", "seed")
RESULTS = ("relative_complexity", "error_training", "error_held_out", "speedup_forward", "speedup_adjoint")
COLUMNS = (*KEYS, *RESULTS, "fit_seconds")


class Case(NamedTuple):
    """A dictionary: ``complexity`` is the limit that was asked for, empty where there is none."""

    atoms: int
    kind: str
    complexity: float | str
    seed: int


class Patches(NamedTuple):
    """Patches as columns: those to learn from, and others."""

    training: Array
    held_out: Array


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each dictionary.

    All times are taken at the end, in rounds over all dictionaries: a busy moment of the machine then spoils one
    measurement of each, not all of one.
    """
    total = len(cases(settings)) + settings["timing_rounds"]
    progress(0, total)
    _warm_up(settings)
    rows, dictionaries = [], []
    for seed in settings["seeds"]:
        patches = patches_of(settings, seed)
        for atoms in settings["atoms"]:
            for case, dictionary, seconds in _dictionaries(settings, patches, atoms, seed):
                errors = (rounded(error(dictionary, X, settings["n_nonzero_coefs"]), 6) for X in patches)
                values = (*case, rounded(_complexity(dictionary), 6), *errors)
                rows.append(dict(zip(COLUMNS, values, strict=False)) | {"fit_seconds": rounded(seconds, 3)})
                dictionaries.append(dictionary)
                progress(len(rows), total)
    best = np.full(
        (len(rows), 2, 2), np.inf
    )  # seconds, forward and adjoint, of the dense matrix and of the product
    for done in range(settings["timing_rounds"]):
        for i, dictionary in enumerate(dictionaries):
            best[i] = np.minimum(best[i], _seconds(settings, dictionary))
        progress(len(rows) + done + 1, total)
    for row, (forward, adjoint) in zip(rows, best, strict=True):
        row["speedup_forward"] = rounded(forward[0] / forward[1], 4)
        row["speedup_adjoint"] = rounded(adjoint[0] / adjoint[1], 4)
    write_table(folder / "table.csv", COLUMNS, rows)


def cases(settings: dict[str, Any]) -> list[Case]:
    """All dictionaries, in the order of the table."""
    return [
        Case(atoms, kind, complexity, seed)
        for seed in settings["seeds"]
        for atoms in settings["atoms"]
        for kind, limits in (
            (DENSE, [""]),
            (SINGLE, settings["complexities"]),
            (BLOCKS, settings["complexities"]),
            (DCT, [""]),
        )
        for complexity in limits
    ]


def patches_of(settings: dict[str, Any], seed: int) -> Patches:
    """Patches that are all different; those that are held out may overlap with others."""
    count = settings["n_training"]
    drawn = image_patches(count + settings["n_held_out"], settings["patch_size"], random_state=seed).T
    return Patches(np.asfortranarray(drawn[:, :count]), np.asfortranarray(drawn[:, count:]))


def error(dictionary: Array | SparseProduct, signals: Array, n_nonzero_coefs: int) -> float:
    """The relative error of signals in their sparse codes: one judge for all."""
    approximations = dictionary @ omp(dictionary, signals, n_nonzero_coefs)
    return float(np.linalg.norm(signals - approximations) / np.linalg.norm(signals))


def _dictionaries(
    settings: dict[str, Any], patches: Patches, atoms: int, seed: int
) -> Iterator[tuple[Case, Array | SparseProduct, float]]:
    """Each case of one size with its dictionary and the seconds that it took to learn.

    All products start from the dense dictionary, and their seconds include its own.
    """
    X, k = patches.training, settings["n_nonzero_coefs"]
    begin = perf_counter()
    start = ksvd(X, atoms, k, max_iter=settings["ksvd_max_iter"], random_state=seed).dictionary
    start_seconds = perf_counter() - begin
    for case in (case for case in cases(settings) if (case.atoms, case.seed) == (atoms, seed)):
        begin = perf_counter()
        if case.kind == DENSE:
            yield case, start, start_seconds
        elif case.kind == DCT:
            yield case, redundant_dct(settings["patch_size"], isqrt(atoms - 1) + 1), 0.0
        else:
            block = settings["block"] if case.kind == BLOCKS else None
            schedule = Schedule.with_complexity((len(X), atoms), float(case.complexity), block=block)
            learned = fast_dictionary(
                X, schedule, k, init=start, max_iter=settings["palm_max_iter"], random_state=seed
            )
            yield case, learned.dictionary, start_seconds + perf_counter() - begin


def _seconds(settings: dict[str, Any], dictionary: Array | SparseProduct) -> Array:
    """Seconds of the dense matrix and of the product: one row forward, one for the adjoint."""
    if not isinstance(dictionary, SparseProduct):
        return np.ones((2, 2))  # it is the measure
    dense = dictionary.toarray()
    seconds = []
    with one_thread():
        for product, matrix in ((dictionary, dense), (dictionary.H, np.ascontiguousarray(dense.T))):
            speed = compare(product, matrix, settings["vectors"], settings["timing_seconds"] / 2)
            seconds.append((speed.dense, speed.product))
    return np.array(seconds)


def _complexity(dictionary: Array | SparseProduct) -> float:
    return dictionary.relative_complexity if isinstance(dictionary, SparseProduct) else 1.0


def _warm_up(settings: dict[str, Any]) -> None:
    """Compile all kernels, which must not count."""
    short = settings | {"n_training": 200, "n_held_out": 1, "ksvd_max_iter": 1, "palm_max_iter": 2}
    short |= {"complexities": settings["complexities"][:1]}
    for _ in _dictionaries(short, patches_of(short, 0), min(settings["atoms"]), settings["seeds"][0]):
        pass
