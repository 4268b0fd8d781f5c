"""Checkpoint files: the state of a run, from which an interrupted run resumes, and in the end its result.

A state is made of arrays, numbers, strings, None, lists, dictionaries, and classes that are marked by `stored`:
dataclasses and named tuples of such values. The file is an .npz file of the arrays, and a text in JSON that says
where they belong. zipfile compares the checksums of its members; what passes, and belongs to this run, is trusted.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import __version__
from .. import typing as types
from ..typing import Array
from .files import as_path, replacing

FINISHED = "finished"  # the stage of a state that is the result of a run
_FORMAT = "papilio.Checkpoint 6"

try:
    import fcntl

    _HAS_LOCKS = True
except ImportError:  # on Windows
    _HAS_LOCKS = False

T = TypeVar("T")
_kinds: dict[str, tuple[type, Callable[[Any], Mapping[str, Any]], Callable[..., Any]]] = {}


# -- states as arrays and text -------------------------------------------------------------------------


def stored(kind: type[T]) -> type[T]:
    """Let states hold instances of a dataclass or a named tuple: a decorator."""

    def content(value: Any) -> dict[str, Any]:
        names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
        return {name: getattr(value, name) for name in names}

    store_as(kind, content, lambda content: kind(**content))
    return kind


def store_as(kind: type[T], content: Callable[[T], Mapping[str, Any]], restore: Callable[[Any], T]) -> None:
    """Let states hold instances of any class, by a mapping of names to values and its inverse."""
    _kinds[kind.__name__] = kind, content, restore


def pack(value: Any, arrays: list[Array]) -> Any:
    """``value`` for JSON, with its arrays added to ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if type(value).__name__ in _kinds:
        content = _kinds[type(value).__name__][1](value)
        return {type(value).__name__: {name: pack(each, arrays) for name, each in content.items()}}
    if isinstance(value, Mapping):
        return {"": {str(name): pack(each, arrays) for name, each in value.items()}}
    if isinstance(value, list | tuple):
        return [pack(each, arrays) for each in value]
    raise TypeError(
        f"a state must hold arrays, numbers and classes marked by `stored`, got {type(value).__name__}"
    )


def unpack(packed: Any, arrays: Mapping[str, Array]) -> Any:
    """The inverse of `pack`, except that tuples are lists; ``arrays`` by the names of their numbers."""
    if isinstance(packed, list):
        return [unpack(each, arrays) for each in packed]
    if not isinstance(packed, dict):
        return packed
    ((name, value),) = packed.items()
    if name == "array":
        return arrays[str(value)]
    content = {key: unpack(each, arrays) for key, each in value.items()}
    return _kinds[name][2](content) if name else content


# -- files ---------------------------------------------------------------------------------------------


class Lock:
    """The lock of a checkpoint: one run at a time. The system ends it with the process, however that ends.

    Where the system has no such locks, runs do not exclude each other.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._path = Path(f"{checkpoint}.lock")
        try:
            self._file = open(self._path, "ab")  # noqa: SIM115
        except OSError as error:  # now, and not after hours
            reason = f"checkpoint cannot be written there: {error.strerror}; make room or choose another path"
            raise OSError(error.errno, reason, os.fspath(checkpoint)) from error
        try:
            if _HAS_LOCKS:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise BlockingIOError(
                f"checkpoint {os.fspath(checkpoint)!r} is in use by another run: wait until it has ended, or "
                "choose another path"
            ) from None
        except OSError:
            pass

    def release(self) -> None:
        """Remove the file while it is locked, and release the lock."""
        if not self._file.closed:
            if not _HAS_LOCKS:  # Windows removes no open files.
                self._file.close()
            with suppress(OSError):
                self._path.unlink()
            self._file.close()


class Checkpoint:
    """The latest state of a run in the file ``path``.

    It is written whole or not at all: to ``path`` + ".fresh" first, which is flushed to the disk and then renamed.
    A file that is damaged, of another version of papilio, which need not compute the same, or of a run with
    another ``identity`` is refused. Until `release`, ``path`` + ".lock" keeps other runs away.
    """

    def __init__(self, path: types.Path, identity: Mapping[str, Any]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint must be a path or None, got {path!r}")
        self._path = Path(os.path.realpath(as_path("checkpoint", path)))  # a run may change the working directory
        if not self._path.parent.is_dir():
            raise ValueError(f"checkpoint must be in a folder that exists, got {os.fspath(path)!r}")
        if self._path.is_dir():
            raise ValueError(f"checkpoint must be a file, got the folder {os.fspath(path)!r}")
        self._fresh = Path(f"{self._path}.fresh")
        self._identity = {key: str(value) for key, value in identity.items()}
        self._theirs: dict[str, str] = {}
        self._lock = Lock(self._path)
        try:
            self._fresh.unlink(missing_ok=True)  # Left over from a run that was killed.
            self.state = self._read() if self._path.exists() else None
        except BaseException:
            self.release()
            raise

    def require(self, **facts: Any) -> None:
        """Add facts to the identity that become known later, such as the shape of the data."""
        mine = {key: str(value) for key, value in facts.items()}
        self._identity |= mine
        if self.state is not None:
            self._compare(mine)

    def write(self, state: Any) -> None:
        """Replace the state in the file. An ``OSError`` leaves what was there before, and nothing else."""
        arrays: list[Array] = []
        packed = pack(state, arrays)
        header = {"format": _FORMAT, "papilio": __version__, "identity": self._identity, "state": packed}
        numbered = {str(i): array for i, array in enumerate(arrays)}
        with replacing(self._path, fresh=self._fresh) as fresh, open(fresh, "wb") as file:
            np.savez(file, header=json.dumps(header), **numbered)  # type: ignore[arg-type]

    def refusal(self, reason: str, ways_out: str = "delete it, or choose another path") -> ValueError:
        """The error that says why the file cannot be used, and what to do."""
        return ValueError(f"checkpoint {os.fspath(self._path)!r} {reason}; {ways_out}")

    def release(self) -> None:
        """Let other runs have the file."""
        self._lock.release()

    def _read(self) -> Any:
        try:
            header, arrays = _header_and_arrays(self._path)
        except ValueError as error:
            raise self.refusal("is damaged, or is no checkpoint") from error
        if header["format"] != _FORMAT or header["papilio"] != __version__:
            raise self.refusal(
                f"was written by another version of papilio ({header['papilio']}; this one is {__version__})",
                "finish the run with that version, delete it, or choose another path",
            )
        self._theirs = header["identity"]
        self._compare(self._identity)
        try:
            return unpack(header["state"], arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise self.refusal("is damaged, or belongs to another run") from error

    def _compare(self, mine: Mapping[str, str]) -> None:
        for key, value in mine.items():
            if self._theirs.get(key) != value:
                raise self.refusal(
                    f"belongs to another run: {key} was {self._theirs.get(key)}, and is now {value}"
                )


def _header_and_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The two parts of a checkpoint; ``ValueError`` if the file is damaged or anything else."""
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(str(arrays.pop("header")))
            return {name: header[name] for name in ("format", "papilio", "identity", "state")}, arrays
        except Exception as error:  # A damaged file may raise anything.
            raise ValueError("damaged, or no checkpoint") from error


def remove_checkpoint(path: types.Path) -> None:
    """Delete the checkpoint of a run whose result is saved elsewhere, unless another run has it now."""
    target = os.path.realpath(path)
    with suppress(OSError):
        lock = Lock(Path(target))
        try:
            Path(target).unlink(missing_ok=True)
        finally:
            lock.release()
