"""What all experiments share: settings, the record of a run, trials on several processes, tables, claims, figures.

An experiment is a module of this folder with

- ``TITLE``, ``SETTINGS`` and ``PRESETS``, which change some of the settings;
- ``SAMPLE``, the changes after which a run makes a part of the rows, and ``MEASURED``, the columns with times;
- ``run(settings, folder, jobs, progress)``, which writes tables;
- ``write(folder)``, which makes figures and pages from the tables, and from nothing else, and returns their paths.

`reproduce` runs one. A stopped run is resumed: the table on the disk tells which trials are done. In the end the
rows are put into the order of the trials, so that the table is the same, byte for byte, however often the run was
stopped and on however many processes it ran.
"""

import csv
import io
import json
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from importlib.metadata import version
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from papilio import get_num_threads
from papilio.plot import matrix
from papilio.plot.common import new_figure as new_figure
from papilio.runtime.files import naming, replacing
from papilio.runtime.threads import one_thread
from papilio.typing import Array
from papilio.validation import as_integer

from .record import code_hash

PACKAGES = ("papilio", "numpy", "scipy", "numba")
META = "meta.json"  # the record of a run, beside its tables
# What may differ between the parts of a run that was resumed. Of the code, `claim_folder` itself takes care.
MAY_DIFFER = ("settings.trials", "machine", "date", "code", "verified")
KEPT = Path(__file__).parents[1] / "results"
OVERVIEW = ("run", "command", "claims", "made", "code")  # the columns of the table in results/README.md
CURRENT, OLDER = "current", "older"

# -- one run ---------------------------------------------------------------------------------------------------

Row = dict[str, str]
Rows = list[dict[str, Any]]
OnProgress = Callable[[int, int], None]  # called with the number of parts that are done, and of all


class Preset(NamedTuple):
    """Changes to the settings of an experiment, and how many minutes a whole run takes on two cores."""

    about: str
    minutes: float
    changes: Mapping[str, Any] = {}


class Stopped(Exception):
    """The user stopped a run; its message says what is kept."""


def names() -> list[str]:
    """The names of all experiments: the modules of this folder that have settings."""
    others = {"__init__", "__main__", "harness", "record"}
    return sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - others)


def load(name: str) -> Any:
    """The module of an experiment."""
    if name not in names():
        raise ValueError(f"NAME must be one of {', '.join(names())}, got {name!r}")
    return import_module(f"{__package__}.{name}")


def preset_of(name: str, preset: str) -> Preset:
    """A preset of an experiment."""
    presets = load(name).PRESETS
    if preset not in presets:
        raise ValueError(f"preset must be one of {', '.join(presets)} for {name}, got {preset!r}")
    return presets[preset]


def settings_of(name: str, preset: str) -> dict[str, Any]:
    """The settings of an experiment with the changes of ``preset``."""
    settings, changes = load(name).SETTINGS, preset_of(name, preset).changes
    if unknown := changes.keys() - settings.keys():
        raise ValueError(f"preset {preset!r} of {name} must change known settings only, got {sorted(unknown)}")
    return {**settings, **changes}


def reproduce(
    name: str,
    folder: Path,
    *,
    preset: str = "paper",
    trials: int | None = None,
    jobs: int | None = None,
    progress: OnProgress,
) -> list[Path]:
    """Run an experiment, draw its figures and write its pages into ``folder``; returns their paths.

    An unfinished run with the same settings in ``folder`` is resumed. ``preset`` also gives the number of
    ``trials``, if there are any; they share ``jobs`` processes, by default one per core.
    """
    settings = settings_of(name, preset)
    for option, value in (("trials", trials), ("jobs", jobs)):
        if value is not None:
            as_integer(option, value, 1)
            if "trials" not in settings:
                raise ValueError(f"{option} must not be given for {name}, which has no trials, got {value}")
    if trials is not None:
        settings["trials"] = trials
    experiment = load(name)
    claim_folder(folder, describe(name, preset, settings))
    experiment.run(settings, folder, get_num_threads() if jobs is None else jobs, progress)
    return experiment.write(folder)


def check(folder: Path, *, jobs: int | None = None, progress: OnProgress) -> list[str]:
    """Run a sample of a kept run again with the present code; returns what is different.

    If nothing is, to the accuracy of `_is_near`, the record of the run says so, and the run counts as current.
    """
    meta = read_meta(folder)
    experiment = load(meta["experiment"])
    if meta["settings"].keys() != experiment.SETTINGS.keys():
        return ["the settings: the experiment has others now"]
    settings = {**meta["settings"], **experiment.SAMPLE}
    with TemporaryDirectory() as name:
        experiment.run(settings, Path(name), get_num_threads() if jobs is None else jobs, progress)
        tables = sorted(path for path in Path(name).glob("*.csv") if path.name != "times.csv")
        different = [what for path in tables for what in _changes(experiment, path, folder / path.name)]
    if not different and not is_current(meta, code := code_hash(meta["experiment"])):
        now = {"code": code, "papilio": version("papilio"), "date": date.today().isoformat()}
        _write_meta(folder, {**meta, "verified": [*meta.get("verified", []), now]})
    return different


