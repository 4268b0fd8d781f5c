"""Kronecker products and sums of them, against numpy.kron and singular values of the rearranged matrix."""

from functools import reduce

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.search.methods.kronecker import kronecker

from .helpers import DTYPES, gaussian, true_error


def product(*shapes, dtype=np.float64, seed=0):
    return reduce(np.kron, [gaussian(shape, dtype, seed + i) for i, shape in enumerate(shapes)])


def check(matrix, curve):
    """All that a curve promises, at each place; errors of single precision are rounding errors of the product."""
    assert curve.method == "kronecker"
    assert (np.diff(curve.entries) > 0).all()
    assert (np.diff(curve.errors) <= 0).all()
    assert curve.entries[-1] < np.count_nonzero(matrix)
    rounding = 1e-14 if matrix.dtype.char in "dD" else 1e-6
    for i, (entries, error) in enumerate(zip(curve.entries, curve.errors, strict=True)):
        operator = curve.build(i)
        assert operator.dtype == matrix.dtype
        assert operator.shape == matrix.shape
        assert operator.nnz == entries
        np.testing.assert_allclose(true_error(matrix, operator), error, rtol=1e-6, atol=rounding)
    return curve


def exact(matrix):
    """The product of the only curve, after a check that it is exact."""
    (curve,) = kronecker(matrix)
    check(matrix, curve)
    assert curve.errors.tolist() <= [1e-14 if matrix.dtype.char in "dD" else 1e-6]
    return curve.build(0), curve.detail(0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shapes", "entries"),
    [
        (((8, 8), (8, 8)), 64 * (8 + 8)),
        (((5, 5), (7, 7)), 35 * (5 + 7)),
        (((4, 4), (4, 4), (4, 4)), 64 * (4 + 4 + 4)),
        (((2, 2), (3, 3), (5, 5), (2, 2)), 60 * (2 + 3 + 5 + 2)),
        # The part with fewer rows than columns comes first: 4·8·10 entries on 8·10, then 10·10·4 on 4·10.
        (((4, 8), (10, 10)), 4 * 8 * 10 + 10 * 10 * 4),
        (((10, 10), (4, 8)), 4 * 8 * 10 + 10 * 10 * 4),
        (((8, 4), (10, 10)), 10 * 10 * 4 + 8 * 4 * 10),
        (((6, 3), (3, 6)), 3 * 6 * 3 + 6 * 3 * 3),
        (((1, 7), (9, 5)), 1 * 7 * 5 + 9 * 5),
    ],
)
def test_kronecker_products_of_small_matrices_are_found_with_the_fewest_entries(shapes, entries, dtype):
    operator, detail = exact(product(*shapes, dtype=dtype))
    assert operator.nnz == entries
    assert detail == " ⊗ ".join(f"{m}×{n}" for m, n in shapes)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(2, 7), st.integers(2, 7)), min_size=2, max_size=4), st.integers(0, 9))
def test_products_of_any_shapes_are_found(shapes, seed):
    matrix = product(*shapes, seed=seed)
    curves = kronecker(matrix)
    if not curves:  # 2×2 ⊗ 2×2 has no fewer entries as a product
        assert matrix.size <= 48
        return
    operator = exact(matrix)[0]
    for i in range(1, len(shapes)):
        m1, n1 = np.prod(shapes[:i], axis=0)
        m2, n2 = np.prod(shapes[i:], axis=0)
        assert operator.nnz <= min(n1 * m2 * (m1 + n2), m1 * n2 * (m2 + n1))


@pytest.mark.parametrize("n", [4, 8, 64, 256])
def test_hadamard_matrices_are_found_exactly_with_2_n_log_n_entries(n):
    matrix = pp.transforms.hadamard(n).toarray()
    if n == 4:  # two factors of 8 entries against 16
        assert kronecker(matrix) == []
        return
    (curve,) = kronecker(matrix)
    assert curve.errors.tolist() == [0.0]
    assert curve.build(0).nnz == 2 * n * np.log2(n)


