"""`fast_eigenbasis` and graph Fourier transforms: errors by definition, targets, stopping and bad input."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.rotations import bases, growth

from .helpers import DTYPES


def eps(dtype):
    return float(np.finfo(dtype).eps)


def symmetric(n, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, n))
    if np.dtype(dtype).kind == "c":
        M = M + 1j * rng.standard_normal((n, n))
    return (M + M.conj().T).astype(dtype)


def grid(height, width):
    """The weights of a grid of nodes."""
    line = [
        sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1], shape=(n, n)) for n in (height, width)
    ]
    return sp.csr_array(sp.kron(line[0], sp.eye_array(width)) + sp.kron(sp.eye_array(height), line[1]))


def relative(S, fit):
    return np.linalg.norm(S - fit.toarray()) / np.linalg.norm(S)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 5, 24])
def test_the_error_is_that_of_the_result(n, dtype):
    S = symmetric(n, dtype)
    before = S.copy()
    fit = pp.rotations.fast_eigenbasis(S)
    assert fit.operator.dtype == dtype
    assert fit.eigenvalues.dtype == S.real.dtype
    assert (np.diff(fit.eigenvalues) >= 0).all()
    assert fit.n_rotations <= n * np.log2(n) + 1
    U = fit.operator.toarray()
    np.testing.assert_allclose(U.conj().T @ U, np.eye(n), atol=100 * eps(dtype))
    np.testing.assert_allclose(np.diag(U.conj().T @ S @ U).real, fit.eigenvalues, atol=1e3 * eps(dtype))
    assert relative(S, fit) == pytest.approx(fit.error, rel=1e-4, abs=100 * eps(dtype))
    np.testing.assert_array_equal(S, before)
    again = pp.rotations.fast_eigenbasis(S)
    np.testing.assert_array_equal(again.operator.toarray(), U)


@pytest.mark.parametrize("dtype", DTYPES)
def test_with_enough_rotations_it_is_the_eigendecomposition(dtype):
    S = symmetric(12, dtype)
    fit = pp.rotations.fast_eigenbasis(S, max_error=100 * eps(dtype))
    assert fit.status == "converged"
    np.testing.assert_allclose(fit.eigenvalues, np.linalg.eigvalsh(S), atol=1e3 * eps(dtype))


def test_sweeps_lower_the_error():
    S = symmetric(40)
    errors = [pp.rotations.fast_eigenbasis(S, n_rotations=150, n_sweeps=k).error for k in (0, 1, 3)]
    assert errors[2] < errors[1] < 0.99 * errors[0]
    history = pp.rotations.fast_eigenbasis(S, n_rotations=150).history
    assert {step.phase for step in history} == {"layers", "sweeps"}
    assert (np.diff([step.error for step in history]) <= 1e-12).all()


@pytest.mark.parametrize("complexity", [1 / 40, 0.1, 0.3, 1.0])
def test_complexity_is_a_limit(complexity):
    fit = pp.rotations.fast_eigenbasis(symmetric(40), complexity=complexity, n_sweeps=1)
    assert fit.operator.relative_complexity <= complexity
    assert complexity == 1 / 40 or fit.operator.relative_complexity > 0.7 * complexity


@pytest.mark.parametrize("max_error", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize("n_sweeps", [0, 3])
def test_an_error_is_reached(max_error, n_sweeps):
    S = symmetric(40)
    fit = pp.rotations.fast_eigenbasis(S, max_error=max_error, n_sweeps=n_sweeps)
    assert fit.status == "converged"
    assert relative(S, fit) <= max_error * (1 + 1e-9)
    assert max_error < 0.1 or fit.error > max_error / 2  # It does not go much further than asked.


@pytest.mark.parametrize("factor", [1e-300, 1e-20, 1e300])
def test_the_unit_of_the_matrix_does_not_matter(factor):
    S = symmetric(10)
    one, other = pp.rotations.fast_eigenbasis(S), pp.rotations.fast_eigenbasis(factor * S)
    np.testing.assert_allclose(other.eigenvalues / factor, one.eigenvalues)
    assert other.error == pytest.approx(one.error)


def test_sparse_matrices_may_stay_sparse(monkeypatch):
    L = pp.rotations.graph_laplacian(grid(6, 7))
    one = pp.rotations.fast_eigenbasis(L, n_rotations=60, n_sweeps=0)
    monkeypatch.setattr(growth, "LARGEST", 100)
    monkeypatch.setattr(bases, "LARGEST", 100)
    other = pp.rotations.fast_eigenbasis(L, n_rotations=60)
    assert other.error == pytest.approx(relative(L.toarray(), other))
    assert other.error == pytest.approx(one.error, rel=0.1)
    assert other.n_rotations == 60
    monkeypatch.setattr(growth, "_MOST_STORED", 200)
    with pytest.warns(UserWarning, match="too many entries to stay sparse"):
        full = pp.rotations.fast_eigenbasis(L, n_rotations=60)
    assert full.n_rotations < 60
    assert full.status == "stopped"
    assert full.error == pytest.approx(relative(L.toarray(), full))


@pytest.mark.parametrize(
    ("S", "message"),
    [
        (np.arange(9.0).reshape(3, 3), "S must be symmetric"),
        (1j * np.ones((3, 3)), "S must be Hermitian"),
        (np.ones((2, 3)), "S must be square"),
        (sp.csr_array(np.ones((2, 3))), "S must be square"),
        (np.full((2, 2), np.nan), "S must hold finite numbers"),
        (sp.csr_array(np.full((2, 2), np.inf)), "S must hold finite numbers"),
        (np.ones(3), "S must be a matrix"),
        (np.zeros((0, 0)), "S must"),
        (sp.csr_array((0, 0)), "S must"),
    ],
)
def test_bad_matrices_are_refused(S, message):
    with pytest.raises(ValueError, match=message):
        pp.rotations.fast_eigenbasis(S)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rotations": -1}, "n_rotations must be"),
        ({"n_rotations": 2.5}, "n_rotations must be"),
        ({"complexity": 0.0}, "complexity must be at least 0.2"),
        ({"complexity": 30}, "complexity must be"),
        ({"max_error": -0.1}, "max_error must be"),
        ({"n_rotations": 3, "max_error": 0.1}, "at most one of"),
        ({"n_sweeps": -1}, "n_sweeps must be"),
    ],
)
def test_bad_targets_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.rotations.fast_eigenbasis(np.eye(5), **options)


# -- graphs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["combinatorial", "normalized"])
def test_laplacians_are_scipys(kind):
    W = sp.random_array((30, 30), density=0.1, rng=np.random.default_rng(0))
    W = sp.csr_array(W + W.T)
    W.setdiag(0)
    expected = sp.csgraph.laplacian(W, normed=kind == "normalized").toarray()
    for graph in (W, W.toarray(), sp.coo_matrix(W)):
        np.testing.assert_allclose(pp.rotations.graph_laplacian(graph, kind).toarray(), expected, atol=1e-14)
    np.testing.assert_array_equal(pp.rotations.graph_laplacian(expected).toarray(), expected)
    np.testing.assert_array_equal(
        pp.rotations.graph_laplacian(SimpleNamespace(L=sp.csc_array(expected))).toarray(), expected
    )


def test_a_graph_of_two_parts_has_a_transform_of_two_parts():
    W = sp.block_diag([grid(3, 4), grid(2, 5)], format="csr")
    fit = pp.rotations.graph_fourier(W, max_error=1e-9)
    assert np.count_nonzero(fit.eigenvalues < 1e-9) == 2
    U = fit.operator.toarray()
    assert not ((np.abs(U[:12]) > 1e-12).any(axis=0) & (np.abs(U[12:]) > 1e-12).any(axis=0)).any()


def test_signals_come_back():
    fit = pp.rotations.graph_fourier(grid(8, 8), complexity=0.3)
    x = np.random.default_rng(0).standard_normal((64, 3))
    np.testing.assert_allclose(fit.operator @ (fit.operator.T @ x), x, atol=1e-12)
    smooth = fit.operator.T @ np.add.outer(np.arange(8.0), np.arange(8.0)).ravel()
    assert np.linalg.norm(smooth[:16]) > 0.95 * np.linalg.norm(smooth)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.array([[0.0, 1.0], [0.0, 0.0]]), "graph must be undirected"),
        (np.ones((2, 3)), "graph must be a square matrix"),
        (np.array([[0.0, 1, -1], [1, 0, 0], [-1, 0, 0]]), "graph must have weights of one sign"),
        (np.array([[0.0, np.nan], [np.nan, 0]]), "graph must hold finite"),
        (1j * np.ones((2, 2)), "graph must have real weights"),
    ],
)
def test_bad_graphs_are_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        pp.rotations.graph_fourier(graph)
    with pytest.raises(ValueError, match="kind must be one of"):
        pp.rotations.graph_laplacian(np.eye(2), "both")


def test_an_error_below_rounding_is_not_reached():
    fit = pp.rotations.fast_eigenbasis(symmetric(6), max_error=0.0)
    assert fit.status == "max_iter"
    assert fit.error < 1e-14


def test_the_result_can_be_timed_and_pickled():
    fit = pp.rotations.fast_eigenbasis(symmetric(16))
    assert fit.speedup.vector > 0
    assert pickle.loads(pickle.dumps(fit)).error == fit.error