def _changes(experiment: Any, new: Path, old: Path) -> list[str]:
    """The rows of a table that are not as in the old one, which may have more of them; times may differ."""
    rows, kept = read_table(new), read_table(old)
    keys = experiment.KEYS if len(rows) != len(kept) else None
    places = {tuple(row[key] for key in keys) if keys else i: row for i, row in enumerate(kept)}
    found = []
    for i, row in enumerate(rows):
        before = places.get(tuple(row[key] for key in keys) if keys else i, {})
        for column, value in row.items():
            if column not in experiment.MEASURED and not _is_near(value, before.get(column)):
                found.append(f"{new.name}: {column} is {before.get(column)} there and {value} here, in {row}")
                break
    return found


def _is_near(value: str, before: str | None) -> bool:
    """Whether two cells are the same, or numbers that agree to nine digits; rounding errors count as zero."""
    if value == before:
        return True
    try:
        new, old = complex(value), complex(before or "")
    except ValueError:
        return False
    return abs(new - old) <= max(1e-9 * abs(old), 1e-12)


def status() -> list[tuple[Path, dict[str, Any], bool]]:
    """The kept runs in results/: folder, record, and whether they are of the present code."""
    metas = [(path.parent, read_meta(path.parent)) for path in sorted(KEPT.rglob(META))]
    return [(folder, meta, is_current(meta, code_hash(meta["experiment"]))) for folder, meta in metas]


def write_overview() -> Path:
    """Write the table in results/README.md; what stands above it stays."""
    rows = []
    for folder, meta, current in status():
        place = folder.relative_to(KEPT).as_posix()
        figures = sorted(path.name for path in folder.glob("*.png"))
        links = ", ".join(f"[{Path(name).stem}]({place}/{name})" for name in figures)
        preset = f" ARGS='--preset {meta['preset']}'" if meta["preset"] != "paper" else ""
        claims = f"[claim by claim]({place}/claims.md)" if (folder / "claims.md").exists() else ""
        made = f"{meta['date']}, papilio {meta['versions']['papilio']}"
        code = CURRENT if current else OLDER
        rows.append(
            (f"{place}: {links}", f"`make reproduce NAME={meta['experiment']}{preset}`", claims, made, code)
        )
    path = KEPT / "README.md"
    above = path.read_text(encoding="utf-8").partition("\n|")[0]
    return write_text(path, above + "\n" + markdown_table(OVERVIEW, rows, "lllll") + "\n")


def minutes_of(name: str, preset: str, trials: int | None = None, jobs: int | None = None) -> float:
    """About how long a whole run takes: trials share the processes, all else uses two cores."""
    settings, minutes = settings_of(name, preset), preset_of(name, preset).minutes
    if "trials" not in settings:
        return minutes
    share = (trials or settings["trials"]) / settings["trials"]
    return minutes * share * 2 / (jobs or get_num_threads())


