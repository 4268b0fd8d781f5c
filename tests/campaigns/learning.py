"""A run of learning that can be interrupted: ``python -m tests.campaigns.learning LEARNER DATA``.

It works in the current folder. ``run`` is its checkpoint; what it learns goes to ``components.npy`` and
``errors.npy``. A line "begin" on the standard output says that learning begins. It ends with 3 if it was stopped.
"""

import signal
import sys
from importlib import import_module
from typing import Any

import numpy as np

import papilio as pp

from ..limits import LIMITS

LEARNERS: dict[str, dict[str, Any]] = {
    "FastDictionaryLearning": {"n_components": 24, "complexity": 0.6},
    "KSVD": {"n_components": 24, "max_iter": 60, "tol": 0.0},
    "OnlineDictionaryLearning": {"n_components": 24, "max_iter": 40, "tol": 0.0},
    "OrthogonalDictionaryLearning": {"max_iter": 60, "tol": 0.0},
    "SparseKSVD": {"n_components": 24, "max_iter": 30, "tol": 0.0},
}
SIZES = {
    "sample": 2000,
    "sample_per_atom": 10,
    "passes": 3,
    "rows_per_part": 500,
    "seconds_between_checkpoints": 0.02,
}


def samples(data: str) -> Any:
    """4000 rows; in a file, they are more than learners hold."""
    X = np.random.default_rng(0).standard_normal((4000, 16)) @ np.random.default_rng(1).standard_normal((16, 16))
    if data == "memory":
        return X[:1500]
    return pp.datasets.on_disk("samples.npy")


def lower_limits() -> None:
    """Small data take the way of large ones, and states are written often."""
    for name, value in SIZES.items():
        module, _, attribute = LIMITS[name].rpartition(".")
        setattr(import_module(module), attribute, value)


def main(learner: str, data: str) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    lower_limits()
    X = samples(data)
    model = getattr(pp, learner)(n_nonzero_coefs=3, random_state=0, checkpoint="run", **LEARNERS[learner])
    sys.stdout.write("begin\n")
    sys.stdout.flush()
    model.fit(X)
    if model.status_ is pp.results.Status.STOPPED:
        return 3
    np.save("components.npy", model.components_)
    np.save("errors.npy", model.history_.error)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
