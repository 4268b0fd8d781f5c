"""Bad input to constraint sets: the error names the argument and comes before any work is done."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from papilio import constraints as c

from .helpers import for_each
from .registry import CONSTRAINTS

SPARSITIES: dict[str, tuple[Callable[[Any], c.Constraint], int]] = {
    "n_nonzero of Sparse": (lambda n: c.Sparse((3, 4), n), 12),
    "k of SparseRows": (lambda k: c.SparseRows((3, 4), k), 4),
    "k of SparseColumns": (lambda k: c.SparseColumns((3, 4), k), 3),
    "k of SparseRowsAndColumns": (lambda k: c.SparseRowsAndColumns((3, 4), k), 4),
    "n_blocks of SparseBlocks": (lambda n: c.SparseBlocks((3, 4), n, block=(2, 3)), 4),
    "n_nonzero of Support": (lambda n: c.Support([[1, 0], [1, 1]], n), 3),
    "n_nonzero of Triangular": (lambda n: c.Triangular((3, 4), n), 6),
    "n_nonzero of Diagonal": (lambda n: c.Diagonal((3, 4), n), 3),
    "n_nonzero of BlockDiagonal": (lambda n: c.BlockDiagonal([(2, 1), 2], n), 6),
    "n_nonzero of Symmetric": (lambda n: c.Symmetric(3, n), 9),
    "n_diagonals of Circulant": (lambda n: c.Circulant(3, n), 3),
    "n_diagonals of Toeplitz": (lambda n: c.Toeplitz((3, 4), n), 6),
    "n_antidiagonals of Hankel": (lambda n: c.Hankel((3, 4), n), 6),
}
SHAPES: dict[str, Callable[[Any], c.Constraint]] = {
    "shape of Dense": c.Dense,
    "shape of Sparse": lambda shape: c.Sparse(shape, 1),
    "shape of SparseRows": lambda shape: c.SparseRows(shape, 1),
    "shape of SparseColumns": lambda shape: c.SparseColumns(shape, 1),
    "shape of SparseRowsAndColumns": lambda shape: c.SparseRowsAndColumns(shape, 1),
    "shape of SparseBlocks": lambda shape: c.SparseBlocks(shape, 1, block=1),
    "block of SparseBlocks": lambda block: c.SparseBlocks((3, 4), 1, block),
    "shape of Triangular": c.Triangular,
    "shape of Diagonal": c.Diagonal,
    "n of Symmetric": c.Symmetric,
    "n of Circulant": c.Circulant,
    "shape of Toeplitz": c.Toeplitz,
    "shape of Hankel": c.Hankel,
    "shape of UnitRows": c.UnitRows,
    "shape of UnitColumns": c.UnitColumns,
    "blocks[1] of BlockDiagonal": lambda shape: c.BlockDiagonal([2, shape]),
}


def names(case: str) -> str:
    """A pattern for messages that begin with the argument's name, which comes first in ``case``."""
    return f"^{re.escape(case.split()[0])}[ \\[]"


# -- arguments of the sets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SPARSITIES)
def test_sparsity_goes_from_one_to_all(case: str) -> None:
    make, most = SPARSITIES[case]
    for number in (1, most, np.int64(most), np.array(most)):
        assert make(number).n_nonzero >= 1
    for number in (0, -1, most + 1, 10**30):
        with pytest.raises(ValueError, match=names(case)) as caught:
            make(number)
        assert str(number) in str(caught.value)
        assert str(most) in str(caught.value)


@pytest.mark.parametrize("number", [1.0, 0.5, np.float64(2), np.nan, True, np.True_, "2", [1], (1, 2), 1j, b"1"])
@pytest.mark.parametrize("case", SPARSITIES)
def test_sparsity_must_be_an_integer(case: str, number: Any) -> None:
    with pytest.raises(TypeError, match=names(case)):
        SPARSITIES[case][0](number)


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((), ValueError),
        ((3,), ValueError),
        ((3, 3, 3), ValueError),
        ([], ValueError),
        (np.ones(3, dtype=int), ValueError),
        (0, ValueError),
        (-2, ValueError),
        ((0, 3), ValueError),
        ((3, 0), ValueError),
        ((3, -1), ValueError),
        ("", ValueError),
        ("34", TypeError),
        (3.0, TypeError),
        ((3.0, 3), TypeError),
        ((3, "3"), TypeError),
        ((True, 3), TypeError),
        (True, TypeError),
        (None, TypeError),
        ({3, 4}, TypeError),
    ],
    ids=repr,
)
@pytest.mark.parametrize("case", SHAPES)
def test_shape_must_be_one_or_two_positive_integers(case: str, shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=names(case)):
        SHAPES[case](shape)


@pytest.mark.parametrize("case", SHAPES)
def test_one_integer_stands_for_a_square(case: str) -> None:
    for shape in (3, np.int32(3), (3, 3), [3, 3], np.array([3, 3])):
        assert repr(SHAPES[case](shape)) == repr(SHAPES[case](3))


def test_an_array_of_no_dimensions_is_one_integer() -> None:
    assert c.Dense(np.array(3)).shape == (3, 3)


