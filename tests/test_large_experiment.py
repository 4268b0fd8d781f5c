"""The experiment on large dictionaries: its table, what is drawn from it and what is said of it."""

import numpy as np
import pytest

import papilio as pp
from experiments import large
from experiments.harness import DIFFERS, HOLDS, read_table, reproduce, settings_of

TINY = settings_of("large", "tiny")


def quiet(done, total):
    """Progress that nobody watches."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole run of the tiny preset."""
    folder = tmp_path_factory.mktemp("large") / "run"
    reproduce("large", folder, preset="tiny", progress=quiet)
    return folder


def test_the_error_is_that_of_codes_of_held_out_patches(folder):
    (size,) = large.sizes_of(TINY)
    with large.patches_of(size, TINY["seed"]) as (path, held_out):
        training = np.load(path)
    both = pp.datasets.image_patches(500, 4, random_state=TINY["seed"], dtype=np.float32)
    np.testing.assert_array_equal(np.vstack([training, held_out.T]), both)
    D = pp.images.redundant_dct(4, 8).toarray()
    error = np.linalg.norm(held_out - D @ pp.omp(D, held_out, 2).toarray()) / np.linalg.norm(held_out)
    row = next(row for row in read_table(folder / "table.csv") if row["kind"] == large.DCT)
    assert float(row["error_held_out"]) == pytest.approx(error, rel=1e-5)


def row(kind, complexity="", **numbers):
    numbers = {"error_held_out": 0.5, "coding_seconds": 1.0, "coding_seconds_dense": 4.0} | numbers
    numbers = {"bytes": 1000, "fit_seconds": 10.0, "atoms": 1024, "relative_complexity": 0.2} | numbers
    values = {"side": 16, "kind": kind, "complexity": complexity, "passes": ""} | numbers
    return {name: str(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [({}, set()), ({"error_held_out": 0.54}, {"above", "DCT"}), ({"fit_seconds": 41.0}, {"as long"})],
)
def test_claims_hold_or_differ_by_the_figures(change, wrong):
    rows = [row(large.K_SVD), row(large.FAST, "0.25", **({"error_held_out": 0.52} | change)), row(large.DCT)]
    rows[-1]["error_held_out"] = "0.53"
    verdicts = {claim.text: claim.verdict for claim in large.claims_of(rows)}
    assert len(verdicts) == 3
    for text, found in verdicts.items():
        assert found == (DIFFERS if any(word in text for word in wrong) else HOLDS), text


def test_claims_on_coding_and_bytes_are_made_for_the_largest_dictionaries():
    rows = [row(large.K_SVD, atoms=4096), row(large.FAST, "0.1", atoms=4096, bytes=260)]
    verdicts = [claim.verdict for claim in large.claims_of(rows)]
    assert verdicts == [HOLDS, DIFFERS]


def test_learners_of_other_packages_end_within_their_time():
    X = pp.datasets.image_patches(3000, 8, random_state=0)
    atoms, seconds, passes = large.learn_by_peer(large.SCIKIT_LEARN, X, 64, 5, 0.0, 0)
    assert atoms.shape == (64, 64)
    assert 0 < passes < 1
    assert seconds > 0
