"""Which combinations of parameters run in every tier, and how one case goes through many values."""

import inspect
from itertools import product
from pathlib import Path

import pytest

from .helpers import for_each
from .tiers import (
    APART,
    LEFT_OUT,
    LONGEST,
    ONE_OF,
    SLOW,
    is_apart,
    is_slow,
    that_cover_all_values,
    turn_of,
    values_of,
)

HERE = Path(__file__).parent
SETS = ["rows", "columns", "blocks"]


def cases(*sizes):
    """All combinations of the values of several parameters."""
    return [frozenset(enumerate(values)) for values in product(*map(range, sizes))]


@pytest.mark.parametrize("sizes", [(), (5,), (1, 1), (4, 3), (3, 4, 2), (2, 2, 2, 2), (7, 3, 5)])
def test_each_value_of_each_parameter_occurs_in_few_cases(sizes):
    every = cases(*sizes)
    kept = that_cover_all_values(every)
    assert frozenset().union(*(every[place] for place in kept)) == frozenset().union(*every)
    assert len(set(kept)) == len(kept) <= max(sizes, default=0) + len(sizes) - 1 if sizes else kept == []


def test_of_one_parameter_no_value_is_left_out():
    assert that_cover_all_values(cases(6)) == list(range(6))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 2), (1, 2)])
def test_parameters_of_one_mark_count_as_one(request, name, low, high, dtype):
    values = values_of(request.node)
    assert {tuple(each for each, _ in value) for value in values} == {("name",), ("low", "high"), ("dtype",)}
    assert (("low", id(low)), ("high", id(high))) in values
    assert (("name", id(SETS[SETS.index(name)])),) in values


def test_one_case_of_many_values_goes_through_all_and_tells_which_fail(tmp_path):
    seen = []

    @for_each("value", [1, 2, 3, 4])
    def odd(tmp_path, value):
        seen.append((tmp_path, value))
        assert value % 2

    with pytest.raises(ExceptionGroup, match="2 of 4 values of value fail") as told:
        odd(tmp_path=tmp_path)
    assert seen == [(tmp_path, value) for value in (1, 2, 3, 4)]
    assert [each.__notes__[-1] for each in told.value.exceptions] == ["with value=2", "with value=4"]
    assert list(inspect.signature(odd).parameters) == ["tmp_path"]


def test_every_list_names_files_that_exist():
    named = {*APART, *LEFT_OUT, *LONGEST, *ONE_OF, *SLOW}
    assert [name for name in sorted(named) if not any(HERE.rglob(f"{name}.py"))] == []


def test_long_files_come_first_and_only_cases_that_share_nothing_are_apart():
    files = [*reversed(LONGEST), "test_of_no_list"]
    assert sorted(files, key=turn_of) == [*LONGEST, "test_of_no_list"]
    assert is_apart(f"tests/{APART[0]}.py")
    assert not is_apart("tests/test_tiers.py")


def test_a_list_of_slow_tests_means_all_cases_or_those_with_a_word(monkeypatch):
    monkeypatch.setitem(SLOW, "test_a", {"test_all": (), "test_some": ("dft", "large")})
    assert is_slow("test_a", "test_all", "test_all[3]")
    assert is_slow("test_a", "test_some", "test_some[dft-2]")
    assert not is_slow("test_a", "test_some", "test_some[hadamard-2]")
    assert not is_slow("test_a", "test_other", "test_other[dft]")
    assert not is_slow("test_b", "test_all", "test_all[3]")
