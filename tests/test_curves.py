"""Curves of products: their errors are those of the products, and none of their kind is better."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.operators import SparseProduct
from papilio.runtime.session import Session
from papilio.search.curves import relative_error, thresholding
from papilio.search.methods.low_rank import low_rank
from papilio.search.methods.sparse_plus_low_rank import sums
from papilio.search.methods.transform import domains, transform
from papilio.search.problems import Stored, blocks_of
from papilio.search.targets import Target

from .helpers import gaussian


def complex_gaussian(shape, seed=0):
    return gaussian(shape, seed=seed) + 1j * gaussian(shape, seed=seed + 1)


def assert_true(curve, matrix, places, rel=1e-6):
    """The curve tells the entries and the errors of its products."""
    assert (np.diff(curve.entries) > 0).all()
    for place in places:
        operator = curve.build(place)
        assert operator.nnz <= curve.entries[place]
        assert operator.dtype == matrix.dtype
        floor = 1e-5 if matrix.dtype.char in "fF" else 1e-12
        assert relative_error(matrix, operator) == pytest.approx(curve.errors[place], rel=rel, abs=floor)
        assert curve.detail(place)


# -- thresholding --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shape=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    values=st.sampled_from(["gaussian", "ties", "zeros", "complex"]),
    seed=st.integers(0, 9),
)
def test_thresholding_keeps_the_largest_entries(shape, values, seed):
    X = {"complex": complex_gaussian}.get(values, gaussian)(shape, seed=seed)
    if values == "ties":
        X = np.sign(X) + 0.0
    if values == "zeros":
        X[gaussian(shape, seed=seed + 5) > 0] = 0
    if not X.any():
        return
    curve = thresholding(X, Target(X.size), lambda kept: SparseProduct([kept]), 0, "thresholding", "")
    assert curve.entries.tolist() == list(range(1, np.count_nonzero(X) + 1))
    assert_true(curve, X, range(curve.entries.size))
    sizes = np.sort(np.abs(X).ravel())[::-1]
    for place, k in enumerate(curve.entries):
        best = np.linalg.norm(sizes[k:]) / np.linalg.norm(sizes)
        assert curve.errors[place] == pytest.approx(best, abs=1e-12)


def test_long_curves_are_thinned_but_keep_the_budget(monkeypatch):
    monkeypatch.setattr("papilio.search.curves._MANY", 64)
    X = gaussian((30, 30))
    curve = thresholding(X, Target(X.size, 777), lambda kept: SparseProduct([kept]), 0, "thresholding", "")
    assert {1, 2, 777, 900} <= set(curve.entries.tolist())
    assert_true(curve, X, range(0, curve.entries.size, 37))


# -- low rank and blocks -------------------------------------------------------------------------------


def shuffled_blocks(sizes, seed=0, rank=None):
    random = np.random.default_rng(seed)
    blocks = [random.standard_normal((m, rank or n)) @ random.standard_normal((rank or n, n)) for m, n in sizes]
    M = scipy.linalg.block_diag(*blocks)
    return M[random.permutation(M.shape[0])][:, random.permutation(M.shape[1])]


def test_blocks_are_found_under_permutations():
    sizes = [(3, 4), (5, 2), (1, 1), (6, 6)]
    found = blocks_of(shuffled_blocks(sizes))
    assert sorted((rows.size, columns.size) for rows, columns in found) == sorted(sizes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_low_rank_has_the_errors_of_the_singular_values(dtype):
    X = gaussian((12, 9)).astype(dtype)
    curve = low_rank(Stored(Session(), X).blocks(), X.shape, float(np.linalg.norm(X)) ** 2)
    values = np.linalg.svd(X, compute_uv=False)
    tails = [np.linalg.norm(values[r:]) / np.linalg.norm(values) for r in range(1, curve.entries.size + 1)]
    np.testing.assert_allclose(curve.errors, tails, rtol=1e-4, atol=1e-6)
    assert_true(curve, X, range(curve.entries.size), rel=1e-3)


@pytest.mark.slow
def test_low_rank_in_blocks_has_far_fewer_entries_than_in_the_whole():
    M = shuffled_blocks([(8, 8)] * 4, rank=2)
    fit = pp.factorize(M, method="low_rank", max_error=1e-9)
    assert fit.operator.nnz == 4 * 2 * 16
    assert fit.error < 1e-12


# -- domains of transforms -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Haar", "db4", "DCT", "Hadamard", "Hartley", "DFT", "Haar 2-D", "Hartley 2-D"])
@pytest.mark.parametrize("n", [16, 64])
def test_transforms_are_orthonormal(name, n):
    T = transform(name, n)
    if T is None:
        assert name.endswith("2-D")
        assert n == 16
        return
    np.testing.assert_allclose(T.toarray() @ T.H.toarray(), np.eye(n), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(32, 32), (32, 16), (12, 32)])
def test_errors_of_curves_in_domains_are_those_of_their_products(shape, dtype):
    X = (gaussian(shape) + (1j * gaussian(shape, seed=1) if np.dtype(dtype).kind == "c" else 0)).astype(dtype)
    curves = list(domains(Stored(Session(), X), Target(X.size)))
    assert curves
    for curve in curves:
        count = curve.entries.size
        assert_true(curve, X, [0, count // 3, count - 1], rel=1e-3)


def test_a_circulant_matrix_is_sparse_in_the_hartley_domain():
    C = scipy.linalg.circulant(gaussian((64, 1))[:, 0])
    both = [
        curve for curve in domains(Stored(Session(), C), Target(C.size)) if curve.detail(0).startswith("Hartley, ")
    ]
    kept = min(int(curve.entries[np.flatnonzero(curve.errors < 1e-12)[0]]) for curve in both)
    assert kept <= 2 * pp.transforms.hartley(64).nnz + 2 * 64


# -- sparse plus low rank ------------------------------------------------------------------------------


def sparse_plus_low_rank(shape, rank, n_nonzero, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    M = random.standard_normal((shape[0], rank)) @ random.standard_normal((rank, shape[1]))
    places = random.choice(M.size, n_nonzero, replace=False)
    M.flat[places] += 10 * random.choice([-1, 1], n_nonzero)
    if np.dtype(dtype).kind == "c":
        M = M * np.exp(1j * np.arange(shape[1]))
    return M.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(60, 60), (80, 50), (50, 80)])
def test_a_sum_of_sparse_and_low_rank_is_found(shape, dtype):
    M = sparse_plus_low_rank(shape, 2, 60, dtype)
    needed = 60 + 2 * sum(shape) + min(shape)
    (curve,) = sums(Stored(Session(), M), Target(M.size, needed), M.size)
    assert curve.entries[-1] <= needed
    assert_true(curve, M, [0, -1], rel=1e-3)
    assert curve.errors[-1] < 0.1
    fit = pp.factorize(M, complexity=1.3 * needed / M.size)
    assert fit.method == "sparse_plus_low_rank"
    assert fit.error < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_sums_are_fitted_where_the_rank_is_lower_than_was_tried(dtype):
    M = sparse_plus_low_rank((60, 60), 1, 2, dtype)
    M[:, 40:] = 0
    (curve,) = sums(Stored(Session(), M), Target(M.size, 1500), M.size)
    assert curve.errors[-1] < 1e-3
    assert_true(curve, M, [-1], rel=0.1)


def test_sums_leave_out_entries_that_the_matrix_does_not_need():
    M = sparse_plus_low_rank((60, 60), 2, 60)
    (curve,) = sums(Stored(Session(), M), Target(M.size, 520), M.size)  # There is no room for another rank.
    assert curve.entries[curve.errors < 1e-4].min() <= 60 + 2 * 120 + 60


# -- rules of the search -------------------------------------------------------------------------------

ENGINEERING = {
    "blur": np.exp(-((np.arange(48)[:, None] - np.arange(48)) ** 2) / 18.0),
    "kernel": 1 / (np.abs(np.linspace(0, 1, 32)[:, None] - np.linspace(0, 1, 32)) + 0.05),
    "circulant": scipy.linalg.circulant(gaussian((40, 1))[:, 0]),
    "Toeplitz": scipy.linalg.toeplitz(1 / np.sqrt(1 + np.arange(64))),
    "Kronecker": np.kron(gaussian((6, 6)), gaussian((5, 7), seed=1)),
    "blocks": shuffled_blocks([(9, 9), (12, 12), (7, 7)]),
    "sum": sparse_plus_low_rank((40, 40), 2, 50),
    "Gaussian": gaussian((24, 24)),
    "wide": gaussian((12, 40)),
}


TARGETS = {"complexity": {"complexity": 0.3}, "error": {"max_error": 0.05}, "none": {}}


# Each matrix with one target; each target with three matrices.
@pytest.mark.parametrize(("name", "target"), list(zip(ENGINEERING, 3 * list(TARGETS), strict=True)))
def test_no_attempt_is_better_than_the_result_by_the_target(name, target, monkeypatch):
    monkeypatch.setattr("papilio.search.methods.sparse_factors._ROUNDS", 4)
    M, target = ENGINEERING[name], TARGETS[target]
    fit = pp.factorize(M, **target)
    budget = int(target["complexity"] * M.size) if "complexity" in target else None
    rule = Target(M.size, budget, target.get("max_error"))
    ranks = [rule.rank(attempt.nnz, attempt.error) for attempt in fit.attempts if attempt.nnz]
    if fit.status == "no_structure":
        assert min(ranks) == np.inf
    else:
        assert rule.rank(fit.operator.nnz, fit.error) <= min(ranks) * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize("complexity", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("name", ENGINEERING)
def test_no_simple_candidate_is_better_with_as_many_entries(name, complexity, monkeypatch):
    monkeypatch.setattr("papilio.search.methods.sparse_factors._ROUNDS", 2)
    M = ENGINEERING[name]
    if complexity * M.size < 2 * max(M.shape):
        return
    fit = pp.factorize(M, complexity=complexity)
    budget = int(complexity * M.size + 1e-9)
    sizes = np.sort(np.abs(M).ravel())[::-1]
    values = np.linalg.svd(M, compute_uv=False)
    simple = min(np.linalg.norm(sizes[budget:]), np.linalg.norm(values[budget // sum(M.shape) :]))
    assert fit.error <= simple / np.linalg.norm(M) * (1 + 1e-9) + 1e-12


@pytest.mark.slow
def test_large_matrices_have_only_their_leading_singular_vectors(monkeypatch):
    monkeypatch.setattr("papilio.search.problems.SVD_SIDE", 20)
    X = gaussian((60, 5)) @ gaussian((5, 50), seed=1) + 1e-3 * gaussian((60, 50), seed=2)
    fit = pp.factorize(X, complexity=0.2, method="low_rank")
    values = np.linalg.svd(X, compute_uv=False)
    assert fit.error <= 1.01 * np.linalg.norm(values[5:]) / np.linalg.norm(values)
