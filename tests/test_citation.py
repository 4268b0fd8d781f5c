"""CITATION.cff says which version to cite, and names the paper."""

from pathlib import Path

import yaml

import papilio as pp

CITATION = yaml.safe_load((Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8"))


def test_it_cites_this_version() -> None:
    assert CITATION["version"] == pp.__version__


def test_it_has_what_the_format_requires() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert CITATION["authors"] == [{"name": "The papilio developers"}]


def test_it_names_the_paper() -> None:
    (paper,) = CITATION["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Le Magoarou", "Gribonval"]
    assert (paper["year"], paper["url"]) == (2014, "https://arxiv.org/abs/1406.5388")
