"""Butterflies of rank r: exact on complementary low-rank matrices, to the tolerance, with O(n log n) entries."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

import papilio as pp
from papilio.kernels.interpolation import interpolate
from papilio.runtime.session import Session
from papilio.search.implicit import Entries
from papilio.search.methods.butterfly import butterfly_curves
from papilio.search.nested.cluster_trees import clusters_in_order, clusters_of_points
from papilio.search.nested.rank_butterfly import (
    Precision,
    Shape,
    butterfly_of_rank,
    deepest,
    planned,
    predicted_entries,
)
from papilio.search.targets import Target

from .helpers import gaussian, true_error


def fourier_integral(n):
    """exp(2πi(xξ + c(x)|ξ|)), which is not smooth at ξ = 0."""

    def entries(rows, columns):
        x, xi = rows[:, None] / n, columns - n / 2
        return np.exp(2j * np.pi * (x * xi + (2 + np.sin(2 * np.pi * x)) / 8 * np.abs(xi)))

    return entries


def whole(entries, shape):
    return entries(*map(np.arange, shape))


def built(entries, shape, levels, tolerance, clusters=None):
    session = Session()
    clusters = clusters or tuple(clusters_in_order(size, deepest(size)) for size in shape)
    counted = Entries(entries, shape, session)
    matrix = whole(entries, shape)
    typical = np.linalg.norm(matrix) / np.sqrt(matrix.size)
    product = butterfly_of_rank(session, counted, clusters, levels, Precision(tolerance, typical))
    return product, true_error(matrix, product), counted


def as_lines(block):
    """A block as the kernel reads it."""
    parts = [block.real, block.imag] if np.iscomplexobj(block) else [block]
    return np.concatenate([part.T for part in parts], axis=1).copy()


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 4, 7])
def test_interpolate_expresses_a_block_by_some_of_its_columns(is_complex, rank):
    block = gaussian((12, rank)) @ gaussian((rank, 9), seed=1)
    if is_complex:
        block = block + 1j * gaussian((12, rank)) @ gaussian((rank, 9), seed=1) * 0.3
    lines, places = as_lines(block), np.empty(9, np.int64)
    half = 12 if is_complex else 0
    found = interpolate(lines, half, 12, 1e-20 * np.linalg.norm(block) ** 2, places)
    assert found == rank
    assert sorted(places[places >= 0]) == list(range(rank))
    T = np.zeros((rank, 9), block.dtype)
    for j in range(9):
        if places[j] >= 0:
            T[places[j], j] = 1
        else:
            T[:, j] = lines[j, :rank] + (1j * lines[j, half : half + rank] if is_complex else 0)
    chosen = np.flatnonzero(places >= 0)  # in order
    assert block[:, chosen] @ T == pytest.approx(block, abs=1e-12)


@pytest.mark.parametrize(
    "levels", [Shape(6, 1, 1, 14), Shape(6, 0, 0, 14), Shape(5, 2, 1, 20), Shape(0, 0, 0, 40)]
)
def test_the_error_follows_the_tolerance(levels):
    errors = [built(fourier_integral(256), (256, 256), levels, tolerance)[1] for tolerance in (1e-2, 1e-5, 1e-8)]
    assert errors[0] <= 8e-2
    assert errors[1] <= 8e-5
    assert errors[2] <= 8e-8


def test_there_is_one_factor_for_each_level():
    product, _, _ = built(fourier_integral(256), (256, 256), Shape(6, 1, 2, 14), 1e-4)
    assert len(product.factors) == len(range(1, 4 + 1)) + 1


@pytest.mark.parametrize("shape", [(257, 255), (500, 130), (130, 500), (64, 333)])
def test_odd_and_rectangular_shapes(shape):
    def entries(rows, columns):
        return np.cos(0.7 * rows[:, None] * columns / max(shape))

    session = Session()
    clusters = tuple(clusters_in_order(size, deepest(size)) for size in shape)
    plan = planned(Entries(entries, shape, session), clusters, Precision(1e-6, 0.7))
    product, error, _ = built(entries, shape, plan.shape, 1e-6)
    assert product.shape == shape
    assert product.dtype == np.float64
    assert error <= 4e-6


def test_points_in_any_order():
    points = np.random.default_rng(0).permutation(512) / 512
    frequencies = np.random.default_rng(1).permutation(512)

    def entries(rows, columns):
        return np.exp(2j * np.pi * points[rows][:, None] * frequencies[columns])

    clusters = tuple(clusters_of_points(p[:, None].astype(float), deepest(512)) for p in (points, frequencies))
    _, error, _ = built(entries, (512, 512), Shape(6, 1, 1, 18), 1e-6, clusters)
    assert error <= 4e-6


def test_ranks_that_were_expected_too_low_are_found():
    _, error, _ = built(fourier_integral(512), (512, 512), Shape(6, 1, 1, 2), 1e-7)
    assert error <= 1e-6


def test_zeros_have_no_butterfly():
    entries = Entries(lambda rows, columns: np.zeros((rows.size, columns.size)), (64, 64), Session())
    clusters = (clusters_in_order(64, 4),) * 2
    assert butterfly_of_rank(Session(), entries, clusters, Shape(4, 1, 1, 2), Precision(1e-6, 1.0)) is None


def test_the_plan_predicts_the_entries():
    n = 1024
    session, clusters = Session(), (clusters_in_order(n, deepest(n)),) * 2
    entries = Entries(fourier_integral(n), (n, n), session)
    for tolerance in (1e-2, 1e-6):
        plan = planned(entries, clusters, Precision(tolerance, 1.0))
        product = butterfly_of_rank(session, entries, clusters, plan.shape, Precision(tolerance, 1.0))
        assert 0.6 * product.nnz <= plan.entries <= 1.3 * product.nnz
        others = [Shape(plan.shape.depth, 0, 0, 1), Shape(plan.shape.depth, 4, 4, 1)]
        assert all(predicted_entries((n, n), other, plan.shape.rank) > 0.9 * plan.entries for other in others)


def smoother(n_points, n_splines, corner):
    """A corner of the matrix that smooths by cubic splines: all but zero far from the diagonal."""
    knots = np.concatenate([[0] * 3, np.linspace(0, 1, n_splines - 2), [1] * 3])
    points = np.linspace(0, 1, n_points, endpoint=False)
    basis = BSpline.design_matrix(points, knots, 3).toarray()
    gram = basis.T @ basis + 1e-3 * np.eye(n_splines)
    return (basis @ np.linalg.solve(gram, basis.T))[:corner, :corner]


def best_within(matrix, target):
    """The entries and the error of the best product by a target."""
    curves = list(butterfly_curves(Session(), matrix, target))
    ranks = [curve.best(target) for curve in curves]
    k = min(range(len(ranks)), key=lambda k: ranks[k][0])
    assert ranks[k][0] < np.inf
    return int(curves[k].entries[ranks[k][1]]), float(curves[k].errors[ranks[k][1]])


@pytest.mark.parametrize(
    ("sizes", "complexities"),
    [
        ((384, 64, 128), np.linspace(0.1, 0.2, 6)),
        pytest.param((600, 100, 200), np.linspace(0.07, 0.12, 11), marks=pytest.mark.slow),
    ],
)
def test_each_target_finds_what_another_one_finds(sizes, complexities):
    matrix = smoother(*sizes)
    by_error = [best_within(matrix, Target(matrix.size, limit=10.0**-k)) for k in range(1, 7)]
    budgets = [int(complexity * matrix.size) for complexity in complexities]
    by_entries = [best_within(matrix, Target(matrix.size, budget=budget)) for budget in budgets]
    errors = [error for _, error in by_entries]
    assert errors == sorted(errors, reverse=True)
    assert [entries for entries, _ in by_error] == sorted(entries for entries, _ in by_error)
    for budget, (entries, error) in zip(budgets, by_entries, strict=True):
        assert entries <= budget
        assert error <= min((other for count, other in by_error if count <= budget), default=np.inf)


def test_a_budget_is_met_where_plans_are_wrong():
    matrix = smoother(1200, 200, 400)  # Not all products are built.
    for complexity in (0.04, 0.06, 0.1):
        target = Target(matrix.size, budget=int(complexity * matrix.size))
        curves = list(butterfly_curves(Session(), matrix, target))
        assert 1 <= len(curves) <= 5
        assert min(curve.entries[0] for curve in curves) <= target.budget


def test_touched_and_kept_entries_grow_as_n_log_n():
    touched, kept = [], []
    for n in (256, 512, 1024):
        depth = int(np.log2(n)) - 3
        shape = Shape(depth, 2, 2, 14)
        product, _, counted = built(fourier_integral(n), (n, n), shape, 1e-4)
        touched.append(counted.touched / n / (len(shape.row_levels) + 1))
        kept.append(product.nnz / n / (len(shape.row_levels) + 1))
    assert max(touched) <= 1.2 * min(touched)
    assert max(kept) <= 1.2 * min(kept)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_factorize_finds_them_in_a_matrix(dtype):
    n = 512
    times = np.sort(np.random.default_rng(0).random(n))
    M = np.exp(-2j * np.pi * np.outer(times, np.arange(n))).astype(dtype)
    fit = pp.factorize(M, max_error=1e-3, method="butterfly")
    assert fit.method == "butterfly"
    assert fit.operator.dtype == dtype
    assert not fit.error_is_estimate
    assert fit.error == pytest.approx(true_error(M, fit.operator), rel=1e-3)
    assert fit.error <= 1e-3
    assert fit.operator.relative_complexity < 0.3


def test_stored_matrices_may_have_entries_of_any_size():
    matrix = np.full((160, 160), 1e-200)
    matrix[3, 5], matrix[7, 1] = 1.0, 2.0
    assert np.isfinite(pp.factorize(matrix, method="butterfly", max_error=0.5).error)
