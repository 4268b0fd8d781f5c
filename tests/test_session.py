"""The session of a run: what it reports, when it stops, and how its stages are kept and resumed."""

import json
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest

import papilio as pp
from papilio.runtime.checkpoint import pack, stored, unpack
from papilio.runtime.session import Session, Stage

from .limits import lower


def steps_of(work):
    """The steps that a callback sees while ``work(session)`` runs."""
    seen = []
    work(Session(seen.append))
    return seen


def test_parts_divide_the_progress_of_the_part_around_them():
    def work(session):
        session.report("a", 1.0, fraction=0.0)
        with session.part(0.4, "first, "):
            session.report("b", 1.0, fraction=0.5)
            with session.part(0.5, "inner, "):
                session.report("c", 1.0, fraction=1.0)
        with session.part(0.6):
            session.report("d", 1.0, fraction=0.5)

    seen = steps_of(work)
    assert [step.phase for step in seen] == ["a", "first, b", "first, inner, c", "d"]
    assert [step.done for step in seen] == pytest.approx([0.0, 0.2, 0.2, 0.7])


def test_the_history_has_no_factors_and_no_ticks_and_factors_are_read_only():
    factor = np.ones(2)
    seen = []
    session = Session(seen.append)
    session.report("a", 0.25, 3.0, [factor])
    session.tick("pass 1", 1, 4)
    assert [step._replace(factors=()) for step in seen[:1]] == session.history
    assert seen[1].phase == "pass 1"
    assert seen[1].error == 0.25
    with pytest.raises(ValueError, match="read-only"):
        seen[0].factors[0][0] = 2
    assert factor.flags.writeable


def test_a_true_result_stops_and_the_callback_is_not_called_again():
    calls = []
    session = Session(lambda step: calls.append(step) or len(calls) == 2)
    for i in range(4):
        assert session.stopped == (i > 1)
        session.report("a", 1.0)
    assert len(calls) == 2
    assert len(session.history) == 4
    assert session.tick("b", 1, 2)


