"""Large dictionaries of image patches: what learning, coding and storing them costs, and their errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import isqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from papilio import KSVD, FastDictionaryLearning, OnlineDictionaryLearning, SparseProduct, omp
from papilio.datasets import image_patches, on_disk
from papilio.images import redundant_dct
from papilio.typing import Array

from .harness import (
    Claim,
    Ledger,
    OnProgress,
    Preset,
    Row,
    Stopped,
    claims_table,
    made_by,
    markdown_table,
    new_figure,
    read_meta,
    read_table,
    rounded,
    save,
    verdict,
    write_text,
)

TITLE = "Large dictionaries of image patches: error, time to learn and to code, storage"

SETTINGS = {
    # One entry per size. Patches are drawn from all photographs at hand: some to learn from, in a file, and
    # others.
    "sides": [16, 32],
    "atoms": [1024, 4096],
    "n_nonzero_coefs": [10, 20],
    "n_training": [60000, 60000],
    "n_held_out": [5000, 2000],
    "complexities": [[0.5, 0.25, 0.1], [0.1]],
    # Whether our online learner takes part, too: with many atoms it is slow, and K-SVD is there.
    "online": [True, False],
    "ksvd_max_iter": 20,
    # Dictionaries of others have as many seconds as K-SVD takes, times this.
    "patience": [4.0, 2.0],
    "coding_rounds": 3,
    "seed": 0,
}

SAMPLE: dict[str, Any] = {
    "sides": [16],
    "atoms": [1024],
    "n_nonzero_coefs": [10],
    "n_training": [60000],
    "n_held_out": [5000],
    "complexities": [[0.5, 0.25, 0.1]],
    "online": [True],
    "patience": [4.0],
}
MEASURED: tuple[str, ...] = ("coding_seconds", "coding_seconds_dense", "fit_seconds")

PRESETS = {
    "paper": Preset("1,024 atoms of 16×16 and 4,096 of 32×32; 5 GB of memory", 25),
    "small": Preset(
        "1,024 atoms of 16×16",
        7,
        SAMPLE,
    ),
    "tiny": Preset(
        "64 atoms of 4×4",
        0.3,
        {
            "sides": [4],
            "atoms": [64],
            "n_nonzero_coefs": [2],
            "n_training": [400],
            "n_held_out": [100],
            "complexities": [[0.9, 0.7]],
            "online": [True],
            "patience": [4.0],
            "ksvd_max_iter": 4,
            "coding_rounds": 1,
        },
    ),
}


# -- other packages --------------------------------------------------------------------------------------------

SCIKIT_LEARN, SPAMS = "scikit-learn", "SPAMS"
_BATCH = 512  # patches


def peers() -> list[str]:
    """The packages at hand: SPAMS is optional."""
    return [SCIKIT_LEARN, *([SPAMS] if find_spec("spams") is not None else [])]


def learn_by_peer(
    name: str, rows: Array, n_components: int, n_nonzero_coefs: int, limit: float, seed: int
) -> tuple[Array, float, float]:
    """Atoms, one per row, the seconds that they took, and how often each patch was seen, at the most once or so.

    Both packages learn with an ℓ1 penalty that gives about the number of atoms per patch that is wanted.
    """
    if name == SPAMS:
        return _spams(rows, n_components, n_nonzero_coefs, limit)
    return _scikit_learn(rows, n_components, limit, seed)


def _scikit_learn(rows: Array, n_components: int, limit: float, seed: int) -> tuple[Array, float, float]:
    """Mini-batches of different patches until the time is over, or all were seen."""
    from sklearn.decomposition import MiniBatchDictionaryLearning

    random = np.random.default_rng(seed)
    order, begin, seen = random.permutation(len(rows)), perf_counter(), 0
    batch = min(_BATCH, len(rows))
    penalty = float(np.abs(rows[np.sort(order[:batch])]).mean())  # in the unit of the data
    learner = MiniBatchDictionaryLearning(
        n_components, alpha=penalty, fit_algorithm="cd", batch_size=batch, random_state=seed, n_jobs=None
    )
    with catch_warnings():
        simplefilter("ignore")  # codes of the first mini-batches need not be exact
        while seen < len(rows) and (seen == 0 or perf_counter() - begin < limit):
            learner.partial_fit(np.asarray(rows[np.sort(order[seen : seen + batch])]))
            seen += batch
    return learner.components_, perf_counter() - begin, min(seen / len(rows), 1.0)


def _spams(rows: Array, n_components: int, n_nonzero_coefs: int, limit: float) -> tuple[Array, float, float]:
    """SPAMS counts its own time: a negative number of iterations is a number of seconds."""
    import spams

    begin = perf_counter()
    atoms = spams.trainDL(
        np.asfortranarray(rows.T, dtype=np.float64),
        K=n_components,
        mode=3,  # orthogonal matching pursuit
        lambda1=n_nonzero_coefs,
        iter=-max(int(limit), 1),
        batchsize=_BATCH,
        numThreads=-1,
        verbose=False,
    )
    return atoms.T, perf_counter() - begin, float("nan")


# -- measuring -------------------------------------------------------------------------------------------------

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
        dense = [K_SVD, *([ONLINE] if size.online else []), *peers()]
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
    atoms, seconds, passes = learn_by_peer(case.kind, rows, n_components, k, size.patience * seconds, seed)
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


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# Large dictionaries

{claims}

Dictionaries of image patches, learned from patches in a file and measured on others of the same photographs, in
single precision; {made_by}. All are judged alike: the relative error of new patches in their codes by OMP, with
the same number of atoms per patch. Products start from the dictionary of K-SVD ({iterations} iterations), and
their time to learn includes its own. Coding is timed with the product, and with the dense matrix of the same
atoms. The learners of other packages see patches until they have had {patience} times the seconds of K-SVD; a
pass is a share of all patches. Bytes are those of a file with the dictionary; indices of entries count, too.

{tables}
"""

