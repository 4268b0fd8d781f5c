"""`fast_svd`: two fast orthogonal bases."""

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.kernels.givens import SINGULAR
from papilio.rotations.growth import Growth

from .helpers import gaussian

SHAPES = [(1, 1), (1, 4), (4, 1), (2, 2), (8, 8), (6, 11), (11, 6)]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(7, 7), (5, 9), (1, 4)])
def test_the_first_pair_gains_most_and_its_entries_become_zero(shape, dtype):
    A = gaussian(shape, dtype)
    growth = Growth(SINGULAR, A.copy(), width=1)
    growth.add(1)
    (i, j), m = growth.chain().pairs[0], shape[0]
    square = np.zeros((shape[1], shape[1]))
    square[:m] = abs(A) ** 2
    np.fill_diagonal(square, 0)
    gains = np.triu(square + square.T)
    assert gains[i, j] == pytest.approx(gains.max())
    assert abs(growth.matrix[i, j]) < 1e-13
    left = np.linalg.norm(growth.matrix) ** 2 - np.linalg.norm(growth.matrix.diagonal()) ** 2
    assert left == pytest.approx(square.sum() - gains.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bases_are_orthogonal_and_the_error_is_true(shape, dtype):
    A = gaussian(shape, dtype)
    fit = pp.rotations.fast_svd(A, n_rotations=12)
    eps = float(np.finfo(dtype).eps)
    for basis, side in ((fit.U, shape[0]), (fit.V, shape[1])):
        assert basis.shape == (side, side)
        assert basis.dtype == dtype
        dense = basis.toarray()
        np.testing.assert_allclose(dense @ dense.conj().T, np.eye(side), atol=100 * eps)
    s = fit.singular_values
    assert s.dtype == np.empty(0, dtype).real.dtype
    assert s.shape == (min(shape),)
    assert (s >= 0).all()
    assert (np.diff(s) <= 0).all()
    inner = fit.U.toarray().conj().T @ A @ fit.V.toarray()
    np.testing.assert_allclose(inner.diagonal(), s, atol=100 * eps * s.max())
    error = np.linalg.norm(A - fit.toarray()) / np.linalg.norm(A)
    assert fit.error == pytest.approx(error, abs=100 * eps)
    assert fit.n_rotations <= 12


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", SHAPES)
def test_with_enough_rotations_it_is_the_svd(shape, dtype):
    A = gaussian(shape, dtype, 1)
    fit = pp.rotations.fast_svd(A, max_error=1e-10)
    assert fit.error <= 1e-10
    assert fit.status == "converged"
    expected = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(fit.singular_values, expected, atol=1e-8 * expected[0])


def test_sweeps_lower_the_error_and_no_step_raises_it():
    A = gaussian((20, 30))
    plain, better = pp.rotations.fast_svd(A, n_rotations=80, n_sweeps=0), pp.rotations.fast_svd(A, n_rotations=80)
    assert better.error < plain.error
    assert better.n_rotations == plain.n_rotations == 80
    assert (np.diff(better.history.error) <= 1e-12).all()


@pytest.mark.parametrize("complexity", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(16, 16), (12, 24)])
def test_entries_are_limited(shape, complexity):
    fit = pp.rotations.fast_svd(gaussian(shape), complexity=complexity)
    assert fit.U.nnz + fit.V.nnz <= complexity * (shape[0] ** 2 + shape[1] ** 2)
    assert fit.n_rotations > 0


def test_permuted_diagonals_need_no_rotation():
    A = np.zeros((5, 8))
    A[range(5), [3, 7, 0, 2, 6]] = [3.0, -1.0, 2.0, 5.0, -4.0]
    fit = pp.rotations.fast_svd(A)
    assert fit.n_rotations == 0
    assert fit.error == 0
    np.testing.assert_array_equal(fit.singular_values, [5, 4, 3, 2, 1])
    np.testing.assert_array_equal(fit.toarray(), A)


def test_zeros_sparse_matrices_and_any_unit():
    assert pp.rotations.fast_svd(np.zeros((3, 4))).error == 0
    A = gaussian((6, 8))
    fit = pp.rotations.fast_svd(A)
    np.testing.assert_array_equal(pp.rotations.fast_svd(sp.csr_array(A)).singular_values, fit.singular_values)
    large = pp.rotations.fast_svd(1e200 * A)
    assert large.error == pytest.approx(fit.error)
    np.testing.assert_allclose(large.singular_values, 1e200 * fit.singular_values)


def test_a_callback_and_a_time_budget_stop_it():
    A = gaussian((40, 40))
    fit = pp.rotations.fast_svd(A, callback=lambda step: True)
    assert fit.status == "stopped"
    assert 0 < fit.n_rotations < 200
    assert fit.error == pytest.approx(np.linalg.norm(A - fit.toarray()) / np.linalg.norm(A))
    assert pp.rotations.fast_svd(A, time_budget=0).status == "stopped"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rotations": -1}, "n_rotations"),
        ({"n_rotations": 3, "complexity": 0.5}, "n_rotations and complexity"),
        ({"complexity": 0.01}, "complexity must be at least"),
        ({"complexity": 2}, "complexity"),
        ({"max_error": -1}, "max_error"),
        ({"n_sweeps": -1}, "n_sweeps"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        pp.rotations.fast_svd(np.eye(4), **options)


@pytest.mark.parametrize("A", [np.full((3, 3), np.nan), np.zeros((0, 3)), np.zeros(3), np.zeros((2, 2, 2))])
def test_bad_matrices_are_named(A):
    with pytest.raises(ValueError, match="A must"):
        pp.rotations.fast_svd(A)
