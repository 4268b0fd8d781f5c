"""A line of progress on the standard error."""

import sys
from contextlib import suppress
from shutil import get_terminal_size
from time import monotonic
from typing import TextIO

_SECONDS_BETWEEN_UPDATES = 0.2
_SECONDS_BETWEEN_LINES = 30.0


class ProgressLine:
    """How much is done, what is being done, and for how long: ``factorize  43 %  butterfly, level 3 of 9: 12 s``.

    On a terminal and in a notebook, one line that is overwritten, and erased at the end; elsewhere,
    as in a log file, a line now and then.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._stream = sys.stderr
        self._in_place = is_rewritable(self._stream)
        self._pause = _SECONDS_BETWEEN_UPDATES if self._in_place else _SECONDS_BETWEEN_LINES
        # The first line of a log comes late: short work leaves none.
        self._last = monotonic() - (self._pause if self._in_place else 0.0)
        self._length = 0

    def show(self, done: float, note: str, seconds: float) -> None:
        """Show that ``done`` of the work is finished, from 0 to 1, unless the line was just written."""
        now = monotonic()
        if now - self._last < self._pause:
            return
        self._last = now
        line = f"{self._title} {100 * done:3.0f} %  {note}: {seconds:.0f} s"
        if self._in_place:
            line = line[: get_terminal_size().columns - 1]
            write_line(self._stream, "\r" + line.ljust(self._length))
            self._length = len(line)
        else:
            write_line(self._stream, line + "\n")

    def end(self) -> None:
        """Wipe the line out."""
        if self._length:
            write_line(self._stream, "\r" + " " * self._length + "\r")
            self._length = 0


def is_rewritable(stream: TextIO | None) -> bool:
    """Whether a carriage return lets a line be written again: on terminals and in notebooks."""
    if stream is None or type(stream).__module__.startswith("ipykernel"):
        return stream is not None
    with suppress(ValueError):  # closed
        return stream.isatty()
    return False


def write_line(stream: TextIO | None, text: str) -> None:
    """Write to a stream, unless it is closed or has no reader; a failed write does not end the work."""
    with suppress(OSError, ValueError):
        if stream is not None:
            stream.write(text)
            stream.flush()
