"""PALM with inertia on the moments of data themselves: its descent, its errors, and what it converges to."""

from itertools import pairwise

import numpy as np
import pytest

import papilio as pp
from papilio.constraints import Dense, Fixed, Sparse, SparseBlocks, SparseColumns, SparseRows
from papilio.solvers import palm as module
from papilio.solvers.moments import Moments
from papilio.solvers.palm import ORDERS, Descent, Limits, default_start

DTYPES = (np.float32, np.float64, np.complex128)
SETS = {
    "one": [Sparse((6, 9), 30)],
    "two": [SparseBlocks((6, 6), 6, (2, 2)), SparseColumns((6, 9), 2)],
    "three": [SparseRows((6, 5), 2), Sparse((5, 7), 20), Dense((7, 9))],
    "fixed": [Sparse((6, 6), 20), Fixed(np.eye(6, 9, dtype=np.float32))],
}


def numbers(rng, shape, dtype):
    parts = rng.standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]).astype(dtype)


def data(dtype, seed=0, shape=(6, 9), n_signals=60):
    """Signals, and codes whose energies differ by orders of magnitude from atom to atom."""
    rng = np.random.default_rng(seed)
    codes = numbers(rng, (shape[1], n_signals), dtype) * np.logspace(-2, 1, shape[1])[:, None].astype(dtype)
    signals = numbers(rng, shape, dtype) @ codes + numbers(rng, (shape[0], n_signals), dtype)
    return signals, codes


def dense_product(factors, scale):
    return scale * np.linalg.multi_dot(factors) if len(factors) > 1 else scale * factors[0]


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Moments are used as they are, which is done for large problems only."""
    monkeypatch.setattr(module, "is_small", lambda sets: False)


def descent_of(moments, sets, start, order=ORDERS[0]):
    return Descent(moments, sets, start, Limits(order, inertia=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SETS)
def test_on_data_the_error_never_rises_and_is_that_of_the_definition(name, order, dtype):
    sets, (X, G) = SETS[name], data(dtype)
    moments = Moments.of(X, G)
    descent = descent_of(moments, sets, default_start(sets, order, np.dtype(dtype)), order)
    scale, errors = descent.advance(1.0, np.inf), []
    scale, error = scale
    rounding = 1e-3 if np.finfo(dtype).bits == 32 else 1e-9
    for _ in range(30):
        errors.append(error)
        scale, error = descent.advance(scale, error)
        assert error <= errors[-1] * (1 + rounding)
        misfit = X - dense_product(descent.factors, scale) @ G
        assert error == pytest.approx(np.linalg.norm(misfit) / np.linalg.norm(X), rel=10 * rounding)
    for factor, constraint in zip(descent.factors, sets, strict=True):
        assert factor.dtype == dtype
        assert constraint.contains(factor)
    assert error < errors[0]


def test_one_factor_of_any_entries_becomes_the_least_squares_dictionary():
    X, G = data(np.float64, seed=1)
    moments = Moments.of(X, G)
    fitted = np.linalg.lstsq(G.T, X.T, rcond=None)[0].T
    sets = [Dense((6, 9))]
    descent = descent_of(moments, sets, [np.zeros((6, 9))])
    scale, error = 1.0, np.inf
    for _ in range(200):
        scale, error = descent.advance(scale, error)
    np.testing.assert_allclose(scale * descent.factors[0], fitted, atol=1e-6 * np.abs(fitted).max())


def test_atoms_that_are_seldom_used_are_fitted_as_soon_as_others():
    """In the metric of entries, the first steps hardly move them."""
    rng = np.random.default_rng(5)
    codes = rng.standard_normal((9, 400)) * np.logspace(-3, 0, 9)[:, None]
    D = rng.standard_normal((6, 9))
    moments = Moments.of(D @ codes, codes)
    descent = descent_of(moments, [Dense((6, 9))], [np.zeros((6, 9))])
    scale, error = 1.0, np.inf
    for _ in range(30):
        scale, error = descent.advance(scale, error)
    found = scale * descent.factors[0]
    assert np.linalg.norm(found - D, axis=0).max() < 0.05 * np.linalg.norm(D, axis=0).min()


@pytest.mark.parametrize("exponent", [-40, 40])
def test_the_unit_of_the_data_does_not_matter(exponent):
    X, G = data(np.float64)
    sets = SETS["two"]
    found = []
    for unit in (1.0, 2.0**exponent):
        moments = Moments.of(unit * X, G)
        descent = descent_of(moments, sets, default_start(sets, ORDERS[0], np.dtype(float)))
        scale, error = 1.0 * unit, np.inf
        for _ in range(10):
            scale, error = descent.advance(scale, error)
        found.append((scale / unit, error, *descent.factors))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_palm_takes_it_for_large_problems_with_inertia():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 100))
    sets = [Sparse((80, 80), 1600), Sparse((80, 100), 2000)]
    plain = pp.palm(X, sets, max_iter=40, tol=0)
    fast = pp.palm(X, sets, max_iter=40, tol=0, inertia=True)
    assert fast.error < plain.error
    errors = [step.error for step in fast.history]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(errors))
    assert fast.error == pytest.approx(np.linalg.norm(X - fast.operator.toarray()) / np.linalg.norm(X), rel=1e-9)


@pytest.mark.parametrize("noise", [0.0, 1e-5, 1e-3, 1.0])
def test_the_error_of_moments_is_that_of_the_data(noise):
    rng = np.random.default_rng(2)
    D, G = rng.standard_normal((6, 9)), rng.standard_normal((9, 40))
    X = D @ G + noise * rng.standard_normal((6, 40))
    expected = np.linalg.norm(X - D @ G) / np.linalg.norm(X)
    assert Moments.of(X, G).error(D) == pytest.approx(expected, rel=1e-4, abs=1e-8)