# -- sums and noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("terms", [2, 3])
def test_sums_of_products_are_found_term_by_term_with_the_errors_of_the_best_approximations(terms, dtype):
    matrix = sum(product((12, 9), (10, 15), dtype=dtype, seed=7 * i) for i in range(terms))
    curve = next(curve for curve in kronecker(matrix) if curve.detail(0) == "12×9 ⊗ 10×15")
    check(matrix, curve)
    R = matrix.reshape(12, 10, 9, 15).swapaxes(1, 2).reshape(12 * 9, 10 * 15)
    values = np.linalg.svd(R.astype(np.complex128), compute_uv=False)
    best = [np.linalg.norm(values[count:]) / np.linalg.norm(values) for count in range(1, terms + 1)]
    np.testing.assert_allclose(curve.errors, best, rtol=1e-5, atol=1e-6)
    assert curve.detail(1) == "12×9 ⊗ 10×15, 2 terms"
    np.testing.assert_array_equal(
        curve.entries, min(12 * 15 * (10 + 9), 9 * 10 * (12 + 15)) * np.arange(1, terms + 1)
    )


@pytest.mark.slow
def test_errors_of_smooth_kernels_are_the_tails_of_singular_values():
    points = np.linspace(0, 1, 72)
    matrix = 1 / (1 + 5 * np.abs(points[:, None] - points))
    curves = kronecker(matrix)
    assert curves
    for curve in curves:
        check(matrix, curve)
        (m1, n1), (m2, n2) = (map(int, part.split("×")) for part in curve.detail(0).split(" ⊗ "))
        R = matrix.reshape(m1, m2, n1, n2).swapaxes(1, 2).reshape(m1 * n1, m2 * n2)
        squares = np.linalg.svd(R, compute_uv=False) ** 2
        best = np.sqrt([squares[i + 1 :].sum() / squares.sum() for i in range(len(curve.errors))])
        # Subspace iteration finds the last values least well.
        np.testing.assert_allclose(curve.errors, best, rtol=0.05, atol=1e-12)


def test_a_blur_that_is_not_separable_is_a_sum_with_the_zeros_of_its_support():
    i, j = np.indices((24, 24)).reshape(2, -1)
    matrix = np.where((i[:, None] - i) ** 2 + (j[:, None] - j) ** 2 <= 25, 1.0, 0.0)
    curve = next(curve for curve in kronecker(matrix) if curve.detail(0) == "24×24 ⊗ 24×24")
    check(matrix, curve)
    in_band = np.count_nonzero(np.abs(np.subtract.outer(np.arange(24), np.arange(24))) <= 5)
    assert curve.entries[0] == 2 * 24 * in_band


def test_noise_does_not_hide_products_of_three_parts():
    clean = product((6, 6), (8, 8), (5, 5))
    matrix = clean + 0.02 * gaussian(clean.shape, seed=9)
    curves = kronecker(matrix)
    three = next(curve for curve in curves if curve.detail(0) == "6×6 ⊗ 8×8 ⊗ 5×5")
    check(matrix, three)
    assert three.entries.tolist() == [240 * (6 + 8 + 5)]
    assert true_error(clean, three.build(0)) < 0.2 * three.errors[0]


def test_permuted_rows_hide_the_rows_of_a_part_only():
    matrix = product((8, 8), (8, 8))[np.argsort(gaussian((64,), seed=4))]
    for curve in kronecker(matrix):
        check(matrix, curve)
        assert curve.errors[0] > 0.1


# -- what is none ------------------------------------------------------------------------------------------

REJECTED = {
    "Gaussian": lambda: gaussian((96, 96)),
    "Gaussian with many divisors": lambda: gaussian((120, 60)),
    "prime": lambda: gaussian((31, 37)),
    "zero": lambda: np.zeros((16, 16)),
    "one entry": lambda: np.ones((1, 1)),
    "one row": lambda: gaussian((1, 64)),
    "identity": lambda: np.eye(64),
    "sparse": lambda: gaussian((96, 96)) * (gaussian((96, 96), seed=1) > 2),
    "random Toeplitz": lambda: scipy.linalg.toeplitz(gaussian((128,)), gaussian((128,), seed=1)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REJECTED)
def test_nothing_is_found_in_other_matrices(name, dtype):
    assert kronecker(REJECTED[name]().astype(dtype)) == []
