"""Learning from streams: one mini-batch after the other, each seen once."""

import numpy as np
import pytest

from papilio.datasets import synthetic_signals
from papilio.dictionary.signals import enough

from .helpers import gaussian
from .large import X, make, on_disk
from .learners import N_ATOMS
from .limits import lower

STREAMING = ("fast", "online")


@pytest.fixture(autouse=True)
def small_batches(large, monkeypatch):
    lower(monkeypatch, stream_batch=64)


@pytest.fixture(params=STREAMING)
def learner(request):
    return request.param


def pieces(rows, size):
    for start in range(0, len(rows), size):
        yield rows[start : start + size].copy()


def many(count, seed=0):
    """Signals of a dictionary of its own for each seed."""
    return synthetic_signals(gaussian((8, N_ATOMS), seed=seed), count, 2, random_state=1)[0].T.copy()


def test_a_stream_of_any_pieces_is_learned_from_as_the_same_mini_batches(learner):
    rows = many(enough(N_ATOMS) + 3 * 64)
    expected = make(learner)
    for batch in np.split(rows, [120, 184, 248]):
        expected.partial_fit(batch)
    for size in (1, 4, 8):  # Both 64 and 120 are multiples.
        model = make(learner).fit_stream(pieces(rows, size))
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.history_.phase == expected.history_.phase


def test_each_batch_lowers_the_error_of_what_comes_next(learner, monkeypatch):
    lower(monkeypatch, refinement_rounds=10)  # The quality counts here.
    rows = many(2000)
    model = make(learner).fit_stream(pieces(rows[:150], 50))
    before = model.score(rows[1500:])
    model.fit_stream(pieces(rows[150:1500], 50))
    assert model.score(rows[1500:]) > before
    assert model.history_[-1].phase == "partial fit"
    assert model.n_iter_ == len(model.history_)


def test_a_stream_is_read_as_it_comes_and_not_held(learner):
    """The batches that are alive at any time are those that wait, however long the stream is."""
    import weakref

    alive, most = weakref.WeakSet(), 0

    class Batch(np.ndarray):
        pass

    def stream():
        nonlocal most
        for batch in pieces(many(1500), 10):
            batch = batch.view(Batch)
            alive.add(_Handle(batch))
            most = max(most, len(alive))
            yield batch

    class _Handle:
        """Dies with its batch."""

        def __init__(self, batch):
            batch.handle = self

        __hash__ = object.__hash__

    make(learner).fit_stream(stream())
    assert most <= enough(N_ATOMS) // 10 + 2


def test_a_window_follows_data_that_drift(learner):
    old, new = many(1500, seed=0), many(1300, seed=1)
    scores = {}
    for window in (None, 2):
        model = make(learner, window=window).fit_stream(pieces(np.concatenate([old, new[:800]]), 50))
        scores[window] = model.score(new[800:])
    assert scores[2] > scores[None]


def test_an_empty_stream_is_an_error(learner):
    for nothing in ([], iter(())):
        with pytest.raises(ValueError, match="at least one mini-batch"):
            make(learner).fit_stream(nothing)


def test_an_empty_stream_after_a_fit_changes_nothing(learner):
    model = make(learner).fit(X)
    before = model.components_.copy()
    np.testing.assert_array_equal(model.fit_stream([]).components_, before)


def test_a_short_stream_is_learned_from_at_its_end(learner):
    rows = many(50)
    model = make(learner).fit_stream(pieces(rows, 20))
    np.testing.assert_array_equal(model.components_, make(learner).partial_fit(rows).components_)


def test_a_batch_of_another_width_is_refused_and_what_was_learned_stays(learner):
    rows = many(400)
    model = make(learner)
    with pytest.raises(ValueError, match="expecting 8 features"):
        model.fit_stream([rows[:200], rows[200:300], rows[300:, :7]])
    kept = model.components_.copy()
    expected = make(learner).fit_stream([rows[:200], rows[200:300]])
    np.testing.assert_array_equal(kept, expected.components_)
    model.fit_stream([rows[300:]])
    expected.fit_stream([rows[300:]])
    np.testing.assert_array_equal(model.components_, expected.components_)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_batch_with_nan_is_refused_and_what_was_learned_stays(learner, bad):
    model = make(learner).fit(X)
    before = model.components_.copy()
    batch = X[:100].copy()
    batch[7, 3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.fit_stream([batch])
    np.testing.assert_array_equal(model.components_, before)


def test_the_parts_of_large_data_are_mini_batches(learner, tmp_path):
    da = pytest.importorskip("dask.array")
    rows = many(400)
    expected = make(learner).fit_stream(pieces(rows, 16)).components_
    np.testing.assert_array_equal(make(learner).partial_fit(on_disk(tmp_path, rows)).components_, expected)
    lazy = da.from_array(rows, chunks=(16, 8))
    np.testing.assert_array_equal(make(learner).partial_fit(lazy).components_, expected)


def test_a_mini_batch_may_be_overwritten_once_it_was_learned_from(learner):
    batches, buffer = np.split(many(300), 3), np.empty((100, 8))
    model, expected = make(learner), make(learner)
    for batch in batches:
        buffer[:] = batch
        model.partial_fit(buffer)
        buffer[:] = np.nan
        expected.partial_fit(batch)
    np.testing.assert_array_equal(model.components_, expected.components_)


def test_streams_of_anything_but_matrices_are_refused(learner):
    with pytest.raises(ValueError, match="Expected 2D array"):
        make(learner).fit_stream(X)
    with pytest.raises(TypeError):
        make(learner).fit_stream(3)
