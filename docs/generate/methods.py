"""The methods of `factorize`."""

from pathlib import Path

from papilio.search.methods import METHODS


def pages(root: Path) -> dict[str, str]:
    rows = [f"| `{method.name}` | {method.summary} |" for method in METHODS if method.summary]
    return {"_generated/methods.md": "\n".join(["| method | finds |", "|---|---|", *rows]) + "\n"}
