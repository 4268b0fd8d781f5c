"""Sums, stacks, Kronecker products and parts of SparseProducts against NumPy on the dense matrices."""

import operator
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import papilio as pp
from papilio import SparseProduct

from .helpers import DTYPES, as_array, gaussian
from .registry import OPERATORS

H8 = pp.transforms.hadamard(8)


def dense(op: SparseProduct) -> Any:
    """The matrix, from the factors alone: no kernel of papilio takes part."""
    wide = np.result_type(op.dtype, np.float64)
    return op.scale * reduce(np.matmul, [as_array(factor).astype(wide) for factor in op.factors])


def chain(sizes: tuple[int, ...], dtype: Any = np.float64, seed: int = 0, scale: float = 1.0) -> SparseProduct:
    """Factors of small whole numbers, two thirds of them zero, so that all products are exact."""
    rng = np.random.default_rng(seed)
    parts = [rng.integers(1, 4, (2, *shape)) * (rng.random((2, *shape)) < 0.35) for shape in pairwise(sizes)]
    kind = np.dtype(dtype).kind
    return SparseProduct([(a + 1j * b if kind == "c" else a).astype(dtype) for a, b in parts], scale)


@st.composite
def products(draw: st.DrawFn, rows: int | None = None, columns: int | None = None) -> SparseProduct:
    side = st.integers(1, 5)
    inner = draw(st.lists(side, max_size=3))
    sizes = (rows or draw(side), *inner, columns or draw(side))
    scale = draw(st.sampled_from([1.0, -0.5, 2.0, 0.0]))
    return chain(sizes, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 99)), scale)


def require_sound(op: SparseProduct, expected: Any, dtypes: Any) -> None:
    """The matrix exactly, in the common dtype, of factors as a SparseProduct keeps them."""
    assert isinstance(op, SparseProduct)
    assert op.dtype == np.result_type(*dtypes)
    np.testing.assert_array_equal(dense(op), expected)
    assert op == SparseProduct([as_array(factor) for factor in op.factors], op.scale)


def filled_up(ops: list[SparseProduct]) -> int:
    """The entries of all, and of the identities that make them equally long."""
    longest = max(len(op.factors) for op in ops)
    sides = [[op.shape[0], *(factor.shape[1] for factor in op.factors)] for op in ops]
    missing = [longest - len(op.factors) for op in ops]
    return sum(op.nnz + m * min(side) for op, m, side in zip(ops, missing, sides, strict=True))


# -- sums and stacks -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(data=st.data(), count=st.integers(1, 3))
def test_stacks_and_sums_are_numpys_and_have_the_entries_that_are_promised(data: Any, count: int) -> None:
    first = data.draw(products())
    rows, columns = first.shape
    across = [first, *(data.draw(products(rows=rows)) for _ in range(count - 1))]
    down = [first, *(data.draw(products(columns=columns)) for _ in range(count - 1))]
    alike = [first, *(data.draw(products(rows, columns)) for _ in range(count - 1))]
    for join, ops, expected in (
        (pp.operators.hstack, across, np.hstack([dense(op) for op in across])),
        (pp.operators.vstack, down, np.vstack([dense(op) for op in down])),
        (pp.operators.block_diag, across, scipy.linalg.block_diag(*[dense(op) for op in across])),
        (lambda ops: reduce(operator.add, ops), alike, sum(dense(op) for op in alike)),
        (sum, alike, sum(dense(op) for op in alike)),
        (lambda ops: reduce(operator.sub, ops), alike, reduce(np.subtract, [dense(op) for op in alike])),
    ):
        joined = join(ops)
        require_sound(joined, expected, [op.dtype for op in ops])
        if ops is not alike:
            assert joined.nnz <= filled_up(ops)
        assert len(joined.factors) == max(len(op.factors) for op in ops)
    for total, op in zip(accumulate(alike), alike[1:], strict=False):  # sums are made of two at a time
        assert (total + op).nnz <= filled_up([total, op])


def test_entries_of_a_sum_are_those_of_both_and_of_identities_at_the_narrowest_place() -> None:
    long, short = chain((6, 4, 5, 6), seed=1), chain((6, 2, 6), seed=2)
    assert (long + short).nnz == long.nnz + short.nnz + 2
    assert (H8 + chain((8, 8))).nnz == H8.nnz + chain((8, 8)).nnz + 2 * 8
    assert [factor.shape for factor in (long + short).factors] == [(6, 6), (6, 7), (7, 6)]


def test_factors_in_common_stand_once() -> None:
    weights = [SparseProduct([np.diag(np.arange(1.0, 9) + i)]) for i in range(2)]
    both = [H8.T @ weight @ H8 for weight in weights]
    total = both[0] + both[1]
    assert len(total.factors) == 7
    assert total.nnz == both[0].nnz == 2 * H8.nnz + 8
    np.testing.assert_array_equal(dense(total), dense(both[0]) + dense(both[1]))
    assert (H8 + 2 * H8).nnz == H8.nnz
    assert (H8 - H8).nnz == 2 * 2 * 8  # the last factors cancel
    assert pp.operators.hstack([H8, H8]).nnz == H8.nnz + 2 * 8
    assert pp.operators.vstack([H8, H8]).nnz == H8.nnz + 2 * 8
    np.testing.assert_array_equal(dense(pp.operators.vstack([H8, -H8])), np.vstack([dense(H8), -dense(H8)]))


