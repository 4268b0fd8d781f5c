"""The sparse matrix transform: its likelihoods, computed directly; planted rotations; scikit-learn's interface."""

import numpy as np
import pytest
from sklearn.covariance import OAS, LedoitWolf, log_likelihood
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp
from papilio.rotations.covariance import FLOOR, choose, most_correlated, most_rotations

from .helpers import gaussian


def planted(size, n_rotations, seed=0):
    """A covariance whose eigenvectors are a product of few rotations."""
    rng = np.random.default_rng(seed)
    U = np.eye(size)
    for _ in range(n_rotations):
        i, j = rng.choice(size, 2, replace=False)
        angle = rng.uniform(0.3, 1.2)
        U[:, [i, j]] = U[:, [i, j]] @ [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return (U * rng.permutation(np.geomspace(1, 1e-3, size))) @ U.T


def draws(covariance, n_samples, seed):
    return np.random.default_rng(seed).multivariate_normal(np.zeros(len(covariance)), covariance, n_samples)


def plain_transform(S, n_rotations):
    """The greedy method in plain NumPy; the basis after each rotation."""
    S, bases = S.copy(), [np.eye(len(S))]
    for _ in range(n_rotations):
        R = np.abs(np.triu(S, 1)) / np.sqrt(np.outer(S.diagonal(), S.diagonal()))
        i, j = np.unravel_index(R.argmax(), R.shape)
        theta = 0.5 * np.arctan2(2 * S[i, j], S[i, i] - S[j, j])
        theta -= np.round(theta / (np.pi / 2)) * np.pi / 2
        J = np.eye(len(S))
        J[i, i] = J[j, j] = np.cos(theta)
        J[i, j], J[j, i] = -np.sin(theta), np.sin(theta)
        S = J.T @ S @ J
        bases.append(bases[-1] @ J)
    return bases


X = gaussian((40, 6), seed=1) @ gaussian((6, 6), seed=2) + 3


# -- the definition --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "n"), [(2, 9), (7, 30), (15, 10)])
def test_rotations_are_those_of_the_plain_algorithm(p, n):
    S = np.cov(gaussian((n, p), seed=p) @ gaussian((p, p), seed=1), rowvar=False)
    bases = plain_transform(S, 2 * p)
    for count in (1, p, 2 * p):
        chain = most_correlated(S, count)
        np.testing.assert_allclose(chain.apply(np.eye(p)), bases[len(chain.pairs)], atol=1e-8)


def test_the_estimate_has_the_sample_variances_in_the_basis_and_no_covariances():
    S = np.cov(X, rowvar=False, bias=True)
    U = plain_transform(S, 4)[4]
    model = pp.rotations.SparseMatrixTransform(4, shrinkage=0).fit(X)
    np.testing.assert_allclose(model.covariance_, U @ np.diag(np.diag(U.T @ S @ U)) @ U.T, atol=1e-10)
    assert (model.n_rotations_, model.shrinkage_, model.scale_, model.log_likelihoods_.size) == (4, 0, 1, 0)
    shrunk = pp.rotations.SparseMatrixTransform(4, shrinkage=0.3).fit(X)
    assert shrunk.exponent_ == 1
    target = np.eye(6) * np.trace(S) / 6
    np.testing.assert_allclose(shrunk.covariance_, 0.7 * model.covariance_ + 0.3 * target, atol=1e-10)


def test_many_rotations_give_the_sample_covariance():
    model = pp.rotations.SparseMatrixTransform(1000, shrinkage=0).fit(X)
    np.testing.assert_allclose(model.covariance_, np.cov(X, rowvar=False, bias=True), atol=1e-9)
    assert model.n_rotations_ < 100


def test_the_fitted_attributes_agree():
    model = pp.rotations.SparseMatrixTransform().fit(X)
    U = model.operator_.toarray()
    np.testing.assert_allclose(U.T @ U, np.eye(6), atol=1e-12)
    np.testing.assert_allclose((U * model.eigenvalues_) @ U.T, model.covariance_, atol=1e-10)
    np.testing.assert_allclose(model.covariance_ @ model.precision_, np.eye(6), atol=1e-8)
    np.testing.assert_allclose(model.location_, X.mean(axis=0))
    assert (np.diff(model.eigenvalues_) <= 0).all()
    assert len(model.log_likelihoods_) == most_rotations(6) + 1 == 16


# -- what is chosen ----------------------------------------------------------------------------------------


def direct_likelihood(rows, n_rotations, share, scale, folds, exponent=1.0):
    """The cross-validated likelihood from dense covariances."""
    total = 0.0
    for inside, outside in folds.split(rows):
        mean = rows[inside].mean(axis=0)
        S = np.cov(rows[inside], rowvar=False, bias=True)
        U = plain_transform(S, n_rotations)[-1]
        mean_variance = np.trace(S) / len(S)
        values = mean_variance * ((1 - share) * (np.diag(U.T @ S @ U) / mean_variance) ** exponent + share)
        held = rows[outside] - mean
        precision = np.linalg.inv(scale * (U * values) @ U.T)
        total += len(outside) * log_likelihood(held.T @ held / len(outside), precision)
    return total / len(rows)


@pytest.mark.parametrize("n_rotations", [0, 3, 7])
@pytest.mark.parametrize("n_folds", [3, 7])
def test_likelihoods_along_the_path_are_those_of_dense_covariances(n_rotations, n_folds):
    folds = KFold(n_folds)  # seven are not of equal size
    choice = choose(X.T.copy(), list(folds.split(X)), None, 0.1, False)
    assert choice.log_likelihoods[n_rotations] == pytest.approx(direct_likelihood(X, n_rotations, 0.1, 1, folds))


def test_the_number_of_rotations_has_the_largest_likelihood():
    model = pp.rotations.SparseMatrixTransform(shrinkage=0.05, cv=4).fit(100 * X)
    expected = [direct_likelihood(100 * X, k, 0.05, 1, KFold(4)) for k in range(16)]
    np.testing.assert_allclose(model.log_likelihoods_, expected, rtol=1e-9)
    assert model.n_rotations_ == np.argmax(expected)


def test_shrinkage_exponent_and_scale_have_the_largest_likelihood():
    model = pp.rotations.SparseMatrixTransform(5, cv=4).fit(X)
    best, chosen = model.log_likelihoods_[5], (model.shrinkage_, model.scale_, model.exponent_)

    def likelihood(share, scale, exponent):
        return direct_likelihood(X, 5, share, scale, KFold(4), exponent)

    assert likelihood(*chosen) == pytest.approx(best)
    for place, factor in [(0, 0.5), (0, 2), (1, 0.9), (1, 1.1), (2, 0.8)]:
        other = list(chosen)
        other[place] *= factor
        assert likelihood(*other) < best


def test_planted_rotations_are_estimated_far_better_than_by_shrinkage_alone():
    covariance = planted(32, 20)
    rows, test = draws(covariance, 24, 1), draws(covariance, 2000, 2)
    ours = pp.rotations.SparseMatrixTransform().fit(rows)
    assert np.isfinite(ours.score(test))
    for other in (LedoitWolf(), OAS()):
        assert ours.score(test) > other.fit(rows).score(test) + 3


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [32, 64, 128])
def test_patches_have_a_larger_likelihood_than_without_rotations(n_samples):
    test = pp.datasets.image_patches(5000, 8, random_state=99)
    gains = []
    for seed in range(5):
        rows = pp.datasets.image_patches(n_samples, 8, random_state=seed)
        gains.append(
            pp.rotations.SparseMatrixTransform().fit(rows).score(test)
            - pp.rotations.SparseMatrixTransform(0).fit(rows).score(test)
        )
    assert np.mean(gains) > 1


