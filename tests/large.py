"""Small data that learners are made to take for large: in many parts, and with a start from a sample."""

import json

import numpy as np

import papilio as pp
from papilio.runtime.checkpoint import FINISHED

from .learners import N_ATOMS, N_NONZERO, signals

X = signals(n_signals=400).T.copy()
LEARNERS = {"fast": pp.FastDictionaryLearning, "online": pp.OnlineDictionaryLearning, "ksvd": pp.KSVD}


def make(name, **options):
    short = {"effort": 0.5} if name == "fast" else {"max_iter": 5}
    return LEARNERS[name](N_ATOMS, N_NONZERO, **short | {"random_state": 0} | options)


def on_disk(folder, rows=X, sizes=None):
    """``rows`` in one .npy file, or in shards of these sizes."""
    if sizes is None:
        np.save(folder / "x.npy", rows)
        return pp.datasets.on_disk(folder / "x.npy")
    for i, shard in enumerate(np.split(rows, np.cumsum(sizes)[:-1])):
        np.save(folder / f"part-{i}.npy", shard)
    return pp.datasets.on_disk(folder)


def part_sizes(rows=X):
    """How many rows are in each part: the chunks of a Dask array that is added up in the same order."""
    from papilio.samples import held

    return tuple(part.stop - part.start for part in held(rows).parts())


def assert_same(model, expected):
    """Bit for bit, and on the same way."""
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.operator_ == expected.operator_
    assert model.history_.phase == expected.history_.phase
    np.testing.assert_array_equal(model.history_.error, expected.history_.error)


# What passes over samples do in tests, and how their results are put together.


def rows_of(blocks, payload):
    return [(start, len(rows)) for start, rows in blocks]


def joined(results):
    return [each for result in results for each in result]


def holds_result(path):
    """Whether the file is the checkpoint of a run that is finished."""
    with np.load(path) as arrays:
        return json.loads(str(arrays["header"]))["state"]["Snapshot"]["stage"] == FINISHED