def test_the_time_budget_stops_a_run_and_counts_as_progress(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("papilio.runtime.session.perf_counter", lambda: now[0])
    seen = []
    session = Session(seen.append, time_budget=10.0)
    now[0] += 5
    session.report("a", 1.0)
    assert seen[-1].done == pytest.approx(0.5)
    assert not session.stopped
    now[0] += 6
    assert session.stopped


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callback": 3}, "callback must be callable"),
        ({"time_budget": -1}, "time_budget must be a finite real number of at least 0"),
        ({"random_state": "a"}, "random_state must be None, an integer"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Session(**options)


# -- stages ---------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@stored
@dataclass
class Sum:
    total: float
    iteration: int = 0


class Counting(Stage):
    """A stage that draws numbers, one in each step."""

    def __init__(self, session, name, count, die_at=None):
        self.session, self.name, self._count, self._die_at = session, name, count, die_at

    def init(self, before):
        return Sum(0.0 if before is None else before)

    def step(self, state):
        if state.iteration == self._die_at:
            raise Killed
        total = state.total + self.session.random.random_sample()
        self.session.report(self.name, total, fraction=(state.iteration + 1) / self._count)
        return Sum(total, state.iteration + 1)

    def done(self, state):
        return state.iteration == self._count

    def result(self, state):
        return state.total


def run(path, die=None, callback=None):
    """Three stages; ``die`` names one of them and the step at which the process is killed."""
    sizes = {"one": 3, "two": 4, "three": 2}
    with Session(callback, random_state=0, checkpoint=path, identity={"what": "a test"}) as session:
        stages = [
            Counting(session, name, n, die[1] if die and die[0] == name else None) for name, n in sizes.items()
        ]
        return session.run(stages), session


@pytest.mark.parametrize("die", [("one", 0), ("one", 2), ("two", 0), ("two", 3), ("three", 1)])
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_run_that_was_killed_is_resumed_with_the_same_numbers_and_history(die, seconds, tmp_path, monkeypatch):
    """Whether each iteration was kept, or only the beginning of each stage."""
    lower(monkeypatch, seconds_between_checkpoints=seconds)
    expected, whole = run(None)
    path = tmp_path / "run"
    with pytest.raises(Killed):
        run(path, die)
    total, resumed = run(path)
    assert total == expected
    assert resumed.history.phase == whole.history.phase
    assert resumed.history.error.tolist() == whole.history.error.tolist()
    assert {each.name for each in tmp_path.iterdir()} == {"run"}


class Long(Counting):
    """A stage whose only step keeps parts of its work."""

    def step(self, state):
        self.session.report("short", 1.0)
        found = self.session.take_parts()
        self.session.keep_parts(lambda: {"0": np.arange(2)})
        if found is None:
            raise Killed
        return Sum(float(found["0"].sum()), 1)


def test_a_step_that_is_not_finished_is_kept_with_the_history_before_it(tmp_path, monkeypatch):
    lower(monkeypatch, seconds_between_checkpoints=0.0)

    def run_step():
        with Session(checkpoint=tmp_path / "run", identity={}) as session:
            return session.run([Long(session, "long", 1)]), session

    with pytest.raises(Killed):
        run_step()
    end, session = run_step()
    assert end == 1.0
    assert session.history.phase == ["short"]  # once: it is done again


class Closing(Counting):
    closing = True


def test_after_a_stop_only_closing_stages_run_and_the_checkpoint_stays(tmp_path, monkeypatch):
    lower(monkeypatch, seconds_between_checkpoints=0.0)
    path = tmp_path / "run"
    session = Session(lambda step: True, checkpoint=path, identity={})
    session.run([Counting(session, "one", 2), Counting(session, "two", 2), Closing(session, "three", 2)])
    assert session.history.phase == ["one", "three", "three"]
    session.close()
    assert path.exists()
    with Session(checkpoint=path, identity={}) as again:
        again.run([Counting(again, "one", 2), Closing(again, "three", 1)])
        assert again.history.phase == ["one", "one", "three"]  # It begins with the first stage again.


def test_a_state_of_arrays_numbers_and_marked_classes_comes_back_as_it_was():
    import_module("papilio.dictionary.learner")  # It lets states hold products.
    op = pp.SparseProduct([np.asfortranarray(np.arange(1.0, 10).reshape(3, 3)), np.triu(np.ones((3, 4)))], 0.3)
    state = {
        "sum": Sum(float("nan"), 3),
        "nested": [None, True, "text", {"deep": np.arange(6.0).reshape(2, 3).T}],
        "operator": op,
        "infinite": -np.inf,
    }
    arrays = []
    packed = json.loads(json.dumps(pack(state, arrays)))
    back = unpack(packed, {str(i): array for i, array in enumerate(arrays)})
    assert isinstance(back["sum"], Sum)
    assert np.isnan(back["sum"].total)
    assert back["nested"][:3] == state["nested"][:3]
    np.testing.assert_array_equal(back["nested"][3]["deep"], state["nested"][3]["deep"])
    assert back["operator"] == op
    assert back["operator"].factors[0].flags.f_contiguous  # products in another order have other bits
    assert back["infinite"] == -np.inf
    with pytest.raises(TypeError, match="a state must hold arrays"):
        pack({"object": object()}, [])


def test_a_seed_is_drawn_once_per_run(tmp_path):
    path = tmp_path / "run"
    with Session(random_state=None, checkpoint=path, identity={}) as first:
        seed = first.seed()
        assert first.seed() == seed
        with pytest.raises(Killed):
            first.run([Counting(first, "one", 2, die_at=1)])
    with Session(random_state=None, checkpoint=path, identity={}) as again:
        assert again.seed() == seed


@pytest.mark.parametrize("generator", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_random_numbers_of_any_bit_generator_are_resumed(generator, tmp_path):
    def session():
        random = np.random.RandomState(getattr(np.random, generator)(0))
        return Session(random_state=random, checkpoint=tmp_path / "run", identity={})

    with session() as first:
        first.random.standard_normal(3)  # one more is in stock
        with pytest.raises(Killed):
            first.run([Counting(first, "one", 2, die_at=0)])
    with session() as second:
        resumed = second.random
    for draw in ("standard_normal", "random_sample"):
        assert getattr(resumed, draw)(5).tolist() == getattr(first.random, draw)(5).tolist()


def test_a_checkpoint_of_stages_that_are_not_there_is_refused(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path / "run", ("two", 0))
    with (
        Session(checkpoint=tmp_path / "run", identity={"what": "a test"}) as session,
        pytest.raises(ValueError, match=r"of the stage 'two', which this run does not have; delete it"),
    ):
        session.run([Counting(session, "other", 2)])
