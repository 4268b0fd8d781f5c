"""The names in docs/coming_from/pyfaust.md exist: papilio's always, pyfaust's where it is installed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import pytest

import papilio as pp

PAGE = Path(__file__).parents[1] / "docs" / "coming_from" / "pyfaust.md"
ROW = re.compile(r"\|(.*)\|(.*)\|(.*)\|")
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"\b(pp|op|pyfaust|F)((?:\.[A-Za-z_]\w*)+)")


def names(text: str) -> Iterator[tuple[str, str]]:
    """The objects and attributes in the code of a text: ``pp.transforms.dft(n)`` has pp and transforms.dft."""
    for code in (code for line in text.splitlines() for code in CODE.findall(line)):
        yield from ((head, tail[1:]) for head, tail in NAME.findall(re.sub(r"\"[^\"]*\"|'[^']*'", "", code)))


def missing(text: str) -> list[str]:
    """The names of papilio that do not exist."""
    roots = {"pp": pp, "op": pp.SparseProduct([[[1.0]]])}
    faults = []
    for head, tail in names(text):
        try:
            if head in roots:
                reduce(getattr, tail.split("."), roots[head])
        except AttributeError:
            faults.append(f"{head}.{tail}")
    return faults


def test_every_name_of_papilio_on_the_page_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert missing(text) == []
    assert len({name for name in names(text) if name[0] == "pp"}) > 40


def test_every_row_has_names_of_both() -> None:
    rows = [match.groups() for match in map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines()) if match]
    rows = [row for row in rows if row[0].strip() not in ("pyfaust", "---")]
    assert len(rows) > 40
    assert all(CODE.search(left) or left.strip() == "–" for left, _, _ in rows)
    assert all(CODE.search(here) or here.strip() in ("–", "the same") for _, here, _ in rows)


def test_names_that_do_not_exist_are_found() -> None:
    assert missing("`pp.transforms.fht(n)` and `op.nnz_sum()`, `pp.omp`") == ["pp.transforms.fht", "op.nnz_sum"]
    assert missing("`op.norm('pp.none')`") == []


CHECK = """
import importlib, sys, pyfaust, pyfaust.fact, pyfaust.proj, pyfaust.tools
F = pyfaust.rand(4, 4)
for word in sys.argv[1:]:
    head, *tail = word.split(".")
    value = pyfaust if head == "pyfaust" else F
    for part in tail:
        if not hasattr(value, part):
            print(word)
            break
        value = getattr(value, part)
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyfaust") is None, reason="pyfaust is not installed")
def test_every_name_of_pyfaust_on_the_page_exists() -> None:
    words = sorted({f"{h}.{t}" for h, t in names(PAGE.read_text(encoding="utf-8")) if h in ("pyfaust", "F")})
    assert len(words) > 40
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK, *words, "F.nonsense"], capture_output=True, text=True
    )
    assert run.stdout.split() == ["F.nonsense"], run.stderr
