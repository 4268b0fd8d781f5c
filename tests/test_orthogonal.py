"""Orthogonal matrices as products of rotations: kernels, growth, sweeps, and the method of `factorize`."""

from itertools import permutations

import numpy as np
import pytest
import scipy.linalg as sl
from scipy.stats import ortho_group, unitary_group

import papilio as pp
from papilio.kernels.givens import peak_gains, polar, turn_to_peaks
from papilio.rotations.chain import Turned
from papilio.rotations.growth import (
    SparseGrowth,
    TraceGrowth,
    approached,
    grow,
    nearest_permutation,
    swept,
    without_rotations,
)
from papilio.runtime.session import Session
from papilio.search.methods.rotations import is_nearly_orthogonal

from .helpers import gaussian

DTYPES = [np.float64, np.complex128]
GROWTHS = [TraceGrowth, SparseGrowth]


def orthogonal(n, dtype=np.float64, seed=0):
    if n == 1:
        return np.ones((1, 1), dtype)
    return (unitary_group if np.dtype(dtype).kind == "c" else ortho_group).rvs(n, random_state=seed)


def planted(n, pairs, seed=0, dtype=np.float64):
    """A product of random rotations of these pairs, times a random signed permutation."""
    random, U = np.random.default_rng(seed), np.eye(n, dtype=dtype)
    for i, j in pairs:
        U[[i, j]] = orthogonal(2, dtype, random.integers(1 << 30)) @ U[[i, j]]
    return U[:, random.permutation(n)] * random.choice([-1, 1], n)


def matchings(n, count, seed=0):
    """Layers of random disjoint pairs, of all coordinates."""
    random = np.random.default_rng(seed)
    return [pair for _ in range(count) for pair in random.permutation(n).reshape(-1, 2)]


def sizes_of(way, count):
    grow(way.growth, lambda: count - way.growth.count)
    return way.result()


# -- kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_polar_factors_are_scipys(dtype):
    for seed in range(50):
        Z, G = gaussian((2, 2), dtype, seed), np.empty((2, 2), dtype)
        polar(*Z.ravel(), G)
        np.testing.assert_allclose(G, sl.polar(Z)[0], atol=1e-13)


