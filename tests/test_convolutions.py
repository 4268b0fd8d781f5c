"""Convolution matrices against dense algebra: SciPy's special matrices and sums over the points of grids."""

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.search.curves import exact_error
from papilio.search.methods.convolution import convolutions

from .helpers import DTYPES, gaussian, true_error


def grid_matrix(kernel, rows, columns):
    """M_ij = t(i − j) for the points i and j of grids, with t(d) at d + columns − 1."""
    i, j = (np.indices(counts).reshape(len(counts), -1) for counts in (rows, columns))
    return kernel[tuple(i[level][:, None] - j[level] + columns[level] - 1 for level in range(len(rows)))]


def periodic_matrix(kernel):
    """2-D circular convolutions of unit images, by the Fourier transform, in the precision of the kernel."""
    units = np.eye(kernel.size).reshape(-1, *kernel.shape)
    images = scipy.fft.ifft2(scipy.fft.fft2(units) * scipy.fft.fft2(kernel.astype(np.complex128)))
    matrix = images.reshape(kernel.size, -1).T
    return (matrix if kernel.dtype.kind == "c" else matrix.real).astype(kernel.dtype)


def vector(n, dtype=np.float64, seed=0):
    return gaussian((n,), dtype, seed)


def found(matrix):
    """The product that is found, after a check of all that its curve promises."""
    (curve,) = convolutions(matrix)
    operator = curve.build(0)
    assert curve.method == "convolution"
    assert operator.dtype == matrix.dtype
    assert operator.shape == matrix.shape
    assert curve.entries.tolist() == [operator.nnz]
    assert operator.nnz < np.count_nonzero(matrix)
    error = true_error(matrix.astype(np.complex128), operator.toarray())
    np.testing.assert_allclose(curve.errors, [error], rtol=1e-3)
    assert error <= (1e-14 if matrix.dtype.char in "dD" else 1e-5)
    return operator, curve.detail(0)


