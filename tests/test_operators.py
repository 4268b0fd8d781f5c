"""SparseProduct against dense NumPy: products, adjoints, selections, norms and bad input."""

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, eigsh, lsqr, svds

from papilio import SparseProduct

from .helpers import ALL_DTYPES, as_array

CHAINS = {"one": (4, 6), "two": (6, 3, 4), "several": (4, 7, 3, 5, 9), "square": (5, 5, 5)}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda x: np.frombuffer(x.tobytes(), dtype=x.dtype).reshape(x.shape),
    "no columns": lambda x: x[:, :0],
    "one column": lambda x: x[:, :1],
    "vector": lambda x: x[:, 0],
    "list": lambda x: x.tolist(),
}
# What is a SparseProduct again: expressions in op, and in the dense matrix where it is spelt differently there.
SPELT_ALIKE = """op | op.T | -op | 3 * op / 7 | op * (1 - 2j) | op / (1 - 2j) | op[1:3] | op[::-1] | op[:, ::-2]
    | op[[0, -1, 0]] | op[:, np.arange(op.shape[1]) % 3 == 1] | op[[2, 0], 1:] | (op @ op.T)[1:, :2]"""
DERIVED = {expression.strip(): expression.strip() for expression in SPELT_ALIKE.split("|")} | {
    "op.H": "op.conj().T",
    "op.H.T": "op.conj()",
    "op.H @ op": "op.conj().T @ op",
    "op[-1]": "op[-1:]",
    "op[:, np.int8(1)]": "op[:, 1:2]",
    "op[..., -1]": "op[:, -1:]",
    "op.astype(np.result_type(op.dtype, np.float64))": "op",
}


def evaluate(expression: str, op: Any) -> Any:
    return eval(expression, globals(), {"op": op, "P": SparseProduct})


def random_array(seed: int, shape: Any, dtype: Any) -> Any:
    real, imaginary = np.random.default_rng(seed).standard_normal((2, *np.atleast_1d(shape)))
    return (real + 1j * imaginary if np.dtype(dtype).kind == "c" else real).astype(dtype)


def make(dtype: Any, sizes: tuple[int, ...] = CHAINS["two"], scale: float = -0.75) -> tuple[SparseProduct, Any]:
    """A random chain of sparse factors of these sizes, and its dense matrix in double precision."""
    factors = [random_array(seed, shape, dtype) for seed, shape in enumerate(pairwise(sizes))]
    for factor in factors:
        factor[np.abs(factor) < 0.2] = 0
    wide = np.result_type(dtype, np.float64)
    return SparseProduct(factors, scale), scale * reduce(np.matmul, [factor.astype(wide) for factor in factors])


def assert_close(actual: Any, expected: Any, dtype: Any = None) -> None:
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    assert dtype is None or actual.dtype == dtype
    tolerance = 200 * np.finfo(actual.dtype).eps * np.abs(expected).max(initial=1e-300)
    assert np.abs(actual - expected).max(initial=0) <= tolerance


def dot_gap(op: Any, adjoint: Callable[[Any], Any]) -> float:
    """|⟨op x, y⟩ − ⟨x, adjoint(y)⟩| for random x and y, in units of rounding."""
    x, y = random_array(5, op.shape[1], op.dtype), random_array(6, op.shape[0], op.dtype)
    forward, backward = op @ x, adjoint(y)
    size = np.linalg.norm(forward) * np.linalg.norm(y) + np.linalg.norm(backward) * np.linalg.norm(x)
    return float(abs(np.vdot(y, forward) - np.vdot(backward, x)) / size / np.finfo(op.dtype).eps)


@pytest.fixture(params=CHAINS.values(), ids=CHAINS)
def case(request: pytest.FixtureRequest, dtype: Any) -> tuple[SparseProduct, Any]:
    return make(dtype, request.param)


# -- what it is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", CHAINS.values(), ids=CHAINS)
def test_attributes_are_those_of_the_chain(dtype: Any, sizes: tuple[int, ...]) -> None:
    op, dense = make(dtype, sizes, 0.5)
    assert (op.shape, op.ndim, op.dtype, op.scale) == ((sizes[0], sizes[-1]), 2, dtype, 0.5)
    assert [factor.shape for factor in op.factors] == list(pairwise(sizes))
    assert all(factor.dtype == dtype for factor in op.factors)
    assert op.nnz == sum(np.count_nonzero(as_array(factor)) for factor in op.factors)
    assert op.relative_complexity == op.nnz / dense.size
    assert_close(op.toarray(), dense, dtype)
    assert op.toarray().flags.writeable
    for word in (f"{sizes[0]}×{sizes[-1]}", np.dtype(dtype).name, f"{len(sizes) - 1} factor", f"{op.nnz} entries"):
        assert word in repr(op)
    assert len(repr(SparseProduct([np.eye(3)] * 30))) < 115  # a long chain is shortened


