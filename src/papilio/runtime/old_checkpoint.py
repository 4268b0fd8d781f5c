"""Checkpoints: what a long run has so far, in a file, so that a run that was killed goes on where it was."""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ..typing import Array
from .files import read_arrays, replacing

_FORMAT = "papilio.Checkpoint"
_SECONDS = 30.0  # between checkpoints within a phase
_OWN = ("format", "identity", "stage")


class Checkpoint:
    """The state of a run in ``path``, and the one before it in ``path`` + ".before".

    A state is a stage and named arrays. It is written whole or not at all: to ``path`` + ".fresh" first, which is
    flushed to the disk and then takes its place. A file that is damaged is refused, with a warning if the one
    before it is intact, which then serves.

    Parameters
    ----------
    path : path, optional
        None: nothing is kept.
    identity : mapping
        What the run is: it goes on only from a state of the same.
    """

    def __init__(self, path: Any = None, identity: Mapping[str, Any] | None = None) -> None:
        if not isinstance(path, str | os.PathLike | None):
            raise TypeError(f"checkpoint must be a path or None, got {path!r}")
        self._path = None if path is None else Path(path)
        self._identity = {key: str(value) for key, value in (identity or {}).items()}
        self._constant: Callable[[], Mapping[str, Any]] = dict
        self._has_stopped: Callable[[], bool] = bool
        self._last: Mapping[str, Any] = {}
        self._time = monotonic()
        self._saved: dict[str, Array] = {}
        self._is_damaged = False
        if self._path is not None:
            if not self._path.parent.is_dir():
                raise ValueError(f"checkpoint must be in a folder that exists, got {os.fspath(self._path)!r}")
            if self._path.is_dir():
                raise ValueError(f"checkpoint must be a file, got the folder {os.fspath(self._path)!r}")
            self._saved = self._read()
            with replacing(self._path, keep=False) as trial:
                trial.touch()  # fails now, and not after hours, where nothing can be written
        self.stage = str(self._saved["stage"]) if self._saved else ""

    @property
    def is_kept(self) -> bool:
        return self._path is not None

    def saved(self, stage: str | None = None) -> dict[str, Array]:
        """The arrays of the state that was found; of another stage than ``stage``, none."""
        return self._saved if stage is None or stage == self.stage else {}

    def always(self, state: Callable[[], Mapping[str, Any]], has_stopped: Callable[[], bool]) -> None:
        """Arrays that belong to every state: the history, say, and the random state.

        Nothing is kept any more when the run ``has_stopped``: what follows then is only there to return something.
        """
        self._constant = state
        self._has_stopped = has_stopped

    def require(self, **facts: Any) -> None:
        """More that the run is, known only now, such as what its data look like."""
        mine = {key: str(value) for key, value in facts.items()}
        self._identity |= mine
        if self._saved:
            self._compare(self._saved, mine)

    def save(self, stage: str, state: Mapping[str, Any]) -> None:
        """Keep a state: a phase has ended."""
        if self._path is not None:
            self._last = {"stage": np.array(stage), **self._constant(), **state}
            self._write({})

    def offer(self, stage: str, state: Callable[[], Mapping[str, Any]]) -> None:
        """Keep a state if the last one is old."""
        if self._path is not None and monotonic() - self._time >= _SECONDS:
            self.save(stage, state())

    def extend(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Keep the last state again, with more arrays, if it is old: a long step from it is not finished yet."""
        if self._path is not None and monotonic() - self._time >= _SECONDS:
            self._write(state())

    def remove(self) -> None:
        """The run has ended: nothing is to be gone on with."""
        for path in self._paths():
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        """The state, the one before it, and one that is being written."""
        return [] if self._path is None else [Path(f"{self._path}{end}") for end in ("", ".before", ".fresh")]

    def _write(self, more: Mapping[str, Any]) -> None:
        if self._has_stopped():
            return
        path, before, fresh = self._paths()
        own: dict[str, Any] = {"format": np.array(_FORMAT), "identity": np.array(json.dumps(self._identity))}
        with open(fresh, "wb") as file:
            np.savez(file, **own, **self._last, **more)
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and not self._is_damaged:  # else the one before it is the better one
            os.replace(path, before)
        os.replace(fresh, path)
        self._is_damaged = False
        self._time = monotonic()

    def _read(self) -> dict[str, Array]:
        problems = []
        for path in self._paths()[:2]:
            try:
                arrays = read_arrays(path)
                if any(name not in arrays for name in _OWN) or str(arrays["format"]) != _FORMAT:
                    raise ValueError(f"{os.fspath(path)!r} is not a checkpoint")
                self._compare(arrays, self._identity)
            except FileNotFoundError:
                continue
            except _OtherRun:
                raise
            except ValueError as error:
                problems.append(str(error))
                continue
            self._is_damaged = bool(problems)
            if problems:
                warnings.warn(
                    f"checkpoint is damaged: {problems[0]}; going on from the one before it", stacklevel=5
                )
            return arrays
        if problems:
            raise ValueError(
                f"checkpoint is damaged, and none before it is intact: {problems[0]}; remove it to begin anew"
            )
        return {}

    def _compare(self, arrays: Mapping[str, Array], mine: Mapping[str, str]) -> None:
        theirs = json.loads(str(arrays["identity"]))
        if not isinstance(theirs, dict):
            raise ValueError("it does not say what it is of")
        for key, value in mine.items():
            if theirs.get(key) != value:
                raise _OtherRun(
                    f"checkpoint {os.fspath(self._path or '')!r} is of another run: {key} was {theirs.get(key)}, "
                    f"and is {value}; remove it, or give another path"
                )


class _OtherRun(ValueError):
    """A sound checkpoint that does not fit."""


def random_to_arrays(random: np.random.RandomState) -> dict[str, Array]:
    """The state of a random number generator."""
    name, keys, place, has_gauss, gauss = random.get_state()
    return {
        "random_keys": np.asarray(keys),
        "random_name": np.array(name),
        "random_rest": np.array([float(place), float(has_gauss), float(gauss)]),
    }


def random_from_arrays(random: np.random.RandomState, arrays: Mapping[str, Array]) -> None:
    """Put a generator into a state that was kept; nothing happens where none was."""
    if "random_keys" in arrays:
        place, has_gauss, gauss = arrays["random_rest"].tolist()
        name = str(arrays["random_name"])
        random.set_state((name, arrays["random_keys"], int(place), int(has_gauss), gauss))
