"""Windows and macOS, as far as Linux can show: without what only Linux or POSIX has, everything works."""

import subprocess
import sys
from pathlib import Path

import pytest

from papilio.runtime.checkpoint import Lock

# What Windows, and in part macOS, does not have.
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
IN_OS = (
    *("chown", "fchmod", "fork", "forkpty", "geteuid", "getpgid", "getuid", "killpg", "mkfifo", "posix_fallocate"),
    *("register_at_fork", "sched_getaffinity", "sched_yield", "setsid", "statvfs", "sysconf"),
)
IN_SIGNAL = ("SIGALRM", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "pthread_sigmask", "setitimer")
WITHOUT = f"""
import os, signal, sys
sys.modules.update(dict.fromkeys({MODULES}))
for module, names in ((os, {IN_OS}), (signal, {IN_SIGNAL})):
    for name in names:
        vars(module).pop(name, None)
"""
WORK = """
import numpy as np, papilio as pp
from papilio.cli import app

rng = np.random.default_rng(0)
fit = pp.factorize(rng.standard_normal((16, 16)), complexity=0.5)
for _ in range(2):  # the second file replaces the first
    fit.operator.save("op.npz")
assert (pp.load("op.npz") @ np.ones((16, 300))).shape == (16, 300)
pp.KSVD(8, 2, max_iter=3, checkpoint="run", random_state=0).fit(rng.standard_normal((100, 16)))
np.save("x.npy", np.ones((16, 2)))
sys.argv = ["papilio", "apply", "op.npz", "x.npy", "--output", "y.npy"]
assert app.run() == 0
print(sorted(os.listdir()))
"""


@pytest.mark.slow
def test_everything_works_without_what_other_systems_lack(tmp_path):
    run = subprocess.run([sys.executable, "-c", WITHOUT + WORK], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "['op.npz', 'run', 'x.npy', 'y.npy']"


def test_a_checkpoint_without_locks_closes_its_file_before_it_removes_it(tmp_path, monkeypatch):
    monkeypatch.setattr("papilio.runtime.checkpoint._HAS_LOCKS", False)
    lock = Lock(tmp_path / "run")
    Lock(tmp_path / "run").release()  # runs do not exclude each other
    closed = []
    monkeypatch.setattr(Path, "unlink", lambda path: closed.append(lock._file.closed))
    lock.release()
    assert closed == [True]
