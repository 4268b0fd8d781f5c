"""Denoise photographs with dictionaries of all kinds, and measure the results."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import isqrt
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ...dictionary.fast import fast_dictionary
from ...dictionary.ksvd import ksvd
from ...dictionary.online import online_dictionary
from ...images.dct import redundant_dct
from ...images.patches import Grid
from ...images.planes import ABOVE_NOISE, PlaneDenoiser, atoms_per_patch, training_patches
from ...metrics import psnr, ssim
from ...operators import SparseProduct
from ...solvers.schedule import Schedule
from ...typing import Array
from ...validation import as_integer
from ..tables import rounded
from ..trials import Ledger, OnProgress, Rows, run_trials
from .photographs import photograph

DCT, KSVD, ONLINE, PAPILIO = "redundant DCT", "K-SVD", "online", "papilio"
TARGET, FIXED = "error target", "fixed atoms"

KEYS = ("image", "sigma", "trial", "coding", "atoms", "method", "complexity")
RESULTS = (*KEYS, "relative_complexity", "entries", "psnr", "ssim", "noisy_psnr")
TIMES = (*KEYS, "learning_seconds", "denoising_seconds")


class Draw(NamedTuple):
    """An image with noise."""

    image: str
    sigma: int
    trial: int


class Case(NamedTuple):
    """A dictionary and how patches are coded in it; ``complexity`` is the limit for papilio."""

    coding: str
    atoms: int
    method: str
    complexity: str = ""


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each image, noise level and dictionary, and times.csv with the seconds.

    ``complexity`` is the limit, ``relative_complexity`` what the dictionary has.
    """
    trials = as_integer("trials", settings["trials"], 1)
    for name in settings["images"]:  # now, not after an hour of work
        photograph(name, settings["crop"])

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [tuple(map(str, (*draw, *case))) for case in cases(settings)]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [Draw(*key) for key in product(settings["images"], settings["sigmas"], range(trials))]
    run_trials(draws, partial(measure, settings), table, times, jobs=jobs, progress=progress)


def cases(settings: dict[str, Any]) -> list[Case]:
    """All dictionaries in the order of the table; K-SVD comes before those that start from it."""
    found = []
    for atoms in settings["atoms"]:
        found += [Case(TARGET, atoms, method) for method in (DCT, KSVD, ONLINE)]
        found += [Case(TARGET, atoms, PAPILIO, str(c)) for c in settings["complexities"]]
    for atoms in settings["followup_atoms"]:
        found += [Case(FIXED, atoms, KSVD), Case(FIXED, atoms, PAPILIO)]
    return found


def measure(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The rows of a draw in the table, and those with its times."""
    noise_seed, seed = seeds_of(settings["seed"], draw)
    clean = photograph(draw.image, settings["crop"])
    noisy = clean + draw.sigma * np.random.default_rng(noise_seed).standard_normal(clean.shape)
    before = psnr(np.clip(noisy, 0, 255), clean, 255)
    plane = (noisy / draw.sigma).astype(np.float32)
    grid = Grid(plane.shape, settings["patch_size"], 1)
    results, times = [], []
    for case, dictionary, learning in _dictionaries(settings, plane, grid, seed):
        begin = perf_counter()
        n_nonzero_coefs = settings["followup_n_nonzero_coefs"] if case.coding == FIXED else None
        denoiser = PlaneDenoiser(dictionary.astype(np.float32), grid, settings["gain"], n_nonzero_coefs)
        image = np.clip(denoiser.denoise(plane) * draw.sigma, 0, 255)
        denoising = perf_counter() - begin
        operator = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        scores = (rounded(score, 10) for score in (psnr(image, clean, 255), ssim(image, clean, 255), before))
        values = operator.relative_complexity, operator.nnz, *scores
        results.append(dict(zip(RESULTS, (*draw, *case, *values), strict=True)))
        times.append(dict(zip(TIMES, (*draw, *case, learning, denoising), strict=True)))
    return results, times


def seeds_of(seed: int, draw: Draw) -> tuple[int, int]:
    """The seeds of the noise and of the learners, which depend on nothing but the draw."""
    stream = [seed, draw.trial, draw.sigma, *draw.image.encode()]
    first, second = np.random.SeedSequence(stream).generate_state(2)
    return int(first), int(second)


def _dictionaries(
    settings: dict[str, Any], plane: Array, grid: Grid, seed: int
) -> Iterator[tuple[Case, Any, float]]:
    """Each case with its dictionary and the seconds that it took to learn.

    For one way of coding, all dictionaries are learned from the same patches with the same number of atoms per
    patch. papilio starts from the result of K-SVD, as it does by default; its seconds include those of K-SVD.
    """
    signals = {
        coding: training_patches([plane], grid, louder_than, count, np.random.RandomState(seed)).T
        for coding, louder_than, count in (
            (TARGET, ABOVE_NOISE, settings["n_patches"]),
            (FIXED, 0.0, settings["followup_n_patches"]),
        )
    }
    n_nonzero_coefs = {
        TARGET: atoms_per_patch(signals[TARGET].T, grid.size, settings["gain"]),
        FIXED: settings["followup_n_nonzero_coefs"],
    }
    start, start_seconds = np.empty(0), 0.0
    for case in cases(settings):
        X, k, begin = signals[case.coding], n_nonzero_coefs[case.coding], perf_counter()
        if case.method == DCT:
            dictionary: Any = redundant_dct(grid.size, isqrt(case.atoms - 1) + 1)
        elif case.method == KSVD:
            start = ksvd(X, case.atoms, k, max_iter=settings["ksvd_max_iter"], random_state=seed).dictionary
            dictionary, start_seconds = start, perf_counter() - begin
        elif case.method == ONLINE:
            passes = settings["online_max_iter"]
            dictionary = online_dictionary(X, case.atoms, k, max_iter=passes, random_state=seed).dictionary
        else:
            begin -= start_seconds
            dictionary = fast_dictionary(
                X,
                _schedule(settings, case, (len(X), case.atoms)),
                k,
                init=start,
                refine=case.coding == TARGET,
                max_iter=settings["palm_max_iter"],
                random_state=seed,
            ).dictionary
        yield case, dictionary, perf_counter() - begin


def _schedule(settings: dict[str, Any], case: Case, shape: tuple[int, int]) -> Schedule:
    if case.coding == TARGET:
        return Schedule.with_complexity(shape, float(case.complexity))
    return Schedule.rectangular(
        shape,
        settings["followup_n_factors"],
        settings["followup_entries_per_column"],
        settings["followup_decay"],
    )
