"""Atoms of products that do nothing get new values on the supports that they have."""

import numpy as np
import pytest

import papilio as pp
from papilio.dictionary.fast import reseeded
from papilio.dictionary.signals import Coder, Held

from .helpers import gaussian


def held(product, dtype, n_signals=60):
    """Signals with codes in a product, two atoms each, and how often each atom is used."""
    signals = Held(np.ascontiguousarray(gaussian((n_signals, product.shape[0]), dtype, seed=5)), Coder(2))
    return signals, signals.statistics(product).uses


def product_with_twins(dtype):
    """Ten atoms in dimension 6, on supports of three entries; the last two are equal up to a factor."""
    rng = np.random.default_rng(0)
    last = np.where(
        rng.permuted(np.tile(np.arange(6), (10, 1)), axis=1).T < 3, gaussian((6, 10), dtype, seed=2), 0
    )
    last[:, 9] = -2 * last[:, 8]
    return pp.SparseProduct([gaussian((6, 6), dtype, seed=1), last], 0.5)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_one_of_two_parallel_atoms_becomes_the_direction_of_most_residual_energy_in_its_span(dtype):
    product = product_with_twins(dtype)
    signals, uses = held(product, dtype)
    new = reseeded(product, signals, uses)
    before, after = product.toarray(), new.toarray()
    (changed,) = np.flatnonzero((before != after).any(axis=0))
    assert changed in (8, 9)
    assert uses[changed] <= uses[17 - changed]
    last, old = (np.asarray(each.factors[-1].toarray()) for each in (new, product))
    np.testing.assert_array_equal(last != 0, old != 0)
    residuals = signals.rows.T - before @ signals.codes.toarray()
    span = product.factors[0][:, np.flatnonzero(last[:, changed])]
    atom = after[:, changed]
    energy = np.linalg.norm(atom.conj() @ residuals)
    candidates = span @ gaussian((span.shape[1], 2000), dtype, seed=3)
    candidates /= np.linalg.norm(candidates, axis=0)
    assert np.linalg.norm(atom) == pytest.approx(1)
    assert energy >= np.linalg.norm(candidates.conj().T @ residuals, axis=1).max()


def test_good_atoms_stay_as_they_are():
    product = pp.SparseProduct([gaussian((6, 6), np.float64, seed=1), np.eye(6)])
    signals, uses = held(product, np.float64)
    assert reseeded(product, signals, uses) is product


def test_an_atom_of_zeros_gets_one_entry():
    last = np.eye(6, 7)  # the last column is zero
    product = pp.SparseProduct([gaussian((6, 6), seed=1), last])
    signals, uses = held(product, np.float64)
    new = reseeded(product, signals, uses)
    assert np.linalg.norm(new.toarray()[:, 6]) == pytest.approx(1)
    assert np.count_nonzero(new.factors[-1].toarray()[:, 6]) == 1


@pytest.mark.parametrize(("block", "complexity"), [(None, 0.17), (2, 0.2)])
def test_fast_dictionaries_of_low_complexity_have_no_zero_atoms(block, complexity):
    X = pp.datasets.image_patches(400, 4, random_state=0).T
    schedule = pp.Schedule.with_complexity((16, 48), complexity, block=block)
    learned = pp.dictionary.fast_dictionary(X, schedule, 3, init=X[:, :48], max_iter=20, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(learned.dictionary.toarray(), axis=0), 1)
