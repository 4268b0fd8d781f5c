"""Checkpoint files: the state of a run, from which an interrupted run resumes, and in the end its result."""

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from .. import typing as types
from ..typing import Array
from .files import as_path, flush_folder, read_arrays
from .lock import Lock

FINISHED = "finished"  # the phase of a state that is the result of a run
_FORMAT, _VERSION = "papilio.Checkpoint", 4
_OWN = ("format", "version", "papilio", "identity")


class Checkpoint:
    """The latest state of a run in ``path``, and the one before it in ``path`` + ".before".

    A state is a mapping of names to arrays and numbers, which may be nested. It is written whole or not at all: to
    ``path`` + ".fresh" first, which is flushed to the disk and then renamed, so that one of the two files is there
    and intact at any time. A damaged file is refused; if the one before it is intact, that one is used, with a
    warning. A file with another ``identity`` is that of another run, and refused, and so is one of another version
    of papilio, which need not compute the same. Until `release`, ``path`` + ".lock" keeps other runs away.
    """

    def __init__(self, path: types.Path, identity: Mapping[str, Any]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint must be a path or None, got {path!r}")
        self._path = Path(os.path.realpath(as_path("checkpoint", path)))  # a run may change the working directory
        if not self._path.parent.is_dir():
            raise ValueError(f"checkpoint must be in a folder that exists, got {os.fspath(path)!r}")
        if self._path.is_dir():
            raise ValueError(f"checkpoint must be a file, got the folder {os.fspath(path)!r}")
        self._identity = {key: str(value) for key, value in identity.items()}
        self._their_identity: dict[str, str] = {}
        self._is_damaged = False
        self._is_current = False  # whether the file has the latest state
        self._lock = self._locked()
        try:
            self._paths()[2].unlink(missing_ok=True)  # of a run that was killed
            self.state = self._read()  # None if there is no file
        except BaseException:
            self.release()
            raise

    def require(self, **facts: Any) -> None:
        """Add facts to the identity that become known later, such as the shape of the data."""
        mine = {key: str(value) for key, value in facts.items()}
        self._identity |= mine
        if self.state is not None:
            self._compare(mine)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn whatever goes wrong in reading the state into one error that says what to do."""
        try:
            yield
        except _WrongCheckpoint:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())  # arrays have several lines
            raise _WrongCheckpoint(
                f"checkpoint {os.fspath(self._path)!r} is damaged or belongs to another run: {text}; "
                f"{self._way_out()}"
            ) from error

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state in the file. An ``OSError`` leaves what was there before, and nothing else."""
        path, before, fresh = self._paths()
        own = {"format": _FORMAT, "version": _VERSION, "papilio": __version__}
        content = own | {"identity": json.dumps(self._identity)} | _flat(state)
        self._is_current = False
        try:
            with open(fresh, "wb") as file:
                np.savez(file, **{name: np.asarray(value) for name, value in content.items()})  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            if path.exists() and not self._is_damaged:  # a damaged one must not replace the intact one before it
                os.replace(path, before)
            os.replace(fresh, path)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error
        flush_folder(path.parent)
        self._is_damaged, self._is_current = False, True

    def forget_before(self) -> None:
        """Delete the state before the latest, if that is in the file."""
        if self._is_current:
            with suppress(OSError):
                self._paths()[1].unlink(missing_ok=True)

    def release(self) -> None:
        """Let other runs have the file."""
        self._lock.release()

    def _locked(self) -> Lock:
        path = Path(f"{self._path}.lock")
        try:
            return Lock(path, f"checkpoint {os.fspath(self._path)!r}")
        except BlockingIOError:
            raise
        except OSError as error:  # now, and not after hours
            reason = f"checkpoint cannot be written there: {error.strerror}; make room or choose another path"
            raise OSError(error.errno, reason, os.fspath(self._path)) from error

    def _paths(self) -> list[Path]:
        """The latest state, the one before it, and the one being written."""
        return _paths_of(self._path)

    def _read(self) -> dict[str, Any] | None:
        problems = []
        for path in self._paths()[:2]:
            try:
                arrays = read_arrays(path)
                self._their_identity = self._identity_in(arrays, path)
            except FileNotFoundError:
                continue
            except _WrongCheckpoint:
                raise
            except ValueError as error:
                problems.append(str(error))
                continue
            self._compare(self._identity)
            self._is_damaged = bool(problems)
            self._is_current = path == self._path
            if problems:
                warnings.warn(
                    f"checkpoint is damaged: {problems[0]}; resuming from the one before it", stacklevel=5
                )
            with self.reading():
                return _nested({name: array for name, array in arrays.items() if name not in _OWN})
        if problems:
            raise ValueError(
                f"checkpoint is damaged, and so is the one before it: {problems[0]}; {self._way_out()}"
            )
        return None

    def _identity_in(self, arrays: Mapping[str, Array], path: Path) -> dict[str, str]:
        """The identity of the run that wrote ``path``."""
        if str(arrays.get("format")) != _FORMAT:
            raise ValueError(f"{os.fspath(path)!r} is not a checkpoint")
        theirs = str(arrays.get("papilio", "unknown"))
        if str(arrays.get("version", 1)) != str(_VERSION) or theirs != __version__:
            raise _WrongCheckpoint(
                f"checkpoint {os.fspath(path)!r} was written by another version of papilio ({theirs}; this one is "
                f"{__version__}): finish the run with that version, or {self._way_out()}"
            )
        identity = json.loads(str(arrays.get("identity")))
        if not isinstance(identity, dict):
            raise ValueError(f"{os.fspath(path)!r} does not say which run it belongs to")
        return identity

    def _compare(self, mine: Mapping[str, str]) -> None:
        for key, value in mine.items():
            theirs = self._their_identity.get(key)
            if theirs != value:
                raise _WrongCheckpoint(
                    f"checkpoint {os.fspath(self._path)!r} belongs to another run: {key} was {theirs}, and is now "
                    f"{value}; {self._way_out()}"
                )

    def _way_out(self) -> str:
        there = [repr(os.fspath(path)) for path in self._paths()[:2] if path.exists()]
        return f"delete {' and '.join(there)}, or choose another path"


def holds_result(path: types.Path) -> bool:
    """Whether the file is the checkpoint of a run that is finished."""
    try:
        return str(read_arrays(path).get("session/phase")) == FINISHED
    except (OSError, ValueError):
        return False


def remove_checkpoint(path: types.Path) -> None:
    """Delete the checkpoint of a run whose result is saved elsewhere, unless another run has it now."""
    target = Path(os.path.realpath(path))
    with suppress(OSError):
        lock = Lock(Path(f"{target}.lock"), "checkpoint")
        try:
            for each in _paths_of(target):
                each.unlink(missing_ok=True)
        finally:
            lock.release()


class _WrongCheckpoint(ValueError):
    """An intact checkpoint that cannot be used here."""


def _paths_of(path: Path) -> list[Path]:
    return [Path(f"{path}{end}") for end in ("", ".before", ".fresh")]


def _flat(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with names such as ``best/scale``."""
    flat: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = value
    return flat


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_flat`, except that empty mappings are lost."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *folders, last = name.split("/")
        place = nested
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise ValueError(f"{name} must not be within an array")
        if last in place:
            raise ValueError(f"{name} must not occur twice")
        place[last] = value
    return nested
