"""Processes that are interrupted by signals and started again, learn the same bits."""

import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
# It writes a state every few milliseconds, and tells its steps.
SCRIPT = """
import sys
import numpy as np
import papilio as pp
import pytest
from tests.limits import lower
from tests.large import make

lower(pytest.MonkeyPatch(), sample=500, sample_per_atom=10, rows_per_part=100, seconds_between_checkpoints=0.01)
learner, folder = sys.argv[1:]
steps = lambda step: print(step.phase, flush=True)
model = make(learner, checkpoint=f"{folder}/run", callback=steps).fit(pp.datasets.on_disk(f"{folder}/samples.npy"))
np.save(f"{folder}/components.npy", model.components_)
"""


def start(learner, folder):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, learner, folder],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Whoever runs the tests in the background may have them ignore Ctrl-C, and all that they start, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "number"), [("fast", signal.SIGKILL), ("ksvd", signal.SIGTERM), ("online", signal.SIGINT)]
)
def test_interrupted_runs_end_with_the_bits_of_others(learner, number, tmp_path):
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    for folder in (whole, interrupted):
        folder.mkdir()
        np.save(folder / "samples.npy", np.random.default_rng(0).standard_normal((2000, 8)))
    with start(learner, whole) as process:
        steps = len(process.stdout.readlines())
    assert process.returncode == 0
    for share in (0.2, 0.5, 0.8, None):
        with start(learner, interrupted) as process:
            for _ in islice(process.stdout, round(share * steps) if share else None):
                pass
            if share:
                time.sleep(0.05 * share)  # into the next step
                process.send_signal(number)
        if process.returncode == 0:
            break
    assert process.returncode == 0
    assert {path.name for path in interrupted.iterdir()} == {path.name for path in whole.iterdir()}
    np.testing.assert_array_equal(*(np.load(folder / "components.npy") for folder in (whole, interrupted)))
