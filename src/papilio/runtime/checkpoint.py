"""Checkpoint files: the state of a run, from which an interrupted run resumes."""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import typing as types
from ..typing import Array
from .files import read_arrays

_FORMAT, _VERSION = "papilio.Checkpoint", 3
_OWN = ("format", "version", "identity")


class Checkpoint:
    """The latest state of a run in ``path``, and the one before it in ``path`` + ".before".

    A state is a mapping of names to arrays and numbers, which may be nested. It is written whole or not at all: to
    ``path`` + ".fresh" first, which is flushed to the disk and then renamed. A damaged file is refused; if the one
    before it is intact, that one is used, with a warning. A file with another ``identity`` is that of another
    run, and refused.
    """

    def __init__(self, path: types.Path, identity: Mapping[str, Any]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint must be a path or None, got {path!r}")
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise ValueError(f"checkpoint must be in a folder that exists, got {os.fspath(self._path)!r}")
        if self._path.is_dir():
            raise ValueError(f"checkpoint must be a file, got the folder {os.fspath(self._path)!r}")
        self._identity = {key: str(value) for key, value in identity.items()}
        self._their_identity: dict[str, str] = {}
        self._is_damaged = False
        self.state = self._read()  # None if there is no file
        fresh = self._paths()[2]
        fresh.touch()  # if the folder cannot be written to, fail now and not after hours
        fresh.unlink()

    def require(self, **facts: Any) -> None:
        """Add facts to the identity that become known later, such as the shape of the data."""
        mine = {key: str(value) for key, value in facts.items()}
        self._identity |= mine
        if self.state is not None:
            self._compare(mine)

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state in the file."""
        path, before, fresh = self._paths()
        own = {"format": _FORMAT, "version": _VERSION, "identity": json.dumps(self._identity)}
        with open(fresh, "wb") as file:
            np.savez(file, **{name: np.asarray(value) for name, value in (own | _flat(state)).items()})  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and not self._is_damaged:  # a damaged one must not replace the intact one before it
            os.replace(path, before)
        os.replace(fresh, path)
        self._is_damaged = False

    def remove(self) -> None:
        """Delete the files: the run is complete."""
        for path in self._paths():
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        """The latest state, the one before it, and the one being written."""
        return [Path(f"{self._path}{end}") for end in ("", ".before", ".fresh")]

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
            if problems:
                warnings.warn(
                    f"checkpoint is damaged: {problems[0]}; resuming from the one before it", stacklevel=5
                )
            return _nested({name: array for name, array in arrays.items() if name not in _OWN})
        if problems:
            raise ValueError(
                f"checkpoint is damaged, and so is the one before it: {problems[0]}; remove it to start again"
            )
        return None

    def _identity_in(self, arrays: Mapping[str, Array], path: Path) -> dict[str, str]:
        """The identity of the run that wrote ``path``."""
        if str(arrays.get("format")) != _FORMAT:
            raise ValueError(f"{os.fspath(path)!r} is not a checkpoint")
        if str(arrays.get("version", 1)) != str(_VERSION):
            raise _WrongCheckpoint(
                f"checkpoint {os.fspath(path)!r} was written by another version of papilio; "
                "finish the run with that version, or remove the file to start again"
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
                    f"{value}; remove it, or give another path"
                )


class _WrongCheckpoint(ValueError):
    """An intact checkpoint that cannot be used here."""


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
        place[last] = value
    return nested
