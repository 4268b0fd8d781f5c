"""The search for butterflies in a session: splits against all splits, lifted vectors, and how it is stopped."""

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import hadamard

import papilio as pp
from papilio.runtime.session import Interrupted, Session, awaiting_stop
from papilio.search.methods import thresholding
from papilio.search.methods.butterfly import METHOD, find_butterfly
from papilio.search.problems import Stored
from papilio.search.search import Search
from papilio.search.splitting import best_split, leading_directions, lifted
from papilio.search.targets import Target

from .helpers import DTYPES


def gaussian(rng, shape, dtype):
    values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0)
    return values.astype(dtype)


@pytest.mark.parametrize("r", [2, 3, 5])
def test_scalar_products_of_lifted_vectors_are_squares_of_scalar_products(r, dtype):
    rng = np.random.default_rng(r)
    x, y = gaussian(rng, (4, r, 6), dtype), gaussian(rng, (4, r, 6), dtype)
    products = (lifted(x) * lifted(y)).sum(axis=1)
    expected = np.abs((x.conj() * y).sum(axis=1)) ** 2
    assert products.dtype == x.real.dtype
    np.testing.assert_allclose(products, expected, rtol=1e-4 if x.real.dtype == np.float32 else 1e-12, atol=1e-4)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("r", [2, 3])
def test_leading_directions_are_leading_singular_vectors(r, dtype):
    x = gaussian(np.random.default_rng(0), (4, r, 6), dtype)
    sums = np.stack([lifted(x)[:, :, :3].sum(axis=2), lifted(x)[:, :, 3:].sum(axis=2)], axis=2)
    found = leading_directions(sums, r)
    for k in range(4):
        for p, columns in enumerate((slice(0, 3), slice(3, 6))):
            u = np.linalg.svd(x[k, :, columns])[0][:, :1]
            np.testing.assert_allclose(found[k, :, p], lifted(u[None])[0, :, 0], atol=1e-10)


def cost(matrix, groups, parts):
    blocks = [matrix[np.ix_(group, part)] for group in groups for part in parts]
    return sum((np.linalg.svd(block, compute_uv=False)[1:] ** 2).sum() for block in blocks)


def matchings(points):
    if not points:
        yield []
    for partner in points[1:]:
        for others in matchings([point for point in points[1:] if point != partner]):
            yield [[points[0], partner], *others]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [4, 6])
def test_the_split_of_a_small_matrix_is_the_cheapest_of_all(m, dtype):
    matrix = gaussian(np.random.default_rng(m), (m, m), dtype)
    split = best_split(Session(), matrix, 2)
    least = min(
        cost(matrix, groups, [(0, *others), tuple(set(range(1, m)) - set(others))])
        for groups in matchings(list(range(m)))
        for others in combinations(range(1, m), m // 2 - 1)
    )
    assert split.cost == pytest.approx(least, rel=1e-4)
    assert cost(matrix, split.groups, split.parts) == pytest.approx(least, rel=1e-4)


@pytest.mark.parametrize(("m", "radix"), [(16, 2), (96, 2), (27, 3), (25, 5)])
def test_a_split_is_a_partition_and_its_cost_is_that_of_its_pairs(m, radix):
    matrix = np.random.default_rng(0).standard_normal((m, m))
    split = best_split(Session(), matrix, radix)
    for found in (split.groups, split.parts):
        assert sorted(found.ravel()) == list(range(m))
    pairs = [group[list(pair)] for group in split.groups for pair in combinations(range(radix), 2)]
    assert split.cost == pytest.approx(cost(matrix, pairs, split.parts))


def test_a_hopeless_matrix_has_no_split():
    matrix = np.random.default_rng(0).standard_normal((96, 96))
    assert best_split(Session(), matrix, 2, hopeless=0.01 * 96**2) is None


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_noise_that_a_butterfly_misses_does_not_count(noise):
    """Largest entries have a lower sum of error and entries, but miss more than the noise."""
    random = np.random.default_rng(3)
    matrix = np.eye(32)
    for level in range(5):
        pairs = np.arange(32) ^ (1 << level)
        factor = np.diag(random.standard_normal(32))
        factor[np.arange(32), pairs] = random.standard_normal(32)
        matrix = matrix @ factor
    matrix = matrix[random.permutation(32)][:, random.permutation(32)]
    noisy = matrix + noise * np.linalg.norm(matrix) / 32 * random.standard_normal((32, 32))
    search = Search(Stored(Session(random_state=0), noisy), Target(1024), [thresholding.METHOD, METHOD])
    search.run()
    assert search.best.method == "butterfly"
    sums = {attempt.method: attempt.error + attempt.nnz / 1024 for attempt in search.attempts}
    assert sums["thresholding"] < sums["butterfly"]
    assert np.linalg.norm(search.best.operator.toarray() - matrix) < 0.6 * np.linalg.norm(noisy - matrix)


def test_kernels_are_no_butterflies_with_noise():
    places = np.linspace(0, 1, 32)
    fit, noise = find_butterfly(Session(random_state=0), 1 / (np.abs(places[:, None] - places) + 0.02))
    assert fit.error > noise


# -- stopping --------------------------------------------------------------------------------------------


def permuted(n, noise=0.0):
    rng = np.random.default_rng(0)
    matrix = hadamard(n)[rng.permutation(n)][:, rng.permutation(n)]
    return matrix + noise * rng.standard_normal((n, n))


def test_progress_tells_the_level_and_begins_above_zero():
    seen = []
    find_butterfly(Session(seen.append), permuted(32))
    assert [(step.phase, step.iteration) for step in seen] == [("level", i) for i in (1, 2, 3, 4)]
    assert seen[0].done > 0


@pytest.mark.parametrize("level", [1, 2, 4])
def test_a_search_that_is_stopped_without_a_fit_ends_at_once(level):
    def callback(step):
        assert step.iteration <= level
        return step.iteration == level

    with pytest.raises(Interrupted):
        find_butterfly(Session(callback), permuted(32))


def test_a_factorization_that_is_stopped_in_the_search_for_butterflies_has_a_result():
    def callback(step):
        return step.phase.startswith("butterfly")

    matrix = np.random.default_rng(0).standard_normal((64, 64))
    fit = pp.factorize(matrix, callback=callback)
    assert fit.status == "stopped"
    assert fit.operator.shape == (64, 64)


def test_a_public_search_within_something_that_ctrl_c_stops_ends_with_the_matrix_itself():
    with awaiting_stop() as request:
        request.is_made = True
        fit = pp.butterfly(permuted(16))
    assert fit.status == "stopped"
    np.testing.assert_array_equal(fit.operator.toarray(), permuted(16))
