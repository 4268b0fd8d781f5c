"""Checkpoints: a run that is killed, wherever it is, goes on to the same bits."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import papilio as pp

from .large import LEARNERS, X, assert_same, holds_result, make, on_disk
from .learners import N_ATOMS, N_NONZERO

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.usefixtures("every_state_is_written")


class Killed(BaseException):
    """Nothing in the library may catch it, as nothing catches a kill."""


def killing(number):
    """A callback that ends the run at its so-manieth call."""
    calls = 0

    def callback(step):
        nonlocal calls
        calls += 1
        if calls == number:
            raise Killed

    return callback


def kill(model, data, number):
    with pytest.raises(Killed):
        model.set_params(callback=killing(number)).fit(data)


def calls_of(model, data):
    """The fitted model, and the phases of all calls of its callback."""
    seen = []
    model.set_params(callback=lambda step: seen.append(step.phase)).fit(data)
    return model, seen


def first_middle_and_last(seen):
    """Numbers of calls of every phase."""
    numbers = set()
    for phase in dict.fromkeys(seen):
        own = [i for i, each in enumerate(seen, 1) if each == phase]
        numbers |= {own[0], own[len(own) // 2], own[-1]}
    return sorted(numbers)


def take_result(path):
    """Remove the checkpoint of a run that is finished, and see that nothing else is left."""
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert holds_result(path)
    path.unlink()


def sparse_ksvd(**options):
    return pp.SparseKSVD(N_ATOMS, N_NONZERO, **{"max_iter": 5, "random_state": 0} | options)


@pytest.mark.parametrize(
    "learner", [pytest.param(name, marks=[pytest.mark.slow] * (name != "online")) for name in LEARNERS]
)
def test_a_run_that_is_killed_anywhere_goes_on_to_the_same_bits(learner, tmp_path, path):
    data = on_disk(tmp_path)
    expected, seen = calls_of(make(learner), data)
    wanted = {"fast": {"ksvd", "split 1", "global 1", "refine"}}.get(learner, {learner})
    assert wanted | {"scan", "pass 1", "all data", "final"} <= set(seen)
    for number in first_middle_and_last(seen):
        kill(make(learner, checkpoint=path), data, number)
        assert path.exists() or seen[number - 1] == "scan"
        resumed, again = calls_of(make(learner, checkpoint=path), data)
        assert_same(resumed, expected)
        assert len(again) <= len(seen)
        take_result(path)


@pytest.mark.parametrize("init", [pytest.param("online", marks=pytest.mark.slow), "array"])
def test_every_start_of_a_fast_dictionary_goes_on(init, tmp_path, path):
    start = "online" if init == "online" else np.random.default_rng(0).standard_normal((N_ATOMS, 8))
    data = on_disk(tmp_path)
    expected, seen = calls_of(make("fast", init=start), data)
    for number in (seen.index("online" if init == "online" else "split 1") + 3, seen.index("refine") + 2):
        kill(make("fast", init=start, checkpoint=path), data, number)
        assert_same(make("fast", init=start, checkpoint=path).fit(data), expected)
        take_result(path)


BUILDERS = {name: partial(make, name) for name in LEARNERS} | {"sparse ksvd": sparse_ksvd}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "online")) for name in BUILDERS]
)
def test_runs_in_single_precision_go_on_too(name, path):
    """Some of their sums and products are in double precision."""
    build, data = BUILDERS[name], X.astype(np.float32)
    expected, seen = calls_of(build(), data)
    for number in first_middle_and_last(seen)[1::3]:
        kill(build(checkpoint=path), data, number)
        assert_same(build(checkpoint=path).fit(data), expected)
        take_result(path)


@pytest.mark.parametrize("learner", [pytest.param("fast", marks=pytest.mark.slow), "online"])
def test_streams_go_on_alike_after_a_run_that_was_killed(learner, tmp_path, path):
    data = on_disk(tmp_path)
    expected, seen = calls_of(make(learner), data)
    kill(make(learner, checkpoint=path), data, seen.index("pass 1") + 4)
    resumed = make(learner, checkpoint=path).fit(data)
    for model in (expected, resumed):
        model.set_params(callback=None).partial_fit(X[:50])
    np.testing.assert_array_equal(resumed.components_, expected.components_)


@pytest.mark.slow
def test_a_run_that_a_callback_stopped_keeps_its_checkpoint_and_goes_on(tmp_path, path):
    data = on_disk(tmp_path)
    expected, seen = calls_of(make("fast"), data)
    for phase in ("ksvd", "split 1", "pass 1", "global 1", "refine", "pass 2", "all data"):
        number, calls = seen.index(phase) + 2, 0

        def stop(step, number=number):
            nonlocal calls
            calls += 1
            return calls == number

        model = make("fast", checkpoint=path, callback=stop).fit(data)
        assert np.isfinite(model.transform(X)).all()
        assert path.exists()
        assert_same(make("fast", checkpoint=path).fit(data), expected)
        take_result(path)


# -- damaged files --------------------------------------------------------------------------------------


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2  # Some of these bytes of the archive matter.
    return content[:middle] + bytes(byte ^ 16 for byte in content[middle : middle + 64]) + content[middle + 64 :]


DAMAGES = {
    "cut": cut,
    "flipped": flipped,
    "empty": lambda content: b"",
    "noise": lambda content: np.random.default_rng(0).bytes(len(content)),
    "foreign": lambda content: (ROOT / "pyproject.toml").read_bytes(),
}


@pytest.fixture
def killed(tmp_path, path):
    """Data, what comes of them, and a run that was killed in the middle."""
    data = on_disk(tmp_path)
    expected, seen = calls_of(make("ksvd"), data)
    kill(make("ksvd", checkpoint=path), data, seen.index("pass 2") + 3)
    return data, expected


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_refused_with_what_to_do_and_stays(damage, killed, path):
    data, expected = killed
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=f"{path.name}' is damaged, or is no checkpoint; delete it, or choose"):
        make("ksvd", checkpoint=path).fit(data)
    assert path.read_bytes() == damaged
    path.unlink()
    assert_same(make("ksvd", checkpoint=path).fit(data), expected)


# -- other runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 10}, "n_components was 12, and is now 10"),
        ({"n_nonzero_coefs": 3}, "n_nonzero_coefs was 2, and is now 3"),
        ({"tol": 1e-3}, "tol was 0.0001, and is now 0.001"),
        ({"random_state": 1}, "random_state was 0, and is now 1"),
        ({"max_iter": 6}, "max_iter was 5, and is now 6"),
    ],
)
def test_a_checkpoint_of_other_parameters_is_refused(options, message, killed, path):
    data, expected = killed
    with pytest.raises(ValueError, match=f"belongs to another run: {message}"):
        make("ksvd", checkpoint=path).set_params(**options).fit(data)
    assert_same(make("ksvd", checkpoint=path).fit(data), expected)  # nothing was lost


def test_parameters_that_change_no_result_may_change(killed, path):
    data, expected = killed
    assert_same(
        make("ksvd", checkpoint=path, transform_sparse=True, callback=lambda step: None).fit(data), expected
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], r"samples was \(400, 8\), and is now \(399, 8\)"),
        (lambda rows: rows.astype(np.float32), "dtype was float64, and is now float32"),
        (lambda rows: -rows, "contents was"),
        (lambda rows: rows[::-1], "contents was"),
        (lambda rows: np.where(np.arange(400)[:, None] == 7, rows + 1e-9, rows), "contents was"),
    ],
)
def test_a_checkpoint_of_other_data_is_refused(change, message, killed, path, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=f"belongs to another run: {message}"):
        make("ksvd", checkpoint=path).fit(on_disk(tmp_path / "other", change(X)))


def test_a_checkpoint_of_another_learner_is_refused(killed, path):
    with pytest.raises(ValueError, match="learner was KSVD, and is now FastDictionaryLearning"):
        make("fast", checkpoint=path).fit(killed[0])


def test_the_same_samples_in_memory_and_in_a_file_are_the_same_run(killed, path):
    assert_same(make("ksvd", checkpoint=path).fit(X), killed[1])


@pytest.mark.parametrize("kind", ["list", "array", "sparse"])
def test_a_start_is_compared_by_its_contents(kind, tmp_path, path):
    import scipy.sparse as sp

    start = np.random.default_rng(0).standard_normal((N_ATOMS, 8))
    give = {"list": np.ndarray.tolist, "array": np.copy, "sparse": sp.csr_array}[kind]
    if kind == "sparse":
        build = lambda start: sparse_ksvd(base=give(start.T), checkpoint=path)  # noqa: E731
    else:
        build = lambda start: make("fast", init=give(start), checkpoint=path)  # noqa: E731
    kill(build(start), X[:100], 5)
    with pytest.raises(ValueError, match=r"(init|base) was .+, and is now .+"):
        build(start + 1e-9).fit(X[:100])
    build(start).fit(X[:100])


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("place", "kind", "message"),
    [
        ("missing/run", ValueError, "checkpoint must be in a folder that exists"),
        ("", ValueError, "checkpoint must be a file"),
        (3, TypeError, "checkpoint must be a path or None"),
    ],
)
def test_an_impossible_path_is_refused_before_any_work(learner, place, kind, message, tmp_path):
    calls = []
    checkpoint = place if isinstance(place, int) else tmp_path / place
    with pytest.raises(kind, match=message):
        make(learner, checkpoint=checkpoint, callback=calls.append).fit(X)
    assert calls == []


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "not allowed")

    calls = []
    monkeypatch.setattr("papilio.runtime.checkpoint.open", refuse, raising=False)
    with pytest.raises(PermissionError, match=r"checkpoint cannot be written there: .*run'"):
        make("ksvd", checkpoint=path, callback=calls.append).fit(X)
    assert calls == []
