"""Codes with an ℓ1 penalty: optimality from its definition, scikit-learn, every way, and at the edges."""

from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning

import papilio as pp
from papilio.coding import Atoms, lasso_codes
from papilio.runtime.session import Session

from .helpers import gaussian

pytestmark = pytest.mark.usefixtures("default_threads")
# Little data goes both ways: by the whole Gram matrix, and by working sets, of all signals or a few at a time.
WAYS = {
    "Gram matrix": {"CHUNK": 1 << 9},
    "working sets": {"SMALL": 0, "_LARGE": 0},
    "working sets, in parts": {"SMALL": 0, "_LARGE": 0, "_TOGETHER": 16, "_ROOM": 2},
}
MODULE = import_module("papilio.coding.basis_pursuit")


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(MODULE, name, value)
    return request.param


def data(shape=(20, 50), n_signals=40, dtype=np.float64, seed=0):
    D = gaussian(shape, dtype, seed) * np.linspace(0.3, 2, shape[1]).astype(dtype)
    return D, gaussian((shape[0], n_signals), dtype, seed + 1)


def product(dtype=np.float64):
    left, right = (sp.random_array(shape, density=0.3, rng=i) for i, shape in enumerate([(20, 24), (24, 50)]))
    return pp.SparseProduct([np.eye(20, 24) + left, right + sp.eye_array(24, 50)], scale=0.7).astype(dtype)


def objective(D, X, codes, alpha):
    return 0.5 * ((X - D @ codes) ** 2).sum(axis=0) + alpha * np.abs(codes).sum(axis=0)


def violation(D, X, codes, alpha, positive=False):
    """How far codes are from the conditions of optimality: 0 ∈ −Dᵀ(x − Dγ) + alpha·∂‖γ‖₁, relative to alpha."""
    slack = D.T @ (X - D @ codes) / alpha
    outside = np.maximum((slack if positive else np.abs(slack)) - 1, 0)
    on_support = np.where(codes != 0, np.abs(slack - np.sign(codes)), 0)
    return max(outside.max(), on_support.max(), -min(codes.min(), 0) if positive else 0)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 5.0])
