"""The notice that kernels are being compiled: after a while, once, for this package's kernels, and only then."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from numba import njit

from papilio import kernels
from papilio.runtime import notice
from papilio.runtime.notice import CompilationNotice

LINE = "papilio: compiling kernels on their first use, which may take 20 seconds or more; later runs load them\n"


@pytest.fixture
def make(monkeypatch):
    """A notice whose timer fires when the test says so, and the timers that were started."""
    timers = []

    class Timer:
        def __init__(self, seconds, call):
            self.seconds, self.fire, self.cancelled = seconds, call, False
            timers.append(self)

        def start(self):
            assert self.daemon

        def cancel(self):
            self.cancelled = True

    monkeypatch.delenv("PAPILIO_QUIET", raising=False)
    monkeypatch.setattr(notice.threading, "Timer", Timer)
    return lambda: (CompilationNotice(), timers)


def test_the_notice_is_given_once(make, capsys):
    found, timers = make()
    found.begin()
    assert timers[0].seconds == 2
    timers[0].fire()
    found.end()
    found.begin()
    found.end()
    assert len(timers) == 1
    assert capsys.readouterr() == ("", LINE)


def test_short_compilations_add_up_and_inner_ones_count_once(make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(notice, "perf_counter", lambda: now[0])
    found, timers = make()
    for _ in range(2):
        found.begin()
        found.begin()
        now[0] += 0.75
        found.end()
        assert not timers[-1].cancelled
        found.end()
        assert timers[-1].cancelled
        now[0] += 100
    found.begin()
    assert [timer.seconds for timer in timers] == [2, 1.25, 0.5]


@pytest.mark.parametrize("how", ["variable", "call"])
def test_the_notice_can_be_kept_back(how, make, monkeypatch, capsys):
    if how == "variable":
        monkeypatch.setenv("PAPILIO_QUIET", "1")
    found, timers = make()
    if how == "call":
        found.begin()
        found.silence()
        timers[0].fire()
    else:
        found.begin()
        assert not timers
    assert capsys.readouterr() == ("", "")


def test_a_forked_process_begins_anew(make):
    found, timers = make()
    found.begin()
    found.forget()
    found.begin()
    found.end()
    assert [timer.cancelled for timer in timers] == [False, True]


def test_where_no_thread_starts_there_is_no_notice(monkeypatch, capsys):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    found = CompilationNotice()
    found.begin()
    found.end()
    assert capsys.readouterr().err == ""


def test_only_kernels_of_this_package_count(monkeypatch):
    calls = []
    monkeypatch.setattr(kernels.compilation, "begin", lambda: calls.append("begin"))
    monkeypatch.setattr(kernels.compilation, "end", lambda: calls.append("end"))

    def double(x):
        return 2 * x

    assert njit(double)(np.float64(2)) == 4
    assert calls == []
    double.__module__ = "papilio.kernels.some"
    ours = njit(double)
    assert ours(np.float64(2)) == 4
    assert ours(np.float64(3)) == 6
    assert calls == ["begin", "end"]


@pytest.mark.slow  # as it compiles
def test_a_fresh_process_says_so_and_one_with_compiled_kernels_does_not(tmp_path):
    code = (
        "import papilio.runtime.notice as notice; notice.compilation = notice.CompilationNotice(0.0)\n"
        "import numpy as np\n"
        "from papilio.kernels.grouping import share_out\n"
        "import sys; share_out(np.ones((4, 2)), 20); sys.stdout.write('done')"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("PAPILIO_QUIET", None)
    for expected in (LINE, ""):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
        )
        assert done.stdout == "done"
        assert done.stderr == expected
