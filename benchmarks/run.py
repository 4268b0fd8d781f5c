"""Run the benchmarks and write RESULTS.md: ``python benchmarks/run.py [apply] [learn] [coding] …``.

Parts that are not run keep the results of their last run.
"""

import re
import sys
import warnings
from datetime import date
from importlib import import_module
from pathlib import Path

from common import machine

PARTS = (
    *("apply", "sizes", "blocks", "learn", "butterflies", "structure", "matrices", "unseen", "coding"),
    *("pursuit", "lasso", "encoders", "dictionaries", "l1_learning", "scale", "tradeoff", "images", "startup"),
    *("operators", "products", "kernels", "graphs", "covariance", "orthogonal", "algebra", "torch_layers"),
    *("convolutions", "nonnegative", "inputs", "break_even", "exported"),
)
FOLDER = Path(__file__).parent


def main() -> None:
    chosen = sys.argv[1:] or PARTS
    unknown = set(chosen) - set(PARTS)
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    results = FOLDER / "RESULTS.md"
    sections = _sections(results.read_text()) if results.exists() else {}
    for part in chosen:
        tables = "\n".join(table.markdown() for table in import_module(part).run(FOLDER))
        sections[part] = f"*Measured on {date.today()}: {machine()}*\n\n{tables}"
        sys.stdout.write(sections[part] + "\n")
        sys.stdout.flush()
        head = (
            "# Results\n\nWritten by `make bench`; parts may be of different machines.\n\n![growth](growth.png)\n"
        )
        kept = [f"<!-- {name} -->\n\n{sections[name]}" for name in PARTS if name in sections]
        results.write_text("\n".join([head, *kept]))


def _sections(text: str) -> dict[str, str]:
    """The parts of RESULTS.md as they are."""
    pieces = re.split(r"<!-- (\w+) -->\n\n", text)
    return {name: body.rstrip("\n") + "\n" for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
