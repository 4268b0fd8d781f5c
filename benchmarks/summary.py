"""One page from RESULTS.md: how fast, how good, against whom, and every loss: ``python benchmarks/summary.py``.

``run.py`` writes it after each part, with the table of the paper. Nothing is measured here.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

FOLDER = Path(__file__).parent
PAPER = FOLDER.parent / "paper" / "paper.md"
# The rows that the paper shows: each kind of work once or twice, those that lose among them.
IN_PAPER = (
    ("Applying to a block", "dense NumPy"),
    ("Applying to a block", "pyfaust"),
    ("Applying to a block", "lazylinop"),
    ("Products of every size", "SciPy CSR chain"),
    ("Hierarchical factorization of the Hadamard matrix", "pyfaust hierarchical, backend 2020"),
    ("Butterflies on known supports: times", "lazylinop ksd, ortho"),
    ("Orthogonal matching pursuit", "SPAMS, 2 threads"),
    ("Orthogonal matching pursuit", "scikit-learn"),
    ("Lasso codes, 64×256", "SPAMS, 2 threads"),
    ("Products with a graph Fourier transform", "dense"),
    ("The inverse of a Laplacian: the product beside the sparse solve", "SuperLU's solve"),
    ("PyTorch layers: seconds", "nn.Linear"),
)
MISSED = "**no**"
HEAD = """# Summary of the benchmarks

Made from [RESULTS.md](RESULTS.md), which has every case, with the machine, the day and the source of each part.
Each row below counts all cases of a table, whoever is faster there. Tables that compare in other ways (graph
Fourier transforms, kernels, orthogonal and non-negative targets, covariances, learning) are in RESULTS.md only.
`make bench` measures; `python benchmarks/summary.py` writes this page.
"""
FAST = """## How fast, against whom

The peer's time divided by papilio's for the same work: above 1, papilio is faster. "papilio, dense matrix" and
"dense NumPy" are the same matrix as a plain array.

| work | peer | cases | lowest | median | highest | papilio is slower in |
|---|---|---:|---:|---:|---:|---:|
"""
GOOD = """## How good, against whom

Errors within the same limit of entries, or where the target asks for it entries for the same error, or their sum.

| matrices | peer | cases | papilio's is lower | within 5 % | higher | papilio takes longer in |
|---|---|---:|---:|---:|---:|---:|
"""
LOSSES = """## Losses

Every case of these tables in which a peer is faster or has a lower error, and every aim that was missed. A single
figure is the peer's time over papilio's.

