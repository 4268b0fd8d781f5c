"""Runs that are interrupted at random moments by signals and started again until they are done.

What they leave must be what runs without interruption leave: the same files, and the same bytes in all of those
that two such runs agree on (times differ).
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np

from .driver import ROOT
from .learning import LEARNERS

WORKERS = "workers"  # the run whose workers are killed, and not itself
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_MAIN = "from papilio.cli import main; main()"
_LONGEST = 300.0  # seconds that one process may take
Say = Callable[[str], Any]


class Run(NamedTuple):
    """A command that is started in ``folder`` again and again until it ends with 0."""

    name: str
    command: list[str]
    files: Callable[[Path], None] = lambda folder: None  # that it needs
    begins: bool = False  # whether it says when its work begins


def _samples(folder: Path) -> None:
    X = np.random.default_rng(0).standard_normal((4000, 16)) @ np.random.default_rng(1).standard_normal((16, 16))
    np.save(folder / "samples.npy", X)


def _learning(learner: str, data: str) -> Run:
    command = [sys.executable, "-m", "tests.campaigns.learning", learner, data]
    return Run(f"{learner}-{data}", command, _samples if data == "file" else lambda folder: None, True)


def _experiment(name: str) -> Run:
    return Run(name, [sys.executable, "-m", "experiments", name, "--preset", "tiny", "--output", "out"])


def _learn() -> Run:
    words = "learn samples.npy -o dict.npz --checkpoint run --n-components 24 --n-nonzero-coefs 3 --quiet"
    return Run("learn", [sys.executable, "-c", _MAIN, *words.split()], _samples)


RUNS = {
    run.name: run
    for run in (
        *(_learning(learner, data) for learner in LEARNERS for data in ("memory", "file")),
        _learn(),
        *(_experiment(name) for name in ("figure3", "denoising")),
    )
}


def interrupt_all(kills: int, seed: int, say: Say, names: Sequence[str] | None = None) -> int:
    """Interrupt each run ``kills`` times by each signal; the number of failures."""
    failures = 0
    for name in names or (*RUNS, WORKERS):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        found = without_workers(kills, seed, say) if name == WORKERS else interrupted(RUNS[name], kills, rng, say)
        for problem in found:
            again = f"python -m tests.campaigns kill --kills {kills} --seed {seed} --run {name}"
            say(f"FAILED {name}: {problem}\n  {again}")
        failures += len(found)
    return failures


def without_workers(kills: int, seed: int, say: Say) -> list[str]:
    """What is wrong with learning on a cluster that loses workers; see `workers`."""
    command = [sys.executable, "-m", "tests.campaigns.workers", str(kills), str(seed)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST + 30 * kills)
    except subprocess.TimeoutExpired:
        return ["it did not come to an end"]
    problems = done.stdout.splitlines()
    if done.returncode:
        problems.append(" | ".join(done.stderr.splitlines()[-3:]))
    say(f"{WORKERS}: {kills} workers lost, {len(problems)} problems")
    return problems


def interrupted(run: Run, kills: int, rng: np.random.Generator, say: Say) -> list[str]:
    """What is wrong with a run that is interrupted."""
    with tempfile.TemporaryDirectory(prefix="papilio-kill-") as place:
        folders = [Path(place) / name for name in ("first", "second")]
        seconds = [_to_the_end(run, folder) for folder in folders][-1]  # the first one may compile kernels
        expected = agreed(*folders)
        problems: list[str] = []
        left = [number for number in SIGNALS for _ in range(kills)]
        rng.shuffle(left)
        starts = 0
        while left:
            folder = Path(place) / "interrupted"
            starts += _until_done(run, folder, left, seconds, rng, problems)
            problems += differences(expected, contents(folder))
            if problems:
                break
            shutil.rmtree(folder)
        say(f"{run.name}: {len(SIGNALS) * kills - len(left)} signals in {starts} starts, {len(problems)} problems")
        return problems


def _until_done(
    run: Run, folder: Path, left: list[Any], seconds: float, rng: np.random.Generator, problems: list[str]
) -> int:
    """Start and interrupt a run until it is done, taking signals from ``left``; the number of starts."""
    _make(run, folder)
    # Each process may be short of its end by a signal; most runs should be done after a few.
    for start in range(1, 1000):
        with _started(run, folder) as process:
            _wait_for_begin(run, process)
            if left:
                try:
                    process.wait(float(rng.random()) * seconds)
                except subprocess.TimeoutExpired:
                    process.send_signal(left.pop())
            code = _ended(process)
        if not _is_gone(process.pid):
            problems.append("processes were left behind")
        if code == 0:
            return start
        if code not in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 3, 130, 143, 1):
            problems.append(f"a start ended with exit code {code}: {_errors(folder)}")
            return start
        if code == 1 and "KeyboardInterrupt" not in _errors(folder):
            problems.append(f"a start failed: {_errors(folder)}")
            return start
    problems.append("it did not come to an end")
    return start


def _to_the_end(run: Run, folder: Path) -> float:
    """Run without interruption; the seconds from its begin on."""
    _make(run, folder)
    with _started(run, folder) as process:
        _wait_for_begin(run, process)
        begin = monotonic()
        code = _ended(process)
    if code != 0:
        raise RuntimeError(f"{run.name} fails without interruption: {_errors(folder)}")
    return monotonic() - begin


def _make(run: Run, folder: Path) -> None:
    (folder / "work").mkdir(parents=True)
    (folder / "tmp").mkdir()
    run.files(folder / "work")


def _started(run: Run, folder: Path) -> Any:
    """In a session of its own, so that it is seen which processes it leaves; errors go beside its folder."""
    variables = {"TMPDIR": str(folder / "tmp"), "PAPILIO_QUIET": "1", "MPLBACKEND": "Agg"}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with open(folder.with_suffix(".errors"), "wb") as errors:
        return subprocess.Popen(
            run.command,
            cwd=folder / "work",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if run.begins else errors,
            stderr=errors,
            start_new_session=True,
            env=os.environ | variables | {"PYTHONPATH": path},
        )


def _errors(folder: Path) -> str:
    text = folder.with_suffix(".errors").read_text(errors="replace").strip()
    return " | ".join(text.splitlines()[-3:])


def _wait_for_begin(run: Run, process: Any) -> None:
    if run.begins:
        process.stdout.readline()  # nothing if the process has ended


def _ended(process: Any) -> int:
    try:
        return int(process.wait(_LONGEST))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return -99  # a hang is no signal of ours


def _is_gone(group: int) -> bool:
    """Whether all processes of a session end soon."""
    end = monotonic() + 10
    while monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    return False


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files of a run by their names, its temporary ones included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if not path.is_dir())


def agreed(first: Path, second: Path) -> dict[str, bytes | None]:
    """What two runs without interruption leave; None where they differ."""
    one, other = contents(first), contents(second)
    return {name: content if other.get(name) == content else None for name, content in one.items()}


def differences(expected: dict[str, bytes | None], found: dict[str, bytes | None]) -> list[str]:
    """What an interrupted run left beyond what was expected, what it lacks, and what differs."""
    problems = [f"{name} was left behind" for name in found.keys() - expected.keys()]
    problems += [f"{name} is missing" for name in expected.keys() - found.keys()]
    problems += [
        f"{name} differs from that of a run without interruption"
        for name, content in expected.items()
        if content is not None and name in found and found[name] != content
    ]
    return sorted(problems)