# For each complexity: how far the error on new patches may be above that of K-SVD.
_ERRORS = {"0.5": 1.03, "0.25": 1.06}
_TIMES = 4.0  # Largest time to learn relative to K-SVD.
_CODING = {"0.1": 3.0}  # Least speed-up of coding.
_BYTES = {"0.1": 0.25}  # Largest size relative to the dense dictionary.
_LARGE = 4096  # atoms from which coding is claimed to be faster


def page(rows: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    return PAGE.format(
        claims=claims_table(list(claims_of(rows)), "Claim"),
        tables="\n\n".join(
            _table(size.side, [row for row in rows if row["side"] == str(size.side)])
            for size in sizes_of(settings)
        ),
        iterations=str(settings["ksvd_max_iter"]),
        patience=" and ".join(f"{size.patience:g}" for size in sizes_of(settings)),
        made_by=made_by(meta),
    )


def claims_of(rows: list[Row]) -> Iterator[Claim]:
    starts = {row["side"]: row for row in rows if row["kind"] == K_SVD}
    for row in rows:
        if row["kind"] != FAST or row["side"] not in starts:
            continue
        start, complexity = starts[row["side"]], row["complexity"]
        name = f"{row['atoms']} atoms of {row['side']}×{row['side']}, complexity {complexity}"
        ratio = _ratio(row, start, "error_held_out")
        if complexity in _ERRORS and int(row["atoms"]) < _LARGE:
            above, times = _ERRORS[complexity], _ratio(row, start, "fit_seconds")
            yield Claim(
                f"{name}: the error on new patches is at most {above - 1:.0%} above that of K-SVD.",
                verdict(ratio <= above, better=ratio <= 1),
                f"{_error(row)} against {_error(start)}, {ratio - 1:+.1%}",
            )
            yield Claim(
                f"{name}: learning takes at most {_TIMES:g} times as long as K-SVD.",
                verdict(times <= _TIMES),
                f"{_seconds(row['fit_seconds'])} against {_seconds(start['fit_seconds'])}, {times:.1f}×",
            )
        if complexity in _CODING and int(row["atoms"]) >= _LARGE:
            faster = float(row["coding_seconds_dense"]) / float(row["coding_seconds"])
            share = _ratio(row, start, "bytes")
            yield Claim(
                f"{name}: coding is at least {_CODING[complexity]:g} times as fast as with the dense matrix.",
                verdict(faster >= _CODING[complexity]),
                f"{_seconds(row['coding_seconds'])} against {_seconds(row['coding_seconds_dense'])}, "
                f"{faster:.1f}×",
            )
            yield Claim(
                f"{name}: it takes at most a quarter of the bytes.",
                verdict(share <= _BYTES[complexity]),
                f"{share:.2f}; error on new patches {ratio - 1:+.1%}",
            )
    for side, start in starts.items():
        dct = next((row for row in rows if row["side"] == side and row["kind"] == DCT), None)
        fast = [row for row in rows if row["side"] == side and row["kind"] == FAST]
        if dct is not None and fast:
            worst = max(fast, key=lambda row: float(row["error_held_out"]))
            yield Claim(
                f"{start['atoms']} atoms of {side}×{side}: at every complexity, the error on new patches is below "
                "that of the redundant DCT.",
                verdict(_ratio(worst, dct, "error_held_out") < 1),
                f"at most {_error(worst)} against {_error(dct)}",
            )


def _ratio(row: Row, other: Row, column: str) -> float:
    return float(row[column]) / float(other[column])


def _error(row: Row) -> str:
    return f"{float(row['error_held_out']):.4f}"


def _seconds(text: str) -> str:
    seconds = float(text)
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2f} s"


