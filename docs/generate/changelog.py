"""The changelog as a page."""

from pathlib import Path

from .links import into_the_site


def pages(root: Path) -> dict[str, str]:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return {"changelog.md": into_the_site(text, root, root, root / "docs" / "changelog.md")}
