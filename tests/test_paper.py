"""The paper: what it cites is in its bibliography, and its figures are those of the repository's results."""

import re

import pytest
import yaml

from .pages import ROOT
from .test_site import module

PAPER = ROOT / "paper" / "paper.md"
TEXT = PAPER.read_text(encoding="utf-8")
BIBLIOGRAPHY = PAPER.with_name("paper.bib").read_text(encoding="utf-8")


def cited(text):
    return set(re.findall(r"@(\w+)", re.sub(r"`[^`]*`", "", text)))


def entries(text):
    return re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)


def quotes(text):
    """What the paper quotes: a file, and words that are in it."""
    return re.findall(r"^<!-- ([\w/.]+): (.*) -->$", text, re.MULTILINE)


def test_every_citation_is_in_the_bibliography_and_every_entry_is_cited():
    assert len(entries(BIBLIOGRAPHY)) == len(set(entries(BIBLIOGRAPHY)))
    assert cited(TEXT) == set(entries(BIBLIOGRAPHY))
    assert cited("as @A2000 and [@B2001; @C2002] say") == {"A2000", "B2001", "C2002"}


def test_every_entry_has_an_author_a_title_and_a_place():
    for entry in re.split(r"^(?=@)", BIBLIOGRAPHY, flags=re.MULTILINE)[1:]:
        fields = set(re.findall(r"^  (\w+) = ", entry, re.MULTILINE))
        assert {"author", "title"} <= fields
        assert fields & {"journal", "booktitle", "eprint", "url"}
        assert all(re.fullmatch(r"10\.\d{4,}/\S+", doi) for doi in re.findall(r"doi = \{(.*)\}", entry))


def test_it_has_the_head_and_the_sections_that_the_journal_wants():
    head = yaml.safe_load(TEXT.split("---")[1])
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= head.keys()
    sections = re.findall(r"^# (.*)$", TEXT, re.MULTILINE)
    assert {"Summary", "Statement of need", "State of the field", "Software design", "References"} <= set(sections)


def test_its_pictures_are_there():
    pictures = re.findall(r"\]\((\S+\.png)\)", TEXT)
    assert len(pictures) == 2
    assert all((PAPER.parent / picture).is_file() for picture in pictures)


@pytest.mark.parametrize(("file", "words"), quotes(TEXT))
def test_what_it_quotes_is_in_the_results(file, words):
    assert words in (ROOT / file).read_text(encoding="utf-8")


def test_its_table_is_that_of_the_benchmarks():
    summary = module(ROOT / "benchmarks" / "summary.py")
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert summary.for_paper(results, TEXT) == TEXT
    assert TEXT.partition("<!-- benchmarks -->")[2].count("\n| ") == 1 + len(summary.IN_PAPER)