def _table(side: int, rows: list[Row]) -> str:
    headings = ("dictionary", "limit", "atoms", "complexity", "new patches", "to learn", "to code", "dense", "kB")
    lines = [
        (
            row["kind"] + (f", {float(row['passes']):.2g} passes" if row["passes"] not in ("", "nan") else ""),
            row["complexity"],
            row["atoms"],
            f"{float(row['relative_complexity']):.3f}",
            _error(row),
            _seconds(row["fit_seconds"]),
            _seconds(row["coding_seconds"]),
            _seconds(row["coding_seconds_dense"]),
            f"{int(row['bytes']) / 1000:,.0f}",
        )
        for row in rows
    ]
    return f"## {side}×{side}\n\n{markdown_table(headings, lines, 'lr')}"


# -- figures ---------------------------------------------------------------------------------------------------

_LOOKS: dict[str, dict[str, Any]] = {
    K_SVD: {"color": "#000000", "marker": "s"},
    ONLINE: {"color": "#009E73", "marker": "v"},
    FAST: {"color": "#D55E00", "marker": "o", "linestyle": "-"},
    DCT: {"color": "#E69F00", "marker": "^"},
    SCIKIT_LEARN: {"color": "#0072B2", "marker": "D"},
    SPAMS: {"color": "#CC79A7", "marker": "P"},
}
_LABELS = {K_SVD: "K-SVD, dense", ONLINE: "online, dense", FAST: "product, 4×4 blocks"}
_PANELS = {"fit_seconds": "seconds to learn", "coding_seconds": "seconds to code new patches"}


def figure_of(rows: list[Row], settings: dict[str, Any]) -> Any:
    """A row of panels for each size."""
    sizes = sizes_of(settings)
    figure = new_figure(10.4, 4.3 * len(sizes) + 0.4)
    axes = figure.subplots(len(sizes), len(_PANELS), squeeze=False)
    for line, size in zip(axes, sizes, strict=True):
        own = [row for row in rows if row["side"] == str(size.side)]
        for ax, (column, label) in zip(line, _PANELS.items(), strict=True):
            _draw(ax, own, column)
            ax.set_xlabel(label)
        line[0].set_ylabel(f"relative error on new patches, {size.n_nonzero_coefs} atoms each")
        line[0].set_title(f"{size.atoms:,} atoms of {size.side}×{size.side}", fontsize="medium", loc="left")
    handles, names = axes[0][1].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 6), frameon=False)
    return figure


def _draw(ax: Any, rows: list[Row], column: str) -> None:
    for kind, look in _LOOKS.items():
        own = [row for row in rows if row["kind"] == kind]
        if kind == DCT and column == "fit_seconds":
            for row in own:  # nothing is learned
                ax.axhline(float(row["error_held_out"]), color=look["color"], linewidth=1)
            continue
        x, y = ([float(row[name]) for row in own] for name in (column, "error_held_out"))
        if own:
            ax.plot(x, y, label=_LABELS.get(kind, kind), **({"linestyle": "none"} | look), zorder=3)
        if kind == FAST:
            for row, *place in zip(own, x, y, strict=True):
                ax.annotate(
                    row["complexity"],
                    place,
                    (5, 5),
                    textcoords="offset points",
                    fontsize="small",
                    color=look["color"],
                )
    ax.set_xscale("log", subs=[2, 3, 5])
    for set_formatter in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
        set_formatter("{x:g}")  # 30, not 3 × 10¹
    ax.margins(0.12)
    ax.grid(color="0.92", zorder=0)


def write(folder: Path) -> list[Path]:
    """Draw figure.png and compare the table in ``folder`` with the claims."""
    meta, rows = read_meta(folder), read_table(folder / "table.csv")
    return [
        save(figure_of(rows, meta["settings"]), folder / "figure.png"),
        write_text(folder / "claims.md", page(rows, meta)),
    ]
