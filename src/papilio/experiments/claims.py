"""Claims with verdicts, which compare a run with the paper, and tables in Markdown."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

HOLDS, BETTER, DIFFERS = "holds", "better", "differs"


class Claim(NamedTuple):
    """A sentence of the paper, whether it holds here, and the numbers that decide."""

    text: str
    verdict: str
    figures: str


def claims_table(claims: Sequence[Claim], heading: str = "The paper") -> str:
    """The claims as a table, one per row."""
    rows = [(str(i), claim.text, f"**{claim.verdict}**", claim.figures) for i, claim in enumerate(claims, start=1)]
    return markdown_table(("", heading, "Here", "Figures"), rows, "rlll")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A table; ``align`` has an l or r for each of the first columns, and the others are r."""
    sides = align.ljust(len(headings), "r")
    lines = [headings, ["---" if side == "l" else "---:" for side in sides], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
