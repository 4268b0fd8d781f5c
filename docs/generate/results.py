"""``results/`` as pages, one per run, and all verdicts in one table."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from .links import into_the_site
from .tables import BADGES, cells, with_badges

_FIRST_FIGURES = ("figure.png", "figure1.png", "figure2.png")
_TITLES = {"dft": "The Fourier transform", "wavelet": "Wavelets"}  # Titles of runs that make no claims.


class Run(NamedTuple):
    """One run of an experiment, as ``make reproduce`` wrote it."""

    folder: Path
    command: str

    @property
    def title(self) -> str:
        title = self.claims.partition("\n")[0].removeprefix("# ") or _TITLES.get(
            self.folder.name, self.folder.name
        )
        return f"{title} ({self.folder.name})" if self.folder.parent.name == self.meta["experiment"] else title

    @property
    def meta(self) -> dict[str, object]:
        return json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))

    @property
    def claims(self) -> str:
        path = self.folder / "claims.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(cell for line in self.claims.splitlines() for cell in cells(line) if cell in BADGES)


def pages(root: Path) -> dict[str, str]:
    folder = root / "results"
    if not folder.exists():  # in an archive of the sources
        missing = "The results of full runs are in the repository, under `results`.\n"
        return {"results/index.md": f"# Results\n\n{missing}", "_generated/verdicts.md": missing}
    introduction, commands = _readme(folder)
    introduction = into_the_site(introduction, root, folder, root / "docs" / "results" / "index.md")
    runs = [
        Run(meta.parent, commands.get(meta.parent.relative_to(folder).as_posix(), ""))
        for meta in sorted(folder.rglob("meta.json"))
    ]
    found = {f"results/{_name(folder, run)}.md": _page(root, run) for run in runs}
    found["results/index.md"] = _index(folder, runs, introduction)
    found["_generated/verdicts.md"] = with_badges(_sentences(folder))
    return found


def _sentences(folder: Path) -> str:
    """The paper's sentences that runs decide, with the verdicts of the letter and of papilio's defaults."""
    found: dict[str, dict[str, str]] = {}
    for run in ("hadamard", "figure3/paper", "figure3/papilio"):
        for row in map(cells, (folder / run / "claims.md").read_text(encoding="utf-8").splitlines()):
            if len(row) > 3 and row[2] in BADGES:
                found.setdefault(row[1], {})[run] = row[2]
    rows = [
        f"| {text} | {verdicts.get('figure3/paper', '')} | "
        f"{verdicts.get('figure3/papilio') or verdicts.get('hadamard', '')} |"
        for text, verdicts in found.items()
    ]
    return "\n".join(["| sentence | to the letter | papilio |", "|---|---|---|", *rows]) + "\n"


def _readme(folder: Path) -> tuple[str, dict[str, str]]:
    """What stands above the table of results/README.md, and the command of each folder that the table has."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    above, _, table = text.partition("\n|")
    commands = {}
    for row in map(cells, table.splitlines()):
        links = re.findall(r"\]\(([\w/]+)/[\w.]+\)", row[0]) if row else []
        command = re.search(r"`([^`]+)`", row[1]) if len(row) > 1 else None
        if links and command:
            commands |= dict.fromkeys(links, command.group(1))
    return above.partition("\n")[2].strip(), commands


def _name(folder: Path, run: Run) -> str:
    return "-".join(run.folder.relative_to(folder).parts)


def _page(root: Path, run: Run) -> str:
    folder = run.folder
    page = root / "docs" / "results" / f"{_name(root / 'results', run)}.md"
    figures = sorted(folder.glob("*.png"), key=lambda path: (path.name not in _FIRST_FIGURES, path.name))
    tables = sorted(folder.glob("*.csv"))
    versions = ", ".join(f"{name} {number}" for name, number in run.meta["versions"].items())
    body = "\n\n".join(
        [
            f"# {run.title}",
            f"*Run on {run.meta['date']}: {run.meta.get('machine', 'two cores')}; {versions}.*",
            *([f"```sh\n{run.command}\n```"] if run.command else []),
            *(f"![{run.title}: {figure.stem}]({figure.name})" for figure in figures),
            with_badges(run.claims.partition("\n")[2].strip()) if run.claims else "",
            "Data: " + ", ".join(f"{{download}}`{table.name} <{{place}}/{table.name}>`" for table in tables) + ".",
        ]
    )
    place = Path("../..") / folder.relative_to(root)
    return into_the_site(body.replace("{place}", place.as_posix()), root, folder, page)


def _badge(verdict: str, count: int) -> str:
    """How many claims have a verdict: 1 holds, 2 hold."""
    word = verdict.strip("*")
    return f"{{bdg-{BADGES[verdict]}}}`{count} {word if count == 1 else word.removesuffix('s')}`"


def _index(folder: Path, runs: list[Run], introduction: str) -> str:
    rows = []
    for run in runs:
        counts = " ".join(_badge(verdict, run.verdicts[verdict]) for verdict in BADGES if verdict in run.verdicts)
        rows.append(f"| [{run.title}]({_name(folder, run)}.md) | {counts} | `{run.command}` |")
    differs = [
        f"- [{run.title}]({_name(folder, run)}.md): {row[1]} Here: {row[3]}."
        for run in runs
        for row in map(cells, run.claims.splitlines())
        if len(row) > 3 and row[2] == "**differs**"
    ]
    toctree = "\n".join(_name(folder, run) for run in runs)
    return f"""# Experiments and their results

The paper's experiments and our own, claim by claim. {introduction}

| experiment | claims | command |
|---|---|---|
{chr(10).join(rows)}

## Claims that do not hold here

{chr(10).join(differs)}

```{{toctree}}
:hidden:

{toctree}
```
"""
