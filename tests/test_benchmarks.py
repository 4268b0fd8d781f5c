"""The page that sums up the benchmarks: it is made from RESULTS.md, and leaves out no loss."""

import pytest

from .pages import ROOT
from .test_site import module

FOLDER = ROOT / "benchmarks"
RESULTS = """# Results

<!-- one -->

*Measured on a day: somewhere*

## Products

| case | peer | peer ÷ papilio | aim | met | papilio | peer |
|---|---|---:|---:|---|---:|---:|
| small | dense | **0.5** | ≥ 2 | **no** | 2 ms | 1 ms |
| middle | dense | **0.9** |  |  | 2 ms | 1.8 ms |
| large | dense | **4** | ≥ 2 | yes | 1 ms | 4 ms |

## Structure

| matrix | by | relative error | entries | time |
|---|---|---:|---:|---:|
| easy | papilio | 1e-16 | 64 | 2 s |
| easy | other | 2e-15 | 64 | 1 s |
| hard | papilio | 0.2 | 64 | 2 s |
| hard | other | 0.1 | 64 | 900 ms |
| odd | papilio | 0.2 | 64 | 2 s |
| odd | other | fails: not square | | |
"""


@pytest.fixture(scope="module")
def summary():
    return module(FOLDER / "summary.py")


def test_the_kept_page_is_made_from_the_results(summary):
    text = summary.summary((FOLDER / "RESULTS.md").read_text(encoding="utf-8"))
    assert (FOLDER / "SUMMARY.md").read_text(encoding="utf-8") == text


def test_figures_are_of_all_cases_and_every_loss_is_listed(summary):
    text = summary.summary(RESULTS)
    assert "| Products | dense | 3 | 0.5 | 0.9 | 4 | 2 |" in text
    assert "| Structure | other | 2 | 0 | 1 | 1 | 2 of 2 |" in text
    assert text.partition("## Losses")[2].split("|---|---|---|---|\n")[1].splitlines() == [
        "| Products | small, dense | peer ÷ papilio **0.5** | ≥ 2 |",
        "| Products | middle, dense | 0.9 |  |",
        "| Structure | hard | 0.2, other 0.1 | |",
    ]


def test_every_missed_aim_of_the_results_is_a_loss(summary):
    results = (FOLDER / "RESULTS.md").read_text(encoding="utf-8")
    found = list(summary.rows(results))
    assert sum(row.cells.count("**no**") for row in found) == results.count("| **no** |")
    assert len(list(summary.losses(found))) >= results.count("| **no** |")
