"""Moments say all that PALM needs to know about the data."""

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp


def data(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    signals, codes = rng.standard_normal((5, 30)), rng.standard_normal((7, 30)) * (rng.random((7, 30)) < 0.4)
    if np.dtype(dtype).kind == "c":
        signals, codes = signals * (1 + 2j), codes * np.exp(1j * rng.random((7, 30)))
    return signals.astype(dtype), codes.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n_signals", [4, 30])
def test_compressed_data_have_the_same_misfit_for_every_dictionary(dtype, n_signals):
    X, codes = (array[:, :n_signals] for array in data(dtype))
    target, tail, rest = pp.Moments.of(X, codes).compressed
    assert target.shape[1] == tail.shape[1] <= 7
    rng = np.random.default_rng(1)
    for _ in range(5):
        D = rng.standard_normal((5, 7)).astype(dtype)
        direct = np.linalg.norm(X - D @ codes) ** 2
        assert np.linalg.norm(target - D @ tail) ** 2 + rest**2 == pytest.approx(direct, rel=1e-10)


def test_arrays_may_be_overwritten_once_their_moments_are_made():
    X, codes = data()
    cross, gram = X @ codes.T, codes @ codes.T
    moments = pp.Moments(cross, gram, 3.0)
    expected = cross.copy(), gram.copy()
    cross[:], gram[:] = 0, 0
    np.testing.assert_array_equal(moments.cross, expected[0])
    np.testing.assert_array_equal(moments.gram, expected[1])


def test_sparse_codes_give_the_same_moments():
    X, codes = data(np.complex128)
    dense, sparse = pp.Moments.of(X, codes), pp.Moments.of(X, sp.csc_array(codes))
    np.testing.assert_allclose(sparse.gram, dense.gram)
    np.testing.assert_allclose(sparse.cross, dense.cross)
    assert sparse.energy == dense.energy


@pytest.mark.parametrize("dtype", [bool, np.int8])
def test_sparse_codes_of_small_integers_do_not_wrap(dtype):
    codes = np.array([[100, 100, 0], [100, 0, 100]]).astype(dtype)
    np.testing.assert_array_equal(
        pp.Moments.of(np.ones((4, 3)), sp.csr_array(codes)).gram, pp.Moments.of(np.ones((4, 3)), codes).gram
    )


def test_a_complex_gram_beside_real_cross_moments_stays_complex():
    compressed = pp.Moments(np.ones((2, 2)), np.array([[2, 1j], [-1j, 2]]), 4.0).compressed
    np.testing.assert_allclose(compressed.tail @ compressed.tail.conj().T, [[2, 1j], [-1j, 2]], atol=1e-12)


def test_codes_in_single_precision_whose_moments_overflow_are_refused_without_a_warning():
    with pytest.raises(ValueError, match=r"^codes must have moments within the range of float32"):
        pp.Moments.of(np.ones((6, 9)), np.full((5, 9), 1e30, np.float32))


def test_moments_of_parts_add_up():
    X, codes = data()
    whole = pp.Moments.of(X, codes)
    parts = pp.Moments.of(X[:, :11], codes[:, :11]) + pp.Moments.of(X[:, 11:], codes[:, 11:])
    np.testing.assert_allclose(parts.gram, whole.gram, atol=1e-12)
    np.testing.assert_allclose(parts.cross, whole.cross, atol=1e-12)
    assert parts.energy == pytest.approx(whole.energy)


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: pp.Moments(np.eye(2), np.eye(3), 1.0), ValueError, "gram"),
        (lambda: pp.Moments(np.eye(2), [[1, 2], [0, 1]], 1.0), ValueError, "gram"),
        (lambda: pp.Moments(np.eye(2), -np.eye(2), 1.0), ValueError, "gram"),
        (lambda: pp.Moments(np.eye(2), [[0, 1], [1, 0]], 1.0).compressed, ValueError, "gram"),
        (lambda: pp.Moments(np.eye(2), np.eye(2)), ValueError, "energy"),
        (lambda: pp.Moments(np.eye(2), np.eye(2), -1.0), ValueError, "energy"),
        (lambda: pp.Moments([[np.nan]]), ValueError, "cross"),
        (lambda: pp.Moments.of(np.eye(2), np.ones((3, 4))), ValueError, "codes"),
        (lambda: pp.Moments.of(np.eye(2), sp.csr_array(np.ones((3, 4)))), ValueError, "codes"),
        (lambda: pp.Moments.of(np.eye(2), sp.csr_array([[np.nan, 1.0]])), ValueError, "codes"),
        (lambda: pp.Moments.of(np.eye(2), [1, 2]), ValueError, "codes"),
        (lambda: pp.Moments.of([["a"]], np.eye(2)), TypeError, "signals"),
        (lambda: pp.Moments(np.eye(2)) + pp.Moments(np.eye(2)), ValueError, "gram"),
        (lambda: pp.Moments(np.eye(2), np.zeros((2, 2)), 1.0).compressed, ValueError, "gram"),
        (
            lambda: pp.Moments(np.eye(2), 1e-310 * np.eye(2), 1.0).compressed,
            ValueError,
            "gram must not be so small",
        ),
    ],
)
def test_bad_moments_are_named(make, error, named):
    with pytest.raises(error, match=named):
        make()


@pytest.mark.parametrize("unit", [1e-290, 1e-200])
def test_dictionaries_that_overflow_are_refused(unit):
    moments = pp.Moments(np.full((2, 3), 1e300), unit * np.eye(3), 1.0)
    with pytest.raises(ValueError, match="gram must not be so small beside cross"):
        pp.palm(moments, [pp.constraints.Sparse((2, 3), 4)], max_iter=2)


@pytest.mark.parametrize("exponent", [-300, 0, 300])
def test_moments_in_single_precision_have_the_same_errors_at_any_size_of_the_data(exponent):
    X, codes = data()
    D = X @ np.linalg.pinv(codes) + 0.1
    moments = pp.Moments.of(np.ldexp(X, exponent), np.ldexp(codes, exponent))
    single = moments.in_single_precision
    assert single.cross.dtype == single.gram.dtype == np.float32
    assert single.is_moderate
    expected = np.linalg.norm(X - D @ codes) / np.linalg.norm(X)
    assert single.error(D.astype(np.float32)) == pytest.approx(expected, rel=1e-5)
