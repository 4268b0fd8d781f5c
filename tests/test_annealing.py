"""Annealing: never worse than its start, always in its sets, and out of PALM's local minima."""

from dataclasses import replace

import numpy as np
import pytest

import papilio as pp
from papilio.runtime.session import Session
from papilio.search.methods.sparse_factors import even_schedule
from papilio.solvers.annealing import annealed, annealing_round
from papilio.solvers.moments import Moments
from papilio.solvers.palm import Limits

from .helpers import as_array, gaussian, orthogonal, true_error


def started(matrix, schedule):
    return pp.hierarchical(matrix, schedule, inertia=True, max_iter=100)


def fitted(matrix, schedule, rounds=4, seed=0):
    return annealed(Session(random_state=seed), matrix, schedule, started(matrix, schedule), rounds)


def assert_in_sets(fit, schedule):
    sets = schedule.constraints
    factors = fit.operator.factors
    assert len(factors) == len(sets)
    for constraint, factor in zip(sets, factors, strict=True):
        assert constraint.contains(as_array(factor))


SCHEDULES = {
    "two-left": even_schedule((12, 12), 2, 70, "left"),
    "two-right": even_schedule((12, 12), 2, 70, "right"),
    "three": even_schedule((12, 12), 3, 70, "left"),
    "tall": even_schedule((16, 8), 2, 64, "left"),
    "wide": even_schedule((8, 16), 3, 64, "right"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_result_is_in_the_sets_and_never_worse_than_the_start(name, seed):
    schedule = SCHEDULES[name]
    X = gaussian(schedule.shape, seed=seed)
    start = started(X, schedule)
    fit = annealed(Session(random_state=seed), X, schedule, start, 3)
    assert_in_sets(fit, schedule)
    assert fit.error <= start.error
    assert fit.error == pytest.approx(true_error(X, fit.operator), rel=1e-9)
    assert fit.operator.nnz <= schedule.n_nonzero


def test_a_start_that_is_exact_stays():
    schedule = SCHEDULES["two-left"]
    fit = started(gaussian((12, 12)), schedule)
    start = replace(fit, error=1e-16, history=pp.results.History())
    same = annealed(Session(), fit.operator.toarray(), schedule, start, 2)
    assert same.error < 1e-12
    assert same.operator == start.operator
    assert set(same.history.phase) <= {"loosen 1", "tighten 1"}  # no further round where nothing is to be gained


def test_annealing_repeats_with_the_seed_and_depends_on_it():
    X, schedule = gaussian((12, 12)), SCHEDULES["two-left"]
    first, again, other = fitted(X, schedule), fitted(X, schedule), fitted(X, schedule, seed=1)
    assert first.operator == again.operator
    assert first.history.error.tolist() == again.history.error.tolist()
    assert first.history.error.tolist() != other.history.error.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_the_kind_of_numbers_stays(dtype):
    X, schedule = gaussian((12, 12), dtype=dtype), SCHEDULES["two-left"]
    fit = fitted(X, schedule)
    assert fit.operator.dtype == dtype
    assert_in_sets(fit, schedule)
    assert fit.error <= started(X, schedule).error < 1
    assert fit.error == pytest.approx(true_error(X, fit.operator), rel=1e-4)


@pytest.mark.parametrize("at", [1, 10, 35, 75, 150])
def test_a_callback_stops_it_in_either_phase_with_a_valid_result(at):
    X, schedule = gaussian((12, 12)), SCHEDULES["two-left"]
    start = started(X, schedule)
    seen = []

    def stop(step):
        seen.append(step)
        return len(seen) == at

    fit = annealed(Session(stop), X, schedule, start, 4)
    assert len(seen) == at
    assert fit.status == "stopped"
    assert_in_sets(fit, schedule)
    assert fit.error <= start.error
    assert fit.error == pytest.approx(true_error(X, fit.operator), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_annealing_has_a_much_lower_error_than_the_hierarchical_strategy_alone(seed):
    Q = orthogonal(24, seed)
    schedule = even_schedule((24, 24), 2, 24 * 24 // 2, "left")
    plain = pp.hierarchical(Q, schedule)
    fit = annealed(Session(random_state=seed), Q, schedule, started(Q, schedule), 30)
    assert fit.error < 0.85 * plain.error


def test_a_large_matrix_that_is_found_in_single_precision_ends_exact_in_its_own():
    X = gaussian((72, 72))
    schedule = even_schedule(X.shape, 2, 2 * X.size, "left")  # no entry need be zero
    operator = pp.SparseProduct([np.eye(72), X + 0.1 * gaussian(X.shape, seed=1)])
    start = pp.Factorization(operator, 1, error=true_error(X, operator), status=pp.results.Status.MAX_ITER)
    fit = annealed(Session(random_state=0), X, schedule, start, 1)
    assert fit.operator.dtype == X.dtype
    assert fit.error < 1e-12 < start.error


def test_noise_does_not_change_which_lines_share_blocks():
    """A product in blocks of shuffled rows and columns stays nearly exact if there is hardly any relaxation."""
    schedule = pp.Schedule.with_complexity((64, 128), 0.5, block=4)
    shuffle = np.random.default_rng(0).permutation
    factors = []
    for constraint in schedule.constraints:
        m, n = constraint.shape
        factors.append(constraint.project(gaussian((m, n), seed=m + n))[shuffle(m)][:, shuffle(n)])
    moments = Moments(factors[0] @ factors[1])
    fit = annealing_round(
        Session(), np.random.RandomState(0), "", moments, schedule, factors, 1e-3, Limits(schedule.order, 5, 0.0)
    )
    assert fit.error < 0.01
