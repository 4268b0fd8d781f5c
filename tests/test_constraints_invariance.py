"""What a projection must not depend on: scale, dtype, memory layout, earlier calls, rounding of ties."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from papilio import constraints as c

from .brute_force import UnitNorm, assert_member, definition, is_nonnegative, matrices, sample, tolerance
from .helpers import DTYPES, for_each
from .registry import CONSTRAINTS

Array = np.ndarray[Any, Any]
UNIT_NORM = [name for name in CONSTRAINTS if isinstance(definition(name), UnitNorm)]
WITH_TWO_VALUES = [name for name in UNIT_NORM if (definition(name).supports.sum(axis=1) == 2).any()]
WITHOUT_STRUCTURE = [name for name in UNIT_NORM if (definition(name).groups.sum(axis=(1, 2)) == 1).all()]


def coarse(shape: tuple[int, int], dtype: Any) -> Array:
    """Multiples of 1/16, so that no factor 2**k loses a digit, not even among the subnormal numbers."""
    matrix = sample(shape, "complex" if np.dtype(dtype).kind == "c" else "gaussian")
    return (np.round(16 * matrix) / 16).astype(dtype)


def one_entry(constraint_shape: tuple[int, int], place: tuple[int, int]) -> Array:
    matrix = np.zeros(constraint_shape)
    matrix[place] = 1
    return matrix


def assert_close(actual: Array, expected: Array) -> None:
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual != 0, expected != 0)
    assert np.abs(actual - expected).max() <= tolerance(expected)


# -- members stay where they are -------------------------------------------------------------------------


@for_each("name", CONSTRAINTS)
def test_projection_is_idempotent(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    for matrix in matrices(name, seeds=1):
        projected = constraint.project(matrix)
        assert_close(constraint.project(projected), projected)


@for_each("name", WITH_TWO_VALUES)
def test_members_with_fewer_entries_than_allowed_keep_them_all_however_small(name: str) -> None:
    constraint, defined = CONSTRAINTS[name](), definition(name)
    for support in defined.supports[defined.supports.sum(axis=1) == 2]:
        for values in ([1.0, 1e-12], [1e-12, 1.0], [1.0, 1e-4], [1e-4, 1.0]):
            coordinates = np.zeros(support.size)
            coordinates[support] = np.array(values) / np.hypot(*values)
            member = defined.matrix(coordinates)
            assert_close(constraint.project(member), member)
            assert constraint.contains(member)


# -- dtype, layout, container ----------------------------------------------------------------------------


@for_each("name", CONSTRAINTS)
def test_dtype_is_kept_and_single_precision_finds_the_same_member(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    for dtype in DTYPES:
        matrix = coarse(constraint.shape, dtype)
        projected = constraint.project(matrix)
        double = constraint.project(matrix.astype(np.result_type(dtype, np.float64)))
        # A fixed matrix keeps its own precision.
        assert projected.dtype == (double.dtype if "Fixed" in name else dtype)
        assert_close(projected, double.astype(projected.dtype))
        assert_member(name, projected)
        assert constraint.contains(projected)


@for_each("name", CONSTRAINTS)
def test_container_and_memory_layout_do_not_matter(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    matrix = coarse(constraint.shape, np.float64)
    expected = constraint.project(matrix)
    read_only = matrix.copy()
    read_only.flags.writeable = False
    strided = np.full((2 * matrix.shape[0], 3 * matrix.shape[1]), 9.0)
    strided[::2, ::3] = matrix
    views = [np.asfortranarray(matrix), read_only, strided[::2, ::3], matrix[::-1].copy()[::-1]]
    sparse = [sp.csr_array(matrix), sp.coo_matrix(matrix), sp.csc_array(matrix), sp.lil_array(matrix)]
    for other in [*views, *sparse, matrix.tolist(), tuple(map(tuple, matrix)), matrix.astype(">f8")]:
        projected = constraint.project(other)
        assert type(projected) is np.ndarray
        assert_close(projected, expected)
        assert constraint.contains(other) is False
    assert constraint.contains(sp.csr_array(expected)) is True
    assert constraint.contains(expected.tolist()) is True


@for_each("name", CONSTRAINTS)
def test_results_are_new_arrays_and_input_stays_as_it_is(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    for kind in ("gaussian", "zero", "negative", "complex"):
        given = sample(constraint.shape, kind)
        member = constraint.project(given)
        for matrix in (given, member, np.asfortranarray(member)):
            before = matrix.copy()
            projected = constraint.project(matrix)
            expected = projected.copy()
            assert not np.shares_memory(projected, matrix)
            assert projected.flags.writeable
            projected[...] = 7
            np.testing.assert_array_equal(matrix, before)
            np.testing.assert_array_equal(constraint.project(matrix), expected)


# -- scale -----------------------------------------------------------------------------------------------


@for_each("name", CONSTRAINTS)
def test_a_positive_factor_does_not_matter(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    for dtype in DTYPES:
        matrix = coarse(constraint.shape, dtype)
        expected = constraint.project(matrix)
        for exponent in (120, 50, -50, -120) if tolerance(matrix) > 1e-9 else (660, 50, -50, -660, 1018, -1010):
            assert_close(constraint.project(matrix * dtype(2.0**exponent)), expected)
    matrix = coarse(constraint.shape, np.float64)
    for factor in (1e200, 1e-200, 1e-310):
        assert_close(constraint.project(factor * matrix), constraint.project(matrix))


@pytest.mark.parametrize(
    ("dtype", "exponent"), [(np.float32, -140), (np.float64, -1060), (np.complex64, -140), (np.complex128, -1060)]
)
def test_subnormal_numbers_are_as_good_as_others(dtype: Any, exponent: int) -> None:
    for make in CONSTRAINTS.values():
        constraint = make()
        matrix = coarse(constraint.shape, dtype)
        assert_close(constraint.project(matrix * dtype(2.0**exponent)), constraint.project(matrix))


@pytest.mark.parametrize(
    ("constraint", "unseen", "seen", "exponent"),
    [
        (c.Support([[1, 1], [0, 1]]), [[0, 0], [1, 0]], np.array([[1, 1], [0, 0]], np.float32), -149),
        (c.Support([[1, 1], [0, 1]]), [[0, 0], [1, 0]], np.array([[3j, 4], [0, 0]]), -1060),
        (c.Symmetric(2), [[0, 1], [-1, 0]], np.array([[3.0, 0], [0, 4]]), -660),
    ],
    ids=["single", "complex", "symmetric"],
)
def test_entries_that_no_member_has_do_not_matter(
    constraint: c.Constraint, unseen: Any, seen: Array, exponent: int
) -> None:
    matrix = seen * seen.dtype.type(2.0**exponent) + np.array(unseen, dtype=seen.dtype)
    assert_close(constraint.project(matrix), constraint.project(seen))


# -- ties ------------------------------------------------------------------------------------------------


@for_each("name", [name for name in UNIT_NORM if not is_nonnegative(name)])
def test_ties_go_to_the_lowest_row_major_index(name: str) -> None:
    constraint, defined = CONSTRAINTS[name](), definition(name)
    ones = np.ones(constraint.shape)
    expected = defined.first_of_the_best_supports(ones)
    for matrix in (ones, -ones, 0.7 * ones, (0.6 - 0.8j) * ones, ones.astype(np.float32)):
        np.testing.assert_array_equal(constraint.project(matrix) != 0, expected)
    np.testing.assert_array_equal(c.NonNegative(constraint).project(ones) != 0, expected)


@pytest.mark.parametrize(
    ("constraint", "places"),
    [
        (c.Sparse((2, 3), 4), [(0, 0), (0, 1), (0, 2), (1, 0)]),
        (c.SparseRows((2, 3), 2), [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (c.SparseColumns((3, 2), 1), [(0, 0), (0, 1)]),
        (c.SparseBlocks((2, 4), 1, block=2), [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (c.SparseBlocks((2, 3), 1, block=(2, 1), column_order=[2, 0, 1]), [(0, 0), (1, 0)]),
        (c.Support([[0, 1, 1], [1, 0, 1]], 2), [(0, 1), (0, 2)]),
        (c.Circulant(3, 1), [(0, 0), (1, 1), (2, 2)]),
        (c.Toeplitz((2, 3), 1), [(0, 0), (1, 1)]),
        (c.Hankel((2, 3), 1), [(0, 1), (1, 0)]),
        (c.Symmetric(3, 1), [(0, 0)]),
        (c.SparseRowsAndColumns((2, 3), 1), [(0, 0), (1, 1)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_first_of_equal_entries_are_kept(constraint: c.Constraint, places: list[tuple[int, int]]) -> None:
    expected = sum(one_entry(constraint.shape, place) for place in places)
    np.testing.assert_array_equal(constraint.project(np.ones(constraint.shape)) != 0, expected != 0)


@for_each("name", UNIT_NORM)
def test_rounding_does_not_decide_ties(name: str) -> None:
    constraint = CONSTRAINTS[name]()
    for dtype, size in [(np.float64, 1e-13), (np.complex128, 1e-13), (np.float32, 2e-7)]:
        equal = [np.ones(constraint.shape, dtype)]
        if name in WITHOUT_STRUCTURE:
            equal.append(sample(constraint.shape, "signs").astype(dtype))
        for matrix, seed in itertools.product(equal, range(10)):
            noise = np.random.default_rng(seed).uniform(-size, size, constraint.shape)
            perturbed = matrix * (1 + noise).astype(dtype)
            assert (perturbed != matrix).any()
            np.testing.assert_array_equal(constraint.project(perturbed) != 0, constraint.project(matrix) != 0)


# -- nothing to project ----------------------------------------------------------------------------------


@for_each("name", UNIT_NORM)
def test_zero_becomes_a_single_one_at_the_first_place_that_may_stand_alone(name: str) -> None:
    constraint, defined = CONSTRAINTS[name](), definition(name)
    alone = defined.supports[defined.supports.sum(axis=1) == 1]
    expected = defined.matrix(alone[np.argmax(alone, axis=1).argmin()])
    for dtype in DTYPES:
        assert_close(constraint.project(np.zeros(constraint.shape, dtype)), expected.astype(dtype))


def test_zero_lines_become_the_first_unit_vector() -> None:
    matrix = np.array([[0, 0, 0], [0, -3, 4]])
    np.testing.assert_array_equal(c.UnitRows((2, 3)).project(matrix), [[1, 0, 0], [0, -0.6, 0.8]])
    np.testing.assert_array_equal(c.UnitColumns((3, 2)).project(matrix.T), [[1, 0], [0, -0.6], [0, 0.8]])
    np.testing.assert_array_equal(c.NonNegative(c.UnitRows((2, 3))).project(matrix), [[1, 0, 0], [0, 0, 1]])


def test_symmetric_zero_becomes_one_on_the_diagonal_where_a_pair_is_too_many() -> None:
    negative = np.array([[-3.0, 0.0], [0.0, -2.0]])
    np.testing.assert_array_equal(c.NonNegative(c.Symmetric(2, 1)).project(negative), [[0, 0], [0, 1]])
    np.testing.assert_allclose(c.NonNegative(c.Symmetric(2, 2)).project(negative), np.sqrt([[0, 0.5], [0.5, 0]]))
