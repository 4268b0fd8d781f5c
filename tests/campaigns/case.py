"""One case: which it is, how it runs, and how it may fail."""

import contextlib
import os
import re
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

# Each names a module with `run(rng, folder)`; `prepare()` of it, if there is one, compiles what the cases need.
KINDS = ("calls", "products", "pursuit", "files", "checkpoints", "commands", "disks")
FAULTS = ("wrong", "crash", "hang", "hungry")  # kinds in `faults`, by which the driver is tested


class Case(NamedTuple):
    """The identity of a case; its random numbers depend on nothing else."""

    kind: str
    seed: int
    number: int

    def generator(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(self.kind.encode()), self.number])

    def command(self) -> str:
        return f"python -m tests.campaigns fuzz --kind {self.kind} --seed {self.seed} --case {self.number}"


class Failed(AssertionError):
    """What a case found."""


listeners: list[Callable[[str], None]] = []  # are told what a case is about to do


class Problem(NamedTuple):
    """A failure: in one line, where it was seen, and at length."""

    title: str
    place: str
    text: str

    @property
    def signature(self) -> tuple[str, str]:
        """Failures with the same one are likely to have the same cause."""
        return re.sub(r"[0-9]\S*", "#", self.title.split(":")[0]), self.place


def load(kind: str) -> Any:
    """The module of a kind, or what stands for it."""
    if kind in FAULTS:
        return getattr(import_module("tests.campaigns.faults"), kind)
    return import_module(f"tests.campaigns.{kind}")


def run_case(case: Case) -> Problem | None:
    """Run a case in an empty folder of its own; None if all is well."""
    before, notes = os.getcwd(), [""]
    listeners.append(notes.append)
    with (
        tempfile.TemporaryDirectory(prefix="papilio-case-") as folder,
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        os.chdir(folder)
        try:
            load(case.kind).run(case.generator(), folder)
        except Exception as error:
            return problem_of(error)
        finally:
            os.chdir(before)
            listeners.remove(notes.append)
    for warning in seen:
        # Numbers that overflow or are not defined, where nobody thought of it.
        if issubclass(warning.category, RuntimeWarning):
            place = f"{_short(warning.filename)}:{warning.lineno}"
            return Problem(f"RuntimeWarning: {warning.message}: {notes[-1]}", place, f"  {place}")
    return None


def problem_of(error: BaseException) -> Problem:
    """An exception as a problem; for `Failed`, the exception that it was raised from tells the place."""
    if isinstance(error, Failed) and error.__cause__ is None:  # the frames are those of the campaign
        return Problem(_line(error), "", "")
    cause = (isinstance(error, Failed) and error.__cause__) or error
    frames = traceback.extract_tb(cause.__traceback__)
    place = f"{_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    lines = [f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames[-6:]]
    title = _line(error) if isinstance(error, Failed) else f"{type(error).__name__}: {_line(error)}"
    return Problem(title, place, "\n".join(lines))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]


def _short(path: str) -> str:
    """A path from the package that it belongs to on."""
    for mark in (f"site-packages{os.sep}", f"src{os.sep}papilio", f"tests{os.sep}campaigns"):
        if mark in path:
            return path[path.index(mark) :].removeprefix(f"site-packages{os.sep}")
    return path


@contextlib.contextmanager
def noting(describe: Callable[[], str]) -> Any:
    """Add a description of the case to what it finds; listeners get it first, as the process may not survive."""
    for listener in listeners:
        listener(describe())
    try:
        yield
    except Failed as error:
        raise Failed(f"{error}: {describe()}") from error.__cause__
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}: {describe()}") from error