ONE_LEVEL = {
    "circulant": lambda n, d: scipy.linalg.circulant(vector(n, d)),
    "circulant, reversed": lambda n, d: scipy.linalg.circulant(vector(n, d))[:, ::-1],
    "Toeplitz": lambda n, d: scipy.linalg.toeplitz(vector(n, d), vector(n, d, seed=1)),
    "Hankel": lambda n, d: scipy.linalg.hankel(vector(n, d), vector(n, d, seed=1)),
}
MADE = ONE_LEVEL | {
    "triangular": lambda n, d: np.tril(scipy.linalg.toeplitz(vector(n, d), vector(n, d))),
    "wide": lambda n, d: scipy.linalg.toeplitz(vector(n // 2, d), vector(2 * n, d, seed=1)),
    "tall": lambda n, d: scipy.linalg.toeplitz(vector(2 * n, d), vector(n // 2, d, seed=1)),
    "full convolution": lambda n, d: scipy.linalg.convolution_matrix(vector(n, d), n),
    "periodic grid": lambda n, d: periodic_matrix(gaussian((16, n // 16), d)),
    "grid": lambda n, d: grid_matrix(gaussian((31, n // 8 - 1), d), (16, n // 16), (16, n // 16)),
    "reversed grid": lambda n, d: grid_matrix(gaussian((31, n // 8 - 1), d), *((16, n // 16),) * 2)[:, ::-1],
    "valid grid": lambda n, d: grid_matrix(gaussian((27, n // 8 - 3), d), (12, n // 16 - 2), (16, n // 16)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MADE)
def test_convolution_matrices_of_each_dtype_are_found_exactly(name, dtype):
    found(MADE[name](256, dtype))


@pytest.mark.parametrize("name", ONE_LEVEL)
def test_the_detail_says_what_the_matrix_is(name):
    assert found(ONE_LEVEL[name](200, np.float64))[1] == name


@settings(deadline=None, max_examples=10)
@given(st.integers(100, 400), st.integers(100, 400), st.booleans(), st.integers(0, 9))
def test_toeplitz_and_hankel_matrices_of_any_shape_are_found(m, n, is_hankel, seed):
    matrix = scipy.linalg.toeplitz(vector(m, seed=seed), vector(n, seed=seed + 1))
    found(matrix[:, ::-1] if is_hankel else matrix)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(9, 20), min_size=4, max_size=4), st.booleans(), st.booleans())
def test_convolutions_from_any_grid_to_any_grid_are_found(sizes, is_complex, is_reversed):
    rows, columns = tuple(sizes[:2]), tuple(sizes[2:])
    shape = [m + n - 1 for m, n in zip(rows, columns, strict=True)]
    matrix = grid_matrix(gaussian(shape, np.complex128 if is_complex else np.float64), rows, columns)
    curves = convolutions(matrix[:, ::-1] if is_reversed else matrix)
    # With so few points the fast form may have more entries than the matrix, but none may be wrong.
    for curve in curves:
        assert true_error(matrix[:, ::-1] if is_reversed else matrix, curve.build(0)) <= 1e-14
    if not curves:
        assert matrix.size < 16 * 16 * 20 * 20


@settings(deadline=None, max_examples=10)
@given(st.integers(128, 300))
def test_circulant_matrices_of_any_size_are_found(n):
    found(scipy.linalg.circulant(vector(n, seed=n)))


@pytest.mark.parametrize("n", [64, 128, 256, 512, 1024])
def test_real_circulant_matrices_have_at_most_5_5_n_log_n_minus_9_n_entries(n):
    operator, _ = found(scipy.linalg.circulant(vector(n)))
    assert operator.nnz <= 5.5 * n * np.log2(n) - 9 * n


# -- what is none ----------------------------------------------------------------------------------------

REJECTED = {
    "Gaussian": lambda: gaussian((128, 128)),
    "symmetric": lambda: gaussian((128, 128)) + gaussian((128, 128)).T,
    "zero": lambda: np.zeros((64, 64)),
    "identity": lambda: np.eye(128),
    "banded": lambda: scipy.linalg.toeplitz(np.r_[1.0, 0.5, 0.2, np.zeros(125)]),
    "one row": lambda: gaussian((1, 128)),
    "one column": lambda: gaussian((128, 1)),
    "one entry": lambda: gaussian((1, 1)),
    "small": lambda: scipy.linalg.circulant(vector(8)),
    "rank one": lambda: np.outer(vector(128), vector(128, seed=1)),
    "sparse": lambda: gaussian((128, 128)) * (gaussian((128, 128), seed=1) > 2),
    "low rank": lambda: gaussian((128, 3)) @ gaussian((3, 128), seed=1),
    "permuted circulant": lambda: scipy.linalg.circulant(vector(128))[np.argsort(vector(128, seed=1))],
}


@pytest.mark.parametrize("name", REJECTED)
def test_nothing_is_found_in_other_matrices(name):
    assert convolutions(REJECTED[name]()) == []


@pytest.mark.parametrize("name", MADE)
def test_one_changed_entry_is_noticed(name):
    matrix = np.array(MADE[name](256, np.float64))
    matrix[7, 11] += 1e-3
    (curve,) = convolutions(matrix)
    assert curve.detail(0).endswith(", nearly")
    np.testing.assert_allclose(curve.errors, [true_error(matrix, curve.build(0))], rtol=1e-6)
    np.testing.assert_allclose(curve.errors, [1e-3 / np.linalg.norm(matrix)], rtol=0.1)


NOISE = {"rounding": lambda matrix: exact_error(matrix.dtype) / 4, "noise": lambda matrix: 0.05}


# Each matrix with both levels, and in both dtypes.
@pytest.mark.parametrize(
    ("name", "level", "dtype"),
    [
        (name, level, (np.float32, np.complex128)[(i + j) % 2])
        for i, name in enumerate(MADE)
        for j, level in enumerate(NOISE)
    ],
)
def test_rounding_and_noise_are_averaged_out(name, level, dtype):
    clean = MADE[name](256, dtype)
    size = (
        NOISE[level](clean) * np.linalg.norm(clean) / np.sqrt(clean.size * (2 if clean.dtype.kind == "c" else 1))
    )
    noisy = clean + clean.real.dtype.type(size) * gaussian(clean.shape, dtype, seed=3)
    (curve,) = convolutions(noisy)
    expected = convolutions(clean)[0].detail(0)
    assert curve.detail(0) == expected + (", nearly" if level == "noise" else "")
    np.testing.assert_allclose(curve.errors, [true_error(noisy, curve.build(0))], rtol=1e-3)
    assert true_error(clean, curve.build(0)) < 0.3 * curve.errors[0]


def test_too_much_noise_is_not_called_near():
    clean = scipy.linalg.circulant(vector(256))
    assert convolutions(clean + 0.2 * gaussian(clean.shape, seed=3)) == []


def test_a_smooth_matrix_is_not_a_convolution_because_neighbours_are_alike():
    points = np.linspace(0, 1, 256)
    assert convolutions(1 / (0.1 + np.add.outer(points, points**2))) == []
