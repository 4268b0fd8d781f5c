"""What the first use costs: import, compilation, and loading compiled kernels from the cache."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import OURS, Table

IMPORT = "import papilio"
PEER = "import scipy.sparse.linalg"
APPLY = (
    "import numpy as np, papilio as pp; op = pp.transforms.hadamard(64); op @ np.ones(64); op @ np.ones((64, 9))"
)
LEARN = f"{APPLY}; pp.hierarchical(op.toarray(), pp.Schedule.hadamard(64)); pp.palm(np.ones((8, 8)), "
LEARN += "[pp.constraints.Sparse((8, 8), 9)] * 2)"


def run(folder: Path) -> list[Table]:
    with tempfile.TemporaryDirectory() as cache:
        compile_apply = seconds(APPLY, cache)
        compile_learn = seconds(LEARN, cache)
        cached = min(seconds(LEARN, cache) for _ in range(3))
    note = (
        f"A new process that applies an operator and compiles for that: {compile_apply:.1f} s; that goes on to "
        f"factorize and compiles for that: {compile_learn:.1f} s (aim: below 20 together, for one dtype); the "
        f"same with compiled kernels in the cache: {cached:.1f} s."
    )
    table = Table("Start", note)
    times = {OURS: min(seconds(IMPORT) for _ in range(5)), PEER: min(seconds(PEER) for _ in range(5))}
    table.add("import", times)
    return [table]


def seconds(code: str, cache: str | None = None) -> float:
    """How long a new process takes for ``code``, its own start not counted."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    timed = f"from time import perf_counter as t\nb = t()\n{code}\nprint(t() - b)"
    done = subprocess.run(
        [sys.executable, "-c", timed], capture_output=True, text=True, check=True, env=environment
    )
    return float(done.stdout)
