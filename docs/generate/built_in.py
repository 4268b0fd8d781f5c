"""Matrices and data that the command line has built in."""

from pathlib import Path

import papilio as pp
from papilio.cli import inputs


def pages(root: Path) -> dict[str, str]:
    rows = [f"| `{kind}:8` | {_first_line(kind)} |" for kind in inputs._BUILT_IN]
    table = "\n".join(["| write | for |", "|---|---|", *rows])
    return {"_generated/built_in.md": table + "\n"}


def _first_line(kind: str) -> str:
    maker = pp.datasets.image_patches if kind == "patches" else getattr(pp.transforms, kind)
    return (maker.__doc__ or "").strip().partition("\n")[0].replace("|", "\\|")
