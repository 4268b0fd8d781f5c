"""Candidates: the sets with a number of entries, low rank, and the search among them."""

from itertools import pairwise

import numpy as np
import pytest

import papilio as pp
from papilio.runtime.session import Session
from papilio.search.methods import METHODS as ALL_METHODS
from papilio.search.methods import sparse_factors as module
from papilio.search.methods.sparse_factors import METHOD, best_candidate, candidates, even_schedule, expected_steps
from papilio.search.problems import Stored
from papilio.search.search import Search
from papilio.search.targets import Target, least_entries

from .helpers import gaussian


def assert_chains_to(shape, schedule):
    sets = schedule.constraints
    assert all(left.shape[1] == right.shape[0] for left, right in pairwise(sets))
    assert (sets[0].shape[0], sets[-1].shape[1]) == schedule.shape == shape


@pytest.fixture
def few_rounds(monkeypatch):
    """Annealing of one round per trial: enough where only the rules of the search count."""
    monkeypatch.setattr(module, "_ROUNDS", 4)
    monkeypatch.setattr(module, "_MANY_ROUNDS", 4)


# -- sets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "side"),
    [
        ((12, 12), "left"),
        ((12, 12), "right"),
        ((24, 8), "left"),
        ((8, 24), "right"),
        ((9, 8), "left"),
        ((5, 17), "right"),
    ],
)
@pytest.mark.parametrize("n_factors", [2, 3, 5])
def test_even_schedules_keep_the_budget_and_chain(shape, side, n_factors):
    size, least = shape[0] * shape[1], least_entries(shape, n_factors)
    for budget in range(min(least, size), size + 1):
        if budget < least:
            continue
        schedule = even_schedule(shape, n_factors, budget, side)
        assert_chains_to(shape, schedule)
        assert schedule.side == side
        assert len(schedule.constraints) == n_factors
        assert schedule.n_nonzero <= budget
        # What is left is less than one entry in each line of all factors but the last.
        assert schedule.n_nonzero > budget - max(shape) - (n_factors - 2) * min(shape)


@pytest.mark.parametrize("shape", [(12, 12), (24, 8), (8, 24), (7, 5)])
def test_thin_schedules_keep_the_budget_and_chain(shape):
    for budget in range(sum(shape), shape[0] * shape[1]):
        for inner in range(1, min(shape)):
            schedule = module._thin_schedule(shape, inner, budget)
            assert_chains_to(shape, schedule)
            assert schedule.constraints[0].shape == (shape[0], inner)
            assert min(budget, inner * sum(shape)) - 1 <= schedule.n_nonzero <= budget


@pytest.mark.parametrize("shape", [(16, 16), (24, 8), (8, 24)])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_candidates_keep_the_budget_and_the_methods(shape, share):
    budget = int(share * shape[0] * shape[1])
    found = candidates(shape, budget, None, ("hierarchical", "low_rank"))
    for candidate in found:
        assert_chains_to(shape, candidate.schedule)
        assert candidate.schedule.n_nonzero <= budget
    counts = {len(candidate.schedule.constraints) for candidate in found if candidate.method == "hierarchical"}
    assert counts == {2, 3}
    for methods in (("hierarchical",), ("low_rank",), ()):
        only = candidates(shape, budget, None, methods)
        assert {candidate.method for candidate in only} <= set(methods)
        assert [c.title for c in only] == [c.title for c in found if c.method in methods]


def search_for(X, callback=None, n_factors=None, methods=ALL_METHODS):
    chosen = [method for method in ALL_METHODS if methods is ALL_METHODS or method.name in methods]
    return Search(Stored(Session(callback), X), Target(X.size, n_factors=n_factors), chosen)


def run(search, budget):
    """The best fit of `best_candidate`; the search records all of them."""
    fits = []

    def curves():
        fits.append((yield from best_candidate(search, budget)))

    search.explore(METHOD, curves())
    return fits[0]


# -- low rank ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(9, 9), (12, 7), (5, 11)])
def test_low_rank_is_the_best_of_its_rank(shape, dtype):
    X = gaussian(shape).astype(dtype)
    if np.iscomplexobj(X):
        X += (1j * gaussian(shape, seed=1)).astype(dtype)
    for rank in range(1, min(shape)):
        operator = search_for(X).problem.of_rank(rank)
        assert operator.dtype == dtype
        assert operator.nnz == rank * sum(shape)
        sizes = np.linalg.svd(X.astype(complex), compute_uv=False)
        best = np.linalg.norm(sizes[rank:]) / np.linalg.norm(sizes)
        assert np.linalg.norm(X - operator.toarray()) / np.linalg.norm(X) == pytest.approx(best, rel=1e-4)


# -- the search ----------------------------------------------------------------------------------------

METHODS = ("hierarchical", "low_rank")


@pytest.mark.parametrize("n_factors", [2, 3, 4])
def test_a_search_that_is_stopped_anywhere_ends_in_the_sets_of_a_candidate(few_rounds, n_factors):
    for at in (1, 2, 30, 120, 250):
        search = search_for(gaussian((10, 10)), counting(at), n_factors, ("hierarchical",))
        fit = run(search, 60)
        assert search.session.stopped
        assert len(fit.operator.factors) == n_factors
        assert fit.operator.nnz <= 60
        assert all(attempt.nnz <= 60 for attempt in search.attempts)


def counting(at):
    """A callback that stops at a number of steps."""
    seen = []

    def callback(step):
        seen.append(step)
        return len(seen) >= at

    return callback


def planned(shape, effort=1.0):
    return sum(expected_steps(candidates(shape, shape[0] * shape[1] // 2, None, METHODS), effort))


@pytest.mark.parametrize("is_wide", [True, False])
def test_methods_far_behind_on_some_lines_are_not_tried_on_all(is_wide, few_rounds):
    """Neighbours on a curve are near subspaces, and no product of sparse factors."""
    x, y = np.linspace(0, 1, 12)[:, None], np.linspace(0, 1, 300)
    M = 1 / (0.05 + (x - y) ** 2)
    fit = pp.factorize(M if is_wide else M.T, complexity=0.3)
    assert fit.method == "subspaces"
    left_out = [attempt for attempt in fit.attempts if attempt.method == "hierarchical"]
    assert [attempt.nnz for attempt in left_out] == [0, 0]
    assert all("far behind on some lines" in attempt.detail for attempt in left_out)
    alone = pp.factorize(M if is_wide else M.T, complexity=0.3, method="hierarchical", n_factors=2)
    assert alone.method == "hierarchical"
    assert alone.error > 2 * fit.error
