"""The site: every public name has its place in the reference, and its generators and checker do what they say."""

import importlib.util
import json
import re
from datetime import date
from pathlib import Path

import pytest

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


@pytest.fixture
def site(tmp_path):
    """A site of two pages without a fault."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "index.html").write_text('<a href="deep/page.html#here">a</a><a href="https://other.org/x">b</a>')
    (tmp_path / "deep" / "page.html").write_text(
        '<h1 id="here"></h1><a href="../index.html">c</a><a href="#here">d</a>'
    )
    return tmp_path


DEAD = {
    '<a href="missing.html">': "missing.html: no such file",
    '<a href="deep/page.html#gone">': "deep/page.html#gone: no such anchor",
    '<a href="#gone">': "#gone: no such anchor",
    '<img src="picture.png">': "picture.png: no such file",
    '<img srcset="picture.png 2x">': "picture.png: no such file",
    '<script src="https://cdn.org/x.js"></script>': "https://cdn.org/x.js: is loaded from another host",
    '<link href="//cdn.org/x.css">': "//cdn.org/x.css: is loaded from another host",
}


def test_a_site_without_a_fault_has_no_dead_link(site):
    assert module(DOCS / "check_links.py").faults(site) == []


@pytest.mark.parametrize("html", DEAD)
def test_dead_links_are_found(site, html):
    (site / "new.html").write_text(html)
    assert module(DOCS / "check_links.py").faults(site) == [f"new.html: {DEAD[html]}"]


def test_tables_say_in_colour_what_was_met():
    tables = module(DOCS / "generate" / "tables.py")
    assert tables.cells("| a | **no** |") == ["a", "**no**"]
    assert tables.cells("yes or no") == []
    text = tables.with_badges("| a | yes |\n| b | **no** |\nyes\n")
    assert text == "| a | {bdg-success}`yes` |\n| b | {bdg-danger}`no` |\nyes\n"
