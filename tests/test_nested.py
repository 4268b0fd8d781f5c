"""Nested low rank: bases, what they cost and miss, the products they make, and `factorize` with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.runtime.session import Session
from papilio.search.curves import relative_error
from papilio.search.known_supports import polished
from papilio.search.methods.nested import Family
from papilio.search.nested.cluster_trees import Tree, clusters_in_order
from papilio.search.nested.nested_bases import assembled, compressed, entries_of, gridded, merged
from papilio.search.roots import crossing

from .helpers import spline_smoother

DTYPES = [np.float32, np.float64, np.complex128]


def kernel(n, shift=0.02):
    x = np.linspace(0, 1, n)
    return 1 / (np.abs(x[:, None] - x) + shift)


def shuffled(matrix, seed=0):
    random = np.random.default_rng(seed)
    return matrix[random.permutation(len(matrix))][:, random.permutation(matrix.shape[1])]


def gaussian(random, shape, dtype=np.float64):
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def semiseparable(shape, depth, rank, dtype=np.float64, seed=0):
    """A matrix with dense diagonal blocks, whose other blocks share nested bases of a rank."""
    random = np.random.default_rng(seed)
    trees = [clusters_in_order(count, depth) for count in shape]

    def bases(level):
        """Of both sides: block-diagonal in the bases below, so that they are nested."""
        if level == depth:
            found = [[gaussian(random, (size, rank), dtype) for size in tree.sizes(level)] for tree in trees]
        else:
            below = bases(level + 1)
            found = [
                [
                    np.concatenate(
                        [half @ gaussian(random, (rank, rank), dtype) for half in side[2 * i : 2 * i + 2]]
                    )
                    for i in range(2**level)
                ]
                for side in below
            ]
        lefts, rights = found
        for i in range(0, 2**level, 2):
            for a, b in ((i, i + 1), (i + 1, i)):
                block = lefts[a] @ gaussian(random, (rank, rank), dtype) @ rights[b].conj().T
                matrix[np.ix_(trees[0].lines(level, a), trees[1].lines(level, b))] = block
        return found

    matrix = np.zeros(shape, dtype)
    for i in range(2**depth):
        lines = trees[0].lines(depth, i), trees[1].lines(depth, i)
        matrix[np.ix_(*lines)] = gaussian(random, (lines[0].size, lines[1].size), dtype)
    bases(1)
    return matrix


# -- bases and products --------------------------------------------------------------------------------


def steps_of(matrix, depth, near=None, tolerance=0.0, gaps=(), is_precise=False):
    tree = [clusters_in_order(count, depth) for count in matrix.shape]
    grid = gridded(matrix, *tree, depth)
    is_near = np.eye(2**depth, dtype=bool) if near is None else near
    steps, levels = [compressed(grid, is_near, (tolerance, tolerance), is_precise)], [depth]
    for gap in gaps:
        above = merged(steps[-1], 2**gap)
        steps.append(compressed(above, above.is_kept, (tolerance, tolerance), is_precise))
        levels.append(levels[-1] - gap)
    return grid, steps, assembled(grid, steps, *tree, levels, matrix.dtype)


@pytest.mark.parametrize("shape", [(64, 64), (50, 83), (37, 37)])
@pytest.mark.parametrize("gaps", [(), (1,), (2,), (1, 1)])
@pytest.mark.parametrize("is_precise", [False, True])
def test_error_and_entries_are_known_before_the_product_is_built(shape, gaps, is_precise):
    random = np.random.default_rng(0)
    x, y = (np.sort(random.random(count)) for count in shape)
    matrix = 1 / (np.abs(x[:, None] - y) + 0.05) * (1 + x)[:, None]
    for near in (None, np.abs(np.subtract.outer(range(8), range(8))) < 2):
        grid, steps, operator = steps_of(matrix, 3, near, 1e-2, gaps, is_precise)
        error = np.linalg.norm(operator.toarray() - matrix)
        assert 1e-4 < error < 0.2 * np.linalg.norm(matrix)
        assert np.sqrt(sum(step.lost for step in steps)) == pytest.approx(error, rel=1e-6)
        assert operator.nnz == entries_of(grid, steps)
        assert len(operator.factors) == 2 * len(steps) + 1


@pytest.mark.parametrize("is_precise", [False, True])
def test_bases_are_orthonormal_and_couplings_are_the_best(is_precise):
    matrix = kernel(60) + 1j * kernel(60, 0.1)
    grid, [step], _ = steps_of(matrix, 2, None, 1e-3, (), is_precise)
    for vectors, used in ((step.left, step.rows), (step.right, step.columns)):
        for basis, own in zip(vectors, used, strict=True):
            assert 0 < own.sum() < 15
            np.testing.assert_allclose(basis[:, own].conj().T @ basis[:, own], np.eye(own.sum()), atol=1e-12)
    far = grid.values[0][:, 3]
    best = step.left[0].conj().T @ far @ step.right[3]
    np.testing.assert_allclose(step.couplings[0][:, 3], best, atol=1e-10)


def test_matrices_that_are_nested_are_exact():
    matrix = semiseparable((64, 72), 3, 2)
    _, steps, operator = steps_of(matrix, 3, None, 1e-20, (1, 1), is_precise=True)
    for step in steps:
        assert step.rows.sum(axis=1).tolist() == [2] * len(step.rows)
        assert step.columns.sum(axis=1).tolist() == [2] * len(step.columns)
    np.testing.assert_allclose(operator.toarray(), matrix, atol=1e-12 * np.linalg.norm(matrix))


@settings(max_examples=25, deadline=None)
@given(m=st.integers(8, 40), n=st.integers(8, 40), seed=st.integers(0, 5), price=st.floats(1e-8, 1e-2))
def test_points_of_a_family_tell_the_truth_for_any_shape(m, n, seed, price):
    random = np.random.default_rng(seed)
    matrix = np.exp(-np.abs(np.sort(random.random(m))[:, None] - np.sort(random.random(n))) / 0.1)
    tree = Tree(clusters_in_order(m, 2), clusters_in_order(n, 2), "in order")
    point = Family(Session(), matrix, tree, 2, None).point(price, 0.25)
    grid = gridded(matrix, tree.rows, tree.columns, 2)
    operator = assembled(grid, point.steps, tree.rows, tree.columns, point.levels, matrix.dtype)
    error = np.linalg.norm(operator.toarray() - matrix) / np.linalg.norm(matrix)
    assert point.error == pytest.approx(error, rel=1e-4, abs=1e-9)
    assert operator.nnz == point.entries


@settings(max_examples=60, deadline=None)
@given(root=st.integers(-50, 50), start=st.integers(-60, 60), stride=st.integers(1, 9), power=st.floats(0.2, 3))
def test_a_crossing_does_not_depend_on_the_start(root, start, stride, power):
    places = []

    def excess(place):
        places.append(place)
        distance = root + 0.5 - place
        return np.sign(distance) * abs(distance) ** power

    assert crossing(excess, start, stride, -51, 51, 40) == (root, root + 1)
    assert len(places) == len(set(places)) <= 20


# -- factorize -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_factorize_finds_matrices_that_are_nested(dtype):
    matrix = semiseparable((96, 96), 3, 1, dtype)
    before = matrix.copy()
    exact = 1e-5 if np.finfo(dtype).eps > 1e-8 else 1e-9
    fit = pp.factorize(matrix, method="nested", complexity=0.35)
    assert fit.method == "nested"
    assert fit.operator.dtype == dtype
    assert fit.operator.relative_complexity <= 0.35
    assert fit.error < exact
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_singular_kernel_keeps_its_error_when_it_is_shuffled(seed):
    matrix = kernel(256)
    fit = pp.factorize(matrix, complexity=0.12)
    assert fit.method == "nested"
    assert fit.error < 0.005
    assert fit.operator.nnz <= 0.12 * matrix.size
    assert fit.error == pytest.approx(np.linalg.norm(fit.operator.toarray() - matrix) / np.linalg.norm(matrix))
    other = pp.factorize(shuffled(matrix, seed), complexity=0.12, method="nested")
    assert other.error < 2 * fit.error


@pytest.mark.slow
def test_the_error_is_met_with_few_entries_and_without_a_target_both_are_low():
    x, y = (np.sort(np.random.default_rng(seed).random(160)) for seed in (0, 1))
    matrix = 1 / (np.abs(x[:, None] - y) + 0.02)
    fit = pp.factorize(matrix, max_error=1e-2, method="nested")
    assert fit.status == "converged"
    assert fit.error <= 1e-2
    assert fit.operator.relative_complexity < 0.25
    knee = pp.factorize(matrix, method="nested")
    values = np.linalg.svd(matrix, compute_uv=False)
    low_rank = min(
        np.linalg.norm(values[rank:]) / np.linalg.norm(values) + rank * sum(matrix.shape) / matrix.size
        for rank in range(1, 50)
    )
    assert knee.error + knee.operator.relative_complexity < 0.6 * low_rank


def test_auto_finds_what_nested_finds_alone():
    """The first tries are far behind other methods here, and the last ones are exact."""
    t = np.linspace(0, 1, 48)
    matrix = np.exp(-3 * np.abs(t[:, None] - t))
    alone, among = pp.factorize(matrix, method="nested"), pp.factorize(matrix)
    assert alone.error < 1e-9
    assert among.error < 1e-9
    assert among.operator.nnz <= alone.operator.nnz


@pytest.mark.slow
@pytest.mark.parametrize("make", [spline_smoother, lambda: kernel(150)], ids=["spline smoother", "kernel"])
def test_larger_limits_never_give_worse_errors(make):
    matrix = make()
    fits = [pp.factorize(matrix, complexity=limit, method="nested") for limit in (0.08, 0.09, 0.1, 0.12)]
    errors = [fit.error for fit in fits]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.slow
def test_a_limit_of_the_error_takes_no_more_entries_than_a_limit_of_entries():
    matrix = spline_smoother()
    for limit in (0.08, 0.09, 0.1, 0.12):
        fit = pp.factorize(matrix, complexity=limit, method="nested")
        other = pp.factorize(matrix, max_error=1.01 * fit.error, method="nested")
        assert other.operator.nnz <= fit.operator.nnz


def test_coordinates_replace_the_order():
    random = np.random.default_rng(0)
    rows, columns = random.random((100, 2)), random.random((180, 2))
    matrix = 1 / np.sqrt(((rows[:, None] - columns) ** 2).sum(axis=2) + 0.01)
    fit = pp.factorize(matrix, complexity=0.15, coordinates=(rows, columns), method="nested")
    assert "from coordinates" in fit.attempts[-1].detail
    values = np.linalg.svd(matrix, compute_uv=False)
    rank = int(0.15 * matrix.size / sum(matrix.shape))
    assert fit.error < 0.5 * np.linalg.norm(values[rank:]) / np.linalg.norm(values)
    # Lines as they stand are in no order at all.
    as_they_stand = pp.factorize(matrix, complexity=0.15, coordinates=(None, None), method="nested")
    assert fit.error < 0.5 * as_they_stand.error


def test_wrong_coordinates_and_numbers_of_factors():
    matrix = kernel(40)
    with pytest.raises(ValueError, match=r"coordinates\[1\] must have shape .*, one point for each of 40 columns"):
        pp.factorize(matrix, coordinates=(np.ones(40), np.ones(39)))
    with pytest.raises(TypeError, match="coordinates must be a pair"):
        pp.factorize(matrix, coordinates=3)
    for count in (3, 5):
        fit = pp.factorize(kernel(100), n_factors=count, method="nested", complexity=0.5)
        assert fit.method == "nested"
        assert len(fit.operator.factors) == count


@pytest.mark.parametrize("n", [1, 2, 3, 16, 33])
def test_small_matrices_have_results(n):
    fit = pp.factorize(kernel(n), method="nested")
    np.testing.assert_allclose(
        fit.operator.toarray(), kernel(n), atol=(fit.error + 1e-12) * np.linalg.norm(kernel(n))
    )


def test_results_repeat_and_the_scale_does_not_matter():
    matrix = shuffled(kernel(120))
    fits = [pp.factorize(unit * matrix, complexity=0.2, method="nested") for unit in (1, 1, 2.0**300)]
    for fit in fits[1:]:
        assert fit.error == pytest.approx(fits[0].error, rel=1e-9)
        assert fit.operator.nnz == fits[0].operator.nnz
    np.testing.assert_array_equal(fits[0].operator.toarray(), fits[1].operator.toarray())


@pytest.mark.slow
def test_noise_is_given_up_and_nothing_is_lost():
    noise = np.random.default_rng(0).standard_normal((64, 64))
    fit = pp.factorize(noise, complexity=0.5)
    assert [attempt.detail for attempt in fit.attempts if attempt.method == "nested"] == ["nothing found"]


def test_a_search_can_be_stopped():
    fit = pp.factorize(kernel(300), complexity=0.1, method="nested", callback=lambda step: True)
    assert fit.status == "stopped"
    assert fit.operator.nnz <= 0.1 * 300**2
    fit = pp.factorize(kernel(300), complexity=0.1, method="nested", time_budget=0.0)
    assert fit.status == "stopped"


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("sign", [1, -1])
def test_polishing_lowers_the_error_on_the_same_supports(dtype, sign):
    random = np.random.default_rng(0)
    factors = [random.standard_normal((12, 12)) * (random.random((12, 12)) < 0.3) for _ in range(3)]
    start = pp.SparseProduct([factor.astype(dtype) for factor in factors], 2.0 * sign)
    matrix = (start.toarray() + 0.1 * gaussian(random, (12, 12))).astype(dtype)
    product, error = polished(Session(), matrix, start)
    assert error < 0.95 * relative_error(matrix, start)
    assert error == pytest.approx(relative_error(matrix, product), rel=1e-6)
    assert product.dtype == dtype
    for before, after in zip(start.factors, product.factors, strict=True):
        assert not (np.abs(after.toarray()) > 0)[before.toarray() == 0].any()
    exact = start.toarray()
    assert polished(Session(), exact, start)[0].nnz == start.nnz


def test_small_kernels_are_polished_and_the_attempt_says_so():
    points = np.random.default_rng(0).random((90, 3))
    covariance = np.exp(-2 * np.linalg.norm(points[:, None] - points, axis=2))
    fit = pp.factorize(covariance, complexity=0.4, method="nested")
    plain, *better = (attempt for attempt in fit.attempts if attempt.method == "nested")
    assert better[0].detail == f"{plain.detail}, polished"
    assert better[0].error < plain.error
    assert fit.error == min(attempt.error for attempt in better)
