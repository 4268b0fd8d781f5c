"""``benchmarks/RESULTS.md`` as pages, one per script, after ``SUMMARY.md``, with all losses in one table."""

import re
from pathlib import Path
from typing import NamedTuple

from .links import into_the_site
from .tables import BADGES, cells, with_badges

_MARK = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
_MISSED = "**no**"
# What a script measures, in a few words; the titles of its tables say more.
_TITLES = {
    "apply": "Applying products",
    "blocks": "Products in blocks",
    "learn": "PALM and the hierarchical strategy",
    "structure": "Structure that is not given",
    "coding": "Orthogonal matching pursuit",
    "pursuit": "Pursuit in large products",
    "dictionaries": "Learning dictionaries",
    "l1_learning": "Learning with an ℓ1 penalty",
    "tradeoff": "Trade-offs",
    "startup": "Start",
    "operators": "Operators that are not stored",
    "products": "Products from their entries",
    "kernels": "Kernels and covariances",
    "graphs": "Graph Fourier transforms",
    "covariance": "Covariances from few samples",
    "orthogonal": "Orthogonal dictionaries",
    "algebra": "Operators made of operators",
    "lasso": "Lasso codes",
    "torch_layers": "PyTorch layers",
    "convolutions": "Compositions of convolutions",
    "nonnegative": "Non-negative factors",
    "encoders": "Learned encoders",
    "exported": "C files",
}


class Part(NamedTuple):
    """What one script measured."""

    name: str
    text: str

    @property
    def titles(self) -> list[str]:
        return re.findall(r"^## (.*)$", self.text, re.MULTILINE)

    @property
    def title(self) -> str:
        return self.titles[0] if len(self.titles) == 1 else _TITLES.get(self.name, self.titles[0])

    def count(self, verdict: str) -> int:
        return sum(row.count(verdict) for row in map(cells, self.text.splitlines()))


def pages(root: Path) -> dict[str, str]:
    source = root / "benchmarks" / "RESULTS.md"
    text = into_the_site(
        source.read_text(encoding="utf-8"), root, source.parent, root / "docs/benchmarks/index.md"
    )
    head, *rest = _MARK.split(text)
    parts = [Part(name, body.strip()) for name, body in zip(rest[::2], rest[1::2], strict=True)]
    figure = head.strip().split("\n\n")[-1]
    found = {f"benchmarks/{part.name}.md": _page(part) for part in parts}
    summary = source.with_name("SUMMARY.md").read_text(encoding="utf-8").partition("## ")
    shown = into_the_site(summary[1] + summary[2], root, source.parent, root / "docs/benchmarks/index.md")
    return found | {"benchmarks/index.md": _index(parts, figure, shown.strip())}


def _page(part: Part) -> str:
    """The tables of a part; its first line says where and when they were measured."""
    where, _, text = part.text.partition("\n\n")
    if len(part.titles) == 1:
        text = text.partition("\n")[2]
    return (
        f"# {part.title}\n\n{where}\n\n```sh\n.venv/bin/python benchmarks/run.py {part.name}"
        f"  # repeats it, after make bench has installed the peers\n```\n\n{with_badges(text.strip())}"
    )


def _index(parts: list[Part], figure: str, summary: str) -> str:
    """SUMMARY.md, with the pages of the parts."""
    rows = [
        f"| [{part.title}]({part.name}.md) | {part.count('yes') or ''} | {part.count(_MISSED) or ''} |"
        for part in parts
    ]
    toctree = "\n".join(part.name for part in parts)
    return f"""# Benchmarks

papilio beside NumPy, SciPy, pyfaust, SPAMS, scikit-learn and others, each part on one machine. All libraries do
the same work in the same process, in turns, and the best time of each counts. `make bench` repeats everything.

{figure}

{summary}

## All measurements

Where an aim was set, the tables say whether it was met: {{bdg-{BADGES["yes"]}}}`yes` or
{{bdg-{BADGES[_MISSED]}}}`no`.

| measured | aims met | missed |
|---|---:|---:|
{chr(10).join(rows)}

```{{toctree}}
:hidden:

{toctree}
```
"""
