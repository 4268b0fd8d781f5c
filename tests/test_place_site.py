"""The site beside its earlier versions, as a static host shows it."""

import json

import pytest

from .pages import ROOT
from .test_site import module

URL = "https://example.org/papilio"


@pytest.fixture
def place(tmp_path):
    """Place a site of one page as a version."""
    html, script = tmp_path / "html", module(ROOT / "scripts" / "place_site.py")
    (html / "binder").mkdir(parents=True)
    (html / "binder" / "requirements.txt").write_text("papilio", encoding="utf-8")

    def run(version, text="page"):
        (html / "index.html").write_text(text, encoding="utf-8")
        script.place(html, tmp_path / "pages", URL, version)
        return tmp_path / "pages"

    return run


def test_versions_are_in_folders_and_the_latest_release_is_preferred(place):
    assert 'url=dev/"' in (place("dev") / "index.html").read_text(encoding="utf-8")
    for version in ("v1.9.0", "v1.10.0", "v1.2.0"):
        pages = place(version, version)
    assert (pages / "v1.9.0" / "index.html").read_text(encoding="utf-8") == "v1.9.0"
    entries = json.loads((pages / "switcher.json").read_text(encoding="utf-8"))
    assert [entry["version"] for entry in entries] == ["v1.10.0", "v1.9.0", "v1.2.0", "dev"]
    assert [entry["url"] for entry in entries][:1] == [f"{URL}/v1.10.0/"]
    assert [entry["version"] for entry in entries if entry.get("preferred")] == ["v1.10.0"]
    assert 'url=v1.10.0/"' in (pages / "index.html").read_text(encoding="utf-8")
    assert (pages / "binder" / "requirements.txt").exists()


def test_a_version_that_is_placed_again_is_replaced_whole(place):
    old = place("dev") / "dev" / "old.html"
    old.touch()
    assert (place("dev", "new") / "dev" / "index.html").read_text(encoding="utf-8") == "new"
    assert not old.exists()


def test_other_names_of_versions_are_refused(place):
    with pytest.raises(SystemExit, match=r"dev or vX\.Y\.Z"):
        place("../v1.0.0")