def test_codes_are_optimal(way, alpha, positive):
    for D in (data()[0], product()):
        X = data()[1]
        codes = pp.lasso(D, X, alpha, positive=positive, tol=0)
        assert isinstance(codes, sp.csc_array)
        assert codes.has_sorted_indices
        dense = D.toarray() if isinstance(D, pp.SparseProduct) else D
        assert violation(dense, X, codes.toarray(), alpha, positive) < 1e-9


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 14)),
    seed=st.integers(0, 99),
    alpha=st.sampled_from([1e-3, 0.1, 1.0]),
    positive=st.booleans(),
    decimals=st.sampled_from([0, 1, 8]),
    by_gram=st.booleans(),
)
def test_codes_are_optimal_for_any_dictionary(shape, seed, alpha, positive, decimals, by_gram):
    # Rounded numbers give ties, duplicates, dependent and zero atoms, and signals of zeros.
    D, X = (array.round(decimals) for array in data(shape, 4, seed=seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "SMALL", 512 if by_gram else 0)
        patch.setattr(MODULE, "_LARGE", 512 if by_gram else 0)
        codes = pp.lasso(D, X, alpha, positive=positive).toarray()
    reference = pp.lasso(D, X, alpha, positive=positive, tol=1e-14).toarray()
    for found in (codes, reference):
        left = X - D @ found
        top = (D.T @ left).max(axis=0) if positive else np.abs(D.T @ left).max(axis=0)
        theta = left * np.minimum(alpha / np.maximum(top, 1e-300), 1)
        bound = 0.5 * (X**2).sum(axis=0) - 0.5 * ((X - theta) ** 2).sum(axis=0)
        gap = objective(D, X, found, alpha) - bound
        assert (gap <= 1e-8 * np.maximum((X**2).sum(axis=0), 1e-300)).all()
        assert not positive or (found >= 0).all()


def test_codes_are_those_of_scikit_learn(way):
    D, X = data()
    for positive in (False, True):
        expected = sparse_encode(
            X.T, D.T, algorithm="lasso_cd", alpha=0.8, positive=positive, max_iter=100_000, check_input=False
        ).T
        codes = pp.lasso(D, X, 0.8, positive=positive).toarray()
        # Its tolerance of 1e-4 cannot be changed, so that its objective may be larger, but never smaller.
        ours, theirs = (objective(D, X, each, 0.8) for each in (codes, expected))
        assert (ours <= theirs + 1e-9).all()
        np.testing.assert_allclose(ours, theirs, rtol=1e-3)
        np.testing.assert_allclose(codes, expected, atol=0.05)


def test_non_negative_codes_with_a_small_penalty_are_nearly_those_of_least_squares(way):
    D, X = data((20, 12))
    expected = np.transpose([nnls(D, x)[0] for x in X.T])
    np.testing.assert_allclose(pp.lasso(D, X, 1e-7, positive=True).toarray(), expected, atol=1e-4)
    # The penalty in a row of its own: ½‖x − Dγ‖² + alpha·Σγ is, up to a constant, least squares with Dᵀx − alpha.
    gram, shifted = D.T @ D, D.T @ X - 0.7
    L = np.linalg.cholesky(gram)
    expected = np.transpose([nnls(L.T, np.linalg.solve(L, column))[0] for column in shifted.T])
    np.testing.assert_allclose(pp.lasso(D, X, 0.7, positive=True, tol=0).toarray(), expected, atol=1e-10)


def test_an_orthonormal_basis_thresholds(way):
    D, X = np.linalg.qr(gaussian((16, 16)))[0], data((16, 16))[1]
    coefficients = D.T @ X
    expected = np.sign(coefficients) * np.maximum(np.abs(coefficients) - 0.6, 0)
    np.testing.assert_allclose(pp.lasso(D, X, 0.6, tol=0).toarray(), expected, atol=1e-13)


@pytest.mark.parametrize("positive", [False, True])
def test_a_warm_start_ends_where_a_cold_one_does(way, positive):
    D, X = data()
    cold = pp.lasso(D, X, 0.5, positive=positive, tol=0).toarray()
    other = pp.lasso(D, X, 0.9, positive=positive)
    noise = gaussian(cold.shape, seed=5) * (gaussian(cold.shape, seed=6) > 1)
    for init in (cold, other, noise, np.ones_like(cold), sp.coo_matrix(-cold)):
        warm = pp.lasso(D, X, 0.5, positive=positive, init=init, tol=0).toarray()
        np.testing.assert_allclose(warm, cold, atol=1e-9)


def test_the_gap_is_at_most_the_tolerance(way):
    D, X = data((30, 80), 60)
    best = objective(D, X, pp.lasso(D, X, 0.3, tol=0).toarray(), 0.3)
    counts = []
    for tol in (1e-1, 1e-3):
        codes = pp.lasso(D, X, 0.3, tol=tol)
        excess = objective(D, X, codes.toarray(), 0.3) - best
        assert (excess <= tol * 0.5 * (X**2).sum(axis=0)).all()
        counts.append(codes.nnz)
    assert counts[0] < counts[1]


def test_single_precision_stays_and_is_nearly_as_good(way):
    for D in (data(dtype=np.float32)[0], product(np.float32)):
        X = data(dtype=np.float32)[1]
        codes = pp.lasso(D, X, 0.4)
        assert codes.dtype == np.float32
        dense = np.asarray(D, dtype=np.float64)
        exact = pp.lasso(dense, X.astype(np.float64), 0.4).toarray()
        ours, best = (objective(dense, X, each, 0.4) for each in (codes.toarray(), exact))
        assert (ours - best <= 2e-6 * (X**2).sum(axis=0)).all()


def test_duplicates_zero_atoms_and_zero_signals(way):
    D, X = data()
    D, X = np.hstack([D, np.zeros((20, 2)), D[:, :5], -D[:, :5]]), np.hstack([X, np.zeros((20, 3))])
    codes = pp.lasso(D, X, 0.3, tol=0).toarray()
    assert violation(D, X, codes, 0.3) < 1e-9
    assert not codes[50:52].any()
    assert not codes[:, -3:].any()
    best = objective(D[:, :50], X, pp.lasso(D[:, :50], X, 0.3, tol=0).toarray(), 0.3)
    np.testing.assert_allclose(objective(D, X, codes, 0.3), best, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_unit_of_signals_and_atoms_does_not_matter(way, unit):
    D, X = data()
    expected = pp.lasso(D, X, 0.5).toarray()
    np.testing.assert_allclose(pp.lasso(D, X * unit, 0.5 * unit).toarray() / unit, expected, atol=1e-9)
    small = pp.lasso(D * 1e-60, X, 0.5e-60).toarray() * 1e-60
    np.testing.assert_allclose(small, expected, atol=1e-9)


def test_inputs_stay_and_any_form_is_taken(way):
    D, X = data()
    before = D.copy(), X.copy(), pp.lasso(D, X, 0.5)
    again = pp.lasso(sp.csr_array(D), X.tolist(), 0.5, init=before[2])
    np.testing.assert_array_equal(D, before[0])
    np.testing.assert_array_equal(X, before[1])
    np.testing.assert_allclose(again.toarray(), before[2].toarray(), atol=1e-8)
    one = pp.lasso(D, X[:, 0], 0.5)
    assert one.shape == (50, 1)
    assert pp.lasso(D, X[:, :0], 0.5).shape == (50, 0)
    assert pp.lasso(D.round().astype(int), X.round().astype(int), 0.5).dtype == np.float64


def test_the_number_of_threads_does_not_change_the_codes(way):
    D, X = data()
    pp.set_num_threads(1)
    one = pp.lasso(D, X, 0.5)
    pp.set_num_threads(3)
    three = pp.lasso(D, X, 0.5)
    np.testing.assert_allclose(three.toarray(), one.toarray(), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0"),
        ({"alpha": -1.0}, "alpha must be above 0, got -1"),
        ({"alpha": np.nan}, "alpha"),
        ({"alpha": [1.0]}, "alpha"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"positive": 2}, "positive must be True or False"),
        ({"signals": np.ones((3, 2))}, "signals must have 20 rows"),
        ({"signals": np.full((20, 1), np.nan)}, "signals must hold finite numbers"),
        ({"signals": np.ones((20, 1)) * 1j}, "must be real"),
        ({"dictionary": np.full((20, 50), np.inf)}, "dictionary must hold finite numbers"),
        ({"dictionary": pp.KSVD()}, "fitted estimator"),
        ({"init": np.ones((50, 3))}, r"init must have shape \(50, 40\)"),
        ({"init": np.full((50, 40), np.nan)}, "init must hold finite numbers"),
        ({"init": np.ones((50, 40)) * 1j}, "init must be real"),
    ],
)
def test_bad_input_is_named(change, message):
    D, X = data()
    arguments = {"dictionary": D, "signals": X, "alpha": 0.5} | change
    with pytest.raises((ValueError, TypeError), match=message):
        pp.lasso(**arguments)


