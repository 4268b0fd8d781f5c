"""Fast dictionaries: the paper's figure, refinement, phases and what a stopped learner gives back."""

import warnings
from functools import cache

import numpy as np
import pytest

import papilio as pp
from papilio.datasets import rand, synthetic_signals
from papilio.dictionary.fast import FastState, Refinement, with_unit_atoms
from papilio.dictionary.learner import Found
from papilio.dictionary.signals import Coder, Held
from papilio.metrics import rmse
from papilio.runtime.session import Session

from .helpers import as_array, gaussian
from .learners import relative_error
from .limits import lower

# Le Magoarou and Gribonval, figure 3, PROPOSED on RAND, read off the published figure: (Q, p, P) to the relative
# complexity and the RMSE.
FIGURE_3 = {(5, 2, 512): (0.3125, 1.050), (3, 2, 512): (0.5625, 0.443)}
SEEDS = range(3)
SCHEDULE = pp.Schedule.paper(8, 4, 3, 48)
PHASES = ["ksvd", "split 1", "global 1", "split 2", "global 2", "refine", "final"]


@cache
def on_rand(point, seed, refine):
    """What is learned, and its RMSE for signals of unit variance in each atom's direction."""
    X = rand(random_state=seed).signals
    learned = pp.dictionary.fast_dictionary(
        X, pp.Schedule.paper(32, *point), 5, effort=float(refine), random_state=seed
    )
    return learned, rmse(X, *learned[:2]) / (np.sqrt(np.mean(X**2)) / np.sqrt(5))


def signals(dtype=np.float64):
    return synthetic_signals(gaussian((8, 8), dtype), 200, 2, random_state=1)[0]


def learn(X=None, **options):
    call = {"n_nonzero_coefs": 2, "max_iter": 30, "random_state": 0} | options
    return pp.dictionary.fast_dictionary(signals() if X is None else X, call.pop("schedule", SCHEDULE), **call)


def phases_of(history):
    """In the order in which they begin: a hierarchy that tries both orders of updates has each phase twice."""
    return list(dict.fromkeys(history.phase))


# -- the paper's figure --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", FIGURE_3)
def test_to_the_letter_the_points_of_the_papers_figure_come_out(point):
    complexity, error = FIGURE_3[point]
    results = [on_rand(point, seed, False) for seed in SEEDS]
    assert {learned.dictionary.nnz / 1024 for learned, _ in results} == {complexity}
    assert np.mean([ours for _, ours in results]) == pytest.approx(error, rel=0.1)


@pytest.mark.parametrize("point", FIGURE_3)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])])
def test_refinement_lowers_the_error_within_the_same_entries(point, seed):
    plain, plain_error = on_rand(point, seed, False)
    refined, error = on_rand(point, seed, True)
    assert error < plain_error
    assert refined.dictionary.nnz <= plain.dictionary.nnz
    assert phases_of(plain.history) == [phase for phase in phases_of(refined.history) if phase != "refine"]


# -- factors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize(
    "schedule",
    [SCHEDULE, pp.Schedule.rectangular((8, 12), 3, 3, 0.6), pp.Schedule.rectangular((8, 5), 3, 2, 0.6)],
)
def test_factors_lie_in_the_sets_of_the_schedule(schedule, refine):
    product = learn(schedule=schedule, effort=float(refine)).dictionary
    assert product.shape == schedule.shape
    assert product.nnz <= schedule.n_nonzero
    for factor, constraint in zip(product.factors, schedule.constraints, strict=True):
        assert constraint.contains(factor)


@pytest.mark.slow
@pytest.mark.parametrize("refine", [False, True])
def test_a_redundant_dictionary_is_learned(refine):
    schedule = pp.Schedule.rectangular((16, 32), 3, 4, 0.7)
    X = synthetic_signals(gaussian((16, 32)), 400, 3, random_state=0)[0]
    learned = pp.dictionary.fast_dictionary(X, schedule, 3, effort=float(refine), max_iter=50, random_state=0)
    assert learned.dictionary.shape == (16, 32)
    assert learned.dictionary.nnz <= schedule.n_nonzero
    fixed = pp.omp(pp.transforms.dct(16).T, X, 3)
    assert relative_error(X, learned) < np.linalg.norm(X - pp.transforms.dct(16).T @ fixed) / np.linalg.norm(X)


def test_a_dictionary_that_has_such_factors_stays():
    schedule = pp.Schedule.hadamard(8)
    H = pp.transforms.hadamard(8)
    X = synthetic_signals(H, 200, 2, random_state=0)[0]
    assert relative_error(X, learn(X, schedule=schedule, init=H, effort=0, max_iter=500)) < 1e-3


@pytest.mark.parametrize("refine", [False, True])
def test_atoms_have_unit_norm(refine):
    norms = np.linalg.norm(learn(effort=float(refine)).dictionary.toarray(), axis=0)
    np.testing.assert_allclose(norms[norms > 0], 1.0, rtol=1e-12)


