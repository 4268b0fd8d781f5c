"""Non-negative factors: sweeps against scikit-learn and brute force, supports against planted ones."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment, nnls
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp
from papilio.constraints import Circulant, NonNegative, Sparse, SparseColumns, SparseRows
from papilio.nonnegative.losses import Divergence, LeastSquares, error_of
from papilio.nonnegative.nmf import divergence_codes, least_squares_codes
from papilio.nonnegative.supports import without_spare_units
from papilio.runtime.session import Session

LOSSES = {"frobenius": LeastSquares, "kullback-leibler": Divergence}
V = np.random.default_rng(0).random((9, 14))


def random_factors(sizes, seed=1):
    random = np.random.default_rng(seed)
    return [random.random(shape) for shape in pairwise(sizes)]


def dense(factor):
    return factor.toarray() if sp.issparse(factor) else factor


def planted(sizes, counts, seed):
    random, factors = np.random.default_rng(seed), []
    for (m, n), k in zip(pairwise(sizes), counts, strict=True):
        places = random.permuted(np.tile(np.arange(m), (n, 1)), axis=1)[:, :k]
        factor = np.zeros((m, n))
        factor[places, np.arange(n)[:, None]] = random.uniform(0.5, 1.5, places.shape)
        factors.append(factor)
    return factors


def f1(found, truth):
    """The agreement of two supports: 1 if they are the same."""
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


# -- sweeps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "solver"), [("frobenius", "cd"), ("kullback-leibler", "mu")])
def test_two_factors_are_scikit_learns_nmf_on_digits(loss, solver):
    X = load_digits().data[:300]
    W, H = random_factors((300, 10, 64))
    model = NMF(10, init="custom", solver=solver, beta_loss=loss, max_iter=20, tol=0)
    model.fit_transform(X, W=W.copy(), H=H.copy())
    fit = pp.nonnegative.nonnegative_chain(X, 10, init=(W, H), loss=loss, max_iter=20, tol=0)
    assert fit.objective == pytest.approx(model.reconstruction_err_**2 / 2, rel=0.01)
    assert fit.n_iter == 20


def test_a_sweep_of_least_squares_minimises_each_entry_in_turn():
    factors = [0.4 * factor for factor in random_factors((9, 4, 5, 14))]
    loss = LeastSquares(V, [factor.copy() for factor in factors])
    loss.sweep()
    value = loss.objective()
    for j in range(3):  # First to last; the last one by columns.
        left = reduce(np.matmul, factors[:j], np.eye(9))
        right = reduce(np.matmul, factors[j + 1 :], np.eye(factors[j].shape[1]))
        places = np.ndindex(factors[j].shape) if j < 2 else ((p, q) for q in range(14) for p in range(5))
        for p, q in places:
            direction = np.outer(left[:, p], right[q])
            rest = V - left @ factors[j] @ right
            step = np.vdot(direction, rest) / np.vdot(direction, direction)
            factors[j][p, q] = max(factors[j][p, q] + step, 0)
    for found, expected in zip(loss.factors, factors, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert value == pytest.approx(0.5 * np.linalg.norm(V - reduce(np.matmul, factors)) ** 2)


@pytest.mark.parametrize("sizes", [(9, 4, 14), (9, 4, 5, 14), (9, 6, 3, 14)])
def test_a_sweep_of_the_divergence_is_the_formula(sizes):
    factors = random_factors(sizes)
    loss = Divergence(V, [factor.copy() for factor in factors])
    for _ in range(2):
        loss.sweep()
        value = loss.objective()
        for j in range(len(factors)):
            left = reduce(np.matmul, factors[:j], np.eye(9))
            right = reduce(np.matmul, factors[j + 1 :], np.eye(factors[j].shape[1]))
            ratio = V / (left @ factors[j] @ right)
            factors[j] *= (left.T @ ratio @ right.T) / np.outer(left.sum(axis=0), right.sum(axis=1))
    for found, expected in zip(loss.factors, factors, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    product = reduce(np.matmul, factors)
    assert value == pytest.approx((V * np.log(V / product) - V + product).sum())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sparsity", [None, 2])
def test_the_objective_never_rises_and_no_entry_is_negative(loss, sparsity):
    random = np.random.default_rng(0)
    matrix = random.random((10, 8)) * (random.random((10, 8)) < 0.5)
    matrix[:, 3] = 0
    matrix[5] = 0
    fit = pp.nonnegative.nonnegative_chain(
        matrix, (5, 4), sparsity=sparsity, loss=loss, n_init=1, max_iter=60, tol=0
    )
    assert (np.diff(fit.history.error) <= 0).all()
    for factor in map(dense, fit.operator.factors):
        assert np.isfinite(factor).all()
        assert factor.min() >= 0
        if sparsity:
            assert np.count_nonzero(factor, axis=0).max() <= sparsity
    np.testing.assert_allclose(fit.operator.toarray()[:, 3], 0, atol=1e-6)
    np.testing.assert_allclose(fit.operator.toarray()[5], 0, atol=1e-6)
    assert fit.error == pytest.approx(np.linalg.norm(matrix - fit.operator.toarray()) / np.linalg.norm(matrix))


def test_rounding_residues_do_not_lead_to_huge_entries():
    factors = random_factors((9, 3, 14))
    factors[0][:, 1], factors[1][1] = 1e-136, 0
    loss = LeastSquares(V, factors)
    loss.sweep()
    assert max(factor.max() for factor in loss.factors) < 100


@pytest.mark.parametrize("loss", LOSSES)
def test_the_unit_of_the_data_does_not_matter(loss):
    plain, large, small = (
        pp.nonnegative.nonnegative_chain(V * 2.0**unit, 3, loss=loss, max_iter=20) for unit in (0, 300, -300)
    )
    assert plain.error == large.error == small.error
    np.testing.assert_array_equal(dense(large.operator.factors[1]), dense(plain.operator.factors[1]) * 2.0**300)


def test_single_precision_sparse_input_and_random_states():
    single = pp.nonnegative.nonnegative_chain(V.astype(np.float32), 3, max_iter=10)
    assert single.operator.dtype == np.float32
    matrix = sp.csr_array(np.where(V > 0.7, V, 0))
    first, again, other = (
        pp.nonnegative.nonnegative_chain(matrix, 3, max_iter=5, random_state=seed).operator.toarray()
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_columns_sum_to_one_and_the_last_factor_has_the_size():
    fit = pp.nonnegative.nonnegative_chain(V, (4, 3), max_iter=10)
    for factor in fit.operator.factors[:-1]:
        np.testing.assert_allclose(dense(factor).sum(axis=0), 1)
    assert fit.operator.scale == 1


# -- supports --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["frobenius", pytest.param("kullback-leibler", marks=pytest.mark.slow)])
def test_supports_of_a_planted_chain_are_found(loss):
    truth = planted((30, 8, 8, 60), (3, 2, 2), 1)
    fit = pp.nonnegative.nonnegative_chain(reduce(np.matmul, truth), (8, 8), sparsity=(3, 2, 2), loss=loss)
    assert fit.error < 1e-4
    first, second, _ = (dense(factor) != 0 for factor in fit.operator.factors)
    true_first, true_second, _ = (factor != 0 for factor in truth)
    # Hidden units come in any order.
    rows = linear_sum_assignment(true_first.T.astype(int) @ first, maximize=True)[1]
    columns = linear_sum_assignment(true_second.T.astype(int) @ second[rows], maximize=True)[1]
    assert f1(first[:, rows], true_first) > 0.9
    assert f1(second[np.ix_(rows, columns)], true_second) > 0.9
    assert f1(first[:, np.roll(rows, 1)], true_first) < 0.5  # The order matters.


def test_any_set_of_supports_limits_a_factor():
    sets = (Sparse((9, 4), 10), NonNegative(SparseRows((4, 14), 3)))
    fit = pp.nonnegative.nonnegative_chain(V, 4, sparsity=sets, n_init=1, max_iter=20)
    first, second = map(dense, fit.operator.factors)
    assert np.count_nonzero(first) <= 10
    assert np.count_nonzero(second, axis=1).max() <= 3


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (-V, {}, "V must not have negative entries, got -0.9"),
        (V * 1j, {}, "V must hold real numbers"),
        (V * np.nan, {}, "V must hold finite numbers"),
        (V[0], {}, "V must be a matrix"),
        (V[:0], {}, "V must not be empty"),
        (V, {"ranks": 0}, "ranks must be an integer of at least 1"),
        (V, {"ranks": (3, 0)}, r"ranks\[1\] must be an integer of at least 1"),
        (V, {"ranks": ()}, "ranks must have at least one rank"),
        (V, {"ranks": 2.5}, "ranks must be an integer"),
        (V, {"loss": "l1"}, "loss must be one of 'frobenius', 'kullback-leibler'"),
        (V, {"sparsity": 0}, "sparsity must be an integer of at least 1"),
        (V, {"sparsity": (1, 2, 3)}, "sparsity must have one member for each of the 2 factors, got 3"),
        (V, {"sparsity": (Sparse((9, 4), 3), None)}, r"sparsity\[0\] must be a set of matrices of shape \(9, 3\)"),
        (V[:, :9], {"ranks": 9, "sparsity": Circulant(9)}, "sparsity must be a set of supports"),
        (V, {"init": random_factors((9, 3))}, "init must have 2 factors, got 1"),
        (V, {"init": random_factors((9, 4, 14))}, r"init\[0\] must have shape \(9, 3\)"),
        (V, {"init": [-np.ones((9, 3)), np.ones((3, 14))]}, r"init\[0\] must not have negative entries"),
        (V, {"n_init": 0}, "n_init"),
        (V, {"max_iter": -1}, "max_iter"),
        (V, {"tol": -1.0}, "tol"),
        (V, {"callback": 3}, "callback"),
        (V, {"progress": 2}, "progress"),
    ],
)
def test_bad_input_is_refused_by_name(matrix, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.nonnegative.nonnegative_chain(matrix, **({"ranks": 3} | options))


# -- the estimator ---------------------------------------------------------------------------------------

X = V.T.copy()


@parametrize_with_checks([pp.nonnegative.MultilayerNMF(random_state=0)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([pp.nonnegative.MultilayerNMF(2, loss="kullback-leibler")])
def test_scikit_learns_own_checks_pass_with_the_divergence(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_fitted_attributes_agree(loss):
    model = pp.nonnegative.MultilayerNMF(
        ranks=(6, 3), sparsity=(3, None), loss=loss, n_init=1, random_state=0
    ).fit(X)
    assert model.components_.shape == (3, 9)
    np.testing.assert_allclose(model.operator_.toarray().T, model.components_, atol=1e-12)
    assert [factor.shape for factor in model.operator_.factors] == [(9, 6), (6, 3)]
    assert sp.issparse(model.operator_.factors[0])
    assert np.count_nonzero(model.operator_.factors[0].toarray(), axis=0).max() <= 3
    codes = model.fit_transform(X)
    np.testing.assert_allclose(model.inverse_transform(codes), codes @ model.components_, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(sp.csr_array(codes)), codes @ model.components_, atol=1e-12)
    if loss == "frobenius":
        assert np.linalg.norm(X - codes @ model.components_) <= model.reconstruction_err_ * (1 + 1e-9)
    assert list(model.get_feature_names_out()) == ["multilayernmf0", "multilayernmf1", "multilayernmf2"]


def test_codes_are_minima():
    parts = random_factors((3, 9))[0]
    codes = least_squares_codes(X, parts, 100)
    np.testing.assert_allclose(codes, [nnls(parts.T, row)[0] for row in X], atol=1e-6)
    codes = divergence_codes(X, parts, 5000)
    estimate = codes @ parts
    gradient = (1 - X / estimate) @ parts.T
    assert gradient.min() > -1e-3  # the conditions of Karush, Kuhn and Tucker
    assert np.abs(codes * gradient).max() < 1e-3


def test_one_level_is_nmf():
    data = load_digits().data[:200]
    ours = pp.nonnegative.MultilayerNMF(8, n_init=3, random_state=0).fit(data)
    theirs = NMF(8, init="random", max_iter=2000, random_state=0).fit(data)
    assert ours.reconstruction_err_ < 1.02 * theirs.reconstruction_err_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2, "ranks": (4, 3)}, "n_components must be the last of ranks, 3, got 2"),
        ({"ranks": (4, 3), "sparsity": (1, 2, 3)}, "sparsity must have one member for each of the 2 levels"),
        ({"loss": "l2"}, "loss"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.nonnegative.MultilayerNMF(**options).fit(X)


def test_bad_data_are_refused():
    model = pp.nonnegative.MultilayerNMF(2, random_state=0).fit(X)
    for bad in (-X, X * np.nan):
        with pytest.raises(ValueError, match=r"[Nn]egative values|NaN"):
            model.fit(bad)
        with pytest.raises(ValueError, match=r"[Nn]egative values|NaN"):
            model.transform(bad)
    with pytest.raises(ValueError, match="X must have 2 columns"):
        model.inverse_transform(np.ones((2, 3)))


def test_reaching_max_iter_warns():
    with pytest.warns(ConvergenceWarning, match="increase max_iter"):
        pp.nonnegative.MultilayerNMF(3, max_iter=1, random_state=0).fit(X)


# -- supports --------------------------------------------------------------------------------------------


def test_a_stop_during_the_search_keeps_the_limits():
    V, calls = np.random.default_rng(0).random((30, 40)), []
    fit = pp.nonnegative.nonnegative_chain(
        V, (12, 10), sparsity=3, callback=lambda step: calls.append(0) or len(calls) > 2
    )
    assert (fit.status, len(calls)) == ("stopped", 3)
    assert fit.error < 0.82  # values fit the supports that the stop has left
    assert all((factor.toarray() > 0).sum(axis=0).max() <= 3 for factor in fit.operator.factors)


def test_units_that_an_exact_product_does_not_need_are_left_out():
    """Two of five units are split: some columns read a copy."""
    S1, S2 = planted((16, 5, 30), (3, 2), 3)
    left, right = np.hstack([S1, 2 * S1[:, :2]]), np.vstack([S2, np.zeros((2, 30))])
    right[5:, ::2], right[:2, ::2] = right[:2, ::2] / 2, 0
    sets = [SparseColumns(left.shape, 3), SparseColumns(right.shape, 2)]
    found = without_spare_units(Session(random_state=0), left @ right, [left, right], sets)
    assert error_of(left @ right, found) < 1e-6
    assert [np.count_nonzero(factor) for factor in found] == [15, 60]


@pytest.mark.parametrize("loss", LOSSES)
def test_zeros_are_factorized_into_zeros(loss):
    fit = pp.nonnegative.nonnegative_chain(np.zeros((4, 5)), (2, 3), loss=loss, sparsity=1)
    assert fit.error == 0
    assert fit.objective < 1e-9
    assert not fit.operator.toarray().any()
