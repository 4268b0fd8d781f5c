"""Equal groups at least cost, against exhaustive search."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from papilio.kernels.grouping import all_equal_parts, equal_parts, group_up, share_out
from papilio.runtime.session import Session
from papilio.search.splitting import likely_first


def price(costs, groups):
    return sum(costs[i, j] for g in set(groups) for i, j in combinations(np.flatnonzero(groups == g), 2))


def by_cost(costs):
    first, second = np.triu_indices(len(costs), 1)
    return (first * len(costs) + second)[np.argsort(costs[first, second], kind="stable")]


def symmetric(m, seed):
    costs = np.random.default_rng(seed).random((m, m))
    return costs + costs.T


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("m", "size"), [(6, 2), (6, 3), (9, 3), (10, 5)])
def test_groups_are_equal_and_no_exchange_of_two_points_is_cheaper(m, size, seed):
    costs = symmetric(m, seed)
    groups = group_up(costs, by_cost(costs), size)
    assert (np.bincount(groups) == size).all()
    for i, j in combinations(range(m), 2):
        other = groups.copy()
        other[i], other[j] = groups[j], groups[i]
        assert price(costs, other) >= price(costs, groups) - 1e-9


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_that_cost_nothing_are_found(size):
    truth = np.random.default_rng(0).permutation(np.repeat(np.arange(4), size))
    costs = np.where(truth[:, None] == truth, 0.0, symmetric(4 * size, 1) + 0.1)
    assert price(costs, group_up(costs, by_cost(costs), size)) == 0


def test_the_order_leads_to_pairs_that_no_exchange_of_two_would_find():
    """0–1, 2–3 and 4–5 cost 1 each; cheaper links between them leave 5–0, and lead nowhere two by two."""
    costs = np.full((6, 6), 10.0)
    for i, j, cost in ((0, 1, 1), (2, 3, 1), (4, 5, 1), (1, 2, 0.5), (3, 4, 0.5)):
        costs[i, j] = costs[j, i] = cost
    np.fill_diagonal(costs, np.inf)
    assert price(costs, group_up(costs, by_cost(costs), 2)) == 11
    assert price(costs, group_up(costs, likely_first(Session(), costs, 2), 2)) == 3


@pytest.mark.parametrize("seed", range(5))
def test_two_equal_parts_cost_least(seed):
    costs = np.random.default_rng(seed).standard_normal((8, 2))
    labels = share_out(costs)
    assert (np.bincount(labels) == 4).all()
    doubled = np.repeat(costs, 4, axis=1)
    assert costs[np.arange(8), labels].sum() == pytest.approx(doubled[linear_sum_assignment(doubled)].sum())


@pytest.mark.parametrize("seed", range(5))
def test_more_equal_parts_leave_no_exchange_that_is_cheaper(seed):
    costs = np.random.default_rng(seed).standard_normal((9, 3))
    labels = share_out(costs)
    assert (np.bincount(labels) == 3).all()
    total = costs[np.arange(9), labels].sum()
    for i, j in permutations(range(9), 2):
        other = labels.copy()
        other[i], other[j] = labels[j], labels[i]
        assert costs[np.arange(9), other].sum() >= total - 1e-9


@pytest.mark.parametrize("r", [2, 3, 5])
def test_points_that_lie_together_get_one_label(r):
    rng = np.random.default_rng(r)
    truth = rng.permutation(np.repeat(np.arange(r), 4))
    points = 10 * rng.standard_normal((r, 3))[truth] + 0.1 * rng.standard_normal((4 * r, 3))
    labels = equal_parts(points, r)
    assert ((labels[:, None] == labels) == (truth[:, None] == truth)).all()
    assert (all_equal_parts(np.stack([points, points[::-1].copy()]), r)[0] == labels).all()
