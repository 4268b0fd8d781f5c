"""Each constraint set does what its definition says: nearest members, membership, bounds (`brute_force`)."""

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio import constraints as c

from .brute_force import (
    DEFINITIONS,
    UnitNorm,
    assert_member,
    assert_nearest,
    definition,
    distances,
    is_nonnegative,
    matrices,
    sample,
    symmetric,
)
from .helpers import for_each
from .registry import CONSTRAINTS

Array = np.ndarray[Any, Any]
INEXACT = [name for name in CONSTRAINTS if "SparseRowsAndColumns" in name]
WITH_ZEROS = [name for name, make in CONSTRAINTS.items() if make().n_nonzero < np.prod(make().shape)]
TIED = ("Symmetric", "Circulant", "Toeplitz", "Hankel")


def full_member(name: str) -> tuple[c.Constraint, Array]:
    """A set and a member with as many entries as the set allows: all entries are alike, so larger groups win."""
    constraint = CONSTRAINTS[name]()
    return constraint, constraint.project(sample(constraint.shape, "nearly equal"))


def assert_no_member(name: str, constraint: c.Constraint, matrix: Array) -> None:
    """Both the definition and `contains` say no."""
    with pytest.raises(AssertionError):
        assert_member(name, matrix)
    assert not constraint.contains(matrix)


# -- nearest members -----------------------------------------------------------------------------------


def test_every_registered_set_has_a_definition_and_the_shape_it_says() -> None:
    assert {definition(name).shape == CONSTRAINTS[name]().shape for name in CONSTRAINTS} == {True}
    assert set(DEFINITIONS) <= set(CONSTRAINTS)


def test_all_sets_but_rows_and_columns_claim_an_exact_projection() -> None:
    assert [name for name in CONSTRAINTS if not CONSTRAINTS[name]().exact] == INEXACT


