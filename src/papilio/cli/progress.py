"""Progress on the standard error, and Ctrl-C.

On a terminal a bar with the time left; elsewhere, as in a log file, a line now and then.
"""

import signal
import threading
from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from papilio.results import Step

from .terminal import Terminal

_SECONDS_BETWEEN_LINES = 30.0
_WIDTH_OF_BAR = 52  # with its share, both times and blanks: a note beside it must not squeeze it


class Phase(NamedTuple):
    """A part of the work: its name in `Step.phase`, its share of the time, its largest number of iterations."""

    name: str
    share: float
    iterations: int


class Watch:
    """Shows how far some work is, and turns Ctrl-C into a wish to stop, where the work asks for it.

    Parameters
    ----------
    terminal : Terminal
    title : str
    phases : sequence of Phase
        What a solver goes through; without it, and without `advance`, only the time that has passed is known.
    can_stop : bool
        The work calls `report`, or looks at `stopping`: the first Ctrl-C lets it end by itself with what it has,
        and only the second interrupts it.
    """

    def __init__(
        self, terminal: Terminal, title: str, phases: Sequence[Phase] = (), *, can_stop: bool = False
    ) -> None:
        self.stopping = False
        self._terminal = terminal
        self._phases = phases
        self._can_stop = can_stop and threading.current_thread() is threading.main_thread()
        self._begin = self._last_line = perf_counter()
        self._title = title
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=14),
            TaskProgressColumn("{task.percentage:>3.0f} %", markup=False),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=terminal.errors,
            transient=True,
            disable=terminal.quiet or not terminal.errors.is_terminal,
        )
        self._task = self._bar.add_task(title, total=None, note="")

    def __enter__(self) -> Self:
        self._bar.start()
        if self._can_stop:
            self._previous = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._can_stop:
            signal.signal(signal.SIGINT, self._previous)
        self._bar.stop()

    def report(self, step: Step) -> bool:
        """A callback for solvers: shows the step, and stops them after Ctrl-C."""
        self.advance(self._fraction(step), f"{step.phase} {step.iteration}: error {step.error:.3g}")
        return self.stopping

    def advance(self, fraction: float | None, note: str = "") -> None:
        """So much of the work is done, from 0 to 1; None where nobody knows."""
        if self.stopping:
            note = "stopping; Ctrl-C again drops everything"
        shown = note[: max(self._terminal.errors.width - len(self._title) - _WIDTH_OF_BAR, 0)]
        done: dict[str, Any] = {} if fraction is None else {"total": 1.0, "completed": fraction}
        self._bar.update(self._task, note=shown, **done)
        now = perf_counter()
        if self._bar.disable and now - self._last_line > _SECONDS_BETWEEN_LINES:
            share = "" if fraction is None else f" {100 * fraction:.0f} %,"
            self._terminal.note(f"{self._title}:{share} {now - self._begin:.0f} s so far{note and ', ' + note}")
            self._last_line = now

    def _fraction(self, step: Step) -> float | None:
        if step.done is not None:
            return step.done
        before = 0.0
        for phase in self._phases:
            if phase.name == step.phase:
                return before + phase.share * min(step.iteration / (step.total or phase.iterations), 1.0)
            before += phase.share
        return 1.0 if self._phases and step.phase == "final" else None

    def _interrupted(self, number: int, frame: Any) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        self._bar.update(self._task, note="stopping; Ctrl-C again drops everything")