# -- estimators ----------------------------------------------------------------------------------------


def test_estimators_code_with_a_penalty_on_request():
    X = gaussian((60, 8))
    model = pp.KSVD(12, 3, max_iter=2, tol=0, random_state=0).fit(X)
    default = model.transform(X)
    model.set_params(transform_algorithm="lasso", transform_alpha=0.3)
    expected = pp.lasso(model.operator_, X.T, 0.3).toarray().T
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-12)
    missing = np.linalg.norm(X - expected @ model.components_) / np.linalg.norm(X)
    assert model.score(X) == pytest.approx(-missing)
    assert (model.set_params(positive=True).transform(X) >= 0).all()
    np.testing.assert_allclose(
        model.set_params(positive=False, transform_alpha=None).transform(X),
        pp.lasso(model.operator_, X.T, 1.0).toarray().T,
        atol=1e-12,
    )
    np.testing.assert_array_equal(model.set_params(transform_algorithm="omp").transform(X), default)
    for options, message in (
        ({"transform_algorithm": "lars"}, "transform_algorithm must be one of 'omp', 'lasso'"),
        ({"transform_algorithm": "lasso", "transform_alpha": 0}, "transform_alpha must be above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(**options).transform(X)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("positive", [False, True])
def test_codes_in_a_large_orthogonal_basis_are_shrunk_correlations(positive, kind, monkeypatch):
    scales = (np.linspace(0.2, 3, 1024) * (np.arange(1024) % 7 > 0)).astype(kind)
    op = pp.transforms.dct(1024).T.astype(kind) @ pp.SparseProduct([np.diag(scales)])
    X = gaussian((1024, 5), kind, 3) * np.array([1, 0, 5, 0.1, 1], kind)
    assert Atoms(op).is_orthonormal()
    codes = pp.lasso(op, X, 0.4, positive=positive)
    assert codes.dtype == kind
    assert 0 < codes.nnz < codes.shape[0] * 4
    limit = 1e-8 if kind == np.float64 else 1e-3
    assert violation(op.toarray(), X, codes.toarray(), 0.4, positive) <= limit
    monkeypatch.setattr(Atoms, "is_orthonormal", lambda _: False)
    np.testing.assert_allclose(codes.toarray(), pp.lasso(op, X, 0.4, positive=positive).toarray(), atol=limit)


def test_progress_counts_all_signals(way):
    seen = []
    D, X = data()
    with Session(lambda step: seen.append(step)) as session:
        lasso_codes(Atoms(D), X, 0.5, session=session)
    assert (seen[0].phase, seen[0].iteration) == ("signal", 0)
    assert seen[-1].done <= 1
    pp.lasso(D, X, 0.5, progress=True)
    with pytest.raises(TypeError, match="progress must be True or False"):
        pp.lasso(D, X, 0.5, progress=2)


def test_a_warm_start_from_the_solution_needs_no_step(way):
    D, X = data()
    codes = pp.lasso(D, X, 0.5)
    with pytest.warns(ConvergenceWarning, match=r"codes of \d+ signals have a duality gap above tol"):
        pp.lasso(D, X, 0.5, max_iter=1)
    pp.lasso(D, X, 0.5, init=codes, max_iter=1)