@for_each("name", CONSTRAINTS)
def test_projection_is_a_member_at_the_distance_of_an_exhaustive_search(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    for matrix in matrices(name, seeds=1):
        projected = constraint.project(matrix)
        if constraint.exact:
            assert_nearest(name, matrix, projected)
        else:
            assert_member(name, projected)
            distance, best = distances(name, matrix, projected)
            assert distance >= best * (1 - 1e-9)
        assert constraint.contains(projected)
        assert np.count_nonzero(projected) <= constraint.n_nonzero


def test_symmetric_divides_any_number_of_entries_between_diagonal_and_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for n_nonzero in range(1, 17):
        monkeypatch.setitem(DEFINITIONS, "Symmetric", UnitNorm((4, 4), symmetric, entries=n_nonzero))
        plain = c.Symmetric(4, n_nonzero)
        for name, constraint in [("Symmetric", plain), ("NonNegative-Symmetric", c.NonNegative(plain))]:
            for matrix in matrices(name, seeds=1):
                assert_nearest(name, matrix, constraint.project(matrix))


@pytest.mark.parametrize(
    "constraint",
    [
        c.Dense(1),
        c.Sparse(1, 1),
        c.SparseRows(1, 1),
        c.SparseColumns(1, 1),
        c.SparseRowsAndColumns(1, 1),
        c.SparseBlocks(1, 1, block=1),
        c.Support([[True]]),
        c.Triangular(1),
        c.Diagonal(1),
        c.BlockDiagonal([1]),
        c.Symmetric(1),
        c.Circulant(1),
        c.Toeplitz(1),
        c.Hankel(1),
        c.UnitRows(1),
        c.UnitColumns(1),
    ],
    ids=lambda constraint: type(constraint).__name__,
)
def test_a_single_entry_keeps_its_phase_and_zero_becomes_one(constraint: c.Constraint) -> None:
    assert constraint.n_nonzero == 1
    assert constraint.project([[-3.0]]) == -1
    assert abs(constraint.project([[3 - 4j]])[0, 0] - (0.6 - 0.8j)) < 1e-15
    assert constraint.project([[0.0]]) == 1
    assert c.NonNegative(constraint).project([[-3.0]]) == 1


# -- membership ----------------------------------------------------------------------------------------


@for_each("name", CONSTRAINTS)
def test_n_nonzero_is_attained_by_a_matrix_without_zeros(name: str) -> None:
    constraint, member = full_member(name)
    assert np.count_nonzero(member) == constraint.n_nonzero


@for_each("name", CONSTRAINTS)
def test_contains_rejects_a_wrong_norm(name: str) -> None:
    constraint, member = full_member(name)
    for factor in (0.5, 1 + 1e-5, 1 - 1e-5, -2.0, 1e100, 1e-300, 0.0):
        assert_no_member(name, constraint, factor * member)


@pytest.mark.parametrize("size", [1e-12, 0.1])
@for_each("name", WITH_ZEROS)
def test_contains_rejects_every_single_entry_too_many_however_small(name: str, size: float) -> None:
    constraint, member = full_member(name)
    for place in np.flatnonzero(member == 0):
        larger = member.copy()
        larger.flat[place] = size
        assert not constraint.contains(larger)
        larger /= np.linalg.norm(larger)
        assert not constraint.contains(larger)
        if "Fixed" not in name:
            assert_no_member(name, constraint, larger)


@for_each("name", [name for name in CONSTRAINTS if any(part in name for part in TIED)])
def test_contains_rejects_a_broken_structure(name: str) -> None:
    constraint, member = full_member(name)
    groups = definition(name).groups
    tied = groups[groups.sum(axis=(1, 2)) > 1].any(axis=0)
    for place in np.flatnonzero(tied & (member != 0)):
        for value in (0.0, 1.001 * member.flat[place]):
            broken = member.copy()
            broken.flat[place] = value
            assert_no_member(name, constraint, broken / np.linalg.norm(broken))


@for_each("name", [name for name in CONSTRAINTS if is_nonnegative(name)])
def test_contains_of_nonnegative_sets_rejects_one_entry_below_zero_or_off_the_real_axis(name: str) -> None:
    constraint, member = full_member(name)
    base = CONSTRAINTS[name.removeprefix("NonNegative-")]()
    place = np.flatnonzero(member)[-1]
    for factor in (-1, 1j):
        other = member * np.where(np.arange(member.size) == place, factor, 1).reshape(member.shape)
        assert_no_member(name, constraint, other)
    if base.free_on_support:
        assert base.contains(other)


@for_each("name", CONSTRAINTS)
def test_contains_rejects_other_shapes_and_values_that_are_not_finite(name: str) -> None:
    constraint, member = full_member(name)
    assert_no_member(name, constraint, np.vstack([member, np.zeros(member.shape[1])]))
    assert_no_member(name, constraint, member[:, :-1])
    assert_no_member(name, constraint, member.ravel())
    for value in (np.nan, np.inf, -np.inf):
        for place in (0, member.size - 1):
            other = member.copy()
            other.flat[place] = value
            assert_no_member(name, constraint, other)


@for_each("name", CONSTRAINTS)
def test_contains_measures_values_by_its_tolerance(name: str) -> None:
    constraint, member = full_member(name)
    assert constraint.contains(1.01 * member, tol=0.1)
    assert not constraint.contains(1.01 * member, tol=1e-3)


@for_each("name", CONSTRAINTS)
def test_free_on_support_sets_hold_all_unit_norm_matrices_on_a_members_support(name: str) -> None:
    constraint, member = full_member(name)
    other = np.where(member != 0, sample(member.shape, "gaussian"), 0)
    other /= np.linalg.norm(other)
    if constraint.free_on_support:
        assert_member(name, other)
        assert constraint.contains(other)
        np.testing.assert_array_equal(constraint.project(other) != 0, member != 0)
    elif constraint.n_nonzero > 1:
        assert_no_member(name, constraint, other)


# -- any matrix ----------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e3, 1e3, width=32, allow_subnormal=False) | st.sampled_from([0.0, -1.0, 1.0])


@for_each("name", CONSTRAINTS)
def test_no_other_member_is_nearer_to_any_matrix(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    rotated = st.sampled_from([1.0, 0.6 + 0.8j])

    @settings(max_examples=8, deadline=None, derandomize=True)
    @given(hnp.arrays(np.float64, constraint.shape, elements=NUMBERS), rotated, st.integers(0, 99))
    def check(real: Array, phase: complex, seed: int) -> None:
        matrix = phase * real
        projected = constraint.project(matrix)
        assert_member(name, projected)
        assert constraint.contains(projected)
        if constraint.exact:
            # Magnitudes within 1e-9 of each other count as ties.
            allowance = 1e-7 * np.linalg.norm(matrix) + 1e-12
            elsewhere = sample(constraint.shape, "gaussian", seed)
            for other in (elsewhere, matrix - projected, matrix + np.linalg.norm(matrix) * elsewhere):
                distance = np.linalg.norm(matrix - constraint.project(other))
                assert np.linalg.norm(matrix - projected) ** 2 <= distance**2 + allowance

    check()
