"""Algorithm 2: its steps, its descent, its stopping, and figures computed by others."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest

import papilio as pp
from papilio import constraints as c

from . import twins
from .helpers import as_array, gaussian
from .registry import CONSTRAINTS

ORDERS = ("left_to_right", "right_to_left")
FAUST = np.load(Path(__file__).parent / "data" / "faust_palm_500x32.npy")


def test_the_figure_of_an_outside_implementation_comes_out():
    """FAuST's test matrix; the error and scale were computed outside of papilio (the step's 1.001 matters)."""
    result = pp.palm(
        FAUST, [c.SparseRows((500, 32), 5), c.UnitColumns((32, 32))], order="left_to_right", max_iter=200, tol=0
    )
    assert result.error == pytest.approx(0.2709541097, abs=2e-6)
    assert result.operator.scale == pytest.approx(50.39, abs=0.01)
    assert result.n_iter == 200
    assert result.status == "max_iter"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_iterations_equal_the_pseudocode(order, dtype):
    X = gaussian((6, 9), dtype)
    fixed = gaussian((4, 7), seed=3)
    sets = [c.Sparse((6, 5), 12), c.SparseColumns((5, 4), 2), c.Fixed(fixed), c.UnitRows((7, 9))]
    start = [gaussian(s.shape, dtype, seed=j) for j, s in enumerate(sets)]
    start[2] = fixed
    factors, scale, errors = twins.palm(X, sets, start, 0.7, order, 25)
    result = pp.palm(X, sets, init=start, scale=0.7, order=order, max_iter=25, tol=0)
    np.testing.assert_allclose(result.history.error, errors, rtol=1e-6)
    assert result.operator.scale == pytest.approx(scale, rel=1e-5)
    for ours, theirs in zip(result.operator.factors, factors, strict=True):
        np.testing.assert_allclose(as_array(ours), theirs, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_default_start_is_zero_for_the_first_updated_free_block_and_identity_elsewhere(order):
    X = gaussian((5, 4))
    fixed = gaussian((3, 4), seed=1)
    sets = [c.Sparse((5, 6), 9), c.Dense((6, 3)), c.Fixed(fixed)]
    start = [np.eye(5, 6), np.eye(6, 3), fixed]
    first = 0 if order == "left_to_right" else 1
    start[first] = np.zeros(sets[first].shape)
    default = pp.palm(X, sets, order=order, max_iter=4, tol=0)
    explicit = pp.palm(X, sets, init=start, order=order, max_iter=4, tol=0)
    assert default.operator == explicit.operator


@pytest.mark.parametrize(("order", "dtype"), [(ORDERS[0], np.float64), (ORDERS[1], np.complex128)])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_error_never_rises_after_the_first_sweep_for_any_set(name, order, dtype):
    constraint = CONSTRAINTS[name]()
    rows, columns = constraint.shape
    X = gaussian((5, 6), dtype, seed=2)
    sets = [c.SparseRows((5, rows), 2), constraint, c.Dense((columns, 6))]
    result = pp.palm(X, sets, order=order, max_iter=40, tol=0)
    assert np.diff(result.history.error).max() <= 1e-13
    for factor, constraint in zip(result.operator.factors, sets, strict=True):
        assert constraint.contains(factor)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_error_never_rises_with_inertia_for_any_set(name):
    constraint = CONSTRAINTS[name]()
    rows, columns = constraint.shape
    sets = [c.SparseRows((5, rows), 2), constraint, c.Dense((columns, 6))]
    result = pp.palm(gaussian((5, 6), seed=2), sets, max_iter=40, tol=0, inertia=True)
    assert np.diff(result.history.error).max() <= 1e-13
    for factor, constraint in zip(result.operator.factors, sets, strict=True):
        assert constraint.contains(factor)


def test_inertia_reaches_a_lower_error_in_the_same_number_of_iterations():
    for seed in range(4):
        X = gaussian((32, 32), seed=seed)
        sets = [c.Sparse((32, 32), 128)] * 5
        plain = pp.palm(X, sets, max_iter=100, tol=0)
        inertial = pp.palm(X, sets, max_iter=100, tol=0, inertia=True)
        assert inertial.error < 0.95 * plain.error


@pytest.mark.parametrize("seed", range(5))
def test_error_never_rises_on_larger_matrices_with_the_inexact_set(seed):
    X = gaussian((24, 24), seed=seed)
    result = pp.palm(X, [c.SparseRowsAndColumns((24, 24), k) for k in (3, 5, 12)], max_iter=100, tol=0)
    assert np.diff(result.history.error).max() <= 1e-13


def test_a_rising_error_makes_the_sweep_be_taken_again_with_exact_norms(monkeypatch):
    """Norms that are far too small make steps too long; the error must still not rise."""
    from papilio.solvers import factor_chain

    monkeypatch.setattr(factor_chain, "_SMALL_DENSE", 0)
    monkeypatch.setattr(factor_chain, "spectral_norm_squared", lambda matrix, start, tol, push: (1e-3, start))
    sets = [c.SparseRowsAndColumns((8, 8), 3), c.SparseRowsAndColumns((8, 8), 4)]
    result = pp.palm(gaussian((8, 8)), sets, max_iter=50, tol=0)
    assert np.diff(result.history.error).max() <= 1e-13


def test_moments_give_the_iterations_of_the_data_with_fixed_codes():
    X, codes = gaussian((6, 40)), gaussian((8, 40), seed=1)
    codes[:, ::3] = 0
    codes[5] = codes[4]  # a rank-deficient gram
    sets = [c.Sparse((6, 6), 20), c.Sparse((6, 8), 25)]
    start = [np.eye(6), gaussian((6, 8), seed=2)]
    on_moments = pp.palm(pp.Moments.of(X, codes), sets, init=start, max_iter=30, tol=0)
    on_data = pp.palm(X, [*sets, c.Fixed(codes)], init=[*start, codes], max_iter=30, tol=0)
    np.testing.assert_allclose(on_moments.history.error, on_data.history.error, rtol=1e-6)
    D = on_moments.operator.toarray()
    assert on_moments.error == pytest.approx(np.linalg.norm(X - D @ codes) / np.linalg.norm(X), rel=1e-9)


def test_error_is_that_of_the_returned_operator():
    X = gaussian((7, 5))
    result = pp.palm(X, [c.Sparse((7, 5), 12), c.Sparse((5, 5), 9)], max_iter=10)
    honest = np.linalg.norm(X - result.operator.toarray()) / np.linalg.norm(X)
    assert result.error == pytest.approx(honest, rel=1e-12)
    assert result.history.error[-1] == pytest.approx(honest, rel=1e-9)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, pytest.param(np.complex64, marks=pytest.mark.slow), np.complex128]
)
def test_dtype_of_the_target_is_kept(dtype):
    result = pp.palm(gaussian((6, 6), dtype), [c.Sparse((6, 6), 9), c.Sparse((6, 6), 18)], max_iter=20)
    assert result.operator.dtype == dtype


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_very_large_and_very_small_targets_give_the_same_factors(size):
    X = gaussian((6, 6))
    sets = [c.Sparse((6, 6), 9), c.Sparse((6, 6), 18)]
    plain = pp.palm(X, sets, max_iter=20, tol=0)
    scaled = pp.palm(X * size, sets, scale=size, max_iter=20, tol=0)
    assert scaled.error == pytest.approx(plain.error, rel=1e-9)
    assert scaled.operator.scale == pytest.approx(plain.operator.scale * size, rel=1e-9)


def test_inputs_are_not_changed():
    X, start = gaussian((6, 6)), [gaussian((6, 6), seed=j) for j in range(2)]
    copies = [X.copy(), *(matrix.copy() for matrix in start)]
    for matrix in (X, *start):
        matrix.flags.writeable = False
    pp.palm(X, [c.Sparse((6, 6), 9), c.Dense((6, 6))], init=start, max_iter=5)
    for matrix, copy in zip((X, *start), copies, strict=True):
        np.testing.assert_array_equal(matrix, copy)


def test_tol_stops_on_a_small_change_and_zero_never_does():
    X, sets = gaussian((8, 8)), [c.Sparse((8, 8), 20), c.Sparse((8, 8), 30)]
    free = pp.palm(X, sets, tol=0, max_iter=400)
    assert free.n_iter == 400
    stopped = pp.palm(X, sets, tol=1e-5, max_iter=400)
    assert stopped.status is pp.results.Status.CONVERGED
    changes = np.abs(np.diff(free.history.error))
    assert stopped.n_iter == np.argmax(changes < 1e-5) + 2


def test_a_callback_sees_each_step_stops_the_solver_and_is_not_on_the_clock(monkeypatch):
    seen, reads = [], count()
    monkeypatch.setattr("papilio.runtime.session.perf_counter", lambda: 1000 * len(seen) + 1e-3 * next(reads))

    def callback(step):
        seen.append(step)
        return step.iteration == 4

    result = pp.palm(gaussian((8, 8)), [c.Sparse((8, 8), 20), c.Sparse((8, 8), 30)], tol=0, callback=callback)
    assert result.status == "stopped"
    assert [step.iteration for step in seen] == [1, 2, 3, 4]
    assert seen[-1].factors[0].shape == (8, 8)
    assert seen[-1].error == result.history[-1].error
    assert result.history.seconds[-1] < 1000
    assert set(result.history.phase) == {"palm"}
    assert (np.diff(result.history.seconds) > 0).all()
    assert result.history.scale.shape == (4,)


def test_a_zero_target_and_a_sparse_integer_target_work():
    import scipy.sparse as sp

    sets = [c.Sparse((4, 4), 4), c.Sparse((4, 4), 8)]
    zero = pp.palm(np.zeros((4, 4)), sets)
    assert zero.error == 0
    assert zero.operator.scale == 0
    sparse = pp.palm(sp.csr_array(np.diag([1, 2, 3, 4])), sets)
    assert sparse.operator.dtype == np.float64


def test_all_blocks_fixed_fits_the_scale_alone():
    A, B = gaussian((4, 3)), gaussian((3, 5), seed=1)
    result = pp.palm(-2.5 * A @ B, [c.Fixed(A), c.Fixed(B)])
    assert result.operator.scale == pytest.approx(-2.5)
    assert result.error < 1e-14


SETS = (c.Sparse((4, 4), 4), c.Sparse((4, 4), 8))


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"target": np.full((4, 4), np.nan)}, ValueError, "target"),
        ({"target": np.full((4, 4), np.inf)}, ValueError, "target"),
        ({"target": np.zeros((0, 4))}, ValueError, "target"),
        ({"target": np.zeros(4)}, ValueError, "target"),
        ({"target": np.full((4, 4), "a")}, TypeError, "target"),
        ({"target": np.full((4, 4), None)}, TypeError, "target"),
        ({"target": [[1, 2], [3]]}, ValueError, "target"),
        ({"target": np.zeros((4, 5))}, ValueError, "constraints"),
        ({"constraints": []}, ValueError, "constraints"),
        ({"constraints": SETS[0]}, TypeError, "constraints"),
        ({"constraints": 3}, TypeError, "constraints"),
        ({"constraints": [SETS[0], "Sparse"]}, TypeError, r"constraints\[1\]"),
        ({"constraints": [c.Sparse((4, 3), 4), SETS[1]]}, ValueError, "constraints"),
        ({"init": [np.eye(4)]}, ValueError, "init"),
        ({"init": 3}, ValueError, "init"),
        ({"init": [np.eye(4), np.eye(3)]}, ValueError, r"init\[1\]"),
        ({"init": [np.eye(4), np.full((4, 4), np.nan)]}, ValueError, r"init\[1\]"),
        ({"scale": np.nan}, ValueError, "scale"),
        ({"scale": 1j}, TypeError, "scale"),
        ({"scale": 0}, ValueError, "scale"),
        ({"target": np.eye(4, dtype=np.float32), "scale": 1e200}, ValueError, "scale must be within the range"),
        ({"order": "up"}, ValueError, "order"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"max_iter": 2.5}, TypeError, "max_iter"),
        ({"tol": -1}, ValueError, "tol"),
        ({"callback": 3}, TypeError, "callback"),
    ],
)
def test_bad_input_is_named(arguments, error, named):
    call = {"target": np.eye(4), "constraints": SETS} | arguments
    with pytest.raises(error, match=named):
        pp.palm(call.pop("target"), call.pop("constraints"), **call)