@pytest.mark.parametrize("expression", DERIVED)
def test_derived_operators_are_sparse_products_with_the_dense_matrix(case: Any, expression: str) -> None:
    op, dense = case
    derived, expected = evaluate(expression, op), evaluate(DERIVED[expression], dense)
    others = [kind for word, kind in (("j", np.complex64), ("astype", np.float64)) if word in expression]
    assert isinstance(derived, SparseProduct)
    assert_close(derived.toarray(), expected, np.result_type(op.dtype, *others))
    x = np.ones((derived.shape[1], 2), dtype=derived.dtype)
    assert_close(derived @ x, expected @ x, derived.dtype)
    assert dot_gap(derived, derived.H.matvec) < 20
    assert dot_gap(derived, derived.rmatvec) < 20
    assert derived.T.T == derived == derived.H.H


def test_dot_test_rejects_wrong_adjoints() -> None:
    op, _ = make(np.complex128)
    assert dot_gap(op, op.T.matvec) > 1e6  # It is not conjugated.
    assert dot_gap(op, (op.H * (1 + 1e-9)).matvec) > 1e4
    assert dot_gap(op, op[:, ::-1].H.matvec) > 1e6


# -- applying it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_equal_the_dense_ones_in_every_layout(case: Any, layout: str) -> None:
    op, dense = case
    left, right = (LAYOUTS[layout](random_array(1, (size, 3), op.dtype)) for size in op.shape)
    dtype = np.result_type(op.dtype, np.float64) if layout == "list" else op.dtype
    for product in (op @ right, op * right, op.dot(right), op(right)):
        assert_close(product, dense @ right, dtype)
    rows = list(zip(*left, strict=True)) if layout == "list" else left.T
    assert_close(rows @ op, rows @ dense, dtype)
    if layout != "list":
        assert_close(op.rmatvec(left) if left.ndim == 1 else op.rmatmat(left), dense.conj().T @ left, dtype)


@pytest.mark.parametrize("x_dtype", ALL_DTYPES)
@pytest.mark.parametrize("op_dtype", ALL_DTYPES)
def test_mixed_dtypes_give_numpys_result_type(op_dtype: Any, x_dtype: Any) -> None:
    op, dense = make(op_dtype)
    x = random_array(0, (op.shape[1], 2), x_dtype)
    expected = np.result_type(op_dtype, x_dtype)
    assert_close(op @ x, dense @ x, expected)
    assert_close(op @ x[:, 0], dense @ x[:, 0], expected)
    assert_close(x.T @ op.T, (dense @ x).T, expected)
    assert_close((op @ sp.csr_array(x)).toarray(), dense @ x, expected)
    assert_close((op @ SparseProduct([x])).toarray(), dense @ x, expected)


@pytest.mark.parametrize("x_dtype", [bool, np.int8, np.uint64, np.float16, np.longdouble])
def test_other_real_numbers_count_as_float64(x_dtype: Any) -> None:
    op, dense = make(np.float32)
    x = np.array([1, 0, 1, 1]).astype(x_dtype)
    assert_close(op @ x, dense @ x.astype(float), np.float64)
    assert SparseProduct([x[None]]).dtype == np.float64


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_array", "lil_array", "csr_matrix", "bsr_matrix"])
def test_sparse_blocks_give_sparse_products_and_stay_as_they_are(case: Any, form: str) -> None:
    op, dense = case
    block = random_array(0, (op.shape[1], 3), op.dtype)
    block[1] = 0
    right = getattr(sp, form)(block)
    for product in (op @ right, op.matmat(right)):
        assert sp.issparse(product)
        assert_close(product.toarray(), dense @ block, op.dtype)
    assert right.data.flags.writeable


REAL = [2, -3, 0, True, 2.5, 1e-3, Fraction(1, 3), np.int8(-2), np.uint64(5), np.float64(0.1), np.longdouble(0.1)]
SINGLE, COMPLEX = np.float32(3), [2j, 0j, np.complex128(1 - 1j), np.complex64(1j)]
VECTORS = [np.array(2.0), np.True_]


