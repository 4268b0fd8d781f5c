"""Clusters: trees over all lines, whatever their number, in order, from points, and from the matrix itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.runtime.session import Session
from papilio.search.nested.cluster_trees import (
    as_coordinates,
    bisected_together,
    clusters_in_order,
    clusters_of_both,
    clusters_of_matrix,
    clusters_of_points,
    may_be_nested,
    trees_of,
)


def assert_is_a_tree(clusters, count, depth):
    assert clusters.depth == depth
    np.testing.assert_array_equal(np.sort(clusters.order), np.arange(count))
    for level in range(depth + 1):
        assert len(clusters.sizes(level)) == 2**level
        assert clusters.sizes(level).sum() == count
        assert np.ptp(clusters.sizes(level)) <= 1
        if level:
            for i in range(2 ** (level - 1)):
                halves = [clusters.lines(level, 2 * i), clusters.lines(level, 2 * i + 1)]
                np.testing.assert_array_equal(np.concatenate(halves), clusters.lines(level - 1, i))


@settings(max_examples=60, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(1, 40), depth=st.integers(0, 6), seed=st.integers(0, 9))
def test_clusters_are_trees_over_all_lines(m, n, depth, seed):
    random = np.random.default_rng(seed)
    rows, columns = random.random((m, 2)), random.random((n, 2))
    assert_is_a_tree(clusters_in_order(m, depth), m, depth)
    assert_is_a_tree(clusters_of_points(rows, depth), m, depth)
    for pair in (
        clusters_of_both(rows, columns, depth),
        clusters_of_matrix(Session(), random.standard_normal((m, n)), depth),
    ):
        for clusters, count in zip(pair, (m, n), strict=True):
            assert_is_a_tree(clusters, count, depth)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17])
def test_runs_of_lines_stay_in_order(count):
    np.testing.assert_array_equal(clusters_in_order(count, 3).order, np.arange(count))


def test_points_on_a_line_are_cut_into_intervals():
    points = np.random.default_rng(0).permutation(37)[:, None].astype(float)
    clusters = clusters_of_points(points, 3)
    for i in range(8):
        inside = np.sort(points[clusters.lines(3, i), 0])
        np.testing.assert_array_equal(np.diff(inside), 1)


def test_two_sets_of_points_are_cut_along_one_direction():
    """Rows spread along the first axis, columns along the second: what both have in common decides."""
    random = np.random.default_rng(1)
    rows, columns = random.random((40, 2)) * [10, 1], random.random((60, 2)) * [10, 1]
    for clusters, points in zip(clusters_of_both(rows, columns, 1), (rows, columns), strict=True):
        first, second = (points[clusters.lines(1, i), 0] for i in (0, 1))
        assert first.max() < second.min() + 1 or second.max() < first.min() + 1
    lefts = [
        points[clusters.lines(1, 0), 0].mean()
        for clusters, points in zip(clusters_of_both(rows, columns, 1), (rows, columns), strict=True)
    ]
    assert abs(lefts[0] - lefts[1]) < 2  # the same side for both


@pytest.mark.parametrize("shape", [(64, 64), (50, 131)])
@pytest.mark.parametrize("kernel", [lambda d: 1 / (d + 0.05), lambda d: np.cos(20 * d) / (d + 0.05)])
def test_clusters_of_a_shuffled_kernel_are_intervals(shape, kernel):
    random = np.random.default_rng(2)
    x, y = (random.permutation(np.linspace(0, 1, count)) for count in shape)
    rows, columns = clusters_of_matrix(Session(), kernel(np.abs(x[:, None] - y)), 2)
    for clusters, points in ((rows, x), (columns, y)):
        for i in range(4):
            assert np.ptp(points[clusters.lines(2, i)]) < 0.3
    for i in range(4):  # those of equal number belong together
        assert abs(x[rows.lines(2, i)].mean() - y[columns.lines(2, i)].mean()) < 0.1


def test_clusters_of_a_matrix_do_not_depend_on_chance():
    matrix = np.random.default_rng(3).random((30, 40))
    one, two = (clusters_of_matrix(Session(), matrix, 3) for _ in range(2))
    for i in range(2):
        np.testing.assert_array_equal(one[i].order, two[i].order)


def test_bisection_gives_each_pair_of_clusters_once():
    seen = []

    def arranged(rows, columns):
        seen.append((rows.size, columns.size))
        return rows, columns

    bisected_together((4, 6), 2, arranged)
    assert seen == [(4, 6), (2, 3), (2, 3)]


# -- coordinates and trees -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((3, 2)), "coordinates must be a pair"),
        ((np.ones(3),), "coordinates must be a pair"),
        ("ab", "coordinates must be a pair"),
        ((np.ones(4), None), r"coordinates\[0\] must have shape \(3,\) or \(3, d\), .* got \(4,\)"),
        ((None, np.ones((3, 2))), r"coordinates\[1\] must have shape .*, one point for each of 5 columns"),
        ((np.ones((3, 2, 2)), None), r"coordinates\[0\] must have shape"),
        ((np.ones((3, 0)), None), r"coordinates\[0\] must have shape"),
        ((np.array([1, np.nan, 2]), None), r"coordinates\[0\] must hold finite numbers"),
        ((None, np.full(5, np.inf)), r"coordinates\[1\] must hold finite numbers"),
        ((np.ones(3) * 1j, None), r"coordinates\[0\] must hold real numbers"),
        ((["a", "b", "c"], None), r"coordinates\[0\]"),
    ],
)
def test_wrong_coordinates_are_refused_by_name(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_coordinates("coordinates", value, (3, 5))


def test_lines_in_no_order_are_not_taken_as_they_stand():
    x = np.linspace(0, 1, 100)
    kernel = 1 / (np.abs(x[:, None] - x) + 0.05)
    shuffled = kernel[np.random.default_rng(0).permutation(100)][:, np.random.default_rng(1).permutation(100)]
    assert next(make().name for make in trees_of(Session(), kernel, None, 2)) == "in order"
    assert [make().name for make in trees_of(Session(), shuffled, None, 2)] == [
        "of rows and columns found together"
    ]


def test_a_quick_look_tells_kernels_from_noise():
    x, random = np.linspace(0, 1, 300), np.random.default_rng(0)
    kernel = 1 / (np.abs(x[:, None] - x) + 0.02)
    assert may_be_nested(kernel)
    assert may_be_nested(kernel[random.permutation(300)][:, random.permutation(300)])
    assert not may_be_nested(random.standard_normal((300, 200)))
    assert not may_be_nested(np.linalg.qr(random.standard_normal((64, 64)))[0])
    assert may_be_nested(np.zeros((5, 1)))
