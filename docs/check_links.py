"""Find dead internal links in a built site: ``python docs/check_links.py docs/_build/html``.

Every ``href`` and ``src`` that stays within the site has to lead to a file, and every ``#anchor`` to an id in it.
Scripts, styles and images of other hosts, which a page would load by itself, are errors, too; links that a reader
may follow are none.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script", "img", "link", "iframe", "source", "video", "audio"}


class Page(HTMLParser):
    """The ids of a page, and its links with the names of their tags."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value or "")
            elif name in ("href", "src") and value:
                self.links.append((tag, value))
            elif name == "srcset" and value:
                self.links += [(tag, each.split()[0]) for each in value.split(",")]


def html_files(root: Path) -> list[Path]:
    """The pages of a site; templates among the files of the theme are none."""
    return [path for path in sorted(root.rglob("*.html")) if "_static" not in path.relative_to(root).parts]


def faults(root: Path) -> list[str]:
    """What is wrong with the links of a site."""
    pages = {path: Page(path) for path in html_files(root)}
    found = []
    for path, page in pages.items():
        for tag, link in page.links:
            wrong = _fault(path, page, tag, link, pages)
            if wrong:
                found.append(f"{path.relative_to(root)}: {link}: {wrong}")
    return found


def _fault(path: Path, page: Page, tag: str, link: str, pages: dict[Path, Page]) -> str | None:
    url = urlsplit(link)
    if url.scheme or url.netloc:
        remote = url.scheme in ("http", "https", "") and tag in LOADED
        return "is loaded from another host" if remote else None
    target = path if not url.path else Path(path.parent, unquote(url.path)).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "no such file"
    there = pages.get(target)
    if url.fragment and there is not None and unquote(url.fragment) not in there.ids:
        return "no such anchor"
    return None


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    found = faults(root)
    sys.stdout.writelines(f"{each}\n" for each in found)
    if found:
        sys.exit(f"{len(found)} dead links")
    sys.stdout.write(f"{len(html_files(root))} pages without a dead link\n")


if __name__ == "__main__":
    main()
