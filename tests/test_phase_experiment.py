"""The phase diagram of random sparse products: its draws, its table, and what `factorize` recovers."""

import numpy as np
import pytest

import papilio as pp
from experiments import phase
from experiments.harness import BETTER, DIFFERS, HOLDS, read_table, reproduce

DRAW = phase.Draw(16, 3, 2, "gaussian", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole run of the tiny preset."""
    folder = tmp_path_factory.mktemp("phase") / "run"
    reproduce("phase", folder, preset="tiny", jobs=1, progress=lambda done, total: None)
    return folder


def test_planted_factors_have_their_entries_in_each_column():
    factors = phase.plant(1, DRAW)
    assert len(factors) == 3
    for factor in factors:
        assert (np.count_nonzero(factor, axis=0) == 2).all()
    np.testing.assert_array_equal(phase.plant(1, DRAW)[0], factors[0])
    assert not np.array_equal(phase.plant(1, DRAW._replace(trial=1))[0], factors[0])
    signs = phase.plant(1, DRAW._replace(values="signs"))[0]
    assert set(np.unique(signs)) == {-1, 0, 1}


def test_the_table_says_what_was_found(folder):
    rows = read_table(folder / "table.csv")
    assert len(rows) == 4
    for row in rows:
        is_recovered = float(row["error"]) <= 1e-6 and int(row["found"]) <= 1.1 * int(row["planted"])
        assert int(row["recovered"]) == is_recovered
        assert int(row["planted"]) == 8 * int(row["depth"]) * int(row["entries"])
    assert all(row["recovered"] == "1" for row in rows if row["entries"] == "1")
    assert (folder / "figure.png").exists()
    assert "| 8 | gaussian |" in (folder / "claims.md").read_text()


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


def test_the_figure_shows_the_shares():
    rows = rows_of(2)
    rows[3]["recovered"] = "0"  # one of three draws with two entries
    for row in rows[:3]:
        row["product"] = "100"
    ax = phase.figure_of(rows).axes[0]
    np.testing.assert_allclose(ax.images[0].get_array(), [[1, 2 / 3, 0, 0]])
    assert [text.get_text() for text in ax.texts] == ["trivial", "67%", "0%", "0%"]


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