@pytest.mark.parametrize("number", [*REAL, SINGLE, *COMPLEX, *VECTORS])
def test_scalars_scale_from_both_sides(number: Any) -> None:
    op, dense = make(np.float64)
    factor = complex(number) if np.iscomplexobj(number) else float(number)
    quotients = [(op / number, dense / factor)] if number else []
    for scaled, expected in [(number * op, factor * dense), (op * number, factor * dense), *quotients]:
        assert isinstance(scaled, SparseProduct)
        assert_close(scaled.toarray(), expected, np.result_type(np.float64, type(factor)))
        assert type(scaled.scale) is float


@pytest.mark.parametrize(("scale", "number"), [(49, 49), (1e-310, 1e-310), (0.3, SINGLE), (1e200, SINGLE)])
def test_division_rounds_the_scale_only_once(scale: float, number: Any) -> None:
    op = make(np.float64, scale=scale)[0]
    assert (op / number).scale == scale / float(number)
    assert (op * number).scale == scale * float(number)


@pytest.mark.parametrize("expression", ["op + B", "B - op", "op**2", "op @ B", "B @ op"])
def test_sums_powers_and_products_with_other_operators_work_lazily(dtype: Any, expression: str) -> None:
    op, dense = make(dtype, CHAINS["square"])
    other = random_array(3, dense.shape, dtype)
    total = eval(expression, {"op": op, "B": aslinearoperator(other)})
    expected = eval(expression.replace("op**2", "op @ op"), {"op": dense, "B": other})
    x = random_array(4, (5, 2), dtype)
    assert isinstance(total, LinearOperator)
    assert_close(total @ x, expected @ x, dtype)
    assert_close(total.H @ x, expected.conj().T @ x, dtype)
    assert dot_gap(total, total.rmatvec) < 50


def test_scipys_solvers_agree_with_dense_linear_algebra(dtype: Any) -> None:
    op, dense = make(dtype, (12, 15, 8))
    tolerance = 1e-3 if np.finfo(dtype).bits == 32 else 1e-9
    b = random_array(2, 12, dtype)
    solution = np.linalg.lstsq(dense, b, rcond=None)[0]
    found = lsqr(op, b, atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(found, solution, atol=tolerance * np.abs(solution).max())
    solved, info = cg(op.H @ op + aslinearoperator(np.eye(8, dtype=dtype)), b[:8], rtol=tolerance / 100)
    assert info == 0
    np.testing.assert_allclose(solved, np.linalg.solve(dense.conj().T @ dense + np.eye(8), b[:8]), atol=tolerance)
    values = np.linalg.svd(dense, compute_uv=False)
    u, s, vh = svds(op, k=3, v0=np.ones(8, dtype=dtype))
    np.testing.assert_allclose(s[::-1], values[:3], rtol=tolerance)
    np.testing.assert_allclose((u * s) @ vh @ vh.conj().T, dense @ vh.conj().T, atol=tolerance * values[0])
    squares = eigsh(op.H @ op, k=2, v0=np.ones(8, dtype=dtype), return_eigenvectors=False)
    np.testing.assert_allclose(squares[::-1], values[:2] ** 2, rtol=tolerance)


# -- norms ---------------------------------------------------------------------------------------------

MATRICES = {
    "random": random_array(0, (7, 5), np.float64),
    "wide": random_array(0, (3, 40), np.float64),
    "complex": random_array(0, (6, 6), np.complex128),
    "single": random_array(0, (6, 4), np.float32),
    "single complex": random_array(0, (6, 4), np.complex64),
    "zero": np.zeros((3, 4)),
    "one row": random_array(0, (1, 6), np.float64),
    "one column": random_array(0, (6, 1), np.complex128),
    "one entry": np.array([[-3.0]]),
    "2x2": np.array([[1.0, -1.0], [1.0, -1.0]]),
    "nilpotent": np.array([[0.0, 2.0], [0.0, 0.0]]),
    "repeated": np.diag([3.0, 3.0, 3.0, 1.0, 1.0]),
    "identity": np.eye(30),
    "clustered": np.diag(1 + 1e-9 * np.arange(100)),
    "one entry of many": np.eye(50)[:, :1] @ np.eye(60)[:1],
}
RANDOM = MATRICES["random"]


@pytest.mark.parametrize("ord", [2, "fro", 1, np.inf])
@pytest.mark.parametrize("scale", [1.0, -2.5, 0.0, 1e200, -1e-200])
@pytest.mark.parametrize("name", MATRICES)
def test_norms_are_numpys_at_every_scale(name: str, scale: float, ord: Any) -> None:
    matrix = MATRICES[name]
    expected = abs(scale) * float(np.linalg.norm(matrix.astype(np.result_type(matrix, np.float64)), ord))
    rel = 1e-6 if "single" in name and ord != 2 else 1e-12
    assert SparseProduct([matrix], scale).norm(ord) == pytest.approx(expected, rel=rel, abs=0)


@pytest.mark.parametrize("ord", [2, "fro", 1, np.inf])
@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_norms_of_very_large_and_very_small_operators(size: float, ord: Any) -> None:
    expected = size * float(np.linalg.norm(RANDOM, ord))
    assert SparseProduct([size * RANDOM]).norm(ord) == pytest.approx(expected, rel=1e-12, abs=0)


def test_norm_of_a_product_that_cancels_is_zero_and_the_default_is_frobenius() -> None:
    zero = SparseProduct([MATRICES["nilpotent"]] * 2)
    assert (zero.norm(2), zero.norm("fro"), zero.norm(), zero.norm(1), zero.norm(np.inf)) == (0.0,) * 5
    assert SparseProduct([RANDOM]).norm() == SparseProduct([RANDOM]).norm("fro")


def test_explicit_zeros_are_dropped_and_duplicates_added() -> None:
    entries = ([1.0, 2.0, 0.0, 5.0, -5.0, 4.0], ([0, 0, 0, 1, 1, 1], [1, 1, 0, 2, 2, 0]))
    messy = sp.csr_array(([4.0, 3.0, 0.0, -1.0], [2, 0, 1, 0], [0, 4, 4]), shape=(2, 3))
    assert SparseProduct([sp.coo_array(entries, shape=(2, 3))]) == SparseProduct([[[0, 3, 0], [4, 0, 0]]])
    assert SparseProduct([messy]) == SparseProduct([[[2, 0, 4], [0, 0, 0]]])
    assert messy.nnz == 4


# -- random chains -------------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn) -> list[Any]:
    """Factors of small whole numbers, so that every product is exact in every dtype."""
    shapes = list(pairwise(draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))))
    kinds = [np.dtype(draw(st.sampled_from([*ALL_DTYPES, np.int8, bool]))) for _ in shapes]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = zip(kinds, (rng.integers(-2, 3, (2, *shape)) for shape in shapes), strict=True)
    return [(real + 1j * imag if kind.kind == "c" else real).astype(kind) for kind, (real, imag) in parts]


