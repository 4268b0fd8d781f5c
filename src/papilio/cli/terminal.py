"""Where a command prints, and what it says about an operator.

Results go to the standard output, progress and notes to the standard error.
"""

import json
import sys
from collections.abc import Sequence
from math import isfinite
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import papilio as pp

from ..operators.speed import is_below_one, with_warning
from ..results import Speedup
from ..runtime.notice import compilation
from .text import printable

_UNLIMITED = 10_000  # columns of a file or a pipe, in which no number is cut


class Terminal:
    """The two streams, as the options ``--quiet`` and ``--json`` have them."""

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        if quiet:
            compilation.silence()
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
    """A speed-up in a table: what is slower than the dense matrix says so, in red on a terminal."""
    return Text(with_warning(gain), style="red" if is_below_one(gain) else "")


def facts(op: pp.SparseProduct) -> dict[str, Any]:
    """What ``--json`` prints about an operator."""
    return {
        "shape": list(op.shape),
        "dtype": str(op.dtype),
        "scale": op.scale,
        "entries": op.nnz,
        "relative_complexity": op.relative_complexity,
        "factors": [{"shape": list(factor.shape), "entries": factor.size} for factor in op.factors],
    }


def speed_facts(speedup: Speedup | None) -> dict[str, float | None]:
    """What ``--json`` prints about the speed. JSON has no NaN: what was not measured is null."""
    vector, block = speedup or (None, None)
    known = speedup is not None and isfinite(speedup.vector)
    return {"speedup_vector": vector if known else None, "speedup_block": block if known else None}


def sentence(op: pp.SparseProduct) -> str:
    """Size, factors and entries of an operator."""
    rows, columns = op.shape
    count = len(op.factors)
    return (
        f"{rows}×{columns} {op.dtype}: {count} factor{'s' * (count > 1)} with {op.nnz:,} entries "
        f"instead of {rows * columns:,} (relative complexity {op.relative_complexity:.4g})"
    )