def test_to_the_letter_the_sparse_factor_comes_first_and_the_codes_are_a_factor():
    """One split, step by step, with `palm` of the dictionary's factors and the codes."""
    X, start = signals(), gaussian((8, 8), seed=3)
    schedule = pp.Schedule.paper(8, 3, 3, 48)
    learned = learn(X, schedule=schedule, init=start, effort=0, order="factor_first", codes="factor")
    # Peeled from the right, the sparse factor is the last one, and the codes are further right.
    limits = {"order": "right_to_left", "max_iter": 30}
    split = pp.palm(start, schedule.constraints, **limits)
    codes = pp.omp(start, X, 2).toarray()
    size = np.linalg.norm(codes)
    whole = pp.palm(
        X,
        [*schedule.constraints, pp.constraints.SparseColumns(codes.shape, 2)],
        init=[*map(as_array, split.operator.factors), codes / size],
        scale=split.operator.scale * size,
        **limits,
    )
    D = as_array(whole.operator.factors[0]) @ as_array(whole.operator.factors[1])
    np.testing.assert_allclose(learned.dictionary.toarray(), D / np.linalg.norm(D, axis=0), atol=1e-9)
    expected = [*split.history.error, *whole.history.error]
    np.testing.assert_allclose(learned.history.error[:-1], expected, rtol=1e-9)


# -- phases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("init", ["ksvd", "online", gaussian((8, 8), seed=3)])
def test_the_history_has_all_phases_in_order_and_ends_with_the_error_of_the_result(init, refine):
    X = signals()
    learned = learn(X, init=init, effort=float(refine))
    first = [init] if isinstance(init, str) else []
    expected = first + [phase for phase in PHASES[1:] if refine or phase != "refine"]
    assert phases_of(learned.history) == expected
    assert learned.history[-1].error == pytest.approx(relative_error(X, learned), rel=1e-10)
    assert learned.history[-1].scale == learned.dictionary.scale
    assert (np.diff(learned.history.seconds) > 0).all()


def test_the_hierarchy_sees_the_data_through_moments_with_new_codes():
    """One split: the global step fits the data with the codes in the start."""
    X, init = signals(), gaussian((8, 8), seed=3)
    schedule = pp.Schedule.paper(8, 3, 3, 48)
    learned = learn(X, schedule=schedule, init=init, effort=0)
    moments = pp.Moments.of(X, pp.omp(init, X, 2))
    expected = pp.hierarchical(init, schedule, retarget=lambda _: moments, polish=False, max_iter=30)
    D = expected.operator.toarray()
    np.testing.assert_allclose(learned.dictionary.toarray(), D / np.linalg.norm(D, axis=0), atol=1e-6)
    np.testing.assert_allclose(learned.history.error[:-1], expected.history.error, rtol=1e-6)


@pytest.mark.parametrize(
    ("phase", "iteration"),
    [(phase, 1) for phase in PHASES[:-1]] + [(phase, 3) for phase in PHASES[:-1] if phase != "global 1"],
)  # the first global step converges at once
def test_a_callback_stops_in_any_phase_and_a_usable_dictionary_comes_back(phase, iteration):
    X = signals()
    learned = learn(X, callback=lambda step: (step.phase, step.iteration) == (phase, iteration))
    assert phases_of(learned.history) == [*PHASES[: PHASES.index(phase) + 1], "final"]
    assert learned.history[-2].iteration == iteration
    assert isinstance(learned.dictionary, pp.SparseProduct)
    assert learned.dictionary.shape == (8, 8)
    assert learned.history[-1].error == pytest.approx(relative_error(X, learned), rel=1e-10)
    np.testing.assert_allclose(learned.codes.toarray(), pp.omp(learned.dictionary, X, 2).toarray(), atol=1e-9)
    if phase in PHASES[2:]:
        assert relative_error(X, learned) < 1


# -- batches -------------------------------------------------------------------------------------------


def test_a_product_learns_from_one_batch_after_the_other_within_its_sets():
    X = synthetic_signals(gaussian((8, 8)), 2000, 2, random_state=1)[0]
    start = learn(X[:, :50])
    state = FastState(start.dictionary, SCHEDULE, Coder(2))
    batches = [X[:, i : i + 200].T.copy() for i in range(0, 2000, 200)]
    errors = [state.learn(batch) for batch in batches]
    assert state.batches == 10
    before = [FastState(start.dictionary, SCHEDULE, Coder(2)).learn(batch) for batch in batches[-3:]]
    assert np.mean(errors[-3:]) < np.mean(before)
    for factor, constraint in zip(state.dictionary.factors, SCHEDULE.together(1), strict=True):
        assert constraint.contains(factor)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_a_batch_of_zeros_changes_nothing_and_the_dtype_stays(dtype):
    product = pp.SparseProduct([np.eye(8), np.eye(8), np.eye(8)]).astype(dtype)
    state = FastState(product, SCHEDULE, Coder(2))
    assert state.learn(np.zeros((5, 8), dtype)) == 0
    assert state.dictionary == product
    state.learn(signals(dtype).T.copy())
    assert state.dictionary.dtype == dtype


