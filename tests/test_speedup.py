"""A speed-up as the target: of `factorize`, of fast dictionaries, and of what turns times into entries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.operators import speed
from papilio.search import factorize as front
from papilio.search.pricing import schedule_with_speedup

from .helpers import Clock, gaussian

# -- factorize -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "speedup"), [("gaussian", 1.5), ("smooth", 3), ("low rank", 6)])
def test_the_result_is_the_best_of_all_that_are_fast_enough(kind, speedup, clock, few_rounds):
    x = np.linspace(0, 1, 32)
    matrix = {
        "gaussian": gaussian((32, 32)),
        "smooth": np.exp(-(np.subtract.outer(x, x) ** 2)),
        "low rank": gaussian((32, 3)) @ gaussian((3, 32), seed=1),
    }[kind]
    fit = pp.factorize(matrix, speedup=speedup)
    limit = matrix.size / speedup
    assert clock.measured(clock((32, 32), 1), fit.operator) <= limit
    assert fit.error == pytest.approx(np.linalg.norm(matrix - fit.operator.toarray()) / np.linalg.norm(matrix))
    fast = [each for each in fit.attempts if each.nnz > 0 and 2 * each.nnz + 50 <= limit]
    assert fit.error <= min(each.error for each in fast) + 1e-12
    # As good as what the complexity of the same time gives by the simplest methods.
    entries = (limit - 50) / 2
    for method in ("thresholding", "low_rank") if entries >= 64 else ():
        other = pp.factorize(matrix, complexity=entries / matrix.size, method=method)
        assert fit.error <= 1.25 * other.error + 1e-9


@pytest.mark.slow
def test_a_product_that_was_slow_for_a_moment_is_the_result_all_the_same(clock, few_rounds, monkeypatch):
    fit = pp.factorize(gaussian((32, 32)), speedup=3)
    again, slow_times = front.Search.price_again, [1.5]

    def price_again(search, operator):
        return again(search, operator) * (slow_times.pop() if slow_times else 1.0)

    monkeypatch.setattr(front.Search, "price_again", price_again)
    assert pp.factorize(gaussian((32, 32)), speedup=3).error <= fit.error
    assert not slow_times


def test_an_impossible_speedup_warns_and_returns_the_matrix(clock):
    with pytest.warns(UserWarning, match="no product with an error below 1 is 300 times faster"):
        fit = pp.factorize(gaussian((16, 16)), speedup=300)
    assert fit.status is pp.results.Status.NO_STRUCTURE
    np.testing.assert_array_equal(fit.operator.toarray(), gaussian((16, 16)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"speedup": 1}, ValueError, "speedup must be a finite number above 1"),
        ({"speedup": 0.5}, ValueError, "speedup must be a finite number above 1"),
        ({"speedup": np.inf}, ValueError, "speedup must be"),
        ({"speedup": np.nan}, ValueError, "speedup must be"),
        ({"speedup": "fast"}, TypeError, "speedup must be"),
        ({"speedup": 2, "complexity": 0.5}, ValueError, "complexity and speedup cannot be combined"),
        ({"speedup": 2, "max_error": 0.5}, ValueError, "max_error and speedup cannot be combined"),
        ({"speedup": 2, "vectors": 0}, ValueError, "vectors must be"),
        ({"block": (4, 40)}, ValueError, "block must not be larger than the matrix"),
        ({"block": 0}, ValueError, "block must be one or two integers of at least 1"),
        ({"block": (4, 4, 4)}, ValueError, "block must be one or two integers"),
        ({"block": "4x4"}, (TypeError, ValueError), "block must be one or two integers"),
        ({"block": 2.5}, (TypeError, ValueError), "block must be one or two integers"),
    ],
)
def test_bad_targets_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        pp.factorize(gaussian((16, 16)), **options)


@pytest.mark.slow
def test_blocks_are_what_the_hierarchical_strategy_makes():
    fit = pp.factorize(gaussian((16, 24)), complexity=0.5, block=(4, 2), method="hierarchical")
    assert fit.operator.relative_complexity <= 0.5
    for factor in fit.operator.factors:
        supports, counts = np.unique(pp.SparseProduct([factor]).toarray() != 0, axis=0, return_counts=True)
        assert (counts[supports.any(axis=1)] % 4 == 0).all()  # rows come in groups of four with a common support


def test_complex_and_single_matrices_have_targets_in_seconds(clock, few_rounds):
    for dtype in (np.float32, np.complex128):
        fit = pp.factorize(gaussian((16, 16), dtype), speedup=1.5)
        assert fit.operator.dtype == dtype
        assert 2 * fit.operator.nnz + 50 <= 256 / 1.5


# -- dictionaries --------------------------------------------------------------------------------------


def test_a_dictionary_has_the_entries_that_its_speed_allows(clock):
    schedule = schedule_with_speedup((16, 32), np.dtype(float), 2, 256, None, None)
    assert 0.9 * (512 / 2 - 50) / 2 <= schedule.n_nonzero <= (512 / 2 - 50) / 2
    X = gaussian((300, 16))
    model = pp.FastDictionaryLearning(32, 2, speedup=2, effort=0.1, random_state=0).fit(X)
    assert model.operator_.nnz <= (512 / 2 - 50) / 2
    with pytest.raises(ValueError, match="speedup must be lower"):
        pp.FastDictionaryLearning(32, 2, speedup=9).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speedup": 2, "complexity": 0.5}, "complexity and speedup cannot be combined"),
        ({"speedup": 1.0}, "speedup must be a finite number above 1"),
        ({"speedup": np.inf}, "speedup must be"),
        (
            {"speedup": 2, "schedule": pp.Schedule.with_complexity((16, 16), 0.5)},
            "speedup and schedule cannot be combined",
        ),
    ],
)
def test_bad_targets_of_dictionaries_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        pp.FastDictionaryLearning(16, 2, **options).fit(gaussian((50, 16)))


# -- from times to entries -----------------------------------------------------------------------------


@settings(deadline=None)
@given(
    rate=st.floats(0.2, 5),
    call=st.floats(0, 500),
    bias=st.floats(0.5, 2),
    budget=st.floats(100, 5000),
    most=st.integers(50, 4000),
)
def test_the_largest_product_within_the_time_is_found_even_if_the_model_is_wrong(rate, call, bias, budget, most):
    clock = Clock((64, 64), 1)
    clock.rate, clock.call, clock.bias = rate, call, bias

    def build(entries):
        return pp.SparseProduct([np.eye(1, entries)[:, :1] * np.ones((entries, 1))])

    found = clock.most_entries(build, 1, most, budget)
    largest = min(int((budget - call) / rate), most)
    if largest < 1:
        assert found is None
    else:
        assert found is not None
        assert found <= largest
        assert found >= 0.9 * largest - 1 or rate * found + call >= 0.9 * budget


# -- the model -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [1, 256])
def test_the_share_of_a_product_is_modelled_and_measured(vectors, dtype):
    op = pp.SparseProduct([gaussian((96, 96), dtype) * (gaussian((96, 96)) > 1)])
    assert 0 < speed.modelled_share(op, vectors) < np.inf
    assert 0 < speed.measured_share(op, vectors) < np.inf
    assert speed.modelled_share(pp.SparseProduct([np.ones((96, 96), dtype)]), vectors) == pytest.approx(1)
