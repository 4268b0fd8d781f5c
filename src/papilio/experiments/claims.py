"""Claims with verdicts, which compare a run with the paper, and pages and tables in Markdown."""

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from .tables import META

HOLDS, BETTER, DIFFERS = "holds", "better", "differs"


class Claim(NamedTuple):
    """A sentence of the paper, whether it holds here, and the numbers that decide."""

    text: str
    verdict: str
    figures: str


def verdict(holds: bool, better: bool = False) -> str:
    """The verdict on a claim that holds or not, and may be surpassed if it does."""
    return DIFFERS if not holds else BETTER if better else HOLDS


def claims_table(claims: Sequence[Claim], heading: str = "The paper") -> str:
    """The claims as a table, one per row."""
    rows = [(str(i), claim.text, f"**{claim.verdict}**", claim.figures) for i, claim in enumerate(claims, start=1)]
    return markdown_table(("", heading, "Here", "Figures"), rows, "rlll")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A table; ``align`` has an l or r for each of the first columns, and the others are r."""
    sides = align.ljust(len(headings), "r")
    lines = [headings, ["---" if side == "l" else "---:" for side in sides], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled_page(experiment: str, **parts: str) -> str:
    """The page.md of an experiment, with these parts in the places that it names."""
    return files(__package__).joinpath(experiment, "page.md").read_text(encoding="utf-8").format(**parts)


def read_meta(folder: Path) -> dict[str, Any]:
    """The record of a run."""
    return json.loads((folder / META).read_text(encoding="utf-8"))


def made_by(meta: dict[str, Any]) -> str:
    """The packages that made a run, with their versions."""
    return ", ".join(f"{name} {number}" for name, number in meta["versions"].items())
