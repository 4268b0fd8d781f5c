"""Learning on a cluster whose workers are killed: ``python -m tests.campaigns.workers KILLS SEED``.

Each run loses one worker at a random moment, and must learn what one process learns, bit for bit. What is
wrong goes to the standard output, one line each.
"""

import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any

import numpy as np

import papilio as pp

from .learning import lower_limits


def main(kills: int, seed: int) -> int:
    from distributed import Client, LocalCluster

    lower_limits()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npy"
        np.save(path, np.random.default_rng(0).standard_normal((20_000, 16)))
        data = pp.datasets.on_disk(path)
        expected = _learned(data)  # there is no client yet
        with (
            LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            _learned(data)  # the workers load their kernels
            begin = monotonic()
            _compare("without a loss", _learned(data), expected)
            seconds = monotonic() - begin
            for number in range(1, kills + 1):
                client.wait_for_workers(2, timeout=60)
                delay = float(rng.random()) * seconds
                timer = Timer(delay, _kill_one, [cluster, int(rng.integers(2))])
                timer.start()
                try:
                    _compare(f"loss {number}, after {delay:.2f} s", _learned(data), expected)
                finally:
                    timer.join()
    return 0


def _learned(data: Any) -> Any:
    return pp.KSVD(24, 3, max_iter=5, tol=0.0, random_state=0).fit(data)


def _kill_one(cluster: Any, number: int) -> None:
    """End a worker without a word to its nanny, which starts another one."""
    numbers = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
    if numbers:
        with suppress(ProcessLookupError):
            os.kill(numbers[number % len(numbers)], signal.SIGKILL)


def _compare(what: str, found: Any, expected: Any) -> None:
    same = np.array_equal(found.components_, expected.components_)
    if not same or not np.array_equal(found.history_.error, expected.history_.error):
        sys.stdout.write(f"{what}: the result differs from that of one process\n")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
