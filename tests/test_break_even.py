"""What docs/faster.md advises is what benchmarks/break_even.csv says, also after a new run of the benchmark."""

import csv
from pathlib import Path
from typing import NamedTuple

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
BLOCKS, ENTRIES, LOW_RANK, BUTTERFLY, NESTED = ("4×4 blocks", "single entries", "low rank", "butterfly", "nested")


class Point(NamedTuple):
    structure: str
    n: int
    complexity: float
    vectors: int
    dtype: str
    speedup: float
    seconds: float
    dense_seconds: float


def read() -> list[Point]:
    with (BENCHMARKS / "break_even.csv").open(encoding="utf-8", newline="") as file:
        return [
            Point(*(kind(row[name]) for name, kind in Point.__annotations__.items()))
            for row in csv.DictReader(file)
        ]


POINTS = read()


def speedups(
    structures: set[str], vectors: int, least_n: int, most_complexity: float = 1.0, dtype: str = ""
) -> list[float]:
    found = [
        point.speedup
        for point in POINTS
        if point.structure in structures
        and point.vectors == vectors
        and point.n >= least_n
        and point.complexity <= most_complexity
        and dtype in ("", point.dtype)
    ]
    assert found
    return found


@pytest.mark.parametrize(
    ("structures", "most", "dtype"),
    [({BLOCKS, LOW_RANK}, 0.25, ""), ({ENTRIES}, 0.1, "float64"), ({BUTTERFLY, NESTED}, 1.0, "")],
)
def test_one_vector_pays_from_a_thousand_rows(structures: set[str], most: float, dtype: str) -> None:
    assert min(speedups(structures, 1, 1000, most, dtype)) > 1


@pytest.mark.parametrize(("structures", "most"), [({BLOCKS, LOW_RANK}, 0.4), ({ENTRIES}, 0.2), ({BUTTERFLY}, 1.0)])
def test_blocks_of_vectors_pay_from_a_hundred_rows(structures: set[str], most: float) -> None:
    assert min(speedups(structures, 256, 100, most)) > 1


def test_nested_products_pay_for_blocks_of_vectors_in_most_cases() -> None:
    gains = speedups({NESTED}, 256, 100)
    assert sum(gain > 1 for gain in gains) > 0.7 * len(gains)
