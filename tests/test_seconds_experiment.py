"""The experiment on seconds: its table, what is drawn from it and what is said of it."""

import pytest

from experiments import seconds
from experiments.harness import BETTER, DIFFERS, HOLDS
from experiments.seconds import averages


def table(blocks_error=0.5, blocks_speed=2.0):
    """Rows as a table has them, for two seeds: single entries have the error 0.5 and 0.51."""
    cases = [
        ("dense", "", 0.45, 1.0),
        ("single entries", "0.5", 0.5, 1.0),
        ("single entries", "0.25", 0.51, 2.0),
        ("blocks", "0.5", blocks_error, blocks_speed),
        ("blocks", "0.25", 0.52, 4.0),
        ("redundant DCT", "", 0.6, 3.0),
    ]
    return [
        {
            "atoms": "128",
            "kind": kind,
            "complexity": complexity,
            "seed": str(seed),
            "relative_complexity": complexity or "1.0",
            "error_training": "0.4",
            "error_held_out": str(error + 0.01 * (2 * seed - 1)),
            "speedup_forward": str(speed),
            "speedup_adjoint": str(speed / 2 if kind == "redundant DCT" else speed),
            "fit_seconds": "2.0",
        }
        for seed in (0, 1)
        for kind, complexity, error, speed in cases
    ]


def test_seeds_are_averaged_and_times_are_those_of_both_directions():
    (dct,) = averages(table())[128]["redundant DCT"]
    assert dct.held_out == pytest.approx(0.6)
    assert (dct.forward, dct.adjoint) == pytest.approx((3.0, 1.5))
    assert dct.time == pytest.approx((1 / 3 + 1 / 1.5) / 2)


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({"blocks_error": 0.505}, [HOLDS, HOLDS, HOLDS, HOLDS, HOLDS]),
        ({"blocks_error": 0.499}, [BETTER, HOLDS, HOLDS, HOLDS, HOLDS]),
        ({"blocks_error": 0.515}, [DIFFERS, HOLDS, HOLDS, HOLDS, DIFFERS]),
        ({"blocks_error": 0.505, "blocks_speed": 1.4}, [HOLDS, DIFFERS, HOLDS, HOLDS, DIFFERS]),
    ],
)
def test_claims_follow_from_the_table(changes, verdicts):
    found = seconds._claims(128, averages(table(**changes))[128])
    assert [claim.verdict for claim in found] == verdicts
