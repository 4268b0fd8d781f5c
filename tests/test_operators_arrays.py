"""SparseProduct where arrays are expected: n-dimensional batches, NumPy's functions, SciPy's sparse arrays."""

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

import papilio as pp
from papilio.linalg import wide

from .helpers import ALL_DTYPES, gaussian

SHAPES = [(1, 1), (1, 6), (6, 1), (5, 7), (7, 5)]
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "last axes swapped": lambda x: np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), dtype=x.dtype).reshape(x.shape),
}


def pair(shape: tuple[int, int], dtype: Any, inner: int = 4) -> tuple[pp.SparseProduct, Any]:
    """An operator of two factors and its dense matrix."""
    left, right = gaussian((shape[0], inner), dtype), gaussian((inner, shape[1]), dtype, 1)
    return pp.SparseProduct([left, right], scale=-0.5), (-0.5 * left @ right).astype(dtype)


def assert_same(actual: Any, expected: Any) -> None:
    """Equal in type, shape and dtype, and in value up to rounding."""
    assert type(actual) is np.ndarray
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    scale = np.abs(expected).max(initial=1e-300)
    assert np.abs(actual - expected).max(initial=0) <= 200 * np.finfo(expected.dtype).eps * scale


# -- batches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batches_of_blocks_give_what_numpy_gives(shape: Any, layout: str, dtype: Any) -> None:
    op, dense = pair(shape, dtype)
    for batch, count in product([(), (3,), (2, 3), (1, 2, 1, 2), (0,), (2, 0)], (1, 3, 0)):
        right = LAYOUTS[layout](gaussian((*batch, shape[1], count), dtype))
        left = LAYOUTS[layout](gaussian((*batch, count, shape[0]), dtype, 1))
        tall = np.swapaxes(left, -1, -2)
        for result in (op @ right, op.dot(right), op * right, op(right)):
            assert_same(result, dense @ right)
        assert_same(left @ op, left @ dense)
        assert_same(left * op, left @ dense)
        assert_same(op.H @ tall, dense.conj().T @ tall)
        assert_same(op.T @ tall, dense.T @ tall)


@settings(deadline=None)
@given(
    batch=st.lists(st.integers(0, 3), max_size=3),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 5)),
    dtypes=st.tuples(
        st.sampled_from(ALL_DTYPES), st.sampled_from([*map(np.dtype, ALL_DTYPES), *map(np.dtype, "h?")])
    ),
    order=st.permutations(range(5)),
)
def test_batches_of_any_strides_and_mixed_dtypes_give_what_numpy_gives(
    batch: Any, sizes: Any, dtypes: Any, order: Any
) -> None:
    rows, columns, count = sizes
    op = pair((rows, columns), dtypes[0])[0]
    dense = op.astype(wide(op.dtype)).toarray()
    shape = (*batch, columns, count)
    axes = [axis for axis in order if axis < len(shape)]
    memory = gaussian([shape[axis] for axis in axes], np.complex128)
    x = np.transpose(memory if dtypes[1].kind == "c" else memory.real, np.argsort(axes)).astype(dtypes[1])
    expected = (dense @ x).astype(np.result_type(op.dtype, x.dtype if x.dtype.kind in "fc" else np.float64))
    assert_same(op @ x, expected)
    assert_same(np.swapaxes(np.swapaxes(x, -1, -2) @ op.T, -1, -2), expected)


