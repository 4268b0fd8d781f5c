"""Learn large dictionaries in several ways; measure their errors on new patches, seconds and bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ...coding import omp
from ...datasets import image_patches, on_disk
from ...estimators import KSVD, FastDictionaryLearning, OnlineDictionaryLearning
from ...images.dct import redundant_dct
from ...operators import SparseProduct
from ...typing import Array
from ..tables import rounded
from ..trials import Ledger, OnProgress, Stopped
from . import peers

K_SVD, ONLINE, FAST, DCT = "K-SVD", "online", "fast", "redundant DCT"
KEYS = ("side", "kind", "complexity")
RESULTS = ("relative_complexity", "bytes", "error_held_out", "coding_seconds", "coding_seconds_dense")
COLUMNS = (*KEYS, "atoms", *RESULTS, "fit_seconds", "passes")
START = "start_{side}.npz"  # the dictionary of K-SVD, from which products start, while a run lasts


class Case(NamedTuple):
    """A dictionary: ``complexity`` is the limit that was asked for, empty where there is none."""

    side: int
    kind: str
    complexity: float | str


class Size(NamedTuple):
    """The settings of one size."""

    side: int
    atoms: int
    n_nonzero_coefs: int
    n_training: int
    n_held_out: int
    complexities: list[float]
    online: bool
    patience: float


class Learned(NamedTuple):
    """A dictionary (d, a), the seconds it took, and how often each patch was seen, if its learner was cut off."""

    dictionary: Array | SparseProduct
    seconds: float
    passes: float | str = ""


def sizes_of(settings: dict[str, Any]) -> list[Size]:
    names = ("sides", *Size._fields[1:])
    return [Size(*values) for values in zip(*(settings[name] for name in names), strict=True)]


def cases_of(settings: dict[str, Any]) -> list[Case]:
    """All dictionaries, in the order of the table; those of packages that are not installed are left out."""
    cases = []
    for size in sizes_of(settings):
        dense = [K_SVD, *([ONLINE] if size.online else []), *peers.available()]
        cases += [Case(size.side, kind, "") for kind in dense]
        cases += [Case(size.side, FAST, complexity) for complexity in size.complexities]
        cases.append(Case(size.side, DCT, ""))
    return cases


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each dictionary, as soon as it is measured."""
    cases = cases_of(settings)
    table = Ledger[Case](folder / "table.csv", COLUMNS, KEYS, lambda case: [tuple(map(str, case))])
    done = table.blocks(cases)
    table.rewrite(done)
    progress(len(done), len(cases))
    try:
        for size in sizes_of(settings):
            left = [case for case in cases if case.side == size.side and case not in done]
            if not left:
                continue
            with patches_of(size, settings["seed"]) as (path, held_out):
                for case in left:
                    learned = _learned(case, size, settings, path, folder)
                    table.append([_row(case, learned, held_out, size, settings)])
                    progress(len(table.blocks(cases)), len(cases))
    except KeyboardInterrupt:
        raise Stopped(
            f"{len(table.blocks(cases))} of {len(cases)} dictionaries are kept in {table.path}"
        ) from None
    table.rewrite(table.blocks(cases))
    for size in sizes_of(settings):
        (folder / START.format(side=size.side)).unlink(missing_ok=True)


@contextmanager
def patches_of(size: Size, seed: int) -> Iterator[tuple[Path, Array]]:
    """The patches to learn from, in a .npy file as long as the block lasts, and others, one per column."""
    drawn = image_patches(size.n_training + size.n_held_out, size.side, random_state=seed, dtype=np.float32)
    held_out = drawn[size.n_training :].copy().T
    with TemporaryDirectory(prefix="papilio-large-") as folder:
        path = Path(folder) / "patches.npy"
        np.save(path, drawn[: size.n_training])
        del drawn
        yield path, held_out


def _learned(case: Case, size: Size, settings: dict[str, Any], path: Path, folder: Path) -> Learned:
    n_components, k, seed = size.atoms, size.n_nonzero_coefs, settings["seed"]
    start_path = folder / START.format(side=size.side)
    if case.kind == K_SVD or not start_path.exists():
        learner = KSVD(n_components, k, max_iter=settings["ksvd_max_iter"], tol=0, random_state=seed)
        found = _timed(lambda: learner.fit(on_disk(path)).components_.T)
        np.savez(start_path, dictionary=found.dictionary, seconds=found.seconds)
        if case.kind == K_SVD:
            return found
    with np.load(start_path) as saved:
        start, seconds = saved["dictionary"], float(saved["seconds"])
    if case.kind == ONLINE:
        online = OnlineDictionaryLearning(n_components, k, random_state=seed)
        return _timed(lambda: online.fit(on_disk(path)).components_.T)
    if case.kind == FAST:
        fast = FastDictionaryLearning(
            n_components, k, complexity=float(case.complexity), init=start.T, random_state=seed
        )
        found = _timed(lambda: fast.fit(on_disk(path)).operator_)
        return found._replace(seconds=found.seconds + seconds)
    if case.kind == DCT:
        return _timed(lambda: redundant_dct(size.side, isqrt(n_components - 1) + 1).astype(np.float32))
    rows = np.load(path, mmap_mode="r")
    atoms, seconds, passes = peers.learn(case.kind, rows, n_components, k, size.patience * seconds, seed)
    return Learned(atoms.T.astype(np.float32), seconds, rounded(passes, 3))


def _timed(learn: Callable[[], Array | SparseProduct]) -> Learned:
    begin = perf_counter()
    dictionary = learn()
    return Learned(dictionary, perf_counter() - begin)


def _row(case: Case, learned: Learned, held_out: Array, size: Size, settings: dict[str, Any]) -> dict[str, Any]:
    """What the judge measures, the same for all: OMP with the same number of atoms per patch."""
    dictionary, k = learned.dictionary, size.n_nonzero_coefs
    dense, complexity = dictionary, 1.0
    if isinstance(dictionary, SparseProduct):
        dense, complexity = dictionary.toarray(), dictionary.relative_complexity
    seconds = [np.inf, np.inf]
    for _ in range(settings["coding_rounds"]):
        for i, form in enumerate((dictionary, dense)):
            begin = perf_counter()
            codes = omp(form, held_out, k)
            seconds[i] = min(seconds[i], perf_counter() - begin)
    error = np.linalg.norm(held_out - dense @ codes) / np.linalg.norm(held_out)
    values = (
        rounded(complexity, 6),
        _bytes(dictionary),
        rounded(float(error), 6),
        *(rounded(min(seconds) if dense is dictionary else each, 4) for each in seconds),
    )
    return {
        **dict(zip(KEYS, case, strict=True)),
        "atoms": dense.shape[1],
        **dict(zip(RESULTS, values, strict=True)),
        "fit_seconds": rounded(learned.seconds, 4),
        "passes": learned.passes,
    }


def _bytes(dictionary: Array | SparseProduct) -> int:
    """Of the file that holds a dictionary."""
    with TemporaryDirectory(prefix="papilio-large-") as folder:
        path = Path(folder) / "dictionary.npz"
        if isinstance(dictionary, SparseProduct):
            dictionary.save(path)
        else:
            np.savez(path, dictionary=dictionary)
        return path.stat().st_size
