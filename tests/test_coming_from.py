"""The names in docs/coming_from/ exist: papilio's always, those of other libraries where they are installed.

Results are compared by the blocks of these pages, which `test_pages` runs.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from importlib.util import find_spec
from typing import Any

import pytest

import papilio as pp

from . import pages

FOLDER = pages.ROOT / "docs" / "coming_from"
PAGES = ("pyfaust", "spams", "scikit_learn", "pylops")
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"\b(pp|op|pyfaust|F|spams|pylops|P)((?:\.[A-Za-z_]\w*)+)")
OTHERS_OF = {"pyfaust": ("pyfaust", "F"), "spams": ("spams",), "pylops": ("pylops", "P")}


def read(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def names(text: str) -> Iterator[tuple[str, str]]:
    """The objects and attributes in the code of a text: ``pp.transforms.dft(n)`` has pp and transforms.dft."""
    for code in (code for line in text.splitlines() for code in CODE.findall(line)):
        yield from ((head, tail[1:]) for head, tail in NAME.findall(re.sub(r"\"[^\"]*\"|'[^']*'", "", code)))


def missing(text: str, roots: dict[str, Any]) -> list[str]:
    """The names that do not exist, of the objects in ``roots``."""
    faults = []
    for head, tail in names(text):
        try:
            if head in roots:
                reduce(getattr, tail.split("."), roots[head])
        except AttributeError:
            faults.append(f"{head}.{tail}")
    return faults


OURS = {"pp": pp, "op": pp.SparseProduct([[[1.0]]])}


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_papilio_on_the_page_exists(page: str) -> None:
    assert missing(read(page), OURS) == []
    assert len({name for name in names(read(page)) if name[0] == "pp"}) >= 10


# -- other libraries -------------------------------------------------------------------------------------


def test_every_name_of_pylops_on_the_page_exists() -> None:
    pylops = pytest.importorskip("pylops")
    theirs = {"pylops": pylops, "P": pylops.Identity(2)}
    assert missing(read("pylops"), theirs) == []
    assert missing("`P.nonsense`", theirs) == ["P.nonsense"]


CHECK = """
import sys, {library}
{more}
roots = {roots}
for word in sys.argv[1:]:
    head, *tail = word.split(".")
    value = roots[head]
    for part in tail:
        if not hasattr(value, part):
            print(word)
            break
        value = getattr(value, part)
"""
MORE = {"pyfaust": "import pyfaust.fact, pyfaust.proj, pyfaust.tools", "spams": ""}
ROOTS = {"pyfaust": "{'pyfaust': pyfaust, 'F': pyfaust.rand(4, 4)}", "spams": "{'spams': spams}"}


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pyfaust", "spams"])
def test_every_name_of_a_library_that_is_installed_exists(library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    words = sorted({f"{head}.{tail}" for head, tail in names(read(library)) if head in OTHERS_OF[library]})
    assert len(words) > 10
    code = CHECK.format(library=library, more=MORE[library], roots=ROOTS[library])
    wrong = f"{library}.nonsense"
    command = [sys.executable, "-W", "ignore", "-c", code, *words, wrong]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout.split() == [wrong], run.stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("spams") is None, reason="SPAMS is not installed")
@pytest.mark.filterwarnings("ignore")
def test_the_codes_of_spams_are_those_of_the_page() -> None:
    scope: dict[str, Any] = {}
    blocks = [*pages.blocks(read("spams"), "python"), *pages.blocks(read("spams"), "py")]
    assert len(blocks) == 2
    for block in blocks:
        exec(block, scope)