def keys(size: int) -> st.SearchStrategy[Any]:
    index = st.integers(-size, size - 1)
    several = st.lists(index, max_size=2 * size)
    mask = st.lists(st.booleans(), min_size=size, max_size=size).map(np.array)
    return st.one_of(index, st.slices(size), several, several.map(lambda x: np.array(x, dtype=np.int16)), mask)


@settings(deadline=None, max_examples=50)
@given(factors=chains(), data=st.data())
def test_random_chains_apply_and_select_as_numpy_does(factors: list[Any], data: st.DataObject) -> None:
    op = SparseProduct(factors, scale=0.5)
    assert op.dtype == np.result_type(*(f.dtype if f.dtype.kind in "fc" else np.float64 for f in factors))
    dense = 0.5 * reduce(np.matmul, [factor.astype(np.complex128) for factor in factors])
    block = np.arange(3.0 * op.shape[1]).reshape(-1, 3)
    np.testing.assert_array_equal(op @ block, dense @ block)
    both = [data.draw(keys(size)) for size in op.shape]
    picked = [
        np.atleast_1d(np.arange(n)[k] if np.size(k) or isinstance(k, slice) else np.arange(0))
        for n, k in zip(op.shape, both, strict=True)
    ]
    if 0 in (picked[0].size, picked[1].size):
        with pytest.raises(IndexError, match="at least one"):
            op[tuple(both)]
        return
    part = op[tuple(both)]
    if all(isinstance(key, int) for key in both):
        assert part == dense[tuple(both)]
        assert part.dtype == op.dtype
    else:
        np.testing.assert_array_equal(part.toarray(), dense[np.ix_(*picked)])
        np.testing.assert_array_equal(np.ones(part.shape[0]) @ part, dense[np.ix_(*picked)].sum(axis=0))
    np.testing.assert_array_equal(op[both[0]].toarray(), dense[picked[0]])


# -- bad input -----------------------------------------------------------------------------------------

