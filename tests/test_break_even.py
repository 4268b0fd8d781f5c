"""What docs/faster.md advises is what benchmarks/break_even.csv says, also after a new run of the benchmark."""

import csv
from pathlib import Path
from typing import NamedTuple

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
BLOCKS, ENTRIES, LOW_RANK, BUTTERFLY, NESTED = (
    "4×4 blocks",
    "single entries",
    "low rank",
    "butterfly",
    "nested",
)
OURS = {BLOCKS, ENTRIES, LOW_RANK, BUTTERFLY, NESTED}


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


def test_one_vector_and_a_small_matrix_are_no_case_for_products() -> None:
    assert all(
        point.speedup < 1 for point in POINTS if point.n == 64 and point.vectors == 1 and point.structure in OURS
    )


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


def test_one_call_for_many_vectors_takes_less_than_half_the_time_of_many_calls() -> None:
    some = [p for p in POINTS if p.structure in OURS - {NESTED}]
    seconds = {(p.structure, p.n, p.complexity, p.dtype, p.vectors): p.seconds for p in some}
    dense = {(p.n, p.dtype, p.vectors): p.dense_seconds for p in some}
    for times in (seconds, dense):
        assert all(256 * each > 2 * times[*case, 256] for (*case, vectors), each in times.items() if vectors == 1)


def test_an_fft_is_faster_on_one_long_vector() -> None:
    seconds = {(p.structure, p.n): p.seconds for p in POINTS if p.vectors == 1 and p.dtype == "float64"}
    assert all(seconds["scipy.fft", n] < seconds[BUTTERFLY, n] for n in (2048, 4096))


def test_single_precision_speeds_up_the_dense_matrix() -> None:
    dense = {(p.n, p.vectors, p.dtype): p.dense_seconds for p in POINTS}
    large = [(n, vectors) for n, vectors, dtype in dense if n >= 512 and vectors == 256 and dtype == "float32"]
    assert all(dense[*each, "float64"] > 1.4 * dense[*each, "float32"] for each in large)


def test_the_machine_was_quiet() -> None:
    """Where other processes take the cores, BLAS waits for its own threads, and speed-ups become absurd."""
    assert all(
        point.speedup < 2 / point.complexity
        for point in POINTS
        if point.structure in OURS and point.vectors == 256
    )


def test_the_page_shows_what_the_benchmark_writes() -> None:
    page = (BENCHMARKS.parent / "docs" / "faster.md").read_text(encoding="utf-8")
    for name in ("break_even.md", "break_even.png", "break_even.csv"):
        assert f"../benchmarks/{name}" in page
        assert (BENCHMARKS / name).exists()
