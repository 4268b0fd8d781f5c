"""The console: what a command prints, how it shows its progress, and how it may end.

Results go to the standard output, progress and notes to the standard error. On a terminal, progress is a bar with
the time left; elsewhere, as in a log file, a line now and then. SIGTERM does what Ctrl-C does.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from math import isfinite
from signal import SIGINT, SIGTERM
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

from rich import progress
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..operators import SparseProduct
    from ..results import Speedup, Step

_UNLIMITED = 10_000  # columns of a file or a pipe, in which no number is cut
_SECONDS_BETWEEN_LINES = 30.0
_AN_HOUR = 3600.0
_WIDTH_OF_BAR = 52  # Includes the percentage, both times and blanks, so that a note does not squeeze the bar.
_STOPPING = "stopping; Ctrl-C again drops everything"


def printable(text: object) -> str:
    """``text`` with escapes such as ``\\x1b`` or ``\\n`` for all characters that do not print."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


# How a computation ended, by its status.
ENDINGS = {
    "converged": "converged",
    "max_iter": "all iterations done",
    "stopped": "stopped early",
    "no_structure": "no structure found",
}


def ended(status: str, seconds: float) -> str:
    """Say how a computation ended, and after how many seconds."""
    return f"{ENDINGS[status]} after {seconds:.1f} s"


def counted(count: int, thing: str) -> str:
    """``3 factors``, ``1 factor``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


# -- how a command may end --------------------------------------------------------------------------------


class _Ending(Exception):
    """An exception whose message is printed as one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class BadInput(_Ending):
    """A usage error: an argument or a file that cannot be used. Exit code 2."""


class Failed(_Ending):
    """The work could not be done. Exit code 1."""


class Stopped(_Ending):
    """Ctrl-C or SIGTERM; the message says what is kept. Exit code 130 or 143."""


# -- output -----------------------------------------------------------------------------------------------


class Terminal:
    """Standard output and standard error, under the options ``--quiet`` and ``--json``."""

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        if quiet:
            os.environ.setdefault("PAPILIO_QUIET", "1")  # Kernels that are compiled later say nothing either.
        self.as_json = as_json
        self.errors = Console(stderr=True, highlight=False, emoji=False)
        self._output = Console(highlight=False, emoji=False)
        if not self._output.is_terminal:
            self._output.width = _UNLIMITED

    def say(self, message: str | Table) -> None:
        """Print something for people: not with ``--quiet`` or ``--json``."""
        if not (self.quiet or self.as_json):
            shown = printable(message) if isinstance(message, str) else message
            self._output.print(shown, markup=False, soft_wrap=isinstance(message, str))

    def note(self, message: str) -> None:
        """Print a remark about the result."""
        if not self.quiet:
            self.errors.print(f"papilio: {printable(message)}", markup=False, soft_wrap=True)

    def result(self, facts: dict[str, Any]) -> None:
        """Print something for programs: with ``--json`` only."""
        if self.as_json:
            text = json.dumps(facts, allow_nan=False, ensure_ascii=False)
            # JSON's own escapes: it leaves most control characters as they are.
            sys.stdout.write("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n")


def table(title: str | None, *headings: str, n_texts: int = 1, wraps: Sequence[str] = ()) -> Table:
    """A table whose first columns are texts and whose others are numbers.

    On a narrow terminal, the columns in ``wraps`` take several lines, before others are cut.
    """
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, heading in enumerate(headings):
        made.add_column(heading, justify="left" if i < n_texts else "right", no_wrap=heading not in wraps)
    return made


def gain_cell(gain: float) -> Text:
    """A speed-up as a table cell; values below 1 are marked "slower", in red on a terminal."""
    from ..operators.speed import is_below_one, with_warning

    return Text(with_warning(gain), style="red" if is_below_one(gain) else "")


def facts(op: "SparseProduct") -> dict[str, Any]:
    """What ``--json`` prints about an operator."""
    return {
        "shape": list(op.shape),
        "dtype": str(op.dtype),
        "scale": op.scale,
        "entries": op.nnz,
        "relative_complexity": op.relative_complexity,
        "factors": [{"shape": list(factor.shape), "entries": factor.size} for factor in op.factors],
    }


def speed_facts(speedup: "Speedup | None") -> dict[str, float | None]:
    """What ``--json`` prints about the speed. JSON has no NaN: what was not measured is null."""
    vector, block = speedup or (None, None)
    known = speedup is not None and isfinite(speedup.vector)
    return {"speedup_vector": vector if known else None, "speedup_block": block if known else None}


def sentence(op: "SparseProduct") -> str:
    """Size, factors and entries of an operator."""
    rows, columns = op.shape
    return (
        f"{rows}×{columns} {op.dtype}: {counted(len(op.factors), 'factor')} with {op.nnz:,} entries "
        f"instead of {rows * columns:,} (relative complexity {op.relative_complexity:.4g})"
    )


# -- progress ------------------------------------------------------------------------------------------


class ProgressBar:
    """Shows how much of the work is done, and turns Ctrl-C into a request to stop.

    ``can_stop`` says that the work can end early with what it has: the first Ctrl-C, or SIGTERM, lets it do so,
    and only the second one interrupts it.
    """

    def __init__(self, terminal: Terminal, title: str, *, can_stop: bool = False) -> None:
        self._terminal = terminal
        from ..runtime.session import StopRequest  # here, because `papilio --version` must not load SciPy

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
            from ..runtime.session import awaiting_stop

            self._request = self._around.enter_context(awaiting_stop((SIGINT, SIGTERM), self._show_stopping))
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()

    def report(self, step: "Step") -> bool:
        """A callback for solvers: shows the step, and stops them after Ctrl-C."""
        error = "" if step.error != step.error else f": error {step.error:.3g}"  # NaN while none is known
        number = f" {step.iteration}" if step.iteration else ""
        self.advance(step.done, f"{step.phase}{number}{error}")
        return self.stopping

    def advance(self, done: float, note: str = "") -> None:
        """Show the share of the work that is done, from 0 to 1."""
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
