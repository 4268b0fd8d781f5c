"""Checkpoints of interrupted runs, damaged or edited: the run goes on to a result, or says what is wrong."""

import json
import tempfile
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import papilio as pp
from papilio.runtime.checkpoint import Checkpoint
from papilio.runtime.files import read_arrays

from ..limits import LIMITS
from .call import require_shape
from .case import noting
from .damage import damaged, edited, edited_npz
from .outcomes import require_refusal, require_sound

Rng = np.random.Generator
_X = np.random.default_rng(0).standard_normal((60, 6))
_LEARNERS: dict[str, dict[str, Any]] = {
    "KSVD": {"max_iter": 6},
    "SparseKSVD": {"max_iter": 6},
    "OnlineDictionaryLearning": {"max_iter": 4},
    "FastDictionaryLearning": {"max_iter": 5, "complexity": 0.8},
}


def prepare() -> None:
    for name in _LEARNERS:
        interrupted(name, 5)


def _make(name: str, **options: Any) -> Any:
    return getattr(pp, name)(8, 2, random_state=0, tol=0.0, **(_LEARNERS[name] | options))


def every_state() -> None:
    """Write each state; in a process of the campaign, so that nobody else minds."""
    module, _, name = LIMITS["seconds_between_checkpoints"].rpartition(".")
    setattr(import_module(module), name, 0.0)


@cache
def interrupted(name: str, number: int) -> bytes:
    """The checkpoint of a run that its callback stopped at the so-manieth call."""
    every_state()
    calls = 0

    def stop(step: Any) -> bool:
        nonlocal calls
        calls += 1
        return calls == number

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "run"
        _make(name, checkpoint=path, callback=stop).fit(_X)
        return path.read_bytes() if path.exists() else b""


def run(rng: Rng, folder: str) -> None:
    every_state()
    name = list(_LEARNERS)[rng.integers(len(_LEARNERS))]
    number = int(rng.choice([2, 5, 9, 14, 40]))
    content = interrupted(name, number)
    if not content:
        return
    how = ("damaged", "edited", "forged", "forged")[rng.integers(4)]
    path = Path("run")
    path.write_bytes({"damaged": damaged, "edited": edited_npz, "forged": forged}[how](rng, content))
    if rng.integers(3) == 0:
        Path("run.before").write_bytes(content if rng.integers(2) else damaged(rng, content))
    with noting(lambda: f"{how} checkpoint of {name} at call {number}"):
        _resume(name, path)


def _resume(name: str, path: Path) -> None:
    calls = 0

    def limit(step: Any) -> bool:
        nonlocal calls
        calls += 1
        return calls > 500

    try:
        model = _make(name, checkpoint=path, callback=limit).fit(_X)
    except Exception as error:
        require_refusal(error)
        return
    require_shape(model.components_.shape, (8, 6))
    require_sound((model.components_, model.operator_, model.transform(_X)))


def forged(rng: Rng, content: bytes) -> bytes:
    """A checkpoint with another state in it that is written as papilio writes its own, checksums included."""
    folder = Path("forge")
    folder.mkdir()
    path = folder / "run"
    path.write_bytes(content)
    identity = json.loads(str(read_arrays(path)["identity"]))
    checkpoint = Checkpoint(path, identity)
    state: dict[str, Any] = checkpoint.state or {}
    for _ in range(int(rng.integers(1, 3))):
        _edit_some(rng, state)
    checkpoint.write(state)
    getattr(checkpoint, "release", lambda: None)()  # its lock, if it has one
    content = path.read_bytes()
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    return content


def _edit_some(rng: Rng, state: dict[str, Any]) -> None:
    """Change something in a nested state: a value, a name, or that it is there."""
    name = list(state)[rng.integers(len(state))] if state else None
    if name is None:
        return
    if isinstance(state[name], dict) and rng.integers(10):
        _edit_some(rng, state[name])
        return
    match int(rng.integers(5)):
        case 0:
            del state[name]
        case 1:
            state[f"{name}_"] = state.pop(name)
        case _ if not isinstance(state[name], dict):
            state[name] = (
                _text(rng, state[name]) if np.asarray(state[name]).dtype.kind == "U" else edited(rng, state[name])
            )


def _text(rng: Rng, value: Any) -> Any:
    text = str(value)
    place = int(rng.integers(len(text) + 1))
    return np.array(text[:place] + ["", "0", "x", "null", "-"][rng.integers(5)] + text[place + 1 :])
