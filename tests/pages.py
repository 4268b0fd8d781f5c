"""The Markdown pages: README and what is under docs/, with their blocks of code and their links."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Pages that are made from others when the site is built, and folders of theirs, relative to docs/.
GENERATED = (
    *("_build", "_generated", "_static", "gallery", "reference", "benchmarks", "results"),
    *("changelog.md", "contributing.md", "security.md"),
)
_FENCE = re.compile(r"^( *)(`{3,})([^\n]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


@cache
def pages() -> tuple[str, ...]:
    """README and the pages under docs/, as paths from the root of the repository."""
    written = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not is_generated(path)]
    return ("README.md", *(path.relative_to(ROOT).as_posix() for path in written))


def is_generated(path: Path) -> bool:
    """Whether a page is there only after the site was built, whose own check of links then covers it."""
    return any(path.is_relative_to(ROOT / "docs" / place) for place in GENERATED)


def blocks(text: str, language: str) -> list[str]:
    """The blocks of code in a language, in order."""
    return [body for _, _, name, body in _FENCE.findall(text) if name.strip() == language]


def links(text: str) -> list[str]:
    """The targets of links and images, without those in code."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))
    return [target for target in _LINK.findall(prose) if not re.match(r"[a-z]+:", target)]


def dead_links(page: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading of another page."""
    dead = []
    for target in links(page.read_text(encoding="utf-8")):
        path, _, place = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if is_generated(found):
            continue
        if not found.exists() or (place and place not in anchors(found)):
            dead.append(target)
    return dead


def anchors(page: Path) -> set[str]:
    """The names of the headings of a page, as GitHub and MyST make them, and of its labels."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ +(.+?) *$", _FENCE.sub("", text), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