| part | case | figure | aim |
|---|---|---|---|
"""
SIMPLE = ["thresholding", "truncated SVD"]
EQUAL = 1.05  # Errors whose ratio is smaller are called equal.
_UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}


class Row(NamedTuple):
    """A row of a table in RESULTS.md, by its headings."""

    table: str
    headings: list[str]
    cells: list[str]

    def __getitem__(self, heading):
        return self.cells[self.headings.index(heading)]

    @property
    def case(self) -> str:
        """The cells before the first figure."""
        figures = (i for i, cell in enumerate(self.cells) if i and re.match(r"\*\*[\d.]", cell))
        return ", ".join(cell for cell in self.cells[: next(figures, 1)] if cell)


def rows(text: str) -> Iterator[Row]:
    title, headings = "", []
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif re.fullmatch(r"\|[-:| ]+\|", below):
            headings = _cells(line)
        elif line.startswith("|") and not re.fullmatch(r"\|[-:| ]+\|", line):
            yield Row(title, headings, _cells(line))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def ratio(row: Row) -> float | None:
    """The peer's time over papilio's, where the row compares times."""
    for heading in ("peer ÷ papilio", "SciPy chain ÷ papilio", "times faster"):
        if heading in row.headings:
            return float(row[heading].strip("*"))
    return None


def aim(row: Row) -> float:
    """The ratio that a row aims at; 0 without one."""
    text = row["aim"].removeprefix("≥ ") if "aim" in row.headings else ""
    return float(text) if text else 0.0


def peer(row: Row) -> str:
    heading = next((each for each in ("peer", "against") if each in row.headings), None)
    return row[heading] if heading else "SciPy CSR chain"


def faster(found: list[Row]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in found:
        if (times := ratio(row)) is not None:
            groups.setdefault((row.table, peer(row)), []).append(times)
    for (table, name), times in groups.items():
        slower = sum(each < 1 for each in times)
        figures = [
            f"{each:.2g}" if each < 99.5 else f"{each:.0f}" for each in (min(times), median(times), max(times))
        ]
        yield f"| {table} | {name} | {len(times)} | {' | '.join(figures)} | {slower or ''} |"


class Compared(NamedTuple):
    """papilio's figure and a peer's for the same case; lower is better."""

    table: str
    case: str
    peer: str
    ours: float
    theirs: float
    is_longer: bool | None  # whether papilio takes longer, where that is said


def compared(found: list[Row]) -> Iterator[Compared]:
    """Errors, and other figures that are better if lower, where tables have them by method or side by side."""
    ours: Row | None = None
    for row in found:
        if row.headings[:3] == ["matrix", "by", "relative error"]:
            if row["by"] == "papilio":
                ours = row
            elif ours is not None and (theirs := _error(row["relative error"])) is not None:
                known = len(row.cells) == len(row.headings) and row["time"]
                is_longer = seconds(ours["time"]) > seconds(row["time"]) if known else None
                error = _error(ours["relative error"]) or 0.0
                yield Compared(row.table, row["matrix"], row["by"], error, theirs, is_longer)
        elif row.headings[-3:] == ["papilio", *SIMPLE]:
            error, *others = map(_error, row.cells[-3:])
            for name, theirs in zip(SIMPLE, others, strict=True):
                if error is not None and theirs is not None:
                    yield Compared(row.table, f"{row['matrix']}, {row['target']}", name, error, theirs, None)


def _error(text: str) -> float | None:
    """A relative error; those of rounding are equal, and None where the peer fails."""
    try:
        return max(float(text), 1e-9)
    except ValueError:
        return None


def better(found: list[Row]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Compared]] = {}
    for each in compared(found):
        groups.setdefault((each.table, each.peer), []).append(each)
    for (table, name), cases in groups.items():
        lower = sum(each.ours < each.theirs / EQUAL for each in cases)
        higher = sum(each.ours > each.theirs * EQUAL for each in cases)
        longer = [each.is_longer for each in cases if each.is_longer is not None]
        counts = (len(cases), lower, len(cases) - lower - higher, higher or "")
        slower = f"{sum(longer)} of {len(longer)}" if longer else ""
        yield f"| {' | '.join(map(str, (table, name, *counts, slower)))} |"


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * _UNITS[unit]


def losses(found: list[Row]) -> Iterator[str]:
    for row in found:
        begin = f"| {row.table} | {row.case} |"
        missed = [i for i, cell in enumerate(row.cells) if cell == MISSED]
        for i in missed:
            at = max(j for j in range(i) if row.headings[j] not in ("aim", "met"))
            aims = [row.cells[j] for j in range(i) if row.headings[j] == "aim"]
            yield f"{begin} {row.headings[at]} {row.cells[at]} | {aims[-1] if aims else 'see its table'} |"
        times = ratio(row)
        if times is not None and not missed and times < max(1.0, aim(row)):
            yield f"{begin} {times:.2g} | {row['aim'] if times < aim(row) else ''} |"
    for each in compared(found):
        if each.ours > each.theirs * EQUAL:
            yield f"| {each.table} | {each.case} | {each.ours:.2g}, {each.peer} {each.theirs:.2g} | |"


def summary(text: str) -> str:
    found = list(rows(text))
    parts = (HEAD, "\n", FAST, *faster(found), "\n", GOOD, *better(found), "\n", LOSSES, *losses(found))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).replace("|\n\n|", "|\n|") + "\n"


def for_paper(text: str, paper: str) -> str:
    """The paper with its table, which is a part of the summary, between its marks."""
    lines = summary(text).splitlines()
    chosen = [line for line in lines for case in IN_PAPER if line.startswith(f"| {' | '.join(case)} |")]
    head = [line for line in lines if line.startswith("| work |")]
    table = "\n".join([*head, "|---|---|---:|---:|---:|---:|---:|", *chosen])
    begin, _, rest = paper.partition("<!-- benchmarks -->")
    return f"{begin}<!-- benchmarks -->\n\n{table}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"


def write() -> None:
    text = (FOLDER / "RESULTS.md").read_text(encoding="utf-8")
    (FOLDER / "SUMMARY.md").write_text(summary(text), encoding="utf-8")
    PAPER.write_text(for_paper(text, PAPER.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
