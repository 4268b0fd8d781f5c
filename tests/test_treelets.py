"""Treelets: the definition by Lee, Nadler and Wasserman, planted groups, and what scikit-learn's users rely on."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp
from papilio.rotations.treelets import grow_tree


def plain_treelets(covariance, n_levels):
    """The algorithm as the paper says it, in plain NumPy, with all correlations recomputed at each level."""
    S, p = covariance.copy(), len(covariance)
    basis, active, merges, correlations = np.eye(p), list(range(p)), [], []
    for _ in range(n_levels):
        deviations = np.sqrt(S.diagonal())
        R = np.abs(S) / np.outer(deviations, deviations)
        _, i, j = max((R[i, j], i, j) for i in active for j in active if i < j)
        correlations.append(S[i, j] / (deviations[i] * deviations[j]))
        theta = 0.5 * np.arctan2(2 * S[i, j], S[i, i] - S[j, j])
        theta -= np.round(theta / (np.pi / 2)) * np.pi / 2  # |θ| ≤ π/4
        J = np.eye(p)
        J[i, i] = J[j, j] = np.cos(theta)
        J[i, j], J[j, i] = -np.sin(theta), np.sin(theta)
        S, basis = J.T @ S @ J, basis @ J
        pair = (i, j) if S[i, i] >= S[j, j] else (j, i)
        merges.append(pair)
        active.remove(pair[1])
    return basis, np.array(merges), np.array(correlations), S.diagonal()


def covariance_of(p, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    return np.cov(X, rowvar=False)


def three_blocks(n_samples, seed, sizes=(20, 30, 40), n_noise=30, noise=0.5):
    """Factors with loadings on disjoint blocks of variables, and variables that are noise alone."""
    rng = np.random.default_rng(seed)
    block = np.repeat([0, 1, 2, -1], [*sizes, n_noise])
    order = rng.permutation(len(block))
    factors = rng.standard_normal((n_samples, 3)) * [1.5, 1.25, 1.0]
    X = np.c_[factors, np.zeros(n_samples)][:, block] + noise * rng.standard_normal((n_samples, len(block)))
    return X[:, order], block[order]


def recovered(X, block):
    """Whether each block is one group of the tree at some level, and alone in it."""
    model = pp.rotations.Treelets().fit(X)
    levels = [model.groups(level) for level in range(len(model.merges_) + 1)]
    members = [frozenset(np.flatnonzero(block == each)) for each in range(3)]
    nodes = {frozenset(np.flatnonzero(level == level[min(each)])) for level in levels for each in members}
    return all(each in nodes for each in members)


# -- the definition --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "n"), [(2, 5), (3, 10), (12, 40), (25, 8), (40, 200)])
@pytest.mark.parametrize("seed", range(3))
def test_merges_and_rotations_are_those_of_the_plain_algorithm(p, n, seed):
    S = covariance_of(p, n, seed)
    tree = grow_tree(S, p - 1)
    for level in (1, p // 2, p - 1):
        basis, merges, correlations, variances = plain_treelets(S, level)
        np.testing.assert_array_equal(tree.merges[:level], merges)
        np.testing.assert_allclose(tree.correlations[:level], correlations, atol=1e-9)
        np.testing.assert_allclose(tree.basis(level).apply(np.eye(p)), basis, atol=1e-9)
        np.testing.assert_allclose(tree.at_level(level), variances, atol=1e-9)


def test_the_basis_is_orthonormal_and_its_coordinates_have_the_energies():
    X = np.random.default_rng(0).standard_normal((30, 9)) @ np.random.default_rng(1).standard_normal((9, 9))
    model = pp.rotations.Treelets().fit(X)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(9), atol=1e-12)
    np.testing.assert_allclose(model.operator_.toarray().T, model.components_)
    variances = model.transform(X).var(axis=0)
    np.testing.assert_allclose(variances / variances.sum(), model.energies_, atol=1e-12)
    assert (np.diff(model.energies_) <= 0).all()
    assert model.level_ == len(model.merges_) == 8


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_best_basis_has_the_most_energy_in_k_coordinates_of_all_levels(k):
    X = np.random.default_rng(2).standard_normal((30, 3)) @ np.random.default_rng(3).standard_normal((3, 10))
    X += 0.5 * np.random.default_rng(4).standard_normal(X.shape)
    model = pp.rotations.Treelets(k).fit(X)
    S, energies = np.cov(X, rowvar=False), []
    for level in range(10):
        basis = plain_treelets(S, level)[0]
        variances = np.sort((X @ basis).var(axis=0))
        energies.append(variances[-k:].sum() / variances.sum())
    np.testing.assert_allclose(model.level_energies_, energies, atol=1e-10)
    assert model.level_ == np.argmax(energies)
    assert model.components_.shape == (k, 10)
    assert model.energies_.sum() == pytest.approx(max(energies))


def test_transform_and_inverse_transform():
    X = np.random.default_rng(0).standard_normal((20, 7)) + 5
    model = pp.rotations.Treelets().fit(X)
    coordinates = model.transform(X)
    np.testing.assert_allclose(coordinates, (X - X.mean(axis=0)) @ model.components_.T, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(coordinates), X, atol=1e-12)
    few = pp.rotations.Treelets(3).fit(X)
    projected = few.inverse_transform(few.transform(X))
    np.testing.assert_allclose(few.transform(projected), few.transform(X), atol=1e-12)
    assert list(few.get_feature_names_out()) == ["treelets0", "treelets1", "treelets2"]
    with pytest.raises(ValueError, match="X must have 3 columns"):
        few.inverse_transform(X)


def test_a_known_mean_is_not_subtracted():
    X = np.random.default_rng(0).standard_normal((20, 4)) + np.array([3, 0, 0, 0])
    model = pp.rotations.Treelets(assume_centered=True).fit(X)
    np.testing.assert_array_equal(model.mean_, 0)
    basis, merges, *_ = plain_treelets(X.T @ X / 20, 3)
    np.testing.assert_array_equal(model.merges_, merges)
    coordinates = (X**2).mean(axis=0)
    assert model.energies_.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        np.sort(((X @ basis) ** 2).mean(axis=0)), np.sort(model.energies_ * coordinates.sum())
    )


# -- groups ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_planted_blocks_are_recovered_in_95_of_100_draws():
    assert sum(recovered(*three_blocks(80, seed)) for seed in range(100)) >= 95


# -- special cases -----------------------------------------------------------------------------------------


def test_a_constant_variable_is_never_merged():
    X = np.random.default_rng(0).standard_normal((20, 5))
    X[:, 2] = 7.0
    model = pp.rotations.Treelets().fit(X)
    assert 2 not in model.merges_
    assert len(model.merges_) == 3
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(5), atol=1e-12)


def test_copies_and_mirrored_copies_are_merged_first():
    X = np.random.default_rng(0).standard_normal((20, 4))
    X[:, 3] = -2 * X[:, 1]
    model = pp.rotations.Treelets().fit(X)
    assert set(model.merges_[0]) == {1, 3}
    assert model.correlations_[0] == pytest.approx(-1)
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 5}, "n_components"),
        ({"n_levels": 4}, "n_levels"),
        ({"n_levels": -1}, "n_levels"),
        ({"assume_centered": 2}, "assume_centered"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.rotations.Treelets(**options).fit(np.random.default_rng(0).standard_normal((6, 4)))


@pytest.mark.parametrize("bad", [[[1.0, np.nan], [0.0, 1.0]], [[1.0, np.inf], [0.0, 1.0]], [[1.0, 2.0]]])
def test_bad_data_are_refused(bad):
    with pytest.raises(ValueError, match=r"NaN|infinity|minimum of 2"):
        pp.rotations.Treelets().fit(bad)


def test_single_precision_goes_in_and_comes_out():
    X = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
    model = pp.rotations.Treelets().fit(X)
    assert {model.components_.dtype, model.operator_.dtype, model.transform(X).dtype} == {np.dtype(np.float32)}
    np.testing.assert_allclose(
        model.components_, pp.rotations.Treelets().fit(X.astype(float)).components_, atol=1e-6
    )


@pytest.mark.parametrize("unit", [1e-200, 1e150])
def test_the_tree_does_not_depend_on_the_unit(unit):
    X = np.random.default_rng(0).standard_normal((20, 6))
    plain, scaled = pp.rotations.Treelets(2).fit(X), pp.rotations.Treelets(2).fit(unit * X)
    np.testing.assert_array_equal(plain.merges_, scaled.merges_)
    np.testing.assert_allclose(plain.energies_, scaled.energies_, rtol=1e-9)


@parametrize_with_checks([pp.rotations.Treelets()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)
