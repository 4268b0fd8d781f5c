"""The experiment on planted dictionaries: its table, what is drawn from it and what is said of it."""

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from experiments import recovery
from experiments.harness import DIFFERS, HOLDS, settings_of
from experiments.recovery import averages

TINY = settings_of("recovery", "tiny")
DRAW = recovery.Draw(20, 12, 300, "uniform", 0)


def test_planted_signals_are_sums_of_unit_atoms_with_non_negative_coefficients():
    planted, seed = recovery.plant(TINY, DRAW)
    D, X, new, codes = planted
    assert (D.shape, X.shape, new.shape) == ((12, 20), (12, 300), (12, 100))
    np.testing.assert_allclose(np.linalg.norm(D, axis=0), 1)
    assert codes.data.min() > 0
    np.testing.assert_allclose(D @ codes.toarray(), new, atol=1e-12)
    again, same = recovery.plant(TINY, DRAW)
    np.testing.assert_array_equal(again.training, X)
    assert same == seed
    other, _ = recovery.plant(TINY, DRAW._replace(trial=1))
    assert not np.array_equal(other.dictionary, D)


def test_correlations_are_those_of_the_best_pairs():
    random = np.random.default_rng(0)
    truth = np.abs(random.standard_normal((4, 50))) * (random.random((4, 50)) < 0.5)
    codes = truth[[2, 0, 3, 1]] * np.array([[2.0], [1.0], [-3.0], [1.0]]) + 1
    assert recovery.mean_correlation(sp.csc_array(codes), sp.csc_array(truth)) == pytest.approx(1)
    codes[1] = 0  # constant, and true atom 0 is left with it
    codes[2] = random.standard_normal(50)
    one = abs(np.corrcoef(codes[2], truth[3])[0, 1])
    other = abs(np.corrcoef(codes[2], truth[0])[0, 1])
    expected = (2 + max(one, other)) / 4
    assert recovery.mean_correlation(sp.csc_array(codes), sp.csc_array(truth)) == pytest.approx(expected)


def points(cosine=0.99, correlation=0.97, seconds=10.0):
    """Averages of two trials, of which the second has a cosine that is 0.01 smaller, for two sizes."""
    keys = [
        {"atoms": a, "features": f, "signals": s, "values": "uniform", "trial": str(trial), "method": method}
        for a, f, s in (("500", "79", "5000"), ("1000", "93", "20000"))
        for trial in (0, 1)
        for method in (recovery.START, recovery.KSVD, recovery.TRUE)
    ]
    rows = [
        key
        | {"recovered": "0.9", "correlation": str(correlation), "error": "0.1"}
        | {"cosine": str(cosine - 0.01 * int(key["trial"]))}
        for key in keys
    ]
    return averages(rows, [key | {"seconds": str(seconds * (1 + int(key["trial"])))} for key in keys])


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, [HOLDS, HOLDS, HOLDS, HOLDS]),
        ({"cosine": 0.955}, [DIFFERS, HOLDS, DIFFERS, HOLDS]),
        ({"correlation": 0.95}, [HOLDS, DIFFERS, HOLDS, HOLDS]),
        ({"seconds": 200.0}, [HOLDS, HOLDS, HOLDS, DIFFERS]),
    ],
)
def test_claims_follow_from_the_worst_draw(changes, verdicts):
    assert [claim.verdict for claim in recovery.claims_of(points(**changes))] == verdicts


def test_non_negative_codes_find_an_overcomplete_dictionary():
    """30 uses of each of 200 atoms of length 40: if all iterations saw all signals, they would fit just these."""
    planted, seed = recovery.plant(TINY | {"n_nonzero_coefs": 6}, recovery.Draw(200, 40, 1000, "uniform", 0))
    learned = pp.dictionary.ksvd(planted.training, 200, 6, positive=True, random_state=seed).dictionary
    assert pp.metrics.mean_max_cosine(learned, planted.dictionary, signed=True) > 0.97
