"""What a command says, where: results on the standard output, progress and notes on the standard error."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Seed = Annotated[int | None, typer.Option("--random-state", min=0, help="Makes random choices repeat.")]


class Terminal:
    """The two streams, as the options ``--quiet`` and ``--json`` want them."""

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self.errors = Console(stderr=True, highlight=False)
        self._output = Console(highlight=False)

    def say(self, message: str | Table) -> None:
        """For a person: not with ``--quiet`` or ``--json``."""
        if not (self.quiet or self.as_json):
            self._output.print(message, markup=False, soft_wrap=isinstance(message, str))

    def note(self, message: str) -> None:
        """For a person, beside the result."""
        if not self.quiet:
            self.errors.print(f"papilio: {message}", markup=False, soft_wrap=True)

    def result(self, facts: dict[str, Any]) -> None:
        """For a machine: with ``--json`` only."""
        if self.as_json:
            sys.stdout.write(json.dumps(facts, allow_nan=False, ensure_ascii=False) + "\n")


def table(title: str | None, *headings: str) -> Table:
    """A table whose first column is text and the others numbers."""
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, heading in enumerate(headings):
        made.add_column(heading, justify="right" if i else "left", no_wrap=True)
    return made


def examples(*lines: str) -> str:
    """The end of a command's help: lines that work as pasted, which are therefore never wrapped."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
