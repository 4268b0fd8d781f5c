"""Pages at the top of the repository that the site shows, too."""

from pathlib import Path

from .links import PAGES, into_the_site

SHOWN = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def pages(root: Path) -> dict[str, str]:
    return {PAGES[name]: _page(root, root / name) for name in SHOWN}


def _page(root: Path, source: Path) -> str:
    text = into_the_site(source.read_text(encoding="utf-8"), root, root, root / "docs" / PAGES[source.name])
    return text if source.name == "CHANGELOG.md" else f"---\norphan: true\n---\n\n{text}"
