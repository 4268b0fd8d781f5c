"""Matrices, samples and images that the command line has built in."""

from pathlib import Path

from papilio.cli.built_in import BUILT_IN


def pages(root: Path) -> dict[str, str]:
    rows = [f"| `{each.example}` | {each.about} | {each.number} |" for each in BUILT_IN.values()]
    table = ["| write | for | the number is |", "|---|---|---|", *rows]
    return {"_generated/built_in.md": "\n".join(table) + "\n"}
