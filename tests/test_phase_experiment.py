"""The phase diagram of random sparse products: its draws, its table, and what `factorize` recovers."""

import numpy as np
import pytest

import papilio as pp
from experiments import phase
from experiments.harness import BETTER, DIFFERS, HOLDS

DRAW = phase.Draw(16, 3, 2, "gaussian", 0)


def test_planted_factors_have_their_entries_in_each_column():
    factors = phase.plant(1, DRAW)
    assert len(factors) == 3
    for factor in factors:
        assert (np.count_nonzero(factor, axis=0) == 2).all()
    np.testing.assert_array_equal(phase.plant(1, DRAW)[0], factors[0])
    assert not np.array_equal(phase.plant(1, DRAW._replace(trial=1))[0], factors[0])
    signs = phase.plant(1, DRAW._replace(values="signs"))[0]
    assert set(np.unique(signs)) == {-1, 0, 1}


def rows_of(most):
    """A table in which two factors with up to ``most`` entries per column are recovered."""
    keys = [(16, 2, k, "gaussian", trial) for k in (1, 2, 3, 4) for trial in (0, 1, 2)]
    sizes = {"planted": "100", "product": "200"}
    return [
        dict(zip(phase.KEYS, map(str, key), strict=True)) | sizes | {"recovered": str(int(key[2] <= most))}
        for key in keys
    ]


@pytest.mark.parametrize(
    ("most", "seconds", "verdicts"),
    [
        (3, 1.0, [HOLDS, HOLDS, HOLDS]),
        (4, 1.0, [HOLDS, BETTER, HOLDS]),
        (2, 1.0, [HOLDS, DIFFERS, HOLDS]),
        (0, 100.0, [DIFFERS, DIFFERS, DIFFERS]),
    ],
)
def test_claims_follow_from_the_table(most, seconds, verdicts):
    rows = rows_of(most)
    times = [row | {"seconds": str(seconds)} for row in rows]
    assert [claim.verdict for claim in phase.claims_of(rows, times)] == verdicts


@pytest.mark.parametrize(("depth", "entries"), [(2, 2), (2, 3), (3, 2)])
def test_factorize_recovers_random_sparse_products(depth, entries):
    factors = phase.plant(0, phase.Draw(32, depth, entries, "gaussian", 0))
    M = np.linalg.multi_dot(factors)
    planted = sum(map(np.count_nonzero, factors))
    fit = pp.factorize(M, max_error=1e-9, method="layers")
    assert fit.error < 1e-9
    assert fit.operator.nnz <= phase.ROOM * planted
    assert fit.operator.nnz < np.count_nonzero(M)
    assert pp.factorize(np.sign(M), method="layers").status == "no_structure"
