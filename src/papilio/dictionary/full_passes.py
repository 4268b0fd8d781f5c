"""The end of learning from data that are passed over: a start from a sample is improved on all of them."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..kernels.atoms import descend_atoms
from ..operators import SparseProduct
from ..runtime.checkpoint import Checkpoint
from ..samples import PassStopped
from ..solvers.palm import Run
from ..typing import Array
from .atoms import replace_bad_atoms
from .signals import Data
from .statistics import Summary
from .statistics import from_arrays as summary_from_arrays
from .statistics import to_arrays as summary_to_arrays

STAGE = "all data"
_LEAST_GAIN = 1e-3  # in relative error, for which another pass is worth its time
_SWEEPS = 5  # over all atoms, on the same moments

Dictionary = TypeVar("Dictionary", SparseProduct, Array)


def improved_on_all(
    data: Data,
    dictionary: Dictionary,
    improve: Callable[[Dictionary, Summary], Dictionary],
    n_passes: int,
    run: Run,
    checkpoint: Checkpoint,
    n_worst: int = 0,
) -> tuple[Dictionary, Summary]:
    """Passes over all signals as long as they pay: the best dictionary, and the summary of the signals in it.

    Each pass codes the signals anew, which tells how good the dictionary is, and how to improve it. After
    ``n_passes`` improvements, or none where the start was from all signals already, one more is for the summary.
    """
    first, best, found = 0, dictionary, None
    if saved := checkpoint.saved(STAGE):
        first, dictionary, best = int(saved["pass"]), from_arrays("now", saved), from_arrays("best", saved)
        found = summary_from_arrays("found", saved) if "found_gram" in saved else None
    try:
        for i in range(first, n_passes + 1):
            known = summary_to_arrays("found", found) if found else {}
            state = {"pass": np.array(i), **to_arrays("now", dictionary), **to_arrays("best", best), **known}
            checkpoint.save(STAGE, state)
            summary = (data.start if run.stopped else data).summary(dictionary, n_worst)
            if n_passes:
                run.report(STAGE, summary.error, 1.0, ())
            pays = found is None or summary.error < found.error * (1 - _LEAST_GAIN)
            if found is None or summary.error < found.error:
                found, best = summary, dictionary
            if not pays or run.stopped or i == n_passes or summary.error == 0:
                break
            dictionary = improve(dictionary, summary)
    except PassStopped:
        found = found or data.start.summary(best, n_worst)
    assert found is not None
    return best, found


def better_atoms(dictionary: Array, summary: Summary) -> Array:
    """A dense dictionary (d, a) after some sweeps over its atoms, and with its bad ones replaced."""
    atoms = dictionary.T.copy()
    replaced = replace_bad_atoms(atoms, summary.uses, summary.worst, summary.badness)
    gram, cross = summary.gram.copy(), summary.cross.copy()
    gram[replaced], gram[:, replaced], cross[replaced] = 0, 0, 0
    for _ in range(_SWEEPS):
        descend_atoms(atoms, gram, cross)
    return atoms.T


def to_arrays(name: str, dictionary: Any) -> dict[str, Array]:
    """A dictionary for a file."""
    if not isinstance(dictionary, SparseProduct):
        return {f"{name}_dense": dictionary}
    factors = {f"{name}_factor_{i}": factor.toarray() for i, factor in enumerate(dictionary.factors)}
    return {f"{name}_scale": np.array(dictionary.scale), **factors}


def from_arrays(name: str, arrays: Mapping[str, Array]) -> Any:
    """What `to_arrays` returned."""
    if f"{name}_dense" in arrays:
        return arrays[f"{name}_dense"]
    factors: list[Array] = []
    while f"{name}_factor_{len(factors)}" in arrays:
        factors.append(arrays[f"{name}_factor_{len(factors)}"])
    return SparseProduct(factors, float(arrays[f"{name}_scale"]))
