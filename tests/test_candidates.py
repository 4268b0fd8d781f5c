"""The attempts to a product: the sets with a number of entries, low rank, and the search among them."""

from itertools import pairwise

import numpy as np
import pytest

import papilio as pp
from papilio.search import candidates as attempts
from papilio.search.candidates import Watch, candidates, decomposed, even_schedule, low_rank, searched

from .helpers import gaussian


def chained(schedule):
    return schedule.constraints


def assert_chains_to(shape, schedule):
    sets = chained(schedule)
    assert all(left.shape[1] == right.shape[0] for left, right in pairwise(sets))
    assert (sets[0].shape[0], sets[-1].shape[1]) == schedule.shape == shape


@pytest.fixture
def few_rounds(monkeypatch):
    """Annealing of one round a trial: enough where only the rules of the search count."""
    monkeypatch.setattr(attempts, "_ROUNDS", 4)
    monkeypatch.setattr(attempts, "_MANY_ROUNDS", 4)


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
    size, least = shape[0] * shape[1], attempts.least_entries(shape, n_factors)
    for budget in range(min(least, size), size + 1):
        if budget < least:
            continue
        schedule = even_schedule(shape, n_factors, budget, side)
        assert_chains_to(shape, schedule)
        assert schedule.side == side
        assert len(chained(schedule)) == n_factors
        assert schedule.n_nonzero <= budget
        # What is left is less than one entry in each line of all factors but the last.
        assert schedule.n_nonzero > budget - max(shape) - (n_factors - 2) * min(shape)


@pytest.mark.parametrize("shape", [(24, 24), (32, 16), (16, 32)])
@pytest.mark.parametrize("n_factors", [2, 3])
def test_even_schedules_use_nearly_all_of_it_at_nearly_one_density(shape, n_factors):
    side = "right" if shape[0] < shape[1] else "left"
    budget = shape[0] * shape[1] // 2
    schedule = even_schedule(shape, n_factors, budget, side)
    assert schedule.n_nonzero >= 0.98 * budget
    densities = [sets.n_nonzero / (sets.shape[0] * sets.shape[1]) for sets in chained(schedule)]
    assert max(densities) <= 1.6 * min(densities)


def test_residuals_of_even_schedules_thin_out_to_the_last_factor():
    residuals = [sets.n_nonzero for sets in even_schedule((16, 16), 5, 200, "left").residuals]
    assert residuals == sorted(residuals, reverse=True)
    assert residuals[0] < 16 * 16


@pytest.mark.parametrize("shape", [(12, 12), (24, 8), (8, 24), (7, 5)])
def test_thin_schedules_keep_the_budget_and_chain(shape):
    for budget in range(sum(shape), shape[0] * shape[1]):
        for inner in range(1, min(shape)):
            schedule = attempts._thin_schedule(shape, inner, budget)
            assert_chains_to(shape, schedule)
            assert chained(schedule)[0].shape == (shape[0], inner)
            assert min(budget, inner * sum(shape)) - 1 <= schedule.n_nonzero <= budget


@pytest.mark.parametrize("shape", [(16, 16), (24, 8), (8, 24)])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_candidates_keep_the_budget_and_the_methods(shape, share):
    budget = int(share * shape[0] * shape[1])
    found = candidates(shape, budget, None, ("hierarchical", "low_rank"))
    for candidate in found:
        assert_chains_to(shape, candidate.schedule)
        assert candidate.schedule.n_nonzero <= budget
    counts = {len(chained(candidate.schedule)) for candidate in found if candidate.method == "hierarchical"}
    assert counts == {2, 3}
    for methods in (("hierarchical",), ("low_rank",), ()):
        only = candidates(shape, budget, None, methods)
        assert {candidate.method for candidate in only} <= set(methods)
        assert [c.title for c in only] == [c.title for c in found if c.method in methods]


