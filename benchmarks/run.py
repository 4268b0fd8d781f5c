"""Run the benchmarks and write RESULTS.md: ``python benchmarks/run.py [apply] [learn] [startup]``."""

import sys
import warnings
from importlib import import_module
from pathlib import Path

from common import machine

PARTS = ("apply", "learn", "startup")
FOLDER = Path(__file__).parent


def main() -> None:
    chosen = sys.argv[1:] or PARTS
    unknown = set(chosen) - set(PARTS)
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    sections = []
    for part in chosen:
        for table in import_module(part).run(FOLDER):
            sections.append(table.markdown())
            sys.stdout.write(sections[-1] + "\n")
            sys.stdout.flush()
    if list(chosen) == list(PARTS):
        head = f"# Results\n\nWritten by `make bench`. {machine()}\n\n![growth](growth.png)\n"
        (FOLDER / "RESULTS.md").write_text("\n".join([head, *sections]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
