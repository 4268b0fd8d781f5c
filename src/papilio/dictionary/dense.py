"""Dense dictionaries from samples of any size."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint
from ..samples import Samples
from ..solvers.palm import Run
from ..validation import Array
from .all_data import STAGE as ALL_DATA
from .all_data import better_atoms, improved_on_all
from .data import Data, Streamed, opened


def learn_dense(
    samples: Samples,
    n_atoms: int,
    n_nonzero: int,
    start: Callable[..., Array],
    random: np.random.RandomState,
    run: Run,
    checkpoint: Checkpoint,
) -> tuple[Array, Data]:
    """Atoms, one a row, that ``start`` learns from signals in memory, improved on all where these are a sample.

    What is in memory already is learned from as a whole.
    """
    data = opened(samples, n_nonzero, n_atoms, random, run, checkpoint, can_hold=samples.is_held)
    atoms: Any = None
    if checkpoint.stage != ALL_DATA:
        atoms = start(data.start, random=random, run=run, checkpoint=checkpoint)
    if isinstance(data, Streamed):
        dictionary: Any = None if atoms is None else atoms.T
        dictionary, data.latest = improved_on_all(
            data, dictionary, better_atoms, data.n_passes, run, checkpoint, n_atoms
        )
        atoms = dictionary.T
    return np.ascontiguousarray(atoms), data
