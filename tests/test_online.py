"""Online dictionary learning: its moments, its window and its passes."""

import numpy as np
import pytest

import papilio as pp
from papilio.datasets import random_dictionary, synthetic_signals
from papilio.dictionary.online import OnlineState, shuffled
from papilio.dictionary.signals import Coder
from papilio.linalg import column_norms
from papilio.metrics import recovery_rate

from .helpers import gaussian
from .learners import N_ATOMS, mean_rmse_on_rand, relative_error, signals


def unit(dictionary):
    return dictionary / column_norms(dictionary)


def planted(seed, n_signals):
    D = unit(random_dictionary(12, 16, random_state=seed))
    return D, synthetic_signals(D, n_signals, 2, random_state=seed)[0]


@pytest.mark.parametrize("seeds", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_on_rand_it_is_as_good_as_ksvd(seeds):
    def learn(X, seed):
        return pp.dictionary.online_dictionary(X, 32, 5, max_iter=100, random_state=seed)

    assert mean_rmse_on_rand(learn, seeds) <= 0.05


# -- batches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("recent", "window"), [(0.5, None), (10.0, 2)])
def test_moments_of_batches_are_added_and_those_before_fade(dtype, recent, window):
    """A ← βA + ΓΓᴴ and B ← βB + XΓᴴ; as no atom is bad here, none is replaced."""
    D = unit(gaussian((6, 4), dtype))
    state = OnlineState(np.ascontiguousarray(D.T), Coder(1), recent=recent, window=window or np.inf)
    gram, cross = np.zeros((4, 4)), np.zeros((6, 4))
    for t in range(1, 5):
        X = synthetic_signals(D, 80, 1, random_state=t)[0] + 0.01 * gaussian((6, 80), dtype, t)
        before = state.atoms.T.copy()
        codes = pp.omp(before, X, 1).toarray()
        assert state.learn(X.T.copy()) == pytest.approx(np.linalg.norm(X - before @ codes) / np.linalg.norm(X))
        beta = np.exp(-1 / min(recent * t, window or np.inf))
        gram, cross = beta * gram + codes @ codes.conj().T, beta * cross + X @ codes.conj().T
        np.testing.assert_allclose(state.gram, gram, atol=1e-10)
        np.testing.assert_allclose(state.cross, cross.T, atol=1e-10)
        np.testing.assert_allclose(state.atoms.T, unit(cross), atol=1e-10)  # one atom a signal: A is diagonal
    assert state.batches == 4


def test_a_state_learns_a_dictionary_from_one_batch_after_the_other():
    D, X = planted(0, 20_000)
    state = OnlineState(np.ascontiguousarray(unit(X[:, :16]).T), Coder(2))
    errors = [state.learn(batch) for batch in shuffled(X.T, 200, np.random.RandomState(0))]
    assert np.mean(errors[-10:]) < 0.5 * np.mean(errors[:10])
    assert recovery_rate(state.atoms.T, D) >= 0.9
    np.testing.assert_allclose(np.linalg.norm(state.atoms, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_short_window_follows_data_that_drift(seed):
    """From one dictionary to another, in small steps: who remembers all lags behind."""
    first, second = planted(2 * seed, 1)[0], planted(2 * seed + 1, 1)[0]
    states = {
        window: OnlineState(np.ascontiguousarray(first.T), Coder(2), recent=1.0, window=window)
        for window in (2, np.inf)
    }
    errors = dict.fromkeys(states, 0.0)
    for t in range(60):
        truth = unit((1 - t / 59) * first + t / 59 * second)
        batch = synthetic_signals(truth, 400, 2, random_state=t)[0].T.copy()
        errors = {window: state.learn(batch) for window, state in states.items()}
    assert recovery_rate(states[2].atoms.T, second) >= 0.8
    assert errors[2] < 0.5 * errors[np.inf]


# -- passes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 20, 50])
def test_a_pass_sees_each_signal_once_in_batches(batch_size):
    rows = np.arange(20.0)[:, None]
    batches = list(shuffled(rows, batch_size, np.random.RandomState(0)))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches), axis=0), rows)


@pytest.mark.parametrize("batch_size", [5, 64, 1000])
def test_batches_of_any_size_learn(batch_size):
    X = signals()
    start = pp.dictionary.online_dictionary(X, N_ATOMS, 2, batch_size=1000, max_iter=1, random_state=0)
    learned = pp.dictionary.online_dictionary(X, N_ATOMS, 2, batch_size=batch_size, max_iter=15, random_state=0)
    assert relative_error(X, learned) < 0.9 * start.history.error[0]


def test_the_history_has_the_mean_error_of_each_pass_and_the_error_of_the_result():
    X, seen = signals(), []
    learned = pp.dictionary.online_dictionary(
        X, N_ATOMS, 2, max_iter=4, tol=0, random_state=0, callback=seen.append
    )
    assert learned.history.phase == ["online"] * 4 + ["final"]
    assert learned.history.error[-1] == pytest.approx(relative_error(X, learned), rel=1e-10)
    np.testing.assert_array_equal(seen[-1].factors[0], learned.dictionary)


def test_the_first_pass_starts_from_the_given_dictionary():
    X, init = signals(), unit(gaussian((8, N_ATOMS), seed=4))
    learned = pp.dictionary.online_dictionary(
        X, N_ATOMS, 2, init=3 * init, batch_size=300, max_iter=1, random_state=0
    )
    codes = pp.omp(init, X, 2)
    assert learned.history.error[0] == pytest.approx(np.linalg.norm(X - init @ codes) / np.linalg.norm(X))


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": 2.0}, TypeError, "batch_size"),
        ({"window": 0}, ValueError, "window"),
        ({"window": 1.5}, TypeError, "window"),
        ({"max_iter": 0}, ValueError, "max_iter"),
    ],
)
def test_bad_input_is_named(arguments, error, named):
    with pytest.raises(error, match=named):
        pp.dictionary.online_dictionary(signals(n_signals=20), N_ATOMS, 2, **arguments)