def test_sums_with_other_operators_are_scipys(dtype: Any) -> None:
    op, other = chain((4, 3, 4), dtype), gaussian((4, 4), dtype)
    for total in (op + aslinearoperator(other), aslinearoperator(other) + op):
        assert isinstance(total, LinearOperator)
        assert not isinstance(total, SparseProduct)
        np.testing.assert_allclose(total @ np.eye(4, dtype=dtype), dense(op) + other, rtol=1e-5, atol=1e-6)


# -- Kronecker products --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(a=products(), b=products())
def test_kron_is_numpys_with_no_more_entries_than_one_after_the_other(a: SparseProduct, b: SparseProduct) -> None:
    op = pp.operators.kron(a, b)
    require_sound(op, np.kron(dense(a), dense(b)), [a.dtype, b.dtype])
    first, second = a.nnz * b.shape[0] + a.shape[1] * b.nnz, a.shape[0] * b.nnz + a.nnz * b.shape[1]
    assert op.nnz <= min(first, second)
    assert len(op.factors) <= len(a.factors) + len(b.factors)


# -- real and imaginary parts --------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(op=products())
def test_parts_are_numpys(op: SparseProduct) -> None:
    real = op.dtype.type(0).real.dtype
    require_sound(op.real, dense(op).real, [real])
    require_sound(op.imag, dense(op).imag, [real])
    assert op.real.nnz <= 4 * op.nnz


@pytest.mark.parametrize("make", [pp.transforms.dft, lambda n: pp.transforms.dft(n).H])
def test_parts_of_the_fourier_transform_are_cosines_and_sines(make: Any) -> None:
    transform, angles = make(16), 2 * np.pi * np.outer(np.arange(16), np.arange(16)) / 16
    np.testing.assert_allclose(dense(transform.real), np.cos(angles), atol=1e-14)
    np.testing.assert_allclose(np.abs(dense(transform.imag)), np.abs(np.sin(angles)), atol=1e-14)
    assert transform.real.nnz < 3 * transform.nnz


# -- all of them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_pass_the_dot_test_and_have_the_matrix_of_their_factors(name: str) -> None:
    op = OPERATORS[name]()
    x, y = gaussian((op.shape[1], 3), op.dtype), gaussian((op.shape[0], 3), op.dtype, 1)
    size = np.linalg.norm(dense(op)) * np.linalg.norm(x) * np.linalg.norm(y)
    assert abs(np.vdot(y, op @ x) - np.vdot(op.H @ y, x)) <= 1e-14 * size
    np.testing.assert_allclose(op @ x, dense(op) @ x, atol=1e-12 * np.abs(dense(op)).max())


# -- bad input -----------------------------------------------------------------------------------------

A = chain((3, 2, 4))
LARGE = SparseProduct([sp.csr_array((2**16, 2**16))])
HUGE = SparseProduct([[[1e308]]])
BAD = [
    (
        TypeError,
        "^operators must be a sequence",
        "pp.operators.hstack(A) | pp.operators.vstack(3) | "
        "pp.operators.block_diag('ab') | pp.operators.hstack(None)",
    ),
    (TypeError, "^operators must be a sequence", "pp.operators.hstack(np.ones((2, 3, 3)))"),
    (
        ValueError,
        "^operators must hold at least one",
        "pp.operators.hstack([]) | pp.operators.vstack(()) | pp.operators.block_diag([])",
    ),
    (ValueError, "equally many rows, got 3, 4", "pp.operators.hstack([A, A.T])"),
    (ValueError, "equally many columns, got 4, 3", "pp.operators.vstack([A, A.T])"),
    (ValueError, "equally many rows and columns", "A + A.T | A - A.T"),
    (TypeError, r"operators\[1\] must be", "pp.operators.hstack([A, aslinearoperator(np.eye(3))])"),
    (TypeError, r"operators\[1\] must hold", "pp.operators.hstack([A, [['a']]])"),
    (
        ValueError,
        r"operators\[0\] must",
        "pp.operators.hstack([np.ones(3), A]) | pp.operators.vstack([[[np.nan]]])",
    ),
    (ValueError, "a must", "pp.operators.kron(np.ones(3), A)"),
    (TypeError, "b must", "pp.operators.kron(A, aslinearoperator(np.eye(3)))"),
    (ValueError, "a and b must make", "pp.operators.kron(LARGE, LARGE)"),
    (ValueError, "finite", "HUGE + HUGE"),
    (TypeError, "SparseProduct", "A + 1 | 1 + A | A - 1 | A + None | 0.0 + A"),
]


@pytest.mark.parametrize(
    ("error", "message", "expression"),
    [pytest.param(*row[:2], each, id=each) for row in BAD for each in row[2].split(" | ")],
)
def test_bad_input_is_refused_by_name(error: type[Exception], message: str, expression: str) -> None:
    with pytest.raises(error, match=message):
        eval(expression)
