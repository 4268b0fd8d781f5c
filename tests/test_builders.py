"""Convolutions and random products as builders make them, against SciPy's matrices and their own promises."""

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.transforms import circulant, hadamard, random_butterfly, random_product, toeplitz

from .helpers import DTYPES, as_array, gaussian

ROUNDING = {np.dtype(t): 1e-5 if np.finfo(t).bits == 32 else 1e-13 for t in DTYPES}


def assert_close(op: Any, expected: Any, dtype: Any) -> None:
    assert (op.shape, op.dtype) == (expected.shape, dtype)
    largest = np.abs(expected).max(initial=1e-300)
    assert np.abs(op.toarray() - expected).max() <= ROUNDING[np.dtype(dtype)] * np.sqrt(max(op.shape)) * largest


# -- convolutions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 97, 128])
def test_circulant_is_scipys(n: int, dtype: Any) -> None:
    c = gaussian((n,), dtype, n)
    assert_close(circulant(c), scipy.linalg.circulant(c), dtype)


@settings(deadline=None, max_examples=12)
@given(m=st.integers(1, 130), n=st.integers(1, 130), dtype=st.sampled_from(DTYPES), width=st.integers(1, 130))
def test_toeplitz_is_scipys_for_all_shapes_and_bands(m: int, n: int, dtype: Any, width: int) -> None:
    c, r = gaussian((m,), dtype, 1), gaussian((n,), dtype, 2)
    c[width:] = 0
    r[width:] = 0
    assert_close(toeplitz(c, r), scipy.linalg.toeplitz(c, r), dtype)


def test_a_row_is_by_default_the_conjugate_of_the_column_and_dtypes_mix() -> None:
    c = gaussian((80,), np.complex128)
    assert_close(toeplitz(c), scipy.linalg.toeplitz(c), np.complex128)
    real, single = gaussian((80,)), gaussian((70,), np.complex64)
    assert_close(toeplitz(real, single), scipy.linalg.toeplitz(real, single), np.complex128)
    assert_close(toeplitz([1, 2, 3]), scipy.linalg.toeplitz([1.0, 2, 3]), np.float64)


@pytest.mark.parametrize("n", [256, 512])
def test_entries_are_as_promised(n: int) -> None:
    c, depth = gaussian((n,)), np.log2(n)
    assert circulant(c).nnz <= 6 * n * depth
    assert circulant(c + 1j).nnz <= 4.1 * n * depth
    assert toeplitz(c, gaussian((n,), seed=1)).nnz <= 13 * n * depth


def test_a_large_convolution_is_never_formed() -> None:
    n = 4096
    c = gaussian((n,))
    tracemalloc.start()
    try:
        op = circulant(c)
        assert tracemalloc.get_traced_memory()[1] < 8 * n * n  # bytes of the matrix
    finally:
        tracemalloc.stop()
    x = np.zeros(n)
    x[3] = 2.0
    np.testing.assert_allclose(op @ x, 2 * np.roll(c, 3), atol=1e-11)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_any_unit_will_do(unit: float) -> None:
    c = gaussian((128,))
    op = circulant(unit * c)
    assert len(op.factors) > 1
    np.testing.assert_allclose(op.toarray() / unit, scipy.linalg.circulant(c), atol=1e-11)
    single = circulant(np.float32(1e36) * c.astype(np.float32))
    np.testing.assert_allclose(single.toarray() / np.float32(1e36), scipy.linalg.circulant(c), atol=1e-4)


@pytest.mark.parametrize("make", [circulant, toeplitz, lambda r: toeplitz([1.0], r)])
def test_bad_lines_are_refused_by_name(make: Any) -> None:
    for value in ([], [[1.0, 2.0]], 3.0, [np.nan], [np.inf, 1]):
        with pytest.raises(ValueError, match=r"^[cr] must"):
            make(value)
    with pytest.raises(TypeError, match=r"^[cr] must"):
        make(["a"])


# -- random products -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    n_factors=st.integers(1, 4),
    share=st.floats(0, 1),
    dtype=st.sampled_from(DTYPES),
)
def test_random_products_have_the_entries_that_are_asked_for_in_all_lines(
    shape: Any, n_factors: int, share: float, dtype: Any
) -> None:
    rows, columns = shape
    sides = [rows, *[min(shape)] * (n_factors - 1), columns]
    pairs = list(pairwise(sides))
    least, most = sum(map(max, pairs)), sum(m * n for m, n in pairs)
    count = round(least + share * (most - least))
    op = random_product(shape, n_factors, complexity=count / (rows * columns), dtype=dtype, random_state=1)
    assert op.nnz == count
    assert (op.shape, op.dtype, op.scale) == (shape, dtype, 1.0)
    assert [factor.shape for factor in op.factors] == pairs
    for factor in op.factors:
        filled = as_array(factor) != 0
        assert filled.any(axis=0).all()
        assert filled.any(axis=1).all()
    assert op == random_product(shape, n_factors, complexity=count / (rows * columns), dtype=dtype, random_state=1)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_products_with_white_noise_have_unit_variance(dtype: Any) -> None:
    x = gaussian((256, 200), dtype) / (2**0.5 if np.dtype(dtype).kind == "c" else 1)
    for op in (
        random_product((128, 256), 2, complexity=0.2, dtype=dtype, random_state=0),
        random_butterfly(256, dtype=dtype, random_state=0),
    ):
        # A butterfly's factors are few: their own draws decide.
        assert 0.5 < np.mean(np.abs(op @ x) ** 2) < 2


def test_butterflies_have_the_supports_of_the_hadamard_transform(dtype: Any) -> None:
    op = random_butterfly(16, dtype=dtype, random_state=0)
    assert op.dtype == dtype
    for factor, support in zip(op.factors, hadamard(16).factors, strict=True):
        np.testing.assert_array_equal(as_array(factor) != 0, as_array(support) != 0)
    assert random_butterfly(1, random_state=0).nnz == 1
    assert random_butterfly(16, random_state=0) != random_butterfly(16, random_state=1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: random_product((4, 4), 2, complexity=0.1),
            ValueError,
            "^complexity must be from 0.5, .*to 2 for",
        ),
        (lambda: random_product((4, 4), 2, complexity=3.0), ValueError, "^complexity must"),
        (lambda: random_product((4, 4), 2, complexity="a"), TypeError, "^complexity must"),
        (lambda: random_product((4, 0)), ValueError, r"^shape\[1\] must"),
        (lambda: random_product((4, 4), 0), ValueError, "^n_factors must"),
        (lambda: random_product(4, dtype=int), TypeError, "^dtype must"),
        (lambda: random_product(64, random_state=-1), ValueError, "^random_state must"),
        (lambda: random_butterfly(12), ValueError, "^n must be a power of two"),
        (lambda: random_butterfly(8, dtype="a word"), TypeError, "^dtype must"),
    ],
)
def test_bad_options_are_refused_by_name(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
