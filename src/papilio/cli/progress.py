"""Progress on the standard error, and Ctrl-C.

On a terminal, a bar with the time left; elsewhere, as in a log file, a line now and then.
"""

import signal
import threading
from time import perf_counter
from typing import Any, Self

from rich import progress

from papilio.results import Step

from .terminal import Terminal

_SECONDS_BETWEEN_LINES = 30.0
_AN_HOUR = 3600.0
_WIDTH_OF_BAR = 52  # with the percentage, both times and blanks: a note beside it must not squeeze it
_STOPPING = "stopping; Ctrl-C again drops everything"


class ProgressBar:
    """Shows how much of the work is done, and turns Ctrl-C into a request to stop.

    ``can_stop`` says that the work has `report` as its callback: the first Ctrl-C lets it end early with what it
    has, and only the second one interrupts it.
    """

    def __init__(self, terminal: Terminal, title: str, *, can_stop: bool = False) -> None:
        self.stopping = False
        self._terminal = terminal
        self._can_stop = can_stop and threading.current_thread() is threading.main_thread()
        self._begin = self._last_line = perf_counter()
        self._title = title
        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=14),
            progress.TaskProgressColumn("{task.percentage:>3.0f} %", markup=False),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left:"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}", markup=False),
            console=terminal.errors,
            transient=True,
            disable=terminal.quiet or not terminal.errors.is_terminal,
            speed_estimate_period=_AN_HOUR,  # a single step may take minutes
        )
        self._task = self._bar.add_task(title, total=1.0, note="")

    def __enter__(self) -> Self:
        self._bar.start()
        if self._can_stop:
            self._previous = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        if self._can_stop:
            signal.signal(signal.SIGINT, self._previous)
        self._bar.stop()

    def report(self, step: Step) -> bool:
        """A callback for solvers: shows the step, and stops them after Ctrl-C."""
        error = "" if step.error != step.error else f": error {step.error:.3g}"  # NaN while none is known
        self.advance(step.done, f"{step.phase} {step.iteration}{error}")
        return self.stopping

    def advance(self, done: float, note: str = "") -> None:
        """Show that ``done`` of the work is finished, from 0 to 1."""
        note = _STOPPING if self.stopping else note
        room = max(self._terminal.errors.width - len(self._title) - _WIDTH_OF_BAR, 0)
        self._bar.update(self._task, completed=done, note=note[:room])
        now = perf_counter()
        if self._bar.disable and now - self._last_line > _SECONDS_BETWEEN_LINES:
            so_far = f"{self._title}: {100 * done:.0f} %, {now - self._begin:.0f} s so far"
            self._terminal.note(f"{so_far}, {note}" if note else so_far)
            self._last_line = now

    def _interrupted(self, number: int, frame: Any) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        self._bar.update(self._task, note=_STOPPING)
