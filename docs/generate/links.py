"""Links of pages to files of the repository that the site shows as pages of its own."""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
    "docs/coming_from_pyfaust.md": "coming_from/pyfaust.md",  # as the changelog knows it
    "benchmarks/RESULTS.md": "benchmarks/index.md",
    "benchmarks/SUMMARY.md": "benchmarks/index.md",
    "benchmarks/README.md": "benchmarks/index.md",
    "examples/README.md": "gallery/index.rst",
    "examples/README.rst": "gallery/index.rst",
    "results/README.md": "results/index.md",
}
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")


def page_of(root: Path, path: Path) -> Path | None:
    """The page of the site, within ``docs``, that shows a file or folder of the repository, if there is one."""
    name = Path(os.path.relpath(path, root)).as_posix()
    if name in PAGES:
        return Path(PAGES[name])
    if name.startswith("docs/"):
        return None
    if (root / name).is_dir():
        name = f"{name}/README.md"
    folder, _, file = name.partition("/")
    if folder == "examples" and file.endswith(".py"):
        return Path("gallery", file).with_suffix(".rst")
    if folder == "results" and name not in PAGES and file.endswith(("/README.md", "/claims.md")):
        return Path("results", "-".join(Path(file).parent.parts)).with_suffix(".md")
    return Path(PAGES[name]) if name in PAGES else None


def into_the_site(text: str, root: Path, folder: Path, page: Path) -> str:
    """The text of a page whose links were written for ``folder``, with links to pages of the site.

    Links to files that the site does not show stay as they are, relative to the page.
    """

    def new(match: re.Match[str]) -> str:
        link, anchor = match.group(1), match.group(2) or ""
        if "://" in link or link.startswith(("mailto:", "/")):
            return match.group(0)
        path = Path(os.path.normpath(folder / link))
        shown = page_of(root, path)
        if shown is None:
            return os.path.relpath(path, page.parent) + anchor
        return os.path.relpath(root / "docs" / shown, page.parent)

    return _LINK.sub(new, text)


def point_into_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(name))
    if path.suffix == ".md":
        source[0] = into_the_site(source[0], Path(app.srcdir).parent, path.parent, path)
