"""The experiment on a MEG gain matrix: the simulated one, localisation, and what is said of the tables."""

import numpy as np
import pytest

from experiments import meg
from experiments.harness import DIFFERS, HOLDS, read_table, reproduce, settings_of
from experiments.meg import SIMULATED, TVB, Draws, Gain, dipole_field, distances, draw, load_gain, simulated_gain

TINY = settings_of("meg", "tiny")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole run of the tiny preset."""
    folder = tmp_path_factory.mktemp("meg") / "run"
    reproduce("meg", folder, preset="tiny", progress=lambda done, total: None)
    return folder


# -- the simulated matrix ------------------------------------------------------------------------------


def dipole(seed=0):
    random = np.random.default_rng(seed)
    place, moment, point = random.standard_normal((3, 3))
    return 0.07 * place / np.linalg.norm(place), moment, 0.12 * point / np.linalg.norm(point)


def field(place, moment, point):
    return dipole_field(place[None], moment[None], point[None])[0, 0]


def test_a_radial_dipole_has_no_field_outside():
    place, _, point = dipole()
    tangential = np.cross(place, point)
    assert np.linalg.norm(field(place, place, point)) < 1e-12 * np.linalg.norm(field(place, tangential, point))


@pytest.mark.parametrize("seed", range(3))
def test_outside_the_field_has_neither_curl_nor_divergence(seed):
    place, moment, point = dipole(seed)
    step = 1e-5
    slopes = np.array(
        [
            (field(place, moment, point + e) - field(place, moment, point - e)) / (2 * step)
            for e in step * np.eye(3)
        ]
    )
    size = np.abs(slopes).max()
    assert abs(np.trace(slopes)) < 1e-6 * size
    assert np.abs(slopes - slopes.T).max() < 1e-6 * size


def test_the_radial_field_is_that_of_the_dipole_alone():
    """Currents in the conductor add nothing to it: Biot and Savart's law of the dipole is enough."""
    place, moment, point = dipole()
    a = point - place
    alone = 1e-7 * np.cross(moment, a) / np.linalg.norm(a) ** 3
    assert field(place, moment, point) @ point == pytest.approx(alone @ point, rel=1e-10)


def test_the_gain_is_linear_in_sources_and_has_unit_columns():
    matrix, places = simulated_gain(12, 50)
    assert (matrix.shape, places.shape) == ((12, 50), (50, 3))
    gain = load_gain(SIMULATED, 12, 50)
    np.testing.assert_allclose(np.linalg.norm(gain.matrix, axis=0), 1)
    np.testing.assert_allclose(gain.matrix * np.linalg.norm(matrix, axis=0), matrix, rtol=1e-10)
    np.testing.assert_allclose(gain.places, 100 * places)


# -- localisation --------------------------------------------------------------------------------------


def test_sources_are_as_far_apart_as_asked_and_signals_are_theirs():
    gain = load_gain(SIMULATED, 24, 300)
    draws = draw(gain, 5, 8, 40, (0, 1))
    first, second = gain.places[draws.pairs].transpose(1, 0, 2)
    apart = np.linalg.norm(first - second, axis=1)
    assert ((apart >= 5) & (apart <= 8)).all()
    for pair, signal in zip(draws.pairs, draws.signals.T, strict=True):
        amplitudes = np.linalg.lstsq(gain.matrix[:, pair], signal)[0]
        np.testing.assert_allclose(gain.matrix[:, pair] @ amplitudes, signal, atol=1e-10)


def test_distances_are_those_of_the_better_order():
    """Orthogonal columns are found exactly; those of another matrix are one step along the line away."""
    places = np.arange(6)[:, None] * np.array([[1.0, 0, 0]])
    gain = Gain(np.eye(6), places, SIMULATED)
    pairs = np.array([[0, 4], [3, 1]])
    draws = Draws(pairs, np.array([[2.0, 0, 0, 0, 1, 0], [0, 3.0, 0, 1, 0, 0]]).T)
    np.testing.assert_array_equal(distances(np.eye(6), gain, draws), 0)
    shifted = np.roll(np.eye(6), 1, axis=1)  # column i + 1 looks like source i
    np.testing.assert_array_equal(distances(shifted, gain, draws), 1)


def test_a_source_that_one_atom_explains_is_not_missed():
    gain = Gain(np.eye(4), np.arange(4)[:, None] * np.ones((1, 3)), SIMULATED)
    draws = Draws(np.array([[1, 1]]), np.array([[0.0, 2, 0, 0]]).T)
    found = distances(np.eye(4), gain, draws)
    assert found.shape == (1, 2)
    assert found[0].min() == 0


# -- the run -------------------------------------------------------------------------------------------


def test_products_are_closer_than_the_truncated_svd(folder):
    errors = {(row["kind"], row["ratio"]): float(row["error"]) for row in read_table(folder / "table.csv")}
    for ratio in map(str, TINY["ratios"]):
        assert errors[meg.PAPILIO, ratio] < errors[meg.SVD, ratio]


def tables(error=0.1, svd=0.4, peer="0.2", seconds=20.0, far=0.6, omp=1e-3):
    """Rows as the tables have them."""
    rows = [
        ("dense", 1, 0.0, 0.0),
        *(("papilio", ratio, error, seconds) for ratio in (6, 12, 25)),
        *(("truncated SVD", ratio, svd, 1.0) for ratio in (6, 12, 25)),
        ("pyfaust", 25, peer, 300.0),
    ]
    table, times = [], []
    for kind, ratio, value, time in rows:
        found = "" if kind in ("truncated SVD", "pyfaust") else str(0.4 if kind == "dense" else far)
        quantiles = {meg.quantile_column(i, each): found for i in range(3) for each in meg.QUANTILES}
        key = {"kind": kind, "ratio": str(ratio)}
        more = {"matrix": TVB, "shape": "248×16384", "entries": "1000", "error": str(value), "method": ""}
        table.append({**key, **more, **quantiles})
        speeds = dict.fromkeys(meg.TIMES[4:], "")
        if kind == "papilio":
            speeds = dict.fromkeys(meg.TIMES[4:], str(omp)) | {
                "dense_omp_together": "4e-3",
                "dense_omp_one": "5e-3",
            }
        times.append({**key, "seconds": str(time), "cpu_seconds": str(time), **speeds})
    return meg.merged(table, times)


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, [HOLDS] * 6),
        ({"error": 0.17}, [DIFFERS] + [HOLDS] * 5),
        ({"seconds": 61.0}, [DIFFERS, HOLDS, HOLDS, DIFFERS, HOLDS, HOLDS]),
        ({"svd": 0.12}, [HOLDS, DIFFERS, DIFFERS, HOLDS, HOLDS, HOLDS]),
        ({"peer": "0.09"}, [HOLDS, HOLDS, HOLDS, DIFFERS, HOLDS, HOLDS]),
        ({"peer": "inf"}, [HOLDS, HOLDS, HOLDS, "not decided", HOLDS, HOLDS]),
        ({"far": 1.0}, [HOLDS, HOLDS, HOLDS, HOLDS, DIFFERS, HOLDS]),
        ({"omp": 1.5e-3}, [HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, DIFFERS]),
    ],
)
def test_claims_follow_from_the_tables(changes, verdicts):
    found, settings = tables(**changes), settings_of("meg", "paper")
    made = [*meg._errors(found), *meg._peer(found), *meg._localisation(found, settings), *meg._pursuit(found)]
    assert [claim.verdict for claim in made] == verdicts