@pytest.mark.parametrize("method", ["matvec", "rmatvec"])
def test_a_column_is_one_vector_by_scipys_rule(method: str) -> None:
    op, dense = pair((5, 7), np.float64)
    x = gaussian((op.shape[method == "matvec"], 1))
    results = []
    for operator in (op, aslinearoperator(dense)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                results.append((getattr(operator, method)(x).shape, [w.category for w in caught]))
            except ValueError:
                results.append(("refused", []))  # This is announced for SciPy 1.20.
    assert results[0] == results[1]


@pytest.mark.parametrize("shape", [(), (6,), (7, 5), (5, 2), (2, 5, 2), (7, 7, 5), (7, 3, 2)])
def test_batches_that_do_not_fit_are_refused_by_name(shape: Any) -> None:
    op, x = pair((5, 7), np.float64)[0], np.ones(shape)
    if shape and not (len(shape) > 1 and shape[-2] == 7):
        with pytest.raises(ValueError, match=r"\bx\b"):
            op.dot(x)
    if shape[-1:] != (5,) and shape:
        with pytest.raises(ValueError, match=r"\bx\b"):
            x @ op


# -- NumPy's functions ---------------------------------------------------------------------------------

TAKEN = """np.asarray(op) | np.array(op) | np.asanyarray(op) | np.ascontiguousarray(op) | np.kron(op, op)
    | np.kron(op, d) | np.kron(d, op) | np.vstack([op, op]) | np.hstack([op, d]) | np.stack([op, op])
    | np.concatenate([d, op], axis=1) | np.block([[op, d], [d, op]]) | np.array([op, op]) | np.linalg.norm(op)
    | np.linalg.norm(op, 2) | np.linalg.svd(op)[1] | np.linalg.pinv(op) | np.linalg.inv(op) | np.trace(op)
    | np.diag(op) | np.dot(op, d) | np.dot(d, op) | np.einsum('ij,jk', op, d) | np.tensordot(d, op)
    | np.allclose(op, d) | np.array_equal(op, d) | np.mean(op) | np.ravel(op) | np.sort(op)
    | np.triu(op) | np.where(op, op, 1) | np.linalg.eigvals(op) | np.outer(op, op) | np.copy(op) | np.tile(op, 2)
    | np.array(op, dtype=np.complex64) | np.fft.fft(op) | np.round(op) | np.argmax(op) | np.nonzero(op)[0]
    | np.shape(op) | np.ndim(op) | np.size(op) | np.linalg.matrix_rank(op) | np.linalg.solve(op, d)"""
REFUSED = """np.sum(op) | np.max(op) | np.abs(op) | np.conj(op) | np.exp(op) | np.matmul(op, d) | np.matmul(d, op)
    | np.add(d, op) | d + op | op + d | d - op | d / op | np.multiply(d, op) | np.isfinite(op) | np.prod(op)
    | list(op) | np.vstack(op) | np.stack(op) | np.column_stack(op) | len(op) | float(op)"""


@pytest.mark.parametrize("expression", [e.strip() for e in TAKEN.split("|")])
def test_numpys_functions_take_an_operator_for_its_dense_matrix(expression: str, dtype: Any) -> None:
    op, dense = pair((4, 4), dtype)
    exact = op.toarray()
    assert_same(exact, dense)
    actual, expected = (eval(expression, {"np": np, "op": o, "d": exact}) for o in (op, exact))
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected), strict=True)
    assert np.asarray(actual).dtype != object


@pytest.mark.parametrize("expression", [e.strip() for e in REFUSED.split("|")])
def test_numpy_functions_without_a_meaning_for_operators_raise(expression: str) -> None:
    op, dense = pair((4, 4), np.float64)
    with pytest.raises(TypeError):
        eval(expression, {"np": np, "op": op, "d": dense})


def test_isreal_tells_real_operators_from_complex_ones(dtype: Any) -> None:
    op, _ = pair((3, 5), dtype)
    assert np.isreal(op) == (np.dtype(dtype).kind != "c")
    assert np.isreal(op.real)
    assert 0 * op == 0
    assert op != 0
    assert pp.SparseProduct([np.zeros((2, 2))]) == 0


def test_arrays_follow_numpys_rules_of_copies_and_dtypes(dtype: Any) -> None:
    op, _ = pair((3, 5), dtype)
    one, other = np.asarray(op), np.asarray(op)
    assert one.flags.writeable
    assert not np.shares_memory(one, other)
    assert np.array(op, copy=True).dtype == dtype
    assert np.asarray(op, dtype=np.complex128).dtype == np.complex128
    with pytest.raises(ValueError, match="copy"):
        np.asarray(op, copy=False)
    with pytest.raises(ValueError, match="copy"):
        np.array(op, copy=False)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("x", ["np.matrix(x)", "x", "x[0]", "x.tolist()"])
def test_products_from_the_left_are_ours(x: str) -> None:
    op, dense = pair((4, 6), np.float64)
    given = eval(x, {"np": np, "x": gaussian((3, 4))})
    for result in (given @ op, given * op):
        np.testing.assert_allclose(result, np.asarray(given) @ dense, atol=1e-12)
    assert isinstance(np.float64(2) * op, pp.SparseProduct)
    assert isinstance(np.array(2.0) * op, pp.SparseProduct)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_arrays_on_the_left_take_an_operator_for_its_dense_matrix(form: str, kind: str) -> None:
    op, dense = pair((4, 6), np.float64)
    left = getattr(sp, f"{form}_{kind}")(np.diag([1.0, 0, 2, 0]))
    assert_same(np.asarray(left @ op), left.toarray() @ dense)
    result = (op.T @ left.T).T
    assert sp.issparse(result)
    np.testing.assert_allclose(result.toarray(), left.toarray() @ dense)
    np.testing.assert_allclose(sp.csr_array(op).toarray(), dense, rtol=1e-12)
    with pytest.raises(TypeError):
        left + op