def test_square_matrices_are_taken_from_both_sides_and_others_from_their_short_one():
    def sides(shape):
        return {c.schedule.side for c in candidates(shape, shape[0] * shape[1] // 2, None, ("hierarchical",))}

    assert sides((12, 12)) == {"left", "right"}
    assert sides((24, 8)) == {"left"}
    assert sides((8, 24)) == {"right"}


def test_candidates_have_the_number_of_factors_that_is_asked_for():
    for n_factors in (2, 3, 4):
        found = candidates((16, 16), 128, n_factors, ("hierarchical", "low_rank"))
        assert {len(chained(candidate.schedule)) for candidate in found} == {n_factors}
    assert candidates((16, 16), 31, 2, ("hierarchical", "low_rank")) == []


# -- low rank ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(9, 9), (12, 7), (5, 11)])
def test_low_rank_is_the_best_of_its_rank_and_says_its_error(shape, dtype):
    X = gaussian(shape).astype(dtype)
    if np.iscomplexobj(X):
        X += (1j * gaussian(shape, seed=1)).astype(dtype)
    for rank in range(1, min(shape)):
        fit = low_rank(X, decomposed(X), rank)
        assert fit.operator.dtype == dtype
        assert fit.operator.nnz == rank * sum(shape)
        sizes = np.linalg.svd(X.astype(complex), compute_uv=False)
        best = np.linalg.norm(sizes[rank:]) / np.linalg.norm(sizes)
        assert fit.error == pytest.approx(best, rel=1e-4)
        assert np.linalg.norm(X - fit.operator.toarray()) / np.linalg.norm(X) == pytest.approx(best, rel=1e-4)


# -- the watch -----------------------------------------------------------------------------------------


STEP = pp.results.Step("split 1", 1, 0.5, 1.0, 0.0)


def test_the_watch_puts_the_road_before_the_phase_and_counts_what_is_done():
    seen = []
    watch = Watch(seen.append, None)
    watch.planned = 50
    callback = watch.on("low rank")
    assert [callback(STEP) for _ in range(100)] == [False] * 100
    assert {step.phase for step in seen} == {"low rank: split 1"}
    done = [step.done for step in seen]
    assert done == sorted(done)
    assert 0 < done[0] < 0.05
    assert done[-1] == 1  # more than planned, but never more than all
    assert [step.seconds for step in seen] == sorted(step.seconds for step in seen)
    assert not watch.stopped


def test_the_watch_stops_once_for_all_when_the_caller_says_so():
    answers = iter([False, True])
    watch = Watch(lambda step: next(answers), None)
    assert not watch.on("one")(STEP)
    assert not watch.stopped
    assert watch.on("one")(STEP)
    assert watch.stopped
    assert watch.on("another")(STEP)  # without asking again: there is no third answer


def test_the_watch_stops_when_the_time_is_over_without_a_caller():
    watch = Watch(None, 0.0)
    assert watch.on("one")(STEP)
    assert watch.stopped
    patient = Watch(None, 1000.0)
    assert not patient.on("one")(STEP)
    assert not patient.stopped


def test_with_a_time_budget_the_time_that_passed_counts_as_done():
    seen = []
    watch = Watch(seen.append, 1000.0)
    watch._begin -= 500.0
    watch._end -= 500.0
    watch.planned = 10**6
    watch.on("one")(STEP)
    assert seen[0].done == pytest.approx(0.5, abs=0.01)


def test_the_watch_lists_what_it_is_told():
    watch = Watch(None, None)
    fit = low_rank(gaussian((6, 6)), decomposed(gaussian((6, 6))), 2)
    noted = watch.note("low_rank", "rank 2", fit, 0.0)
    assert noted.method == "low_rank"
    assert watch.attempts[0][:4] == ("low_rank", "rank 2", fit.error, 24)


# -- the search ----------------------------------------------------------------------------------------


def test_the_search_returns_the_best_of_all_it_noted(few_rounds):
    X = gaussian((12, 12))
    options = candidates(X.shape, 72, None, ("hierarchical", "low_rank"))
    watch = Watch(None, None)
    fit = searched(X, options, decomposed(X), np.random.RandomState(0), watch)
    assert fit.error == min(road.error for road in watch.attempts)
    assert len(watch.attempts) == len(options) + 1
    assert watch.attempts[-1].detail.endswith("annealed for longer")
    assert fit.operator.nnz <= 72


def test_the_search_among_nothing_finds_nothing():
    X = gaussian((4, 4))
    assert searched(X, [], decomposed(X), np.random.RandomState(0), Watch(None, None)) is None


@pytest.mark.parametrize("n_factors", [2, 3, 4])
def test_a_search_that_is_stopped_anywhere_ends_in_the_sets_of_a_candidate(few_rounds, n_factors):
    X = gaussian((10, 10))
    options = candidates(X.shape, 60, n_factors, ("hierarchical",))
    for at in (1, 2, 30, 120, 250):
        watch = Watch(counting(at), None)
        fit = searched(X, options, None, np.random.RandomState(0), watch)
        assert watch.stopped
        assert len(fit.operator.factors) == n_factors
        assert fit.operator.nnz <= 60
        assert all(road.nnz <= 60 for road in watch.attempts)


@pytest.mark.parametrize(
    "phase",
    [
        "2 factors from the right: split 1",
        "3 factors from the left: split 1",
        "3 factors from the right: loosen 1",
    ],
)
def test_a_search_that_is_stopped_among_many_candidates_keeps_the_budget(few_rounds, phase):
    X = gaussian((10, 10))
    options = candidates(X.shape, 60, None, ("hierarchical", "low_rank"))
    seen = []

    def stop(step):
        seen.append(step.phase)
        return step.phase.endswith(phase)

    watch = Watch(stop, None)
    fit = searched(X, options, decomposed(X), np.random.RandomState(0), watch)
    assert [name.endswith(phase) for name in seen] == [False] * (len(seen) - 1) + [True]
    assert fit.error == min(road.error for road in watch.attempts)
    assert all(road.nnz <= 60 for road in watch.attempts)


def counting(at):
    """A callback that stops at a number of steps."""
    seen = []

    def callback(step):
        seen.append(step)
        return len(seen) >= at

    return callback


@pytest.mark.parametrize("shape", [(12, 12), (24, 8), (400, 400)])
def test_more_effort_and_smaller_matrices_plan_more_steps(shape):
    X = np.ones(shape)
    assert 0 < attempts.planned_steps(X, 0.5) <= attempts.planned_steps(X)
    assert attempts.planned_steps(np.ones((12, 12))) >= attempts.planned_steps(X)
    assert attempts.planned_steps(np.ones((12, 12)), 0.5) < attempts.planned_steps(np.ones((12, 12)))


def test_the_plan_is_about_what_the_search_takes():
    X = gaussian((12, 12))
    seen = []
    searched(
        X,
        candidates(X.shape, 72, None, ("hierarchical", "low_rank")),
        decomposed(X),
        np.random.RandomState(0),
        Watch(seen.append, None),
    )
    assert 0.3 * attempts.planned_steps(X) < len(seen) < 1.5 * attempts.planned_steps(X)
