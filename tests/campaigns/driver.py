"""Runs cases in processes of their own, and tells which of them failed, crashed, hung or took too much memory."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from .case import Case, Problem
from .limits import LIMITS, Limits

ROOT = Path(__file__).parents[2]
_LOOK = 0.1  # seconds between looks at the memory of a process
_SHOWN = 3  # failures with the same signature that are printed
Say = Callable[[str], Any]


class Failure(NamedTuple):
    """A case and what it found."""

    case: Case
    problem: Problem


@dataclass
class Tally:
    """How many cases of a kind ran, and which failed."""

    kind: str
    cases: int = 0
    failures: list[Failure] = field(default_factory=list)


def run_kinds(kinds: Sequence[str], seed: int, seconds: float, say: Say, limits: Limits = LIMITS) -> list[Tally]:
    """Run cases of each kind in turn, for ``seconds`` in all."""
    tallies = []
    for kind in kinds:
        tally = run_kind(kind, seed, seconds / len(kinds), say, limits)
        say(f"{kind}: {tally.cases} cases, {len(tally.failures)} failures")
        tallies.append(tally)
    return tallies


def run_kind(
    kind: str, seed: int, seconds: float, say: Say, limits: Limits = LIMITS, first: int = 0, count: int = 1 << 30
) -> Tally:
    """Run ``count`` cases from ``first`` on, for ``seconds`` at most; getting ready is not counted."""
    tally, seen, number, left = Tally(kind), Counter[tuple[str, str]](), first, seconds
    while number < first + count and (number == first or left > 0):
        before, begin = number, monotonic()
        for event in _events(kind, seed, number, first + count - number, left, limits):
            if "ready" in event:
                begin = monotonic()
            if "begin" in event:
                tally.cases += 1
                number = event["begin"] + 1
            problem = event.get("problem")
            if problem is not None:
                failure = Failure(Case(kind, seed, event.get("end", before)), Problem(*problem))
                tally.failures.append(failure)
                seen[failure.problem.signature] += 1
                if seen[failure.problem.signature] <= _SHOWN:
                    say(_shown(failure))
        left -= monotonic() - begin
        if number == before:  # it ended before it began: the next one would, too
            break
    more = sum(max(count - _SHOWN, 0) for count in seen.values())
    if more:
        say(f"{kind}: {more} more failures like these")
    return tally


def _shown(failure: Failure) -> str:
    problem = failure.problem
    return f"FAILED {problem.title}\n  {failure.case.command()}\n{problem.text}".rstrip()


def _events(
    kind: str, seed: int, first: int, count: int, seconds: float, limits: Limits
) -> Iterator[dict[str, Any]]:
    """What one process tells; at last, how it ended if that was not well."""
    reading, writing = os.pipe()
    words = [kind, seed, first, count, seconds, writing, *limits]
    with tempfile.TemporaryFile() as errors, os.fdopen(reading, "rb", buffering=0) as pipe:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns", "work", *map(str, words)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=[writing],
            env=os.environ | {"PAPILIO_QUIET": "1", "MPLBACKEND": "Agg"},
        )
        os.close(writing)
        try:
            current, reason, note = first, "", ""
            for event in _told(pipe, process.pid, limits):
                current = event.get("begin", current)
                note = "" if "begin" in event else event.get("note", note)
                reason = event.get("killed", "")
                if "hungry" in event:
                    current, reason = event["hungry"], _HUNGRY
                if not reason:
                    yield event
            if reason:
                process.kill()
            code = process.wait(limits.start)
        finally:
            process.kill()
            process.wait()
        if reason or code:
            errors.seek(0)
            said = errors.read().decode(errors="replace").partition("Extension modules:")[0]
            tail = said.strip().splitlines()[-15:]
            title = reason or (f"crash: {signal.Signals(-code).name}" if code < 0 else f"crash: exit code {code}")
            title += f": {note}" if note else ""
            yield {"end": current, "problem": (title, _place(tail), "\n".join(f"  {line}" for line in tail))}


_HUNGRY = "memory: more than the limit"


def _told(pipe: Any, number: int, limits: Limits) -> Iterator[dict[str, Any]]:
    """The lines that a process writes; ``{"killed": …}`` when it takes too much time or memory."""
    rest, begin, limit = b"", monotonic(), limits.start
    while True:
        if select.select([pipe], [], [], _LOOK)[0]:
            part = os.read(pipe.fileno(), 65536)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                event = json.loads(line)
                begin = monotonic()
                limit = limits.start if event.get("compiling") else limits.seconds
                yield event
        if monotonic() - begin > limit:
            yield {"killed": f"hang: more than {limit:g} s"}
            return
        if _memory(number) > limits.bytes:
            yield {"killed": _HUNGRY}
            return


def _memory(number: int) -> int:
    """Bytes of memory that a process has; 0 where that is not known."""
    try:
        return int(Path(f"/proc/{number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _place(lines: Sequence[str]) -> str:
    """The innermost line of papilio's own in a traceback of `faulthandler`."""
    return next((line.strip() for line in lines if "papilio" in line and "File" in line), "")
