"""Checkpoints of interrupted runs, damaged or edited: the run goes on to a result, or says what is wrong."""

import tempfile
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import papilio as pp

from ..limits import LIMITS
from .call import require_shape
from .case import noting
from .damage import damaged, edited_npz
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
    return getattr(pp, name)(8, 2, random_state=0, **(_LEARNERS[name] | options))


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
    how = ("damaged", "edited")[rng.integers(2)]
    path = Path("run")
    path.write_bytes({"damaged": damaged, "edited": edited_npz}[how](rng, content))
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
