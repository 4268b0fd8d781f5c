"""Threads: how many, from how many Python threads, after a fork, and whose memory they work in."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import papilio as pp
from papilio import constraints as c
from papilio.operators import engine as application
from papilio.runtime import threads

X = np.random.default_rng(0).standard_normal((64, 300))
OP = pp.transforms.hadamard(64)
DENSE = OP.toarray()
pytestmark = pytest.mark.usefixtures("default_threads")
FORKS = "fork" in multiprocessing.get_all_start_methods()


@pytest.fixture
def split(monkeypatch):
    """Blocks of any size are split between threads."""
    monkeypatch.setattr(application, "_SHARED_BYTES", 0)
    monkeypatch.setattr(application, "_LONG_BYTES", 0)


def python(code, **environment):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- how many ------------------------------------------------------------------------------------------


def test_the_default_is_all_cores_and_none_resets_to_it(monkeypatch):
    monkeypatch.delenv("PAPILIO_NUM_THREADS", raising=False)
    default = pp.get_num_threads()
    assert default == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    for count in (1, 7, np.int8(3)):
        pp.set_num_threads(count)
        assert pp.get_num_threads() == count
    pp.set_num_threads(None)
    assert pp.get_num_threads() == default


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_bad_numbers_of_threads_are_refused_by_name_and_change_nothing(value, error):
    pp.set_num_threads(5)
    with pytest.raises(error, match=r"\bn must be an integer of at least 1"):
        pp.set_num_threads(value)
    assert pp.get_num_threads() == 5


def test_the_environment_gives_the_default_and_set_num_threads_comes_before_it():
    code = "import papilio as pp; a = pp.get_num_threads(); pp.set_num_threads(2); b = pp.get_num_threads();"
    code += "pp.set_num_threads(None); import sys; sys.stdout.write(f'{a} {b} {pp.get_num_threads()}')"
    assert python(code, PAPILIO_NUM_THREADS="11") == "11 2 11"


# -- split_work ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize(("size", "grain"), [(1, 64), (64, 64), (65, 64), (300, 64), (1000, 1), (7, 2)])
def test_work_is_split_into_whole_grains_without_gap_or_overlap(size, grain, count):
    pp.set_num_threads(count)
    parts = []
    threads.split_work(lambda start, stop: parts.append((start, stop)), size, grain)
    parts.sort()
    assert len(parts) <= count
    assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == size
    assert all(start % grain == 0 and start < stop for start, stop in parts)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_an_exception_in_any_part_reaches_the_caller_and_the_next_call_works(where):
    pp.set_num_threads(3)

    def fail(start, stop):
        if start == where:
            raise ArithmeticError(f"part {start}")

    with pytest.raises(ArithmeticError, match=f"part {where}"):
        threads.split_work(fail, 3, 1)
    done = []
    threads.split_work(lambda start, stop: done.append(start), 3, 1)
    assert sorted(done) == [0, 1, 2]


# -- many Python threads -------------------------------------------------------------------------------

BUSY = """
import sys
from tests.test_threads import application, busy
application._SHARED_BYTES = application._LONG_BYTES = 0
busy()
sys.stdout.write("right")
"""


def busy():
    """Eight threads that apply operators and fit factors at the same time."""
    sets = [c.Sparse((8, 8), 16), c.SparseRows((8, 8), 4)]
    target = pp.transforms.hadamard(8).toarray()
    alone = pp.palm(target, sets, max_iter=30, tol=0)
    fresh = pp.SparseProduct(OP.factors, OP.scale)  # packed and turned by whoever comes first
    together = threading.Barrier(8)

    def work(seed):
        together.wait()
        for _ in range(5):
            block = np.random.default_rng(seed).standard_normal((64, 150 + seed))
            np.testing.assert_allclose(fresh @ block, DENSE @ block, atol=1e-12)
            np.testing.assert_allclose(fresh.H @ np.asfortranarray(block), DENSE.T @ block, atol=1e-12)
            fit = pp.palm(target, sets, max_iter=30, tol=0)
            assert fit.operator == alone.operator
            assert fit.error == alone.error
        return seed

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_eight_python_threads_at_once_get_the_right_results(count, split):
    pp.set_num_threads(count)
    busy()


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["workqueue", "default"])
def test_eight_python_threads_work_on_every_threading_layer_of_numba(layer):
    assert python(BUSY, NUMBA_THREADING_LAYER=layer, PAPILIO_NUM_THREADS="3") == "right"


# -- after a fork, and at the end ----------------------------------------------------------------------

FORK = """
import multiprocessing, sys, warnings
import numpy as np
from tests.test_threads import DENSE, OP, X, application, pp
application._SHARED_BYTES = application._LONG_BYTES = 0
pp.set_num_threads(3)

def child(queue):
    queue.put(bool(np.allclose(OP @ X, DENSE @ X)))

if {before}:
    OP @ X  # the parent's threads are there, and the child's are not
warnings.simplefilter("ignore", DeprecationWarning)  # Forking with threads is deprecated.
context = multiprocessing.get_context("fork")
queue = context.Queue()
children = [context.Process(target=child, args=(queue,), daemon=True) for _ in range(3)]
for process in children:
    process.start()
right = [queue.get(timeout=600) for _ in children]
for process in children:
    process.join()
right += [process.exitcode == 0 for process in children] + [bool(np.allclose(OP @ X, DENSE @ X))]
sys.stdout.write(str(all(right)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="the system has no fork")
@pytest.mark.parametrize("before", [True, False])
def test_forked_processes_apply_large_blocks(before):
    assert python(FORK.format(before=before)) == "True"


LATE = """
import atexit, sys
from tests.test_threads import DENSE, OP, X, application, np, pp
application._SHARED_BYTES = application._LONG_BYTES = 0
pp.set_num_threads(2)
atexit.register(lambda: sys.stdout.write(str(bool(np.allclose(OP @ X, DENSE @ X)))))
"""


@pytest.mark.slow
def test_a_large_block_is_applied_at_interpreter_shutdown():
    assert python(LATE) == "True"


def test_where_no_thread_starts_the_caller_does_everything(monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_pool", None)
    monkeypatch.setattr(threading.Thread, "start", fail)
    pp.set_num_threads(3)
    done = []
    threads.split_work(lambda start, stop: done.append(start), 3, 1)
    assert done == [0, 1, 2]
