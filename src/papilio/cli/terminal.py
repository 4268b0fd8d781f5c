"""Where a command prints: results on the standard output, progress and notes on the standard error."""

import json
import sys
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


class Terminal:
    """The two streams, as the options ``--quiet`` and ``--json`` have them."""

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self.errors = Console(stderr=True, highlight=False)
        self._output = Console(highlight=False)

    def say(self, message: str | Table) -> None:
        """Print something for people: not with ``--quiet`` or ``--json``."""
        if not (self.quiet or self.as_json):
            self._output.print(message, markup=False, soft_wrap=isinstance(message, str))

    def note(self, message: str) -> None:
        """Print a remark about the result."""
        if not self.quiet:
            self.errors.print(f"papilio: {message}", markup=False, soft_wrap=True)

    def result(self, facts: dict[str, Any]) -> None:
        """Print something for programs: with ``--json`` only."""
        if self.as_json:
            sys.stdout.write(json.dumps(facts, allow_nan=False, ensure_ascii=False) + "\n")


def table(title: str | None, *headings: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, heading in enumerate(headings):
        made.add_column(heading, justify="right" if i else "left", no_wrap=True)
    return made
