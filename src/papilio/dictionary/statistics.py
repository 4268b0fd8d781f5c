"""What learning needs to know of signals and their codes, small enough to travel: sums that add up over parts."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..linalg import wide
from ..operators import SparseProduct
from ..solvers.moments import Moments
from ..typing import Array
from .atoms import energies_of_codes, is_rounding, moments_of_rows, scaled


class Summary(NamedTuple):
    """Sums over signals X with codes Γ in a dictionary D, and the signals that are represented worst."""

    gram: Array  # ΓΓᴴ
    cross: Array  # XΓᴴ, one atom a row
    energy: float  # ‖X‖²
    residual: float  # ‖X − DΓ‖²
    uses: Array  # how many signals use each atom
    worst: Array  # signals, one a row, the worst first
    badness: Array  # their ‖x − Dγ‖²

    @property
    def error(self) -> float:
        """‖X − DΓ‖/‖X‖, and 0 for zero data."""
        return float(np.sqrt(self.residual / self.energy)) if self.energy > 0 else 0.0

    def moments(self, dictionary: SparseProduct) -> Moments:
        """The moments for PALM; if all signals are zero, the dictionary stands for them."""
        if not self.gram.any():
            return Moments(dictionary.toarray())
        return Moments(self.cross.T, self.gram, self.energy)


def summary_of(rows: Array, atoms: Array, codes: sp.csc_array, n_worst: int = 0) -> Summary:
    """Of signals, one a row, with their codes in ``atoms``, one a row."""
    gram, cross = moments_of_rows(rows, codes)
    energies, badness = energies_of_codes(rows, atoms, codes)
    energy, residual = float(energies.sum()), float(badness.sum())
    badness[is_rounding(badness, energies, rows.dtype)] = 0
    order = np.argsort(-badness, kind="stable")[:n_worst] if n_worst else np.zeros(0, np.int64)
    return Summary(
        gram,
        cross,
        energy,
        residual,
        np.bincount(codes.indices, minlength=len(atoms)).astype(float),
        rows[order],
        badness[order],
    )


def merged(summaries: Sequence[Summary]) -> Summary:
    """The summary of all signals, from those of their parts, added in this order."""
    first = summaries[0]
    gram, cross, uses = first.gram.copy(), first.cross.copy(), first.uses.copy()
    for other in summaries[1:]:
        gram += other.gram
        cross += other.cross
        uses += other.uses
    worst = np.concatenate([each.worst for each in summaries])
    badness = np.concatenate([each.badness for each in summaries])
    order = np.argsort(-badness, kind="stable")[: max(len(each.worst) for each in summaries)]
    energy, residual = sum(each.energy for each in summaries), sum(each.residual for each in summaries)
    return Summary(gram, cross, energy, residual, uses, worst[order], badness[order])


class Task(NamedTuple):
    """What `summarised` is to do: the dictionary, atoms a signal, the worst signals to keep, the unit."""

    dictionary: SparseProduct | Array  # (d, a)
    n_nonzero_coefs: int
    n_worst: int
    unit: float


def summarised(blocks: Iterator[tuple[int, Array]], task: Task) -> Summary:
    """The summary of one part of the samples, which are divided by the unit first."""
    coder: Coder | None = None
    found = []
    for _, rows in blocks:
        rows = scaled(rows, task.unit)
        if coder is None:
            dictionary = task.dictionary.astype(rows.dtype)
            coder = Coder(dictionary)
            dense = dictionary.toarray() if isinstance(dictionary, SparseProduct) else dictionary
            atoms = np.ascontiguousarray(dense.T)
        found.append(summary_of(rows, atoms, coder.code(rows.T, task.n_nonzero_coefs), task.n_worst))
    return merged(found) if found else _nothing(task)


def _nothing(task: Task) -> Summary:
    """The summary of no signal."""
    (features, atoms), kind = task.dictionary.shape, wide(task.dictionary.dtype)
    sums = np.zeros((atoms, atoms), kind), np.zeros((atoms, features), kind)
    return Summary(*sums, 0.0, 0.0, np.zeros(atoms), np.zeros((0, features), task.dictionary.dtype), np.zeros(0))


def to_arrays(name: str, summary: Summary) -> dict[str, Any]:
    """For a file."""
    return {f"{name}_{field}": np.asarray(value) for field, value in summary._asdict().items()}


def from_arrays(name: str, arrays: dict[str, Array]) -> Summary:
    values: dict[str, Any] = {field: arrays[f"{name}_{field}"] for field in Summary._fields}
    return Summary(**values | {field: float(values[field]) for field in ("energy", "residual")})
