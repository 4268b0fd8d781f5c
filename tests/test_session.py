"""The session of a run: what it reports, when it stops, and how its phases are kept and resumed."""

import numpy as np
import pytest

from papilio.results import History
from papilio.runtime.history import history_from_arrays, history_to_arrays
from papilio.runtime.session import Phase, Session

from .limits import lower


def steps_of(work):
    """The steps that a callback sees while ``work(session)`` runs."""
    seen = []
    work(Session(seen.append))
    return seen


def test_iterations_are_counted_within_a_phase_and_within_a_part():
    def work(session):
        for phase in ("a", "a", "b", "a"):
            session.report(phase, 0.5)
        with session.part(0.5):
            session.report("a", 0.5)

    assert [(step.phase, step.iteration) for step in steps_of(work)] == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
        ("a", 1),
        ("a", 1),
    ]


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


def test_progress_never_falls():
    def work(session):
        for fraction in (0.3, 0.1, 2.0, 0.5):
            session.report("a", 1.0, fraction=fraction)

    assert [step.done for step in steps_of(work)] == [0.3, 0.3, 1.0, 1.0]


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


def test_the_clock_is_stopped_while_a_callback_runs(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("papilio.runtime.session.perf_counter", lambda: now[0])

    def callback(step):
        now[0] += 50

    session = Session(callback)
    for _ in range(3):
        now[0] += 1
        session.report("a", 1.0)
    assert session.history.seconds.tolist() == [1, 2, 3]


def test_histories_survive_a_file():
    session = Session()
    session.report("a", 0.5, 2.0, fraction=0.25)
    session.report("b", 0.25, fraction=0.5, share=0.1)
    assert session.history.share.tolist() == [1.0, 0.1]
    arrays = history_to_arrays(session.history)
    assert history_from_arrays(arrays) == session.history
    for share in (0.0, 1.5):
        arrays["numbers"][1, -1] = share
        with pytest.raises(ValueError, match="shares above 0 and at most 1"):
            history_from_arrays(arrays)
    assert history_from_arrays(history_to_arrays(History())) == []


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


# -- phases ---------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


def counting(session, name, count, die_at=None):
    """A phase that draws numbers, one in each iteration, and keeps its state each time."""

    def work(state):
        total, first = float(state.get("total", 0.0)), int(state.get("iteration", 0))
        for i in range(first, count):
            now = {"iteration": i, "total": total}
            session.offer(lambda now=now: now)
            if die_at == i:
                raise Killed
            total += session.random.random_sample()
            session.report(name, total, fraction=(i + 1) / count)
        return {"total": total}

    return Phase(name, 1.0, work)


def run(path, die=None, callback=None):
    """Three phases; ``die`` names one of them and the iteration at which the process is killed."""
    sizes = {"one": 3, "two": 4, "three": 2}
    with Session(callback, random_state=0, checkpoint=path, identity={"what": "a test"}) as session:
        phases = [
            counting(session, name, n, die[1] if die and die[0] == name else None) for name, n in sizes.items()
        ]
        return float(session.run(phases)["total"]), session


@pytest.mark.parametrize("die", [("one", 0), ("one", 2), ("two", 0), ("two", 3), ("three", 1)])
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_run_that_was_killed_is_resumed_with_the_same_numbers_and_history(die, seconds, tmp_path, monkeypatch):
    """Whether each iteration was kept, or only the beginning of each phase."""
    lower(monkeypatch, seconds_between_checkpoints=seconds)
    expected, whole = run(None)
    path = tmp_path / "run"
    with pytest.raises(Killed):
        run(path, die)
    total, resumed = run(path)
    assert total == expected
    assert resumed.history.phase == whole.history.phase
    assert resumed.history.error.tolist() == whole.history.error.tolist()
    assert {each.name for each in tmp_path.iterdir()} == {"run", "run.before"}


def test_a_step_that_is_not_finished_is_kept_with_the_history_before_it(tmp_path, monkeypatch):
    lower(monkeypatch, seconds_between_checkpoints=0.0)

    def run_step(die):
        def work(state):
            session.report("short", 1.0)
            session.extend(lambda: {"parts": {"0": np.arange(2)}})
            if die:
                raise Killed
            return {"found": session.saved["parts"]["0"]}

        with Session(checkpoint=tmp_path / "run", identity={}) as session:
            return session.run([Phase("a", 1.0, work)]), session

    with pytest.raises(Killed):
        run_step(die=True)
    end, session = run_step(die=False)
    assert end["found"].tolist() == [0, 1]
    assert session.history.phase == ["short"]  # once: it is done again


def test_after_a_stop_only_closing_phases_run_and_the_checkpoint_stays(tmp_path, monkeypatch):
    lower(monkeypatch, seconds_between_checkpoints=0.0)
    path, ran = tmp_path / "run", []
    session = Session(lambda step: True, checkpoint=path, identity={})

    def phase(name, closing=False):
        def work(state):
            ran.append(name)
            session.report(name, 1.0)
            return {"last": len(ran)}

        return Phase(name, 1.0, work, closing)

    session.run([phase("one"), phase("two"), phase("three", closing=True)])
    assert ran == ["one", "three"]
    session.close()
    assert path.exists()
    with Session(checkpoint=path, identity={}) as again:
        assert again.saved == {}  # from the beginning of the first phase


def test_a_seed_is_drawn_once_per_run(tmp_path):
    path = tmp_path / "run"
    with Session(random_state=None, checkpoint=path, identity={}) as first:
        seed = first.seed()
        assert first.seed() == seed
        with pytest.raises(Killed):
            first.run([counting(first, "one", 2, die_at=1)])
    with Session(random_state=None, checkpoint=path, identity={}) as again:
        assert again.seed() == seed


def test_a_run_that_drew_no_seed_is_not_resumed_with_a_new_one(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path / "run", ("two", 0))
    with (
        Session(checkpoint=tmp_path / "run", identity={"what": "a test"}) as session,
        pytest.raises(ValueError, match="seed is missing"),
    ):
        session.seed()


@pytest.mark.parametrize("generator", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_random_numbers_of_any_bit_generator_are_resumed(generator, tmp_path):
    def session():
        random = np.random.RandomState(getattr(np.random, generator)(0))
        return Session(random_state=random, checkpoint=tmp_path / "run", identity={})

    with session() as first:
        first.random.standard_normal(3)  # one more is in stock
        with pytest.raises(Killed):
            first.run([counting(first, "one", 2, die_at=0)])
    with session() as second:
        resumed = second.random
    for draw in ("standard_normal", "random_sample"):
        assert getattr(resumed, draw)(5).tolist() == getattr(first.random, draw)(5).tolist()


def test_a_checkpoint_of_phases_that_are_not_there_is_refused(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path / "run", ("two", 0))
    with (
        Session(checkpoint=tmp_path / "run", identity={"what": "a test"}) as session,
        pytest.raises(ValueError, match=r"of the phase 'two', which this run does not have; delete .*run'"),
    ):
        session.run([counting(session, "other", 2)])
