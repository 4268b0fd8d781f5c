"""How a run is stopped: from deep loops, during long calls and by Ctrl-C; and the line that shows progress."""

import io
import signal
import threading
import warnings

import numpy as np
import pytest

import papilio as pp
from papilio.runtime import session as session_module
from papilio.runtime import threads
from papilio.runtime.session import Interrupted, Session

LARGE = float("inf")


@pytest.fixture
def default_ctrl_c():
    """Ctrl-C as Python has it, whoever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def eager(monkeypatch):
    """Long calls are reported at once."""
    monkeypatch.setattr(session_module, "_SECONDS_BETWEEN_SIGNS", 0.0)
    monkeypatch.setattr(session_module, "_SECONDS_BETWEEN_LOOKS", 0.001)


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


# -- checks and long calls ------------------------------------------------------------------------------


def test_a_check_raises_once_the_session_is_stopped():
    session = Session(lambda step: True)
    session.check()
    session.report("a", 1.0)
    with pytest.raises(Interrupted):
        session.check()


def test_a_check_looks_at_the_clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(session_module, "perf_counter", lambda: now[0])
    session = Session(time_budget=10.0)
    session.check()
    now[0] += 11
    with pytest.raises(Interrupted):
        session.check()
    with pytest.raises(Interrupted):
        session.wait(lambda: 3, work=1)


@pytest.mark.parametrize("work", [1, LARGE])
def test_waiting_gives_what_the_call_returns_or_raises(work):
    session = Session()
    assert session.wait(lambda: 3, work) == 3
    for error in (ValueError("no"), TimeoutError("no"), KeyboardInterrupt()):

        def fail(error=error):
            raise error

        with pytest.raises(type(error)):
            session.wait(fail, work)


def test_only_large_work_gets_a_thread():
    session = Session()
    assert session.wait(threading.current_thread, 1) is threading.current_thread()
    other = session.wait(threading.current_thread, LARGE)
    assert other is not threading.current_thread()
    assert other.daemon


def test_a_long_call_keeps_what_numpy_does_about_errors_and_warnings_and_the_number_of_threads():
    session = Session()
    zero = np.zeros(1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        session.wait(lambda: 1 / zero, LARGE)
    with np.errstate(divide="ignore"):
        assert np.isinf(session.wait(lambda: 1 / zero, LARGE))
    with pytest.warns(UserWarning, match="said so"):
        session.wait(lambda: warnings.warn("said so", stacklevel=1), LARGE)
    with threads.one_thread():
        assert session.wait(threads.get_num_threads, LARGE) == 1


def test_a_stop_abandons_a_long_call_which_ends_by_itself(eager):
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def call():
        begun.set()
        go.wait()
        ended.set()

    def callback(step):
        seen.append((step, threading.current_thread()))
        return begun.is_set()

    session = Session(callback)
    with session.part(0.5, "low rank, "), pytest.raises(Interrupted):
        session.wait(call, phase="singular values")
    assert not ended.is_set()
    assert session.stopped
    assert {step.phase for step, _ in seen} == {"low rank, singular values"}
    assert {step.iteration for step, _ in seen} == {0}
    assert {thread for _, thread in seen} == {threading.current_thread()}
    assert session.history == []
    go.set()
    assert ended.wait(600)


def test_a_long_call_is_stopped_by_the_clock(monkeypatch, eager):
    now, go = [100.0], threading.Event()
    monkeypatch.setattr(session_module, "perf_counter", lambda: now[0])

    def later(step):
        now[0] += 3

    session = Session(later, time_budget=10.0)
    with pytest.raises(Interrupted):
        session.wait(go.wait)
    go.set()


# -- Ctrl-C -----------------------------------------------------------------------------------------------


def test_the_first_ctrl_c_stops_the_session_and_the_second_one_raises(default_ctrl_c):
    session = Session()
    with session.interruptible():
        assert not session.stopped
        ctrl_c()
        assert session.stopped
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
    assert session.stopped
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()
    assert not Session().stopped


# -- the line of progress -------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


class OutStream(io.StringIO):
    """Named like the stream of a notebook."""


OutStream.__module__ = "ipykernel.iostream"


@pytest.fixture
def show(monkeypatch):
    """A function that runs ``work(session)`` with progress on a stream, and returns what was written."""

    def shown(stream, work, pause=0.0, **options):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr("papilio.runtime.session._SECONDS_BETWEEN_UPDATES", pause)
        session = Session(progress=True, title="factorize", **options)
        with session.interruptible():
            work(session)
        return stream.getvalue()

    return shown


@pytest.mark.parametrize("stream", [Terminal, OutStream])
def test_the_line_is_rewritten_in_place_and_wiped_out(stream, show):
    def work(session):
        with session.part(1.0, "butterfly, "):
            session.tick("level", 3, 6)
            session.report("palm", 0.5, fraction=0.75)

    lines = show(stream(), work).split("\r")
    assert lines[:2] == ["", "factorize  50 %  butterfly, level 3 of 6: 0 s"]
    assert lines[2] == "factorize  75 %  butterfly, palm 1: 0 s".ljust(len(lines[1]))
    assert lines[3].isspace()
    assert len(lines[3]) == len(lines[2].rstrip())
    assert lines[4:] == [""]


def test_the_line_moves_during_a_long_call_and_says_that_it_stops(show, eager):
    def work(session):
        calls = [threading.Event() for _ in range(2)]

        def callback(step):
            calls[0].set()

        session._callback = callback
        session.wait(calls[0].wait, phase="singular values")
        session._callback = lambda step: True
        session.tick("level", 1, 2)
        session.tick("level", 2, 2)

    written = show(Terminal(), work)
    assert "factorize   0 %  singular values: 0 s" in written
    assert "%  stopping: 0 s" in written


def test_a_log_gets_a_line_now_and_then(show, monkeypatch):
    def work(session):
        session.tick("level", 1, 2)

    assert show(io.StringIO(), work) == ""
    monkeypatch.setattr("papilio.runtime.session._SECONDS_BETWEEN_LINES", 0.0)
    assert show(io.StringIO(), work) == "factorize  50 %  level 1 of 2: 0 s\n"


def test_ctrl_c_ends_a_search_with_the_best_result_so_far(default_ctrl_c):
    X, sent = np.random.default_rng(0).standard_normal((160, 160)), []

    def interrupt(step):
        if step.phase.startswith("hierarchical") and not sent:
            sent.append(step)
            ctrl_c()

    result = pp.factorize(X, complexity=0.2, callback=interrupt)
    assert sent
    assert result.status == "stopped"
    assert result.operator.relative_complexity <= 0.2
    assert result.error < 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_no_thread_starts_the_call_is_made_here(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Session().wait(threading.current_thread, LARGE) is threading.current_thread()