# -- numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, pytest.param(np.complex64, marks=pytest.mark.slow), np.complex128]
)
def test_the_operator_and_codes_have_the_dtype_of_the_signals(dtype):
    X = signals(dtype)
    for init, refine in (("ksvd", True), ("online", False), (gaussian((8, 8)), False)):
        learned = learn(X, init=init, effort=float(refine), max_iter=10)
        assert learned.dictionary.dtype == dtype
        assert {factor.dtype for factor in learned.dictionary.factors} == {np.dtype(dtype)}
        assert learned.codes.dtype == dtype
        assert relative_error(X, learned) < 0.6


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"schedule": "paper"}, TypeError, "schedule"),
        ({"schedule": pp.Schedule.paper(16, 4, 3, 48)}, ValueError, "schedule"),
        ({"n_nonzero_coefs": 0}, ValueError, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 9}, ValueError, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 1.5}, TypeError, "n_nonzero_coefs"),
        ({"init": np.eye(7)}, ValueError, "init"),
        ({"init": np.full((8, 8), np.nan)}, ValueError, "init"),
        ({"init": "svd"}, ValueError, "init"),
        ({"init": np.zeros((8, 8))}, ValueError, "init"),
        ({"init": 1j * np.eye(8)}, ValueError, "init"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"effort": -1}, ValueError, "effort"),
        ({"order": "left_to_right"}, ValueError, "order"),
        ({"codes": None}, ValueError, "codes"),
    ],
)
def test_bad_input_is_named(arguments, error, named):
    with pytest.raises(error, match=named):
        learn(**arguments)


def test_refinement_ends_with_the_best_product_that_coded_all_signals():
    found = learn(schedule=pp.Schedule.rectangular((8, 12), 3, 3, 0.7))
    errors = [step.error for step in found.history if step.phase == "refine" and step.share == 1]
    assert len(errors) > 1
    assert errors[-1] > min(errors)  # the last one is not the best
    assert found.history.error[-1] <= min(errors) * (1 + 1e-9)


def test_refinement_returns_its_start_where_it_finds_nothing_better():
    """The dictionary that made the signals is exact: noise can only harm it."""
    sets = [pp.constraints.SparseColumns((16, 16), 4)] * 2
    members = [constraint.project(gaussian((16, 16), seed=seed)) for seed, constraint in enumerate(sets)]
    product, _ = with_unit_atoms(pp.SparseProduct(members))
    X = synthetic_signals(product, 300, 1, random_state=1)[0]
    stage = Refinement(Session(random_state=0), Held(X.T.copy(), Coder(1)), pp.Schedule(sets[:1], sets[1:]), 3)
    state = stage.init(Found(product))
    assert stage._signals.error(product) < 1e-12
    for _ in range(3):
        state = stage.step(state)
    assert state.product != product
    assert stage.result(state).dictionary == product


@pytest.mark.parametrize("order", ["residual_first", "factor_first"])
def test_the_better_of_both_orders_is_kept_where_dictionaries_are_small(order):
    X, schedule = rand(random_state=0).signals, pp.Schedule.paper(32, 6, 2, 512)
    init = pp.dictionary.ksvd(X, 32, 5, max_iter=20, random_state=0).dictionary
    common = {"schedule": schedule, "init": init, "n_nonzero_coefs": 5, "max_iter": 100}
    one, best = learn(X, order=order, **common), learn(X, **common)
    firsts = [next(step.error for step in each.history if step.phase == "refine") for each in (one, best)]
    assert len(best.history) > len(one.history)
    assert firsts[1] < 1.1 * firsts[0]  # shares of the signals


def test_a_sample_serves_where_signals_are_very_many(monkeypatch):
    lower(monkeypatch, sample=60, sample_per_atom=10)
    X = signals()
    learned = learn(X)
    assert learned.codes.shape == (8, 200)
    assert learned.history[-1].error == pytest.approx(relative_error(X, learned), rel=1e-10)
    assert relative_error(X, learned) < 0.6


@pytest.mark.parametrize(("effort", "status"), [(0.06, "max_iter"), (1.0, "converged")])
def test_refinement_has_settled_if_the_error_of_the_result_is_hardly_lower(effort, status):
    X = pp.datasets.image_patches(2000, 6, random_state=0)
    model = pp.FastDictionaryLearning(64, 4, complexity=0.3, effort=effort, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert model.status_ == status
    assert len(caught) == (status == "max_iter")
