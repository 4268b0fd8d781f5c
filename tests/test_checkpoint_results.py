"""Checkpoints of long runs: the result is kept, a full disk ends nothing, and one run at a time has the file."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from papilio.runtime import checkpoint as checkpoint_module
from papilio.runtime.checkpoint import Checkpoint, Lock

from .full_disk import fill, no_room, small_disk
from .large import LEARNERS, X, assert_same, holds_result, make, on_disk

pytestmark = pytest.mark.usefixtures("every_state_is_written")


def names_beside(path):
    return sorted(each.name for each in path.parent.iterdir())


def told_of(caught):
    """What warnings say of checkpoints; there may be one of the number of iterations, too."""
    return [str(each.message) for each in caught if "checkpoint" in str(each.message)]


class Killed(BaseException):
    pass


# -- finished runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_finished_run_is_kept_and_the_same_fit_returns_it_without_learning(learner, tmp_path, path):
    data = on_disk(tmp_path)
    first, seen = make(learner, checkpoint=path).fit(data), []
    assert names_beside(path) == ["run"]
    again = make(learner, checkpoint=path, callback=lambda step: seen.append(step.phase)).fit(data)
    assert_same(again, first)
    assert again.status_ is first.status_
    assert set(seen) == {"scan", "final"}
    for model in (first, again):
        if hasattr(model, "partial_fit"):
            model.set_params(callback=None).partial_fit(X[:50])
    np.testing.assert_array_equal(again.components_, first.components_)


def test_the_result_of_another_run_is_refused_and_not_overwritten(path):
    make("ksvd", checkpoint=path).fit(X)
    content = path.read_bytes()
    with pytest.raises(ValueError, match=r"max_iter was 5, and is now 6; delete it, or choose another path"):
        make("ksvd", checkpoint=path, max_iter=6).fit(X)
    assert path.read_bytes() == content
    assert names_beside(path) == ["run"]


def test_a_stopped_run_is_not_finished(path):
    make("ksvd", checkpoint=path, callback=lambda step: step.phase == "pass 1").fit(X)
    assert path.exists()
    assert not holds_result(path)


# -- versions -------------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_version_of_papilio_is_refused_with_what_to_do(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "__version__", "0.0.7")
        make("ksvd", checkpoint=path).fit(X)
    with pytest.raises(ValueError, match=r"version of papilio \(0\.0\.7; .*finish.*delete it, or choose"):
        make("ksvd", checkpoint=path).fit(X)


# -- full disks -----------------------------------------------------------------------------------------


def test_a_run_goes_on_without_its_checkpoint_and_warns_once(path, monkeypatch):
    expected = make("ksvd").fit(X)
    monkeypatch.setattr("papilio.runtime.checkpoint.np.savez", no_room)
    with pytest.warns(UserWarning, match="checkpoint") as caught:
        assert_same(make("ksvd", checkpoint=path).fit(X), expected)
    (said,) = told_of(caught)
    assert f"checkpoint {os.fspath(path)!r} could not be written: No space left on device" in said
    assert "the run goes on" in said
    assert names_beside(path) == []


def test_a_small_disk_that_is_full_ends_no_run_and_keeps_what_was_there(tmp_path):
    expected = make("ksvd").fit(X)
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        path = disk / "run"

        def told(step):
            if step.phase == "pass 1" and not (disk / "filling").exists():
                fill(disk)

        with pytest.warns(UserWarning, match="could not be written: No space left on device") as caught:
            assert_same(make("ksvd", checkpoint=path, callback=told).fit(X), expected)
        assert len(told_of(caught)) == 1
        assert set(names_beside(path)) <= {"filling", "run"}
        (disk / "filling").unlink()
        assert_same(make("ksvd", checkpoint=path).fit(X), expected)
        assert names_beside(path) == ["run"]


# -- kills between system calls -------------------------------------------------------------------------


def test_a_kill_between_any_two_system_calls_of_a_write_leaves_a_usable_file(tmp_path, monkeypatch):
    """And no more than the state that was being written, which the next run removes."""
    real = {name: getattr(os, name) for name in ("fsync", "replace", "unlink", "close")}

    def states(path):
        checkpoint = Checkpoint(path, {"a": "test"})
        try:
            return checkpoint.state, sorted(each.name for each in path.parent.iterdir())
        finally:
            checkpoint.release()

    for number in range(1, 20):
        folder = tmp_path / str(number)
        folder.mkdir()
        checkpoint = Checkpoint(folder / "run", {"a": "test"})
        for i in range(2):
            checkpoint.write({"i": i})
        calls = 0

        def counted(name, *arguments, number=number, **options):
            nonlocal calls
            calls += 1
            if calls == number:
                raise Killed
            return real[name](*arguments, **options)

        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, lambda *a, name=name, **o: counted(name, *a, **o))
            try:
                checkpoint.write({"i": 2})
                is_whole = True
            except Killed:
                is_whole = False
        checkpoint.release()
        assert {each.name for each in folder.iterdir()} <= {"run", "run.fresh"}
        state, names = states(folder / "run")
        assert int(state["i"]) in ((2,) if is_whole else (1, 2))
        assert "run.fresh" not in names
        if is_whole:
            break
    assert number > 3


def test_a_state_is_on_the_disk_before_it_takes_the_name(path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *arguments, name=name, real=real: (order.append(name), real(*arguments))[1]
        )
    checkpoint = Checkpoint(path, {})
    for i in range(2):
        checkpoint.write({"i": i})
    checkpoint.release()
    assert order == ["fsync", "replace"] * 2


# -- two runs on one path -------------------------------------------------------------------------------


def test_a_second_run_on_the_same_file_is_refused_and_the_first_is_not_disturbed(path):
    expected, refused = make("ksvd").fit(X), []

    def told(step):
        if step.phase == "pass 1" and not refused:
            with pytest.raises(BlockingIOError) as caught:
                make("ksvd", checkpoint=path).fit(X)
            refused.append(str(caught.value))

    assert_same(make("ksvd", checkpoint=path, callback=told).fit(X), expected)
    assert "is in use by another run: wait until it has ended, or choose another path" in refused[0]
    assert names_beside(path) == ["run"]


def test_a_run_that_fails_gives_the_file_back(path):
    def failing(step):
        if step.phase == "ksvd":
            raise RuntimeError("no more")

    model = make("ksvd", checkpoint=path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no more"):
            model.set_params(callback=failing).fit(X)
    with pytest.raises(ValueError, match="belongs to another run"):
        make("ksvd", checkpoint=path, max_iter=6).fit(X)
    assert "run.lock" not in names_beside(path)


HOLD = """
import sys
from pathlib import Path
from papilio.runtime.checkpoint import Lock
lock = Lock(Path(sys.argv[1]))
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_lock_of_another_process_ends_with_it_even_if_it_is_killed(path):
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match="run' is in use by another run"):
            Lock(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    Lock(path).release()
    assert names_beside(path) == []