OP, DENSE = make(np.float64)  # 6×4
HUGE = SparseProduct([[[1e200]]], 1e200)
TWICE = sp.csr_array(([1e308, 1e308], [0, 0], [0, 2]), shape=(1, 1))
OUTSIDE = sp.csr_array(([1.0], [5], [0, 1]), shape=(1, 2))
FIRST, SECOND, X = r"factors\[0\]", r"factors\[1\]", r"\bx\b"
BAD: list[tuple[Any, ...]] = [
    (ValueError, "factors", "P([])"),
    (TypeError, "factors", "P(3) | P('ab') | P(sp.eye_array(3))"),
    (ValueError, FIRST, "P(np.eye(3)) | P([[[1], [1, 2]]]) | P([np.ones((0, 3))]) | P([sp.csr_array((3, 0))])"),
    (
        ValueError,
        FIRST,
        "P([sp.coo_array(np.ones(2))]) | P([sp.csr_array([[np.inf]])]) | P([[[complex(0, np.inf)]]])",
    ),
    (ValueError, FIRST, "P([TWICE])"),
    (ValueError, FIRST, "P([OUTSIDE])"),
    (ValueError, SECOND, "P([np.eye(1), [[np.nan]]]) | P([np.eye(2), np.ones(2)])"),
    (ValueError, SECOND + r".*factors\[2\]", "P([np.eye(3), np.eye(3), np.eye(2)])"),
    (TypeError, FIRST, "P([[['a']]]) | P([np.array([[None]])])"),
    (ValueError, "scale", "P([[[1]]], np.nan) | P([[[1]]], np.inf) | op * np.nan | op / np.nan"),
    (ValueError, "scale", "op * complex(0, np.inf) | HUGE * 1e200 | HUGE @ HUGE"),
    (ValueError, "scale", "HUGE * 1e200j | op * 10**400"),
    (TypeError, "scale", "P([[[1]]], 1j) | P([[[1]]], '1') | P([[[1]]], [1.0]) | P([[[1]]], None)"),
    (ZeroDivisionError, "zero", "op / 0 | op / np.float64(0) | op / 0j"),
    (TypeError, "SparseProduct", "op / np.ones(2) | 2 / op | op + 1"),
    (ValueError, r"use \*", "op @ 2 | 2 @ op"),
    (ValueError, X, "op @ sp.eye_array(5) | op @ sp.coo_array(np.ones(4)) | op @ [[1], [1, 2]]"),
    (ValueError, X, "op @ np.ones(5) | op @ np.ones((5, 2)) | np.ones((4, 2, 2)) @ op | np.ones(4) @ op"),
    (TypeError, X, "op @ ['a', 'b', 'c', 'd'] | op @ None | [None] @ op"),
    (ValueError, "x must have 4 rows", "op @ op"),
    (
        IndexError,
        "rows",
        "op[6] | op[-7] | op[2**70] | op[1.0] | op['a'] | op[None] | op[[True]] | op[True] | op[[[0]]]",
    ),
    (IndexError, "rows", "op[2**64 - 1] | op[np.uint64(2**64 - 6)]"),
    (IndexError, "columns", "op[:, [0, 4]] | op[:, 1.5] | op[0, -5] | op[0, None]"),
    (IndexError, "2 dimensions", "op[0, 0, 0]"),
    (ValueError, "ord", "op.norm(3) | op.norm('nuc') | op.norm(None)"),
    (TypeError, "dtype", "op.astype(int) | op.astype(complex).astype(float) | op.astype(sp.dok_array(np.eye(2)))"),
]


@pytest.mark.parametrize(
    ("error", "named", "expression"), [pytest.param(*row[:2], e, id=e) for row in BAD for e in row[2].split(" | ")]
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_bad_input_is_refused_by_name(error: type[Exception], named: str, expression: str) -> None:
    with pytest.raises(error, match=named):
        evaluate(expression, OP)


@pytest.mark.parametrize("masked", [np.ma.masked_equal(np.eye(4), 0), [np.ma.masked_equal(np.ones(4), 1)] * 4])
def test_masked_arrays_are_refused_with_what_to_do(masked: Any) -> None:
    op = SparseProduct([np.eye(4)])
    for take in (lambda: op @ masked, lambda: SparseProduct([masked])):
        with pytest.raises(
            TypeError, match=r"must not be a masked array: fill in numbers first, as with .*filled"
        ):
            take()
    with pytest.raises(TypeError, match="scale must not be a masked array"):
        SparseProduct([np.eye(4)], np.ma.masked)


@pytest.mark.parametrize("key", [[[1], [2, 3]], [["a"]], "a", slice("a"), object()])
def test_keys_that_select_nothing_are_index_errors(key: Any) -> None:
    op = SparseProduct([np.eye(4)])
    with pytest.raises(IndexError, match="rows"):
        op[key]
    with pytest.raises(IndexError, match="columns"):
        op[:, key]
