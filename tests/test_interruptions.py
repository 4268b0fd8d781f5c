"""Processes that are interrupted by signals at random moments, and started again, learn the same bits."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
# It writes a state every few milliseconds, and tells when learning begins.
SCRIPT = """
import sys
import numpy as np
import papilio as pp
import pytest
from tests.limits import lower
from tests.large import make

lower(pytest.MonkeyPatch(), sample=2000, sample_per_atom=10, rows_per_part=500, seconds_between_checkpoints=0.01)
learner, folder = sys.argv[1:]
sys.stdout.write("begin\\n")
sys.stdout.flush()
samples = pp.datasets.on_disk(f"{folder}/samples.npy")
options = {} if learner == "fast" else {"max_iter": 30, "tol": 0.0}
model = make(learner, checkpoint=f"{folder}/run", **options).fit(samples)
np.save(f"{folder}/components.npy", model.components_)
"""


def start(learner, folder):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, learner, folder],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Whoever runs the tests in the background may have them ignore Ctrl-C, and all that they start, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    process.stdout.readline()
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "number"), [("fast", signal.SIGKILL), ("ksvd", signal.SIGTERM), ("online", signal.SIGINT)]
)
def test_interrupted_runs_end_with_the_bits_of_others(learner, number, tmp_path):
    rng = np.random.default_rng(0)
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    for folder in (whole, interrupted):
        folder.mkdir()
        np.save(folder / "samples.npy", np.random.default_rng(0).standard_normal((8000, 8)))
    with start(learner, whole) as process:
        begin = time.monotonic()
        assert process.wait() == 0
        seconds = time.monotonic() - begin
    signals = 0
    for _ in range(100):
        with start(learner, interrupted) as process:
            try:
                process.wait(seconds * rng.random())
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                signals += 1
            process.wait()
        if (interrupted / "components.npy").exists():
            break
    assert signals
    assert {path.name for path in interrupted.iterdir()} == {path.name for path in whole.iterdir()}
    np.testing.assert_array_equal(*(np.load(folder / "components.npy") for folder in (whole, interrupted)))