@pytest.mark.parametrize("make", [c.Circulant, c.Symmetric])
def test_square_sets_reject_other_shapes(make: Callable[[Any], c.Constraint]) -> None:
    with pytest.raises(ValueError, match=r"^n must be .* square"):
        make((3, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"support": []}, ValueError, "^support must have at least one place"),
        ({"support": [0, 6]}, ValueError, r"^support must have places on the grid \(6,\), from -6 to 5, got 6$"),
        ({"support": [0, -6]}, ValueError, "^support must have distinct places .* got 0 twice"),
        ({"support": [0.5]}, TypeError, "^support must hold integers"),
        ({"support": [(0, 1)]}, ValueError, "^support must have places in 1 dimensions"),
        ({"support": [0], "grid": (2, 3)}, ValueError, "^support must have places in 2 dimensions"),
        ({"grid": (2, 2)}, ValueError, r"^grid must have n = 6 points, got \(2, 2\), which has 4"),
        ({"grid": (1, 2, 3)}, ValueError, "^grid must have one or two dimensions"),
        ({"support": [0, 2], "n_diagonals": 3}, ValueError, "^n_diagonals must be .* 2"),
    ],
)
def test_places_of_convolutions(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        c.Circulant(6, **arguments)


@pytest.mark.parametrize(
    "mask",
    [np.zeros((2, 2)), np.zeros((0, 2)), np.ones(3), np.ones((2, 2, 2)), 1, None, "x", [["a"]], [[None]]],
    ids=repr,
)
def test_mask_must_be_a_matrix_that_allows_something(mask: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^mask must "):
        c.Support(mask)


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        *(([], ValueError), (3, TypeError), (None, TypeError), ("ab", TypeError), ([2, "x"], ValueError)),
        *((sp.coo_array(np.eye(2)).asformat(form), TypeError) for form in ("csr", "bsr", "dia")),
    ],
)
def test_blocks_must_be_a_sequence_of_shapes(blocks: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^blocks"):
        c.BlockDiagonal(blocks)


@pytest.mark.parametrize("block", [(4, 1), (1, 5), 4, (10**9, 1)])
def test_blocks_fit_into_the_matrix(block: Any) -> None:
    with pytest.raises(ValueError, match=r"^block must not be larger than the matrix, \(3, 4\), got "):
        c.SparseBlocks((3, 4), 1, block)


@pytest.mark.parametrize(
    "order", [[0, 1], [0, 1, 3], [0, 1, 1], [[0, 1, 2]], [0.0, 1.0, 2.0], "012", 3, [None] * 3]
)
def test_orders_hold_every_line_once(order: Any) -> None:
    with pytest.raises(ValueError, match=r"^row_order must hold the integers from 0 to 2, each once, got "):
        c.SparseBlocks((3, 4), 1, 1, row_order=order)
    with pytest.raises(ValueError, match=r"^column_order must hold "):
        c.SparseBlocks((4, 3), 1, 1, column_order=order)


@pytest.mark.parametrize("constraint", ["x", None, 3, c.Sparse, np.eye(2)])
def test_nonnegative_takes_constraints_only(constraint: Any) -> None:
    with pytest.raises(TypeError, match=r"^constraint must be a papilio constraint, got "):
        c.NonNegative(constraint)


@pytest.mark.parametrize("entry", [-1.0, -1e-300, 1j, 1 + 1e-20j])
def test_nonnegative_rejects_a_fixed_matrix_that_is_not(entry: complex) -> None:
    fixed = c.Fixed([[1, entry]])
    with pytest.raises(ValueError, match=r"^constraint must have non-negative members"):
        c.NonNegative(fixed)


def test_nonnegative_of_nonnegative_is_the_same_set() -> None:
    once = c.NonNegative(c.Toeplitz((3, 4), 2))
    matrix = np.random.default_rng(0).standard_normal((3, 4))
    np.testing.assert_array_equal(c.NonNegative(once).project(matrix), once.project(matrix))
    assert once.contains(once.project(matrix))


# -- matrices ------------------------------------------------------------------------------------------------

NOT_NUMBERS = [
    np.full((3, 4), "a"),
    np.full((3, 4), None),
    np.full((3, 4), 1, dtype=object),
    np.full((3, 4), b"1"),
    np.zeros((3, 4), dtype="datetime64[s]"),
    "text",
    None,
    {},
]


@pytest.mark.parametrize("matrix", NOT_NUMBERS, ids=lambda matrix: str(np.asarray(matrix).dtype))
def test_matrices_must_hold_numbers(matrix: Any) -> None:
    for make in CONSTRAINTS.values():
        for take in (make().project, make().contains):
            with pytest.raises(TypeError, match=r"^matrix must hold real or complex numbers"):
                take(matrix)
    with pytest.raises(TypeError, match=r"^matrix must hold real or complex numbers"):
        c.Fixed(matrix)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, complex(0, np.nan), complex(1, np.inf)])
@for_each("name", CONSTRAINTS)
def test_matrices_must_be_finite(name: str, value: complex) -> None:
    constraint = CONSTRAINTS[name]()
    matrix = np.ones(constraint.shape, dtype=type(value))
    matrix[-1, -1] = value
    with pytest.raises(ValueError, match=r"^matrix must hold finite numbers"):
        constraint.project(matrix)
    assert not constraint.contains(matrix)
    with pytest.raises(ValueError, match=r"^matrix must hold finite numbers"):
        c.Fixed(matrix)


@pytest.mark.parametrize("tol", ["x", -1.0, np.nan, np.inf, [1e-3], None, 1j])
@pytest.mark.parametrize("member", [c.Sparse(2, 2), c.Fixed([[1.0, 2.0], [0.0, 1.0]]), c.UnitRows(2)])
def test_a_tolerance_is_a_number(member: c.Constraint, tol: Any) -> None:
    matrix = member.project(np.eye(2))
    if tol is None:
        assert member.contains(matrix, tol)
        return
    with pytest.raises((TypeError, ValueError), match=r"^tol must be a finite real number of at least 0"):
        member.contains(matrix, tol)
    with pytest.raises((TypeError, ValueError), match=r"^tol must be a finite real number of at least 0"):
        member.contains(np.eye(3), tol)
