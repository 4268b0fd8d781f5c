"""What applying a product costs: a model of the kernels and of BLAS, by which each factor goes to the faster one.

The figures were measured on one core of an x86-64 processor with AVX2, and rounded. They need not hold elsewhere:
what counts is how they compare.
"""

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..kernels.apply import ANY, PAIRS, QUADS

# Nanoseconds for float32, float64, complex64 and complex128: for one vector, and per vector of a block of 256.
_TABLE = {
    "entry": ((0.5, 0.5, 1.0, 1.1), (0.07, 0.14, 0.78, 0.85)),  # of any factor in the kernel but butterflies
    "far_entry": (
        (0.5, 0.5, 1.0, 1.1),
        (0.15, 0.3, 1.2, 1.7),
    ),  # where a tile of long vectors leaves cache
    "pairs_row": ((0.7, 0.75, 1.5, 1.7), (0.11, 0.21, 1.5, 1.6)),
    "quads_row": ((1.1, 1.2, 3.0, 3.2), (0.13, 0.24, 3.0, 3.2)),
    "any_row": ((1.4, 1.4, 1.4, 1.4), (0.03, 0.08, 0.1, 0.1)),  # besides its entries
    "blas_entry": ((0.065, 0.13, 0.14, 0.3), (0.026, 0.052, 0.1, 0.2)),
    "call": ((1200.0,) * 4, (15.0,) * 4),  # of the kernel, for several factors, or of BLAS, for one
    "line": ((0.0,) * 4, (0.08, 0.15, 0.25, 0.4)),  # of what a call reads, and of what it writes
}
_NEAR = 512  # columns
_DTYPES = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))


class Unit(Protocol):
    """What the model has to know of a factor, or of two that were joined."""

    kind: int
    shape: tuple[int, int]
    n_entries: int


class Rates(NamedTuple):
    """The table's figures for one dtype, and for vectors or for blocks."""

    entry: float
    far_entry: float
    pairs_row: float
    quads_row: float
    any_row: float
    blas_entry: float
    call: float
    line: float

    def kernel(self, unit: Unit) -> float:
        """One factor within a call of the kernel."""
        if unit.kind in (PAIRS, QUADS):
            return unit.shape[0] * (self.pairs_row if unit.kind == PAIRS else self.quads_row)
        entry = self.entry if unit.shape[1] <= _NEAR else self.far_entry
        return unit.n_entries * entry + unit.shape[0] * (self.any_row if unit.kind == ANY else 0.0)

    def blas(self, shape: tuple[int, int]) -> float:
        """A dense matrix, with the call."""
        return self.call + sum(shape) * self.line + shape[0] * shape[1] * self.blas_entry


@cache
def rates(dtype: np.dtype[Any], block: bool) -> Rates:
    column = _DTYPES.index(dtype)
    return Rates(**{name: figures[block][column] for name, figures in _TABLE.items()})


class Plan(NamedTuple):
    """How the units of a product are applied, in their order, and what that costs."""

    cost: float
    by_blas: tuple[bool, ...]


def plan(units: Sequence[Unit], rate: Rates) -> Plan:
    """The cheapest way to apply ``units``, given in the order of application: each by BLAS or by the kernel.

    Neighbours in the kernel share a call.
    """
    in_kernel, in_blas = Plan(inf, ()), Plan(0.0, ())  # the cheapest ways so far by where the last unit is
    for unit in units:
        n_rows, n_columns = unit.shape
        before = min(in_kernel, in_blas)
        work = rate.kernel(unit)
        alone = before.cost + rate.call + (n_rows + n_columns) * rate.line + work
        shared = in_kernel.cost + (n_rows - n_columns) * rate.line + work
        # Two joined factors have no matrix.
        dense = inf if unit.kind == QUADS else before.cost + rate.blas(unit.shape)
        in_kernel = min(Plan(alone, (*before.by_blas, False)), Plan(shared, (*in_kernel.by_blas, False)))
        in_blas = Plan(dense, (*before.by_blas, True))
    return min(in_kernel, in_blas)
