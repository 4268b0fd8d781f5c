"""Progress on the standard error, and Ctrl-C, which SIGTERM stands for.

On a terminal, a bar with the time left; elsewhere, as in a log file, a line now and then.
"""

from contextlib import ExitStack
from signal import SIGINT, SIGTERM
from time import perf_counter
from typing import Self

from rich import progress

from papilio.results import Step

from ..runtime.interrupt import StopRequest, awaiting_stop
from .terminal import Terminal
from .text import printable

_SECONDS_BETWEEN_LINES = 30.0
_AN_HOUR = 3600.0
_WIDTH_OF_BAR = 52  # with the percentage, both times and blanks: a note beside it must not squeeze it
_STOPPING = "stopping; Ctrl-C again drops everything"


class ProgressBar:
    """Shows how much of the work is done, and turns Ctrl-C into a request to stop.

    ``can_stop`` says that the work can end early with what it has: the first Ctrl-C, or SIGTERM, lets it do so,
    and only the second one interrupts it.
    """

    def __init__(self, terminal: Terminal, title: str, *, can_stop: bool = False) -> None:
        self._terminal = terminal
        self._can_stop, self._request, self._around = can_stop, StopRequest(), ExitStack()
        self._begin = self._last_line = perf_counter()
        self._title = title = printable(title)
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

    @property
    def stopping(self) -> bool:
        """Whether the work was asked to end early."""
        return self._request.is_made

    def __enter__(self) -> Self:
        self._around.enter_context(self._bar)
        if self._can_stop:
            self._request = self._around.enter_context(awaiting_stop((SIGINT, SIGTERM), self._show_stopping))
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()

    def report(self, step: Step) -> bool:
        """A callback for solvers: shows the step, and stops them after Ctrl-C."""
        error = "" if step.error != step.error else f": error {step.error:.3g}"  # NaN while none is known
        number = f" {step.iteration}" if step.iteration else ""
        self.advance(step.done, f"{step.phase}{number}{error}")
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

    def _show_stopping(self) -> None:
        self._bar.update(self._task, note=_STOPPING)
