"""Known transforms under permutations and scalings of their rows and columns."""

import numpy as np
import pytest
import scipy.fft

import papilio as pp
from papilio.search.methods.transform import recognise

from .helpers import gaussian, orthogonal

TRANSFORMS = {"DCT": pp.transforms.dct, "Haar": pp.transforms.haar}
SIZES = [4, 8, 16, 32, 64]


def disguised(matrix, seed, spread=1.0):
    """``matrix`` with its lines permuted and multiplied by numbers of either sign."""
    random = np.random.default_rng(seed)
    for _ in range(2):
        scales = np.exp(spread * random.standard_normal(len(matrix))) * random.choice([-1, 1], len(matrix))
        matrix = (scales[:, np.newaxis] * matrix[random.permutation(len(matrix))]).T
    return matrix


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_recognised_in_any_order_with_any_scales(name, transposed, n, seed):
    transform = TRANSFORMS[name](n)
    M = disguised(transform.T.toarray() if transposed else transform.toarray(), seed)
    curve = recognise(M)
    assert curve.detail(0) == name + ", transposed" * transposed
    assert curve.errors[0] <= 1e-12
    operator = curve.build(0)
    assert operator.nnz == transform.nnz
    assert len(operator.factors) == len(transform.factors)
    # Small lines, too, are right.
    assert np.all(np.linalg.norm(operator.toarray() - M, axis=1) <= 1e-12 * np.linalg.norm(M, axis=1))
    assert np.all(np.linalg.norm(operator.toarray() - M, axis=0) <= 1e-12 * np.linalg.norm(M, axis=0))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_scales_may_be_far_apart(name):
    M = disguised(TRANSFORMS[name](32).toarray(), 0, spread=4.0)
    assert recognise(M).errors[0] <= 1e-12


def test_the_sine_transform_of_type_2_is_a_cosine_transform():
    M = scipy.fft.dst(np.eye(32), type=2, norm="ortho", axis=0)
    assert recognise(M).detail(0) == "DCT"


@pytest.mark.parametrize("name", TRANSFORMS)
def test_single_precision_is_enough_and_stays(name):
    M = disguised(TRANSFORMS[name](64).toarray(), 1).astype(np.float32)
    curve = recognise(M)
    assert curve.detail(0) == name
    operator = curve.build(0)
    assert operator.dtype == np.float32
    assert curve.errors[0] < 1e-6


OTHERS = {
    "gaussian": gaussian((32, 32)),
    "orthogonal": orthogonal(32),
    "hadamard": pp.transforms.hadamard(32).toarray(),
    "zero": np.zeros((16, 16)),
    "identity": np.eye(16),
    "ones": np.ones((16, 16)),
    "1×1": np.ones((1, 1)),
    "2×2": gaussian((2, 2)),
    "not square": pp.transforms.dct(16).toarray()[:, :8],
    "complex": pp.transforms.dct(16).toarray() * 1j,
    "no power of two": scipy.fft.dct(np.eye(12), norm="ortho", axis=0),
    "type 4": scipy.fft.dct(np.eye(16), type=4, norm="ortho", axis=0),
    "noisy": pp.transforms.dct(16).toarray() + 1e-6 * gaussian((16, 16)),
    "Haar's support": (pp.transforms.haar(16).toarray() != 0) * gaussian((16, 16)),
    "Haar's number of entries": (np.arange(256) < 80).reshape(16, 16) * gaussian((16, 16)),
    "Haar's numbers in rows": (np.arange(8) < [[8], [8], [4], [4], [2], [2], [2], [2]]) * gaussian((8, 8)),
}


@pytest.mark.parametrize("M", OTHERS.values(), ids=OTHERS)
def test_other_matrices_are_not_recognised(M):
    assert recognise(M) is None


@pytest.mark.parametrize("change", [2.0, -1.0, 1 + 1e-6])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_with_one_entry_changed_is_not_recognised(name, change):
    M = disguised(TRANSFORMS[name](16).toarray(), 3, spread=0.1)
    i, j = np.argwhere(M)[5]
    M[i, j] *= change
    assert recognise(M) is None


def test_factorize_recognises_a_transform_and_looks_no_further():
    M = 1e6 * disguised(pp.transforms.dct(64).toarray(), 0)
    for target in ({}, {"complexity": 0.5}, {"complexity": 0.5, "method": "transform"}):
        fit = pp.factorize(M, **target)
        assert fit.method == "transform"
        assert ("transform", "DCT") in [(attempt.method, attempt.detail) for attempt in fit.attempts]
        assert "hierarchical" not in {attempt.method for attempt in fit.attempts}
        assert fit.operator.nnz == pp.transforms.dct(64).nnz
        np.testing.assert_allclose(fit.operator.toarray(), M, rtol=0, atol=1e-12 * np.abs(M).max())


def test_factorize_takes_the_transform_with_the_number_of_its_factors_only():
    M = disguised(pp.transforms.haar(16).toarray(), 0)
    fit = pp.factorize(M, n_factors=4)
    assert fit.method == "transform"
    assert fit.error <= 1e-12
    assert all(
        attempt.method != "transform" for attempt in pp.factorize(M, n_factors=3, time_budget=0.01).attempts
    )


def test_a_transform_with_more_entries_than_allowed_is_not_chosen():
    M = pp.transforms.dct(16).toarray()
    fit = pp.factorize(M, complexity=0.4, time_budget=0.01)
    assert fit.method != "transform"
    assert fit.operator.relative_complexity <= 0.4
