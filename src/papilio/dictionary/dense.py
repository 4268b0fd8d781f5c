"""Dense dictionaries from samples of any size."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.checkpoint import Checkpoint
from ..samples import Samples
from ..solvers.palm import Run
from ..typing import Array
from .full_passes import STAGE as ALL_DATA
from .full_passes import better_atoms, improved_on_all
from .signals import Data, Streamed, opened


def learn_dense(
    samples: Samples,
    n_components: int,
    n_nonzero_coefs: int,
    start: Callable[..., Array],
    random: np.random.RandomState,
    run: Run,
    checkpoint: Checkpoint,
) -> tuple[Array, Data]:
    """Atoms, one a row, that ``start`` learns from signals in memory, improved on all where these are a sample.

    What is in memory already is learned from as a whole.
    """
    data = opened(samples, n_nonzero_coefs, n_components, random, run, checkpoint, can_hold=samples.is_held)
    atoms: Any = None
    if checkpoint.stage != ALL_DATA:
        atoms = start(data.start, random=random, run=run, checkpoint=checkpoint)
    if isinstance(data, Streamed):
        dictionary: Any = None if atoms is None else atoms.T
        dictionary, data.latest = improved_on_all(
            data, dictionary, better_atoms, data.n_passes, run, checkpoint, n_components
        )
        atoms = dictionary.T
    return np.ascontiguousarray(atoms), data