def describe(name: str, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run: everything that its numbers depend on, the kind of machine, and the day.

    ``code`` is the `code_hash` of the experiment; ``verified`` has those of later code that made the same rows.
    """
    versions = {package: version(package) for package in PACKAGES} | {"python": platform.python_version()}
    return {
        "experiment": name,
        "preset": preset,
        "settings": dict(settings),
        "versions": versions,
        "code": code_hash(name),
        "verified": [],
        "machine": machine(),
        "date": date.today().isoformat(),
    }


def machine() -> str:
    """The processor and the number of cores that this process may use."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass  # not on Linux
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"


def claim_folder(folder: Path, meta: Mapping[str, Any]) -> None:
    """Reserve ``folder`` for the run that ``meta`` describes.

    A folder of another run, or of other code, is refused: rows of both would be mixed. The number of trials may
    differ, because each trial has its own seeds; the larger one is recorded. So may the machine and the day, of
    which the last are recorded.
    """
    found, settings = {}, dict(meta["settings"])
    if (folder / META).exists():
        found = read_meta(folder)
        for what in _differences(found, meta):
            raise ValueError(f"{folder} holds another run: {what}; choose another --output, or remove it")
        if not is_current(found, meta["code"]):
            raise ValueError(
                f"{folder} holds rows that other code made: --check says whether this code makes the same,"
                " --redraw only draws them; else choose another --output, or remove it"
            )
        if "trials" in settings:
            settings["trials"] = max(settings["trials"], found["settings"]["trials"])
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds files of something else; choose another --output")
    folder.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {key: found[key] for key in ("code", "verified") if key in found}
    _write_meta(folder, {**meta, **kept, "settings": settings})


def is_current(meta: Mapping[str, Any], code: str) -> bool:
    """Whether a run was made by this code, or by code of which this has made the same rows."""
    return code in (meta.get("code"), *(each["code"] for each in meta.get("verified", [])))


def _write_meta(folder: Path, meta: Mapping[str, Any]) -> None:
    write_text(folder / META, json.dumps(meta, indent=2, ensure_ascii=False) + "\n")


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The differences between two records in words, except for what may differ."""
    old, new = dict(_flat(found)), dict(_flat(wanted))
    return [
        f"{key.rpartition('.')[2]} is {old.get(key, 'not set')} there and {new.get(key, 'not set')} here"
        for key in sorted(old.keys() | new.keys())
        if key not in MAY_DIFFER and old.get(key) != new.get(key)
    ]


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


# -- trials ----------------------------------------------------------------------------------------------------

Trial = TypeVar("Trial")


@dataclass(frozen=True)
class Ledger(Generic[Trial]):
    """A table with a block of rows for each trial."""

    path: Path
    columns: Sequence[str]
    keys: Sequence[str]  # the first of the columns, which identify a row
    expected: Callable[[Trial], Sequence[tuple[str, ...]]]  # the keys of the rows of a trial, in order

    def blocks(self, trials: Sequence[Trial]) -> dict[Trial, list[Row]]:
        """The rows of each trial that is complete in the table, in order; all other rows are left out."""
        if not self.path.exists():
            return {}
        found = {tuple(row[key] for key in self.keys): row for row in self._whole_rows()}
        blocks = {}
        for trial in trials:
            names = self.expected(trial)
            if all(name in found for name in names):
                blocks[trial] = [found[name] for name in names]
        return blocks

    def rewrite(self, blocks: Mapping[Trial, list[Row]]) -> None:
        """Replace the table by these blocks."""
        write_table(self.path, self.columns, [row for rows in blocks.values() for row in rows])

    def append(self, rows: Rows) -> None:
        """Add a block and wait until it is on the disk; an error leaves the table as it was."""
        left = lines_of(self.columns, rows).encode()
        # Without a buffer: what a full disk does not take must not be written again when the file is closed.
        with naming(self.path), open(self.path, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise

    def _whole_rows(self) -> Iterator[Row]:
        whole = self.path.read_bytes().endswith(b"\n")
        rows = read_table(self.path)
        if rows and tuple(rows[0]) != tuple(self.columns):
            raise ValueError(f"{self.path} is no table of this experiment; choose another --output")
        for row in rows if whole else rows[:-1]:
            if None not in row and None not in row.values():
                yield row


def run_trials(
    trials: Sequence[Trial],
    work: Callable[[Trial], tuple[Rows, Rows]],
    table: Ledger[Trial],
    times: Ledger[Trial],
    *,
    jobs: int,
    progress: OnProgress,
) -> None:
    """Do the trials that are not in ``table`` yet, and sort the table.

    ``work`` returns the rows of a trial and the rows with its times, which are kept apart because they differ from
    run to run; with several ``jobs`` (processes) it must be a function of a module, or a partial of one. Ctrl-C
    raises `Stopped`.
    """
    kept = table.blocks(trials)
    table.rewrite(kept)
    times.rewrite({trial: rows for trial, rows in times.blocks(trials).items() if trial in kept})
    left = [trial for trial in trials if trial not in kept]
    done = len(kept)
    progress(done, len(trials))
    try:
        for rows, seconds in _results(left, work, min(jobs, len(left))):
            _append(trials, table, rows, times, seconds)
            done += 1
            progress(done, len(trials))
    except KeyboardInterrupt:
        raise Stopped(_kept(trials, table)) from None
    except BrokenProcessPool:
        raise RuntimeError(
            f"a worker process was killed, perhaps for lack of memory; {_kept(trials, table)}"
        ) from None
    table.rewrite(table.blocks(trials))
    times.rewrite(times.blocks(trials))


def _append(
    trials: Sequence[Trial], table: Ledger[Trial], rows: Rows, times: Ledger[Trial], seconds: Rows
) -> None:
    """Add the rows of a trial to both tables; an error says what is kept."""
    try:
        times.append(seconds)  # first: no trial in the table may lack its times
        table.append(rows)
    except OSError as error:
        more = f"{_kept(trials, table)}, and the same command resumes from there"
        raise OSError(error.errno, f"{error.strerror}; {more}", error.filename) from error


def _kept(trials: Sequence[Trial], table: Ledger[Trial]) -> str:
    return f"{len(table.blocks(trials))} of {len(trials)} draws are kept in {table.path}"


def _results(
    trials: Sequence[Trial], work: Callable[[Trial], tuple[Rows, Rows]], jobs: int
) -> Iterator[tuple[Rows, Rows]]:
    """What ``work`` returns for each trial, in the order in which they are finished."""
    if jobs <= 1:
        yield from (_on_one_thread(work, trial) for trial in trials)
        return
    others = set(multiprocessing.active_children())
    # Fresh processes: a fork would copy the locks of threads that it does not have.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _enter_worker)
    try:
        for future in as_completed([pool.submit(_on_one_thread, work, trial) for trial in trials]):
            yield future.result()
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # a trial may take minutes
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _on_one_thread(work: Callable[[Trial], tuple[Rows, Rows]], trial: Trial) -> tuple[Rows, Rows]:
    """On one thread, always: the last digits of a sum depend on how threads share it."""
    with one_thread():
        return work(trial)


def _enter_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


# -- tables ----------------------------------------------------------------------------------------------------

ENTRIES = ("matrix", "row", "column", "value", "shape")


def lines_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as csv without the heading; floats are written with all their digits."""
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all."""
    write_text(path, ",".join(columns) + "\n" + lines_of(columns, rows))


def read_table(path: Path) -> list[Row]:
    """All rows, as text."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_text(path: Path, text: str) -> Path:
    """Write ``text`` to ``path``, which is returned; a crash leaves either the old file or the new one."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
    return path


def rounded(number: float, digits: int) -> float:
    """The first digits: the others are rounding errors, which differ from machine to machine."""
    return float(f"{number:.{digits}g}")


def entries_of(name: str, matrix: Any) -> list[dict[str, Any]]:
    """The nonzero entries of a matrix, one per row."""
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    shape = f"{dense.shape[0]}×{dense.shape[1]}"
    return [
        {"matrix": name, "row": int(i), "column": int(j), "value": dense[i, j].item(), "shape": shape}
        for i, j in zip(*np.nonzero(dense), strict=True)
    ]


def matrices_of(rows: Iterable[Row]) -> dict[str, Array]:
    """The matrices in a table of entries, by name, in the order of the table."""
    matrices: dict[str, Array] = {}
    for row in rows:
        if row["matrix"] not in matrices:
            kind = complex if "j" in row["value"] else float
            matrices[row["matrix"]] = np.zeros([int(side) for side in row["shape"].split("×")], kind)
        matrix = matrices[row["matrix"]]
        matrix[int(row["row"]), int(row["column"])] = matrix.dtype.type(row["value"])
    return matrices


# -- claims ----------------------------------------------------------------------------------------------------

HOLDS, BETTER, DIFFERS = "holds", "better", "differs"


class Claim(NamedTuple):
    """A sentence of the paper or of ours, whether it holds here, and the numbers that decide.

    ``rule`` says which numbers make it hold, or surpass it, unless the sentence itself does.
    """

    text: str
    verdict: str
    figures: str
    rule: str = ""


def verdict(holds: bool, better: bool = False) -> str:
    """The verdict on a claim that holds or not, and may be surpassed if it does."""
    return DIFFERS if not holds else BETTER if better else HOLDS


def claims_table(claims: Sequence[Claim], heading: str = "The paper") -> str:
    """The claims as a table, one per row."""
    rows = [(str(i), claim.text, f"**{claim.verdict}**", *claim[2:]) for i, claim in enumerate(claims, start=1)]
    has_rules = any(claim.rule for claim in claims)
    headings = ("", heading, "Here", "Figures", "Rule")[: 4 + has_rules]
    return markdown_table(headings, [row[: len(headings)] for row in rows], "rllll")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A table; ``align`` has an l or r for each of the first columns, and the others are r."""
    sides = align.ljust(len(headings), "r")
    lines = [headings, ["---" if side == "l" else "---:" for side in sides], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def read_meta(folder: Path) -> dict[str, Any]:
    """The record of a run."""
    path = folder / META
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged; choose another --output, or remove it")
    return found


def made_by(meta: dict[str, Any]) -> str:
    """The packages that made a run, with their versions."""
    return ", ".join(f"{name} {number}" for name, number in meta["versions"].items())


# -- figures ---------------------------------------------------------------------------------------------------

# Four of Okabe and Ito's colours, which differ in lightness, too.
DARK_TO_LIGHT = ("#000000", "#0072B2", "#D55E00", "#E69F00")


def save(figure: Any, path: Path) -> Path:
    """Write a figure without a date, so that the same figure gives the same file."""
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, metadata={"Software": None})
    return path


def draw_matrix(values: Any, ax: Any, title: str, before: str = "") -> None:
    """Draw a matrix with a title above it and perhaps an operator sign on its left."""
    matrix(values, ax, title)
    ax.text(-0.09, 0.5, before, transform=ax.transAxes, ha="center", va="center", fontsize="large")
