"""Learned dictionaries: what holds for every learner, then K-SVD and Sparse K-SVD."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.datasets import random_dictionary, synthetic_signals
from papilio.dictionary.learner import warn_if_few
from papilio.metrics import recovery_rate

from . import learners
from .helpers import gaussian
from .learners import (
    LEARNERS,
    N_ATOMS,
    N_NONZERO,
    as_array,
    assert_usable,
    dct,
    mean_rmse_on_rand,
    relative_error,
    signals,
)


@pytest.fixture(params=LEARNERS)
def learn(request):
    """A learner, for a short run that repeats."""
    return partial(LEARNERS[request.param], max_iter=12, random_state=0)


# -- every learner -------------------------------------------------------------------------------------


def test_the_codes_are_those_of_omp_and_the_history_holds_the_error(learn):
    X = signals()
    learned = learn(X)
    assert isinstance(learned.codes, sp.csc_array)
    assert np.diff(learned.codes.indptr).max() <= N_NONZERO
    codes = pp.omp(learned.dictionary, X, N_NONZERO).toarray()
    np.testing.assert_allclose(learned.codes.toarray(), codes, atol=1e-9 * np.abs(codes).max())
    honest = relative_error(X, learned)
    assert np.isclose(learned.history.error, honest, rtol=1e-10, atol=0).any()
    assert honest <= learned.history.error[-1] * (1 + 1e-10)


def test_fewer_than_two_samples_per_atom_are_warned_of_before_work_begins(learn):
    steps = []
    with pytest.warns(UserWarning, match=r"12 atoms are too many for 23 samples") as caught:
        learn(signals(n_signals=23), callback=lambda step: steps.append(len(caught)) or True)
    assert steps == [1] * len(steps)
    assert caught[0].filename == learners.__file__  # the caller's line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(signals(n_signals=24))


def test_samples_that_may_be_transposed_are_told_apart_from_few_samples():
    with pytest.warns(UserWarning, match=r"3 atoms are too many for 1 sample:"):
        warn_if_few((1, 4), 3)
    with pytest.warns(UserWarning, match=r"or transpose the data, if they are 30 samples$"):
        warn_if_few((8, 30), 12)
    with pytest.warns(UserWarning, match=r"or more samples$"):
        warn_if_few((8, 10), 12)


@pytest.mark.parametrize("name", ["ksvd", "sparse_ksvd", "online_dictionary"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_atoms_have_unit_norm(name, dtype):
    learned = LEARNERS[name](signals(dtype), max_iter=12, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(as_array(learned.dictionary), axis=0), 1, rtol=1e-12)


def test_a_random_state_repeats_bit_for_bit(learn):
    X = signals()
    first, *others = learn(X), learn(X), learn(X, random_state=np.random.RandomState(0))
    for other in others:
        np.testing.assert_array_equal(as_array(first.dictionary), as_array(other.dictionary))
        np.testing.assert_array_equal(first.codes.toarray(), other.codes.toarray())
        np.testing.assert_array_equal(first.history.error, other.history.error)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, pytest.param(np.complex64, marks=pytest.mark.slow), np.complex128]
)
def test_the_dtype_of_the_signals_is_kept(learn, dtype):
    X = signals(dtype)
    learned = learn(X)
    assert learned.dictionary.dtype == dtype
    assert learned.codes.dtype == dtype
    assert relative_error(X, learned) < 0.8


def test_inputs_are_not_changed(learn):
    X = signals()
    X.flags.writeable = False
    before = X.copy()
    learn(X)
    learn(np.asfortranarray(X))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("n_signals", [1, 4])
def test_fewer_signals_than_atoms_are_enough(learn, n_signals):
    X = signals(n_signals=n_signals)
    assert_usable(learn(X), X)


def test_zero_signals_have_empty_codes(learn):
    X = signals()
    X[:, ::3] = 0
    learned = learn(X)
    assert_usable(learned, X)
    assert not np.diff(learned.codes.indptr)[::3].any()
    assert relative_error(X, learned) < 0.8


@pytest.mark.parametrize("name", LEARNERS)
def test_zero_data_give_empty_codes_and_no_error(name):
    learned = LEARNERS[name](np.zeros((8, 40)), max_iter=12, random_state=0)
    assert learned.codes.nnz == 0
    assert learned.history.error[-1] == 0
    assert np.isfinite(as_array(learned.dictionary)).all()


@pytest.mark.parametrize(
    ("name", "exponent"), [("ksvd", -45), ("ksvd", 33), *((name, e) for name in LEARNERS for e in (-100, 100))]
)
def test_very_large_and_very_small_signals_in_single_precision_are_learned_as_well(name, exponent):
    X, learn = signals(np.float32), partial(LEARNERS[name], max_iter=12, random_state=0)
    scaled = np.ldexp(X, exponent)
    assert relative_error(scaled, learn(scaled)) == pytest.approx(relative_error(X, learn(X)), rel=0.02)


@pytest.mark.parametrize("where", [1, 5])
def test_a_callback_stops_the_learner_and_what_is_left_is_usable(learn, where):
    """At once, where most learners have seen but a share of the signals, and later."""
    X, seen = signals(), []
    learned = learn(X, callback=lambda step: seen.append(step) or len(seen) >= where)
    assert_usable(learned, X)
    assert len(learned.history) <= where + 1  # The result may have a step of its own.
    assert [step._replace(factors=()) for step in seen] == learned.history[:where]
    assert [step.iteration for step in seen[:where]] == list(range(1, where + 1))
    assert (np.diff(learned.history.seconds) > 0).all()
    for step in seen[:where]:
        assert step.factors[-1].shape[1] == N_ATOMS
        assert not step.factors[-1].flags.writeable


@pytest.mark.parametrize("name", ["ksvd", "sparse_ksvd", "online_dictionary"])
def test_tol_zero_runs_to_the_end_and_a_tol_stops_earlier(name):
    X = signals()
    learn = partial(LEARNERS[name], max_iter=60, random_state=0)
    last = 60 if name == "online_dictionary" else 61  # after the last update, K-SVD codes once more
    to_the_end, earlier = learn(X, tol=0), learn(X, tol=0.5)
    assert to_the_end.history.phase[:-1] == [to_the_end.history[0].phase] * last
    assert to_the_end.status == "max_iter"
    assert len(earlier.history) < last
    assert earlier.status == "converged"


@pytest.mark.parametrize("name", ["ksvd", "sparse_ksvd"])
def test_no_iterations_leave_the_start(name):
    X = signals()
    learned = LEARNERS[name](X, max_iter=0, random_state=0)
    assert len(learned.history) == 2  # the start, and what is returned
    assert_usable(learned, X)
    assert relative_error(X, learned) == pytest.approx(learned.history[0].error, rel=1e-12)


@pytest.mark.parametrize("name", ["ksvd", "online_dictionary"])
def test_a_true_dictionary_that_is_given_stays(name):
    D = random_dictionary(8, N_ATOMS, random_state=0)
    X = synthetic_signals(D, 300, 1, random_state=0)[0]
    learned = LEARNERS[name](X, init=D, max_iter=12, random_state=0)
    assert learned.history.error.max() < 1e-12
    np.testing.assert_allclose(np.abs(np.sum(D * learned.dictionary, axis=0)), np.linalg.norm(D, axis=0))


BAD = [
    ({"X": np.full((8, 9), np.nan)}, ValueError, "signals"),
    ({"X": np.full((8, 9), np.inf)}, ValueError, "signals"),
    ({"X": np.zeros((8, 0))}, ValueError, "signals"),
    ({"X": np.zeros((2, 8, 9))}, ValueError, "signals"),
    ({"X": np.full((8, 9), "a")}, TypeError, "signals"),
    ({"max_iter": -1}, ValueError, "max_iter"),
    ({"max_iter": 2.5}, TypeError, "max_iter"),
    ({"tol": -1}, ValueError, "tol"),
    ({"tol": np.nan}, ValueError, "tol"),
    ({"callback": 3}, TypeError, "callback"),
    ({"random_state": "a"}, ValueError, "random_state"),
]


@pytest.mark.parametrize(("arguments", "error", "named"), BAD)
def test_bad_input_is_named_by_every_learner(learn, arguments, error, named):
    call = {"X": signals(n_signals=20)} | arguments
    with pytest.raises(error, match=named):
        learn(call.pop("X"), **call)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"n_components": 0}, ValueError, "n_components"),
        ({"n_components": "9"}, TypeError, "n_components"),
        ({"n_nonzero_coefs": 0}, ValueError, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 9}, ValueError, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 5, "n_components": 4}, ValueError, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 1.5}, TypeError, "n_nonzero_coefs"),
        ({"init": gaussian((8, 9))}, ValueError, "init"),
        ({"init": np.zeros((8, N_ATOMS))}, ValueError, "init"),
        ({"init": np.full((8, N_ATOMS), np.nan)}, ValueError, "init"),
        ({"init": gaussian((8, N_ATOMS), complex)}, ValueError, "init"),
    ],
)
@pytest.mark.parametrize("learner", [pp.dictionary.ksvd, pp.dictionary.online_dictionary])
def test_bad_sizes_and_starts_are_named(learner, arguments, error, named):
    with pytest.raises(error, match=named):
        learner(signals(n_signals=20), **({"n_components": N_ATOMS, "max_iter": 2} | arguments))


# -- K-SVD ---------------------------------------------------------------------------------------------


def test_ksvd_recovers_a_planted_dictionary_under_noise():
    """The experiment of Aharon, Elad and Bruckstein (2006), at 20 dB."""
    random = np.random.RandomState(0)
    D = random_dictionary(20, 50, random_state=random)
    X = synthetic_signals(D / np.linalg.norm(D, axis=0), 1500, 3, random_state=random)[0]
    noise = random.standard_normal(X.shape)
    X += noise * np.linalg.norm(X) / np.linalg.norm(noise) / 10
    learned = pp.dictionary.ksvd(X, 50, 3, max_iter=80, random_state=0)
    assert recovery_rate(learned.dictionary, D, 0.99) >= 0.9


def test_plain_ksvd_is_the_algorithm_as_published():
    """Rubinstein, Zibulevsky and Elad (2008): all signals, all atoms of their codes, one atom after the other."""
    X = signals()
    D = X[:, :N_ATOMS] / np.linalg.norm(X[:, :N_ATOMS], axis=0)
    learned = pp.dictionary.ksvd(X, N_ATOMS, N_NONZERO, init=D, max_iter=3, tol=0, plain=True)
    errors = []
    for _ in range(3):
        codes = pp.omp(D, X, N_NONZERO).toarray()
        errors.append(np.linalg.norm(X - D @ codes) / np.linalg.norm(X))
        for j in range(N_ATOMS):
            users = np.flatnonzero(codes[j])
            rest = X[:, users] - D @ codes[:, users] + np.outer(D[:, j], codes[j, users])
            D[:, j] = rest @ codes[j, users] / np.linalg.norm(rest @ codes[j, users])
            codes[j, users] = D[:, j] @ rest
    np.testing.assert_allclose(learned.dictionary, D, atol=1e-10)
    np.testing.assert_allclose(learned.history.error[:3], errors, rtol=1e-10)


@pytest.mark.parametrize("name", ["ksvd", "sparse_ksvd"])
def test_plain_learners_code_all_signals_in_each_iteration(name):
    X = signals()
    learned = LEARNERS[name](X, max_iter=12, random_state=0, plain=True)
    assert set(learned.history.share) == {1.0}
    assert learned.history.error[-1] < learned.history.error[0]


SEEDS = [3, pytest.param(10, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS)
def test_ksvd_beats_the_papers_ksvd_on_rand(seeds):
    """Le Magoarou and Gribonval, figure 3: 0.079."""

    def learn(X, seed):
        return pp.dictionary.ksvd(X, 32, 5, max_iter=300, tol=0, random_state=seed)

    assert mean_rmse_on_rand(learn, seeds) <= 0.05


# -- Sparse K-SVD --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS)
def test_sparse_ksvd_is_no_worse_than_the_papers_on_rand(seeds):
    """Le Magoarou and Gribonval, figure 3: 1.19."""

    def learn(X, seed):
        return pp.dictionary.sparse_ksvd(X, dct(32), 32, 5, k=4, max_iter=100, random_state=seed)

    assert mean_rmse_on_rand(learn, seeds) <= 1.19


@pytest.mark.parametrize("n_components", [1, 5, 8, 20])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_sparse_ksvd_gives_the_base_times_one_factor_with_sparse_columns(n_components, k):
    X, base = signals(), dct(8)
    learned = pp.dictionary.sparse_ksvd(X, base, n_components, 1, k=k, max_iter=8, random_state=0)
    *given, last = learned.dictionary.factors
    assert pp.SparseProduct(given, base.scale) == base
    assert last.shape == (8, n_components)
    assert np.count_nonzero(as_array(last), axis=0).max() <= k
    np.testing.assert_allclose(np.linalg.norm(learned.dictionary.toarray(), axis=0), 1, rtol=1e-12)
    assert np.isclose(learned.history.error, relative_error(X, learned), rtol=1e-10).any()


def test_atoms_that_are_sparse_in_the_base_are_recovered():
    base = np.linalg.qr(gaussian((16, 16)))[0]
    sparse = np.sign(gaussian((16, 20), seed=1)) * (np.argsort(gaussian((16, 20), seed=2), axis=0) < 3)
    X = synthetic_signals(base @ sparse, 800, 2, random_state=0)[0]
    learned = pp.dictionary.sparse_ksvd(X, base, 20, 2, k=3, max_iter=40, random_state=0)
    assert recovery_rate(learned.dictionary, base @ sparse) >= 0.9


def test_a_base_in_higher_precision_or_complex_decides_the_dtype():
    X, learn = (
        signals(np.float32),
        partial(pp.dictionary.sparse_ksvd, n_components=9, n_nonzero_coefs=2, max_iter=2, random_state=0),
    )
    assert learn(X, np.eye(8)).dictionary.dtype == np.float64
    assert learn(X, pp.transforms.dft(8).H).codes.dtype == np.complex128


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"base": np.eye(7)}, ValueError, "base"),
        ({"base": np.full((8, 8), np.nan)}, ValueError, "base"),
        ({"base": np.zeros(8)}, ValueError, "base"),
        ({"base": "dct"}, TypeError, "base"),
        ({"k": 0}, ValueError, "k"),
        ({"k": 9}, ValueError, "k"),
        ({"k": 1.0}, TypeError, "k"),
        ({"n_components": 0}, ValueError, "n_components"),
        ({"n_nonzero_coefs": 9}, ValueError, "n_nonzero_coefs"),
    ],
)
def test_bad_input_of_sparse_ksvd_is_named(arguments, error, named):
    call = {"base": np.eye(8), "n_components": N_ATOMS, "max_iter": 2} | arguments
    with pytest.raises(error, match=named):
        pp.dictionary.sparse_ksvd(signals(n_signals=20), **call)


@pytest.mark.parametrize("learn", [pp.dictionary.ksvd, pp.dictionary.dictionary_tradeoff])
def test_functions_too_warn_of_a_few_features_with_nearly_all_energy(learn):
    X = np.random.default_rng(0).standard_normal((16, 100))
    X[3] *= 1e6
    with pytest.warns(UserWarning, match=r"1 of 16 features carry all but .* of the energy"):
        learn(X, 20, 2, callback=lambda step: True)
