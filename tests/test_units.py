"""Results do not depend on the unit of the data: 2^k times the data give 2^k times the result."""

import numpy as np
import pytest

import papilio as pp
from papilio.linalg import in_units, largest_part, shifted

from .helpers import DTYPES, gaussian

SHIFTS = {np.float32: (-60, 60), np.float64: (-400, 400), np.complex64: (-60, 60), np.complex128: (-400, 400)}
CASES = [(dtype, k) for dtype in DTYPES for k in SHIFTS[dtype]]


def largest(dtype):
    return np.finfo(dtype).max


def stopped_early(M, method):
    """A search by PALM and annealing that ends after some steps."""
    steps = []

    def stop(step):
        steps.append(step)
        return len(steps) > 100

    return pp.factorize(M, complexity=0.6, method=method, callback=stop)


SEARCHES = {
    "thresholding": lambda M: pp.factorize(M, complexity=0.5, method="thresholding"),
    "low rank": lambda M: stopped_early(M, "low_rank"),
    "hierarchical": lambda M: stopped_early(M, "hierarchical"),
    "butterfly": pp.butterfly,
    "tradeoff": lambda M: pp.tradeoff(M, [0.6], callback=lambda step: step.done > 0.05).points[0],
}


@pytest.mark.parametrize(("dtype", "k"), CASES)
@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_does_not_depend_on_the_unit(search, dtype, k):
    matrix = gaussian((8, 8), dtype)
    one, other = SEARCHES[search](matrix), SEARCHES[search](shifted(matrix, k))
    assert other.error == pytest.approx(one.error, rel=1e-12)
    np.testing.assert_array_equal(shifted(other.operator.toarray(), -k), one.operator.toarray())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_near_overflow_is_right_or_refused(search, dtype):
    for given in (gaussian((8, 8), dtype), 4 + gaussian((8, 8), dtype)):
        matrix = (given / largest_part(given)).astype(dtype) * dtype(0.97 * largest(dtype))
        try:
            fit = SEARCHES[search](matrix)
        except ValueError as error:
            assert str(error).startswith("M must leave room for rounding")  # noqa: PT017
            continue
        got = fit.operator.toarray()
        assert np.isfinite(got).all()
        power = 4 - np.finfo(dtype).maxexp
        near, wanted = shifted(got, power).astype(np.complex128), shifted(matrix, power).astype(np.complex128)
        assert np.linalg.norm(near - wanted) <= (fit.error + 1e-5) * np.linalg.norm(wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_smallest_numbers_are_not_zero(dtype):
    tiny = np.full((4, 4), np.finfo(dtype).smallest_subnormal, dtype)
    np.testing.assert_array_equal(pp.factorize(tiny).operator.toarray(), tiny)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [-1000, -100, -3, 0, 5, 100, 1000])
def test_in_units_scales_the_root_mean_square_to_about_one(dtype, power):
    info = np.finfo(dtype)
    power = int(np.clip(power, info.minexp + 2, info.maxexp - 4))
    matrix = shifted(gaussian((5, 7), dtype), power)
    near, exponent = in_units(matrix)
    np.testing.assert_array_equal(shifted(near, exponent), matrix)
    assert 0.7 < np.sqrt(np.mean(np.abs(near) ** 2)) < 1.42


def test_zeros_have_no_unit():
    zeros = np.zeros((2, 3))
    assert in_units(zeros) == (pytest.approx(zeros), 0)


# -- learners ------------------------------------------------------------------------------------------

LEARNERS = {
    "ksvd": lambda X: pp.dictionary.ksvd(X, 6, 2, max_iter=5, random_state=0),
    "online": lambda X: pp.dictionary.online_dictionary(X, 6, 2, max_iter=3, random_state=0),
    "fast": lambda X: pp.dictionary.fast_dictionary(
        X, pp.Schedule.with_complexity((8, 8)), 2, max_iter=3, effort=0, random_state=0
    ),
}


def dense(dictionary):
    return dictionary.toarray() if isinstance(dictionary, pp.SparseProduct) else dictionary


