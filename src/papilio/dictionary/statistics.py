"""What learning needs to know about signals and their codes: sums over the data, small enough to send."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..coding import Coder, lasso_codes
from ..linalg import largest_part, wide
from ..operators import SparseProduct
from ..solvers.moments import Moments
from ..typing import Array
from .sums import SMALL, energies_of_codes, is_rounding, moments_of_rows, multiplied, scaled, unit_for

_ROWS_PER_ATOM = 4  # that are coded and summed together, at least


class Statistics(NamedTuple):
    """Sums over signals X with codes Γ in a dictionary D, and the signals that are represented worst."""

    gram: Array  # ΓΓᴴ
    cross: Array  # XΓᴴ, one atom per row
    energy: float  # ‖X‖²
    residual: float  # ‖X − DΓ‖²
    uses: Array  # how many signals use each atom
    worst: Array  # signals, one per row, the worst first
    badness: Array  # their ‖x − Dγ‖²

    @property
    def error(self) -> float:
        """‖X − DΓ‖/‖X‖, and 0 for zero data."""
        return float(np.sqrt(self.residual / self.energy)) if self.energy > 0 else 0.0

    def moments(self, dictionary: SparseProduct) -> Moments:
        """The moments for PALM; if all codes are zero, those of the dictionary itself."""
        if not self.gram.any():
            return Moments(dictionary.toarray())
        return Moments(self.cross.T, self.gram, self.energy)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Statistics":
        """The statistics whose ``_asdict()`` is in a checkpoint."""
        numbers = {field: float(state[field]) for field in ("energy", "residual")}
        return cls(**{field: state[field] for field in cls._fields} | numbers)


def statistics_of(rows: Array, atoms: Array, codes: sp.csc_array, n_worst: int = 0) -> Statistics:
    """The statistics of signals, one per row, with their codes in ``atoms``, one per row."""
    gram, cross = moments_of_rows(rows, codes)
    energies, badness = energies_of_codes(rows, atoms, codes)
    energy, residual = float(energies.sum()), float(badness.sum())
    badness[is_rounding(badness, energies, rows.dtype)] = 0
    order = np.argsort(-badness, kind="stable")[:n_worst] if n_worst else np.zeros(0, np.int64)
    uses = np.bincount(codes.indices, minlength=len(atoms)).astype(float)
    return Statistics(gram, cross, energy, residual, uses, rows[order], badness[order])


def merge_statistics(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of all signals: those of their parts, added in this order."""
    *sums, worst, badness = zip(*parts, strict=True)
    gram, cross, energy, residual, uses = (reduce(add, each) for each in sums)
    errors = np.concatenate(badness)
    order = np.argsort(-errors, kind="stable")[: max(map(len, worst))]
    return Statistics(gram, cross, energy, residual, uses, np.concatenate(worst)[order], errors[order])


class Coding(NamedTuple):
    """How `code_part` codes; ``n_worst`` is the number of worst signals to keep."""

    dictionary: SparseProduct | Array  # (d, a)
    n_nonzero_coefs: int
    n_worst: int = 0
    unit: float = 1.0
    positive: bool = False
    alpha: float | None = None  # the ℓ1 penalty; without one, codes are those of OMP

    def codes(self, coder: Coder, rows: Array, unit: float = 1.0) -> sp.csc_array:
        """The codes of signals, one per row, that were divided by ``unit``."""
        if self.alpha is None:
            return coder.code(rows.T, self.n_nonzero_coefs, positive=self.positive)
        limits = np.finfo(np.float64)
        return lasso_codes(
            coder, rows.T, float(np.clip(self.alpha / unit, limits.tiny, limits.max)), self.positive
        )


def code_part(blocks: Iterator[tuple[int, Array]], coding: Coding) -> Statistics:
    """The statistics of one part of the samples, divided by the unit."""
    coder: Coder | None = None
    found: Statistics | None = None
    for rows in _gathered(blocks, _ROWS_PER_ATOM * coding.dictionary.shape[1]):
        rows = scaled(rows, coding.unit)
        if coder is None:
            coder, atoms = coder_and_atoms(coding.dictionary.astype(rows.dtype))
        codes = coder.code(rows.T, coding.n_nonzero_coefs, positive=coding.positive)
        new = statistics_of(rows, atoms, codes, coding.n_worst)
        found = new if found is None else merge_statistics([found, new])  # one at a time: they may be large
    return _of_nothing(coding.dictionary) if found is None else found


def _gathered(blocks: Iterator[tuple[int, Array]], least: int) -> Iterator[Array]:
    """Rows of several blocks together, at least so many but at the end: sums take a time of their own."""
    waiting: list[Array] = []
    for _, rows in blocks:
        if not waiting and len(rows) >= least:
            yield rows
            continue
        waiting.append(rows.copy())  # the next block may overwrite it
        if sum(map(len, waiting)) >= least:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


class Loss(NamedTuple):
    """Squared sums over signals, in a unit of their own: those of the data may be beyond the number range."""

    energy: float  # ‖X‖², over 4^exponent
    residual: float  # ‖X − DΓ‖², over 4^exponent
    exponent: int

    @property
    def error(self) -> float:
        """‖X − DΓ‖/‖X‖, and 0 for zero data."""
        return float(np.sqrt(self.residual / self.energy)) if self.energy > 0 else 0.0


def loss_of_part(blocks: Iterator[tuple[int, Array]], coding: Coding) -> Loss:
    """The loss of one part of the samples; each block of rows has its own unit."""
    coder: Coder | None = None
    found = [Loss(0.0, 0.0, 0)]
    for _, rows in blocks:
        if coder is None:
            coder, atoms = coder_and_atoms(coding.dictionary)
        unit = unit_for(largest_part(rows))
        rows = scaled(rows, unit).astype(atoms.dtype, copy=False)
        codes = coding.codes(coder, rows, unit)
        energies, errors = energies_of_codes(rows, atoms, codes)
        found.append(Loss(float(energies.sum()), float(errors.sum()), int(np.frexp(unit)[1]) - 1))
    return merge_losses(found)


def merge_losses(parts: Sequence[Loss]) -> Loss:
    """The loss of all signals: those of their parts, added in this order."""
    exponent = max((part.exponent for part in parts if part.energy > 0), default=0)
    energies, errors = (
        [float(np.ldexp(number, 2 * (part.exponent - exponent))) for part, number in zip(parts, each, strict=True)]
        for each in ([part.energy for part in parts], [part.residual for part in parts])
    )
    return Loss(reduce(add, energies), reduce(add, errors), exponent)


def coder_and_atoms(dictionary: SparseProduct | Array) -> tuple[Coder, Array]:
    """A coder for a dictionary (d, a), and its atoms, one per row.

    A small product is coded with as a matrix: to make it ready would take longer than it could save.
    """
    dense = multiplied(dictionary) if isinstance(dictionary, SparseProduct) else dictionary
    return Coder(dense if dense.size <= SMALL else dictionary), np.ascontiguousarray(dense.T)


def _of_nothing(dictionary: SparseProduct | Array) -> Statistics:
    """The statistics of no signal."""
    (features, atoms), kind = dictionary.shape, wide(dictionary.dtype)
    sums = np.zeros((atoms, atoms), kind), np.zeros((atoms, features), kind)
    return Statistics(*sums, 0.0, 0.0, np.zeros(atoms), np.zeros((0, features), dictionary.dtype), np.zeros(0))
