"""Cases that fail on purpose, by which the driver is tested: about every third one."""

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from .case import Failed


def _fails(rng: np.random.Generator) -> bool:
    return int(rng.integers(3)) == 0


def _wrong(rng: np.random.Generator, folder: str) -> None:
    if _fails(rng):
        raise Failed(f"wrong by {rng.random()}")


def _crash(rng: np.random.Generator, folder: str) -> None:
    if _fails(rng):
        os.kill(os.getpid(), signal.SIGSEGV)


def _hang(rng: np.random.Generator, folder: str) -> None:
    if _fails(rng):
        time.sleep(600)


def _hungry(rng: np.random.Generator, folder: str) -> None:
    if _fails(rng):
        np.ones(1 << 27)  # 1 GB
        time.sleep(1)


wrong, crash, hang, hungry = (SimpleNamespace(run=run) for run in (_wrong, _crash, _hang, _hungry))
__all__: list[Any] = ["crash", "hang", "hungry", "wrong"]
