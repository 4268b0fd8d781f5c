"""What applying a product costs: a model of the kernels and of BLAS, by which each factor goes to the faster one.

The figures were measured on one core each of two x86-64 processors, one with AVX-512 and one with AVX2, and
rounded. They need not hold elsewhere: what counts is how they compare.
"""

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .engine import PackedFactor

# Nanoseconds for float32, float64, complex64 and complex128: for one vector, and per vector of a block of 256.
_WIDE_REGISTERS = {
    # Of the kernel: a strip of four entries, two or one, where the vectors it reads are in the first cache, and
    # where they are not.
    "four": ((0.45, 0.55, 0.65, 1.0), (0.037, 0.065, 0.155, 0.29)),
    "two": ((0.4, 0.5, 0.6, 0.75), (0.022, 0.039, 0.079, 0.143)),
    "one": ((0.45, 0.48, 0.6, 0.7), (0.019, 0.034, 0.047, 0.09)),
    "far_four": ((0.5, 0.65, 0.7, 1.1), (0.046, 0.106, 0.19, 0.4)),
    "far_two": ((0.4, 0.5, 0.6, 0.8), (0.03, 0.07, 0.095, 0.19)),
    "far_one": ((0.45, 0.48, 0.6, 0.7), (0.028, 0.057, 0.063, 0.13)),
    "row": ((0.9, 0.6, 0.7, 0.7), (0.01, 0.05, 0.03, 0.1)),  # Per row of a factor, besides its strips.
    "blas_entry": ((0.05, 0.1, 0.14, 0.24), (0.012, 0.027, 0.046, 0.09)),
    # Per call of the kernel (several factors) or of BLAS (one factor).
    "call": ((1000.0,) * 4, (6.0, 6.0, 8.0, 8.0)),
    "line": ((0.0,) * 4, (0.08, 0.12, 0.14, 0.3)),  # Per line that a call reads, and that it writes.
    "mixing": ((1.0,) * 4, (1.25,) * 4),  # times all that: their threads get in each other's way
}
_NARROW_REGISTERS = {
    "four": ((0.33, 0.5, 0.85, 1.4), (0.1, 0.2, 0.45, 0.9)),
    "two": ((0.42, 0.47, 0.82, 0.75), (0.053, 0.105, 0.215, 0.41)),
    "one": ((0.48, 0.5, 0.9, 0.7), (0.037, 0.074, 0.12, 0.23)),
    "far_four": ((0.4, 0.55, 0.85, 1.4), (0.11, 0.23, 0.47, 1.0)),
    "far_two": ((0.42, 0.47, 0.82, 0.75), (0.06, 0.124, 0.23, 0.47)),
    "far_one": ((0.48, 0.5, 0.9, 0.7), (0.062, 0.125, 0.14, 0.26)),
    "row": ((1.9, 1.9, 3.0, 2.2), (0.01, 0.05, 0.03, 0.1)),
    "blas_entry": ((0.06, 0.115, 0.16, 0.26), (0.021, 0.046, 0.093, 0.178)),
    "call": ((1300.0,) * 4, (6.0, 6.0, 8.0, 8.0)),
    "line": ((0.0,) * 4, (0.15, 0.24, 0.25, 0.4)),
    "mixing": ((1.0,) * 4, (1.25,) * 4),
}
_NEAR = 128  # columns of which a tile fits into the first cache
_DENSE_ENOUGH = 8 / _NEAR  # strips for each entry of the dense matrix: see `is_near`
BLOCK = 256  # vectors
HEIGHTS = (4, 2, 1)  # Heights of the groups of rows that kernels take.
_DTYPES = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))


def is_near(unit: "PackedFactor") -> bool:
    """Whether the kernel finds the vectors that it reads in the first cache.

    Some columns are read at a time, where that is worth reading and writing the sums again: with enough strips.
    """
    n_rows, n_columns = unit.shape
    return n_columns <= _NEAR or sum(unit.n_strips.values()) >= _DENSE_ENOUGH * n_rows * n_columns


class Rates(NamedTuple):
    """The table's figures for one dtype, and for vectors or for blocks."""

    four: float
    two: float
    one: float
    far_four: float
    far_two: float
    far_one: float
    row: float
    blas_entry: float
    call: float
    line: float
    mixing: float

    def kernel(self, unit: "PackedFactor") -> float:
        """One factor within a call of the kernel."""
        strips = (self.four, self.two, self.one) if is_near(unit) else (self.far_four, self.far_two, self.far_one)
        cost = dict(zip((4, 2, 1), strips, strict=True))
        return unit.shape[0] * self.row + sum(n * cost[height] for height, n in unit.n_strips.items())

    def blas(self, shape: tuple[int, int]) -> float:
        """A dense matrix, with the call."""
        return self.call + sum(shape) * self.line + shape[0] * shape[1] * self.blas_entry


@cache
def rates(dtype: np.dtype[Any], block: bool) -> Rates:
    from ..kernels.simd import REGISTER  # loads numba, which `import papilio` does not

    table, column = _WIDE_REGISTERS if REGISTER == 64 else _NARROW_REGISTERS, _DTYPES.index(dtype)
    return Rates(**{name: figures[block][column] for name, figures in table.items()})


def cost_of(units: "Sequence[PackedFactor]", by_blas: Sequence[bool], rate: Rates) -> float:
    """The cost of applying ``units``, given in the order of application, each by BLAS or by the kernel."""
    total = 0.0
    for i, (unit, is_dense) in enumerate(zip(units, by_blas, strict=True)):
        begins = is_dense or i == 0 or by_blas[i - 1]
        ends = is_dense or i == len(units) - 1 or by_blas[i + 1]
        work = unit.shape[0] * unit.shape[1] * rate.blas_entry if is_dense else rate.kernel(unit)
        total += begins * (rate.call + unit.shape[1] * rate.line) + ends * unit.shape[0] * rate.line + work
    return total * (rate.mixing if any(by_blas) and not all(by_blas) else 1.0)


class Plan(NamedTuple):
    """How the units of a product are applied, in their order, and what that costs."""

    cost: float
    by_blas: tuple[bool, ...]


def plan(units: "Sequence[PackedFactor]", rate: Rates) -> Plan:
    """The cheapest way to apply ``units``, given in the order of application: each by BLAS or by the kernel.

    Neighbours in the kernel share a call. A matrix without zeros, by itself, is left to BLAS.
    """
    if len(units) == 1 and units[0].is_full:
        return Plan(rate.blas(units[0].shape), (True,))
    in_kernel, in_blas = Plan(inf, ()), Plan(0.0, ())  # the cheapest ways so far by where the last unit is
    for unit in units:
        n_rows, n_columns = unit.shape
        before = min(in_kernel, in_blas)
        work = rate.kernel(unit)
        alone = before.cost + rate.call + (n_rows + n_columns) * rate.line + work
        shared = in_kernel.cost + (n_rows - n_columns) * rate.line + work
        # Two joined factors have no matrix.
        dense = before.cost + rate.blas(unit.shape) if unit.has_matrix else inf
        in_kernel = min(Plan(alone, (*before.by_blas, False)), Plan(shared, (*in_kernel.by_blas, False)))
        in_blas = Plan(dense, (*before.by_blas, True))
    best = min(in_kernel, in_blas)
    pure = [(False,) * len(units), *([(True,) * len(units)] if all(unit.has_matrix for unit in units) else [])]
    return min(Plan(cost_of(units, by_blas, rate), by_blas) for by_blas in (best.by_blas, *pure))
