"""Put a built site into the folder of its version, beside others: ``python scripts/place_site.py HTML PAGES``.

PAGES is what a static host shows, such as a checkout of the branch gh-pages. SITE_VERSION names the folder, and
SITE_URL is where PAGES is shown; the site must have been built with both. Beside the folders there are

    switcher.json   the versions, for the menu of each page
    index.html      leads to the latest release, or to "dev" before the first one
    binder/         what Binder installs
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>papilio</title>
<meta http-equiv="refresh" content="0; url={0}/">
<a href="{0}/">papilio {0}</a>
"""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    place(Path(sys.argv[1]), Path(sys.argv[2]), os.environ["SITE_URL"], os.environ["SITE_VERSION"])


def place(html: Path, pages: Path, url: str, version: str) -> None:
    if not re.fullmatch(r"dev|v\d+\.\d+\.\d+", version):
        sys.exit(f"SITE_VERSION must be dev or vX.Y.Z, got {version!r}")
    shutil.rmtree(pages / version, ignore_errors=True)
    shutil.copytree(html, pages / version)
    if (html / "binder").is_dir():
        shutil.copytree(html / "binder", pages / "binder", dirs_exist_ok=True)
    releases = sorted((path.name for path in pages.glob("v*.*.*")), key=_numbers, reverse=True)
    latest = releases[0] if releases else "dev"
    entries = [
        {"name": f"{name} (stable)" if name == latest else name, "version": name, "url": f"{url}/{name}/"}
        for name in [*releases, *(["dev"] if (pages / "dev").is_dir() else [])]
    ]
    entries[0]["preferred"] = True
    (pages / "switcher.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    (pages / "index.html").write_text(PAGE.format(latest), encoding="utf-8")
    (pages / ".nojekyll").touch()  # folders that begin with an underscore are shown, too


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version[1:].split(".")]


if __name__ == "__main__":
    main()
