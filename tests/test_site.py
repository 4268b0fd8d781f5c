"""The site: every public name has its place in the reference, and its generators and checker do what they say."""

import importlib.util
import json
import re
from datetime import date
from pathlib import Path

import papilio as pp

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PUBLIC_MODULES = (*pp._MODULES, "torch")
ALSO_AT_THE_TOP = ("coding", "dictionary", "operators", "results")


def module(path):
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def listed(text):
    """The full names that the tables of a reference page list."""
    found, current = set(), ""
    for line in text.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            current = match.group(1)
        elif match := re.match(r"   (\w+)$", line):
            found.add(f"{current}.{match.group(1)}")
    return found


def exported(room):
    """The ``__all__`` of a public module, which is not loaded: papilio.torch needs PyTorch, others take time."""
    place = Path(pp.__file__).parent / room
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return re.findall(
        r'"(\w+)"', re.search(r"^__all__ = \[(.*?)\]", source.read_text(), re.DOTALL | re.MULTILINE)[1]
    )


def public_names():
    found = {f"papilio.{name}" for name in pp.__all__ if name not in (*PUBLIC_MODULES, "__version__")}
    for room in PUBLIC_MODULES:
        found |= {f"papilio.{room}.{name}" for name in exported(room)}
    # Names that are at the top, too, are documented there.
    return found - {f"papilio.{room}.{name}" for room in ALSO_AT_THE_TOP for name in pp.__all__}


def test_every_public_name_is_on_one_page_of_the_reference():
    pages = [listed(path.read_text()) for path in sorted((DOCS / "reference").glob("*.md"))]
    assert set().union(*pages) == public_names()
    assert sum(map(len, pages)) == len(public_names())


def test_every_page_of_the_reference_is_in_its_table_of_contents():
    index = (DOCS / "reference" / "index.md").read_text()
    contents = index.partition("```{toctree}")[2].split()[1:-1]
    assert set(contents) == {path.stem for path in (DOCS / "reference").glob("*.md")} - {"index"}


def test_every_result_and_every_benchmark_says_when_it_was_measured_and_where():
    for record in (ROOT / "results").rglob("meta.json"):
        date.fromisoformat(json.loads(record.read_text())["date"])
    _, *parts = re.split(r"<!-- \w+ -->\n\n", (ROOT / "benchmarks" / "RESULTS.md").read_text())
    parts.append((ROOT / "benchmarks" / "break_even.md").read_text())
    measured = re.compile(r"^\*Measured .*\d{4}-\d\d-\d\d.*: .*, \d+ cores, Python .*\*$", re.MULTILINE)
    assert len(parts) > 10
    assert [part[:200] for part in parts if not measured.search(part)] == []


def test_tables_have_badges_for_targets_and_claims():
    tables = module(DOCS / "generate" / "tables.py")
    assert tables.cells("| a | **no** |") == ["a", "**no**"]
    assert tables.cells("yes or no") == []
    text = tables.with_badges("| a | yes |\n| b | **no** |\nyes\n")
    assert text == "| a | {bdg-success}`yes` |\n| b | {bdg-danger}`no` |\nyes\n"
