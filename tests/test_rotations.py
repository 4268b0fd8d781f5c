"""Rotations of two coordinates: blocks, gains, layers and sweeps, against plain NumPy."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.kernels.givens import (
    CORRELATION,
    EIGEN,
    POLAR,
    SINGULAR,
    _gain,
    _turn,
    best_angle,
    rotate_hermitian,
    sweep_eigen,
    sweep_polar,
)
from papilio.rotations.chain import Chain
from papilio.rotations.growth import Growth, grow

KINDS = [np.float64, np.complex128]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def numbers(rng, shape, dtype):
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values


def hermitian(rng, n, dtype):
    M = numbers(rng, (n, n), dtype)
    return M + M.conj().T


def random_chain(rng, n, g, dtype):
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(g)], np.int64).reshape(g, 2)
    blocks = np.array([np.linalg.qr(numbers(rng, (2, 2), dtype))[0] for _ in range(g)]).reshape(g, 2, 2)
    return Chain(n, pairs, blocks.astype(dtype))


def dense(chain):
    """U = G₁G₂…G_g, one rotation after the other."""
    U = np.eye(chain.size, dtype=chain.blocks.dtype)
    for pair, block in zip(chain.pairs, chain.blocks, strict=True):
        G = np.eye(chain.size, dtype=block.dtype)
        G[np.ix_(pair, pair)] = block
        U = U @ G
    return U


def off(S):
    return np.linalg.norm(S - np.diag(np.diag(S)))


# -- blocks --------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=4, max_size=4))
def test_best_angle_is_that_of_a_fine_grid(terms):
    p, q, v, w = terms
    grid = np.linspace(0, 2 * np.pi, 4001)

    def f(theta):
        return p * np.cos(theta) + q * np.sin(theta) + v * np.cos(2 * theta) + w * np.sin(2 * theta)

    top = f(best_angle(p, q, v, w))
    assert top >= f(0.0) - 1e-9
    assert top >= f(grid).max() - 1e-9 * (1 + np.abs(terms).sum())


@pytest.mark.parametrize("dtype", KINDS)
def test_gains_are_what_rotations_do(rng, dtype):
    n = 5
    S = hermitian(rng, n, dtype) + 10 * np.eye(n)
    M = numbers(rng, (n, n), dtype)
    left, right = np.empty((2, 2), dtype), np.empty((2, 2), dtype)
    for i in range(n):
        for j in range(i + 1, n):
            _turn(EIGEN, S, i, j, left, right)
            U = dense(Chain(n, np.array([[i, j]]), left[None]))
            turned = U.conj().T @ S @ U
            assert abs(turned[i, j]) < 1e-12
            assert off(S) ** 2 - off(turned) ** 2 == pytest.approx(2 * _gain(EIGEN, S, i, j))
            correlation = abs(S[i, j]) ** 2 / (S[i, i] * S[j, j]).real
            assert _gain(CORRELATION, S, i, j) == pytest.approx(correlation)
            _turn(POLAR, M, i, j, left, right)
            U = dense(Chain(n, np.array([[i, j]]), left[None]))
            gained = np.trace(U.conj().T @ M).real - np.trace(M).real
            assert gained == pytest.approx(_gain(POLAR, M, i, j), abs=1e-12)
            _turn(SINGULAR, M, i, j, left, right)
            U, V = (dense(Chain(n, np.array([[i, j]]), each[None])) for each in (left, right))
            turned = U.conj().T @ M @ V
            assert off(M) ** 2 - off(turned) ** 2 == pytest.approx(_gain(SINGULAR, M, i, j))


# -- chains --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("n", "g"), [(2, 0), (2, 3), (7, 1), (7, 40), (16, 60)])
def test_a_chain_is_its_product(rng, n, g, dtype):
    chain = random_chain(rng, n, g, dtype)
    U, X = dense(chain), numbers(rng, (n, 3), dtype)
    op = chain.as_product(np.dtype(dtype))
    np.testing.assert_allclose(op.toarray(), U, atol=1e-12)
    assert op.nnz <= n * len(op.factors) + 2 * g
    np.testing.assert_allclose(chain.apply(X), U @ X, atol=1e-12)
    np.testing.assert_allclose(chain.apply(X, inverse=True), U.conj().T @ X, atol=1e-12)
    order, signs = rng.permutation(n), rng.choice([-1.0, 1.0], n)
    np.testing.assert_allclose(
        chain.as_product(np.dtype(dtype), order, signs).toarray(), (U * signs)[:, order], atol=1e-12
    )
    sorted_chain, starts = chain.by_layers()
    np.testing.assert_allclose(dense(sorted_chain), U, atol=1e-12)
    for begin, end in pairwise(starts):
        assert len(np.unique(sorted_chain.pairs[begin:end])) == 2 * (end - begin) > 0


@pytest.mark.parametrize("dtype", KINDS)
def test_hermitian_matrices_follow_a_chain(rng, dtype):
    chain, starts = random_chain(rng, 9, 30, dtype).by_layers()
    W = hermitian(rng, 9, dtype)
    turned = W.copy()
    rotate_hermitian(turned, chain.pairs, chain.blocks, starts)
    U = dense(chain)
    np.testing.assert_allclose(turned, U @ W @ U.conj().T, atol=1e-11)


# -- the greedy choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("kind", [EIGEN, CORRELATION, POLAR, SINGULAR])
@pytest.mark.parametrize("width", [1, 3, None])
def test_layers_are_the_best_disjoint_pairs(rng, kind, width, dtype):
    """Each layer against a search through all pairs, and W against the product of the chain."""
    n = 8
    first = numbers(rng, (n, n), dtype) if kind in (POLAR, SINGULAR) else hermitian(rng, n, dtype)
    if kind == CORRELATION:
        first = first @ first.conj().T
    growth = Growth(kind, first.copy(), width)
    for _ in range(6):
        W = growth.matrix.copy()
        gains = {(i, j): _gain(kind, W, i, j) for i in range(n) for j in range(i + 1, n)}
        before = growth.count
        added = growth.add(n)
        pairs = [tuple(pair) for pair in growth.chain().pairs[before:].tolist()]
        assert len(pairs) == added <= (width or n // 2)
        used, total = set(), 0.0
        for count, pair in enumerate(pairs):
            free = {other: gain for other, gain in gains.items() if not used & set(other)}
            assert gains[pair] == pytest.approx(max(free.values()))
            assert not count or gains[pair] >= 0.3 * total / count
            used |= set(pair)
            total += gains[pair]
    U = dense(growth.chain())
    V = {POLAR: np.eye(n), SINGULAR: dense(growth.chain(2)) if kind == SINGULAR else None}.get(kind, U)
    np.testing.assert_allclose(growth.matrix, U.conj().T @ first @ V, atol=1e-10)


@pytest.mark.parametrize("dtype", KINDS)
def test_a_sparse_matrix_grows_as_a_dense_one(rng, dtype):
    n = 60
    S = sp.random_array((n, n), density=0.02, rng=rng).toarray() * numbers(rng, (n, n), dtype)
    S = S + S.conj().T + np.diag(rng.standard_normal(n))
    sparse, whole = Growth(EIGEN, sp.csr_array(S)), Growth(EIGEN, S.copy())
    for _ in range(4):
        assert sparse.add(n) == whole.add(n)
    for one, other in zip(sparse.chain(), whole.chain(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    matrix = sparse.matrix.toarray() if sp.issparse(sparse.matrix) else sparse.matrix
    np.testing.assert_allclose(matrix, whole.matrix, atol=1e-12)


# -- sweeps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("n", [3, 8, 13])
def test_sweeps_never_raise_the_error_and_end_at_a_stationary_point(rng, n, dtype):
    S = hermitian(rng, n, dtype)
    growth = Growth(EIGEN, S.copy())
    grow(growth, lambda: 2 * n - growth.count)
    chain, starts = growth.chain().by_layers()
    units = np.array([1.0, 1j] if np.dtype(dtype).kind == "c" else [1.0], dtype)
    values, errors = np.diag(growth.matrix).real, [off(growth.matrix)]
    for _ in range(300):
        near, far = S.copy(), np.diag(values).astype(dtype)
        rotate_hermitian(far, chain.pairs, chain.blocks, starts)
        sweep_eigen(near, far, chain.pairs, chain.blocks, starts, units)
        U = dense(chain)
        np.testing.assert_allclose(near, U.conj().T @ S @ U, atol=1e-10)
        values = np.diag(near).real
        errors.append(off(near))
    assert (np.diff(errors) <= 1e-10).all()
    assert errors[-1] < 0.99 * errors[0]
    # No other angle of any rotation is better.
    for r in range(len(chain.pairs)):
        for angle in (-1e-3, 1e-3):
            blocks = chain.blocks.copy()
            c, s = np.cos(angle), np.sin(angle)
            blocks[r] = blocks[r] @ np.array([[c, -s], [s, c]])
            U = dense(Chain(n, chain.pairs, blocks))
            assert np.linalg.norm(S - (U * values) @ U.conj().T) >= errors[-1] * (1 - 1e-6)


@pytest.mark.parametrize("dtype", KINDS)
def test_polar_sweeps_never_lower_the_trace(rng, dtype):
    n = 8
    M, chain = numbers(rng, (n, n), dtype), random_chain(rng, n, 20, dtype)
    traces = [np.trace(dense(chain).conj().T @ M).real]
    for _ in range(20):
        W = M @ dense(chain).conj().T
        sweep_polar(W, chain.pairs, chain.blocks)
        np.testing.assert_allclose(W, dense(chain).conj().T @ M, atol=1e-10)
        traces.append(np.trace(W).real)
    assert (np.diff(traces) >= -1e-10).all()
    assert traces[-1] > traces[0] + 1