@pytest.mark.parametrize(("dtype", "k"), CASES[:4])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_learner_does_not_depend_on_the_unit(learner, dtype, k):
    X = gaussian((8, 60), dtype)
    one, other = LEARNERS[learner](X), LEARNERS[learner](shifted(X, k))
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(dense(other.dictionary), dense(one.dictionary), atol=tolerance)
    np.testing.assert_allclose(shifted(other.codes.toarray(), -k), one.codes.toarray(), atol=100 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("learner", LEARNERS)
def test_codes_that_overflow_are_refused(learner, dtype):
    X = gaussian((8, 60), dtype)
    edge = X / dtype(largest_part(X)) * dtype(0.99 * largest(dtype))
    with pytest.raises(ValueError, match=r"^signals must have (codes|norms) within the range"):
        LEARNERS[learner](edge)
    got, one = LEARNERS[learner](shifted(edge, -8)), LEARNERS[learner](X)
    assert got.history.error[-1] == pytest.approx(one.history.error[-1], rel=1e-3)


@pytest.mark.parametrize(("dtype", "k"), CASES[:4])
def test_the_score_does_not_depend_on_the_unit(dtype, k, tmp_path):
    X = gaussian((60, 8), dtype)
    model = pp.KSVD(n_nonzero_coefs=2, max_iter=3, tol=0.0, random_state=0).fit(X)
    assert model.score(shifted(X, k)) == pytest.approx(model.score(X), rel=1e-6)
    np.save(tmp_path / "X.npy", shifted(X, k))
    on_disk = pp.datasets.on_disk(tmp_path / "X.npy")
    assert model.score(on_disk) == pytest.approx(model.score(X), rel=1e-6)


@pytest.mark.parametrize(("dtype", "k"), CASES[:4])
@pytest.mark.parametrize("estimator", [pp.OnlineDictionaryLearning, pp.FastDictionaryLearning])
def test_a_stream_does_not_depend_on_the_unit(estimator, dtype, k):
    batches = [gaussian((60, 8), dtype, seed) for seed in range(3)]
    models = [estimator(n_nonzero_coefs=2, random_state=0) for _ in range(2)]
    for model, power in zip(models, (0, k), strict=True):
        for batch in batches:
            model.partial_fit(shifted(batch, power))
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(models[1].components_, models[0].components_, atol=tolerance)


# -- moments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [-400, 400])
def test_moments_follow_the_unit(k):
    X, codes = gaussian((5, 30)), gaussian((4, 30), seed=1)
    one, other = pp.Moments.of(X, codes), pp.Moments.of(shifted(X, k), codes)
    np.testing.assert_array_equal(shifted(other.cross, -k), one.cross)
    np.testing.assert_array_equal(other.gram, one.gram)
    assert other.norm == np.ldexp(one.norm, k)
    sets = [pp.constraints.Sparse((5, 5), 12), pp.constraints.Sparse((5, 4), 12)]
    first = pp.palm(one, sets, max_iter=20, tol=0.0)
    second = pp.palm(other, sets, max_iter=20, tol=0.0, scale=2.0**k)
    assert second.error == pytest.approx(first.error, rel=1e-12)
    np.testing.assert_allclose(shifted(second.operator.toarray(), -k), first.operator.toarray(), rtol=1e-9)


@pytest.mark.parametrize(
    ("scale", "code_scale", "name"),
    [(1e308, 1.0, "signals"), (1.0, 1e200, "codes"), (1.0, 1e-200, "codes"), (1e-300, 1e-20, "signals")],
)
def test_moments_that_overflow_are_named(scale, code_scale, name):
    with pytest.raises(ValueError, match=f"^{name} must have moments within the range of float64"):
        pp.Moments.of(scale * np.ones((5, 30)), code_scale * np.ones((4, 30)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_targets_whose_norm_overflows_are_refused(dtype):
    target = np.full((4, 4), 0.9 * largest(dtype), dtype)
    sets = [pp.constraints.Sparse(4, 8), pp.constraints.Sparse(4, 8)]
    for solve in (lambda: pp.palm(target, sets), lambda: pp.hierarchical(target, pp.Schedule(sets[:1], sets[1:]))):
        with pytest.raises(ValueError, match=r"^target must have a norm within the range of"):
            solve()