@pytest.mark.parametrize("Z", [np.zeros((2, 2)), np.ones((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]])])
def test_polar_factors_of_singular_blocks_are_orthogonal_and_best(Z):
    G = np.empty((2, 2))
    polar(*Z.ravel(), G)
    np.testing.assert_allclose(G @ G.T, np.eye(2), atol=1e-14)
    assert np.trace(G.T @ Z) == pytest.approx(np.linalg.svd(Z, compute_uv=False).sum())


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_rotated_to_the_largest_sum_of_fourth_powers(dtype):
    W = gaussian((2, 7), dtype, 3)
    gains, agreements = np.zeros((2, 2)), np.zeros((2, 2))
    peak_gains(W, np.arange(2), gains, agreements)
    turned, blocks = W.copy(), np.empty((1, 2, 2), dtype)
    units = np.array([1, -1j] if np.dtype(dtype).kind == "c" else [1, 0], dtype)
    turn_to_peaks(turned, np.array([[0, 1]]), units, blocks)
    G = blocks[0]
    np.testing.assert_allclose(G.conj().T @ G, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(G.conj().T @ W, turned, atol=1e-13)
    now = (abs(turned) ** 4).sum()
    assert now - (abs(W) ** 4).sum() == pytest.approx(gains[0, 1])
    for theta in np.linspace(0, np.pi, 60):
        for phase in np.linspace(0, np.pi, 30) if np.dtype(dtype).kind == "c" else (0.0,):
            c, s = np.cos(theta), np.sin(theta) * np.exp(1j * phase)
            assert (abs(np.array([[c, s], [-s.conjugate(), c]]) @ W) ** 4).sum() <= now + 1e-9


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_agree_become_disjoint(dtype):
    a, b = np.zeros((2, 6), dtype)
    a[:3], b[3:] = gaussian((3,), dtype), gaussian((3,), dtype, 1)
    W = orthogonal(2, dtype) @ np.stack([a, b])
    gains, agreements = np.zeros((2, 2)), np.zeros((2, 2))
    peak_gains(W, np.arange(2), gains, agreements)
    assert agreements[0, 1] == pytest.approx(1, abs=1e-12)


# -- growth and sweeps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", GROWTHS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
def test_the_trace_is_that_of_the_product_and_grows(way, n, dtype):
    M = orthogonal(n, dtype)
    trace = without_rotations(M).trace
    for count in (n, 2 * n, 4 * n):
        turned = sizes_of(way(M), count)
        U = turned.as_product(np.dtype(dtype)).toarray()
        np.testing.assert_allclose(U @ U.conj().T, np.eye(n), atol=1e-12)
        np.testing.assert_allclose(turned.toarray(), U, atol=1e-12)
        assert turned.trace == pytest.approx(np.vdot(U, M).real)
        if way is TraceGrowth:
            assert turned.trace >= trace - 1e-12
            trace = turned.trace
        better = swept(Session(), M, turned)
        assert better.trace >= turned.trace - 1e-12
        assert better.trace == pytest.approx(np.vdot(better.toarray(), M).real)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_permutation_has_the_largest_trace(dtype):
    M = gaussian((5, 5), dtype)
    columns, signs, trace = nearest_permutation(M)
    P = (np.eye(5) * signs)[:, columns]
    assert np.vdot(P, M).real == pytest.approx(trace)
    assert trace == pytest.approx(max(abs(M[range(5), p]).sum() for p in map(list, permutations(range(5)))))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_read_back(dtype):
    M = orthogonal(11, dtype)
    turned = approached(Session(), M, lambda growth: 30 - growth.count)
    product = turned.as_product(np.dtype(dtype))
    again = Turned.from_product(product)
    np.testing.assert_allclose(again.toarray(), product.toarray(), atol=1e-12)
    np.testing.assert_allclose(again.as_product(np.dtype(dtype)).toarray(), product.toarray(), atol=1e-12)


# -- factorize -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_the_dtype_stays_and_the_error_is_true(dtype):
    M = (3 * orthogonal(16, dtype)).astype(dtype)
    fit = pp.factorize(M, method="rotations", complexity=0.5)
    assert fit.operator.dtype == dtype
    assert fit.operator.relative_complexity <= 0.5
    error = np.linalg.norm(M - fit.operator.toarray()) / np.linalg.norm(M)
    assert fit.error == pytest.approx(error, rel=1e-3)


def test_an_error_is_reached_and_factors_are_counted():
    M = planted(32, matchings(32, 5))
    fit = pp.factorize(M, method="rotations", max_error=0.5)
    assert fit.error <= 0.5
    assert fit.status == "converged"
    fit = pp.factorize(M, method="rotations", n_factors=2)
    assert len(fit.operator.factors) == 2


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
def test_nearly_orthogonal_matrices_are_recognised(noise):
    M = orthogonal(40) + noise * gaussian((40, 40), float) / np.sqrt(40)
    assert is_nearly_orthogonal(M)
    assert is_nearly_orthogonal((1e-3 * M).astype(np.float32))
    assert not is_nearly_orthogonal(gaussian((40, 40), float))
    assert not is_nearly_orthogonal(np.diag(np.arange(1.0, 41)))
    assert not is_nearly_orthogonal(np.zeros((4, 4)))


@pytest.mark.parametrize("count", [2, 4, 8, 12, 16, 24])
def test_stopped_at_any_time_there_is_a_result(count):
    calls = iter(range(count))
    fit = pp.factorize(orthogonal(48), complexity=0.25, callback=lambda step: next(calls, None) is None)
    assert fit.status == "stopped"
    assert fit.operator.relative_complexity <= 0.25


def test_other_products_are_refused():
    with pytest.raises(ValueError, match="layers of rotations"):
        Turned.from_product(pp.SparseProduct([np.ones((4, 4)) + np.eye(4)]))


def test_auto_finds_products_of_few_rotations():
    n = 32
    M = planted(n, matchings(n, 3), 1)
    fit = pp.factorize(M, complexity=0.2)
    assert fit.method in ("rotations", "layers")  # Both are exact.
    assert fit.error < 1e-6
    assert fit.operator.nnz < np.count_nonzero(abs(M) > 1e-12)