# -- special cases -----------------------------------------------------------------------------------------


def test_fewer_samples_than_variables_leave_the_estimate_well_conditioned():
    rows = gaussian((5, 30), seed=0)
    model = pp.rotations.SparseMatrixTransform().fit(rows)
    assert np.linalg.cond(model.covariance_) < 1e4
    singular = pp.rotations.SparseMatrixTransform(10_000, shrinkage=0).fit(rows)
    assert singular.eigenvalues_.min() >= 0.99 * FLOOR * np.var(rows, axis=0).mean()
    assert np.isfinite(singular.precision_).all()


def test_data_without_any_variance():
    model = pp.rotations.SparseMatrixTransform().fit(np.ones((5, 3)))
    np.testing.assert_array_equal(model.covariance_, 0)
    assert np.isfinite(model.precision_).all()


def test_a_known_mean_is_not_subtracted():
    model = pp.rotations.SparseMatrixTransform(1000, shrinkage=0, assume_centered=True).fit(X)
    np.testing.assert_allclose(model.covariance_, X.T @ X / 40, atol=1e-8)
    np.testing.assert_array_equal(model.location_, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rotations": -1}, "n_rotations"),
        ({"n_rotations": "many"}, "n_rotations"),
        ({"shrinkage": 1.5}, "shrinkage"),
        ({"shrinkage": "auto"}, "shrinkage"),
        ({"assume_centered": 3}, "assume_centered"),
        ({"cv": 50}, "n_splits=50"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.rotations.SparseMatrixTransform(**options).fit(X)


@pytest.mark.parametrize("bad", [[[1.0, np.nan], [0.0, 1.0]], [[1.0, np.inf], [0.0, 1.0]], [[1.0, 2.0]]])
def test_bad_data_are_refused(bad):
    with pytest.raises(ValueError, match=r"NaN|infinity|minimum of 2"):
        pp.rotations.SparseMatrixTransform().fit(bad)


def test_single_precision_goes_in_and_comes_out():
    model = pp.rotations.SparseMatrixTransform().fit(X.astype(np.float32))
    kinds = {array.dtype for array in (model.covariance_, model.precision_, model.eigenvalues_, model.operator_)}
    assert kinds == {np.dtype(np.float32)}
    np.testing.assert_allclose(
        model.covariance_, pp.rotations.SparseMatrixTransform().fit(X).covariance_, rtol=1e-3
    )


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_the_choice_does_not_depend_on_the_unit(unit):
    plain, scaled = pp.rotations.SparseMatrixTransform().fit(X), pp.rotations.SparseMatrixTransform().fit(unit * X)
    assert plain.n_rotations_ == scaled.n_rotations_
    assert scaled.shrinkage_ == pytest.approx(plain.shrinkage_)
    np.testing.assert_allclose(scaled.covariance_, unit**2 * plain.covariance_, rtol=1e-6)
    np.testing.assert_allclose(scaled.log_likelihoods_, plain.log_likelihoods_ - 6 * np.log(unit))


@parametrize_with_checks([pp.rotations.SparseMatrixTransform()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_two_samples():
    model = pp.rotations.SparseMatrixTransform().fit([[0.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(model.covariance_, np.eye(2) * 0.625)
