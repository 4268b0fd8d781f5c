"""Fixtures that several files share."""

import gc
import os
import sys

# Tests run in one process a core, where more threads of BLAS only wait. Tests of threads set their own number.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

import papilio as pp

from .helpers import DTYPES, Clock
from .limits import lower

# These send signals between processes, or need a terminal or limits of memory, as POSIX has them.
POSIX_ONLY = (
    *("fuzz/test_calls.py", "test_cli_terminal.py", "test_full_disks.py", "test_interruptions.py"),
    "test_reproduce.py",
)
collect_ignore = list(POSIX_ONLY) if os.name == "nt" else []

# Whether kernels must be compiled, and that is said, depends on what ran before; in processes of tests, too.
os.environ["PAPILIO_QUIET"] = "1"

# Random cases: the same few in each run of the tests; many new ones with `--hypothesis-profile fuzz`.
ANY_TIME = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("few", max_examples=15, derandomize=True, **ANY_TIME)
settings.register_profile("fuzz", max_examples=500, print_blob=True, **ANY_TIME)
settings.load_profile("few")


def pytest_collection_finish():
    """What was imported and collected stays: looking through it for garbage again and again takes time."""
    gc.freeze()


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


@pytest.fixture
def default_threads():
    """As many threads as by default, before a test and after it."""
    pp.set_num_threads(None)
    yield
    pp.set_num_threads(None)


@pytest.fixture
def large(monkeypatch):
    """Small data pass for large: 120 samples are enough to start from, and a part has 16. Learning is short."""
    lower(monkeypatch, sample=100, sample_per_atom=10, passes=2, rows_per_part=16, refinement_rounds=0)


@pytest.fixture
def few_rounds(monkeypatch):
    """Short annealing, where only the rules of a search count."""
    lower(monkeypatch, annealing_rounds=4)


@pytest.fixture
def clock(monkeypatch):
    """Times of products that depend on their entries only, and not on the machine: `helpers.Clock`."""
    for module in ("papilio.search.pricing", "papilio.search.factorize"):
        monkeypatch.setattr(f"{module}.Pricing", Clock)
    return Clock


@pytest.fixture
def close_figures():
    """Figures need no screen, and are closed after the test."""
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def papilio(here, monkeypatch, capsys):
    """The command line in this process, as each one takes a second to start: exit code, output and errors."""
    from papilio.cli import app

    # On a slow machine, lines about progress would come between the errors.
    lower(monkeypatch, seconds_between_lines=float("inf"))

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["papilio", *map(str, words)])
        return app.run(), *capsys.readouterr()

    return call


# -- checkpoints -----------------------------------------------------------------------------------------


@pytest.fixture
def every_state_is_written(large, monkeypatch):
    """And nothing waits for the disk, which would only take time."""
    lower(monkeypatch, seconds_between_checkpoints=0.0)
    monkeypatch.setattr("papilio.runtime.checkpoint.os.fsync", lambda number: None)


@pytest.fixture
def path(tmp_path):
    """Of a checkpoint, in a folder of its own, so that it is seen what else is left there."""
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept" / "run"
