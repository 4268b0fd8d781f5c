"""The process in which cases run. It tells the driver which case begins before it begins."""

import faulthandler
import json
import os
import resource
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from .case import KINDS, Case, listeners, load, run_case
from .limits import Limits


def work(kind: str, seed: int, first: int, count: int, seconds: float, pipe: int, limits: Limits) -> None:
    """Run cases from ``first`` on, ``count`` of them at most, for ``seconds`` once all is ready.

    One line of JSON is written to ``pipe`` when all is ready, before each case and after it.
    """
    with os.fdopen(pipe, "w", buffering=1) as told:

        def tell(**event: object) -> None:
            told.write(json.dumps(event) + "\n")

        faulthandler.enable(sys.stderr)
        getattr(load(kind), "prepare", lambda: None)()
        if kind in KINDS:
            tell_of_compilation(tell)
        listeners.append(lambda text: tell(note=text[:300]))
        tell(ready=True)
        end = monotonic() + seconds
        for number in range(first, first + count):
            if monotonic() >= end:
                break
            tell(begin=number)
            faulthandler.dump_traceback_later(0.9 * limits.seconds, file=sys.stderr)
            problem = run_case(Case(kind, seed, number))
            faulthandler.cancel_dump_traceback_later()
            tell(end=number, problem=problem)
            if peak_memory() > limits.bytes:
                tell(hungry=number)
                break  # the highest use stays what it was


def peak_memory() -> int:
    """The most memory that this process had so far, in bytes.

    The kernel's own mark: what getrusage says starts, in a child process, with the size of its parent.
    """
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) << 10
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def tell_of_compilation(tell: Callable[..., None]) -> None:
    """Tell when a kernel is compiled for the first time, which takes longer than a case may."""
    from numba.core import event

    class Teller(event.Listener):
        def on_start(self, event: Any) -> None:
            tell(compiling=True)

        def on_end(self, event: Any) -> None:
            tell(compiling=False)

    event.register("numba:compile", Teller())
