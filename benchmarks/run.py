"""Run the benchmarks, write RESULTS.md and SUMMARY.md: ``python benchmarks/run.py [--short] [apply] [learn] …``.

Parts that are not run keep the results of their last run. With ``--short``, the longest parts measure fewer cases,
and say so.
"""

import re
import sys
import warnings
from datetime import date
from importlib import import_module
from pathlib import Path

import summary
from common import machine

PARTS = (
    *("apply", "sizes", "blocks", "learn", "butterflies", "structure", "matrices", "unseen", "coding"),
    *("pursuit", "lasso", "encoders", "dictionaries", "l1_learning", "scale", "tradeoff", "images", "startup"),
    *("operators", "products", "kernels", "graphs", "covariance", "orthogonal", "algebra", "torch_layers"),
    *("convolutions", "nonnegative", "inputs", "break_even", "exported"),
)
# What the parts that take longest measure with `--short`: arguments of their `run`.
SHORT = {
    "sizes": {"sizes": [256, 4096, 131_072], "dtypes": ["float64", "float32"]},
    "pursuit": {"sizes": [1024, 4096], "signals": [1, 64]},
    "kernels": {"names": ["log"]},
    "convolutions": {"parts": ("atoms", "apply")},
}
FOLDER = Path(__file__).parent


def main() -> None:
    is_short = "--short" in sys.argv
    chosen = [word for word in sys.argv[1:] if word != "--short"] or PARTS
    unknown = set(chosen) - set(PARTS)
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    results = FOLDER / "RESULTS.md"
    sections = _sections(results.read_text(encoding="utf-8")) if results.exists() else {}
    for part in chosen:
        options = SHORT.get(part, {}) if is_short else {}
        tables = "\n".join(table.markdown() for table in import_module(part).run(FOLDER, **options))
        less = "".join(f" Fewer cases, {name}: {', '.join(map(str, cases))}." for name, cases in options.items())
        sections[part] = f"*Measured on {date.today()}: {machine()}{less}*\n\n{tables}"
        sys.stdout.write(sections[part] + "\n")
        sys.stdout.flush()
        head = (
            "# Results\n\nWritten by `make bench`; parts may be of different machines. "
            "[SUMMARY.md](SUMMARY.md) has the answers on one page.\n\n![growth](growth.png)\n"
        )
        kept = [f"<!-- {name} -->\n\n{sections[name]}" for name in PARTS if name in sections]
        results.write_text("\n".join([head, *kept]), encoding="utf-8")
        summary.write()


def _sections(text: str) -> dict[str, str]:
    """The parts of RESULTS.md as they are."""
    pieces = re.split(r"<!-- (\w+) -->\n\n", text)
    return {name: body.rstrip("\n") + "\n" for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
