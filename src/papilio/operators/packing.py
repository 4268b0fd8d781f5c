"""Applying a product: its factors packed for the kernels or for BLAS, once per operator and direction."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..runtime.forks import cached_property
from ..typing import Array
from .cost import plan, rates
from .csr import Factor, is_moderate, to_dense, with_scale
from .groups import Groups, grouped, is_in_place
from .segments import Dense, Fused


class PackedFactor:
    """One factor, or two that were joined, in the forms that kernels and BLAS read, each made when first needed.

    ``joined`` keeps what became of the attempts to join it with a later factor: neighbours meet again in each
    product that holds both.
    """

    def __init__(self, factor: Factor | None, shape: tuple[int, int], groups: list[Groups]) -> None:
        self.shape = shape
        self.groups = groups
        self.is_in_place = is_in_place(groups, shape)
        self.has_matrix = factor is not None
        self.is_full = isinstance(factor, np.ndarray)
        self._factor = factor
        self.joined: WeakKeyDictionary[PackedFactor, PackedFactor | None] = WeakKeyDictionary()

    @cached_property
    def n_strips(self) -> dict[int, int]:
        """The number of strips of each height."""
        return {each.height: each.columns.size for each in self.groups}

    @cached_property
    def matrix(self) -> Array:
        return to_dense(self._factor)

    @property
    def is_paired(self) -> bool:
        """Whether it is a butterfly: pairs of rows that have their entries in the same two columns."""
        return self.is_in_place and [each.height for each in self.groups] == [2]


class PackedProduct:
    """scale · S₁…S_M, of sound factors and the same ones packed; times vectors and blocks of its own dtype."""

    def __init__(self, factors: Sequence[Factor], scale: float, packed: Sequence[PackedFactor]) -> None:
        packed = list(reversed(packed))  # in the order of application
        dtype = factors[0].dtype
        if scale != 1.0:
            i, factor = with_scale(factors, scale)
            packed[-1 - i] = pack_factor(factor)
        self.units = join_neighbours(packed)
        self.vector_plan, self.block_plan = (
            plan(self.units, rates(dtype, block)).by_blas for block in (False, True)
        )
        segments = self._segments(self.vector_plan, dtype)
        self._vector = [segment.vector for segment in segments]
        if self.block_plan != self.vector_plan:
            segments = self._segments(self.block_plan, dtype)
        self._block = [segment.block for segment in segments]

    def _segments(self, by_blas: Sequence[bool], dtype: np.dtype[Any]) -> list[Dense | Fused]:
        """Each dense unit on its own, the others between them together."""
        segments: list[Dense | Fused] = []
        for is_dense, group in groupby(zip(by_blas, self.units, strict=True), key=lambda pair: pair[0]):
            units = [unit for _, unit in group]
            segments += [Dense(unit.matrix) for unit in units] if is_dense else [Fused(units, dtype)]
        return segments

    def vector(self, x: Array) -> Array:
        """scale · S₁…S_M x."""
        for apply in self._vector:
            x = apply(x)
        return x

    def block(self, X: Array) -> Array:
        """scale · S₁…S_M X, row-major for row-major X and column-major for column-major X."""
        for apply in self._block:
            X = apply(X)
        return X


def pack_factor(factor: Factor) -> PackedFactor:
    """A factor packed in the form that the kernels apply fastest."""
    return PackedFactor(factor, factor.shape, grouped(factor))


def join_neighbours(packed: Sequence[PackedFactor]) -> list[PackedFactor]:
    """Neighbouring butterflies joined wherever their pairs form squares: the memory is passed through once."""
    joined = [packed[0]]
    for later in packed[1:]:
        earlier = joined[-1]
        squares = None
        if earlier.is_paired and later.is_paired:
            if later not in earlier.joined:
                earlier.joined[later] = _join(earlier, later)
            squares = earlier.joined[later]
        if squares is None:
            joined.append(later)
        else:
            joined[-1] = squares
    return joined


def _join(earlier: PackedFactor, later: PackedFactor) -> PackedFactor | None:
    """later @ earlier as groups of four rows, if the pairs of both form squares, else None.

    A square has the rows (i, j, k, m): (i, k) and (j, m) are pairs of the earlier factor, (i, j) and (k, m) of the
    later one.
    """
    (earlier_groups,), (later_groups,) = earlier.groups, later.groups
    earlier_pairs, later_pairs = earlier_groups.rows, later_groups.rows
    if not (is_moderate(earlier_groups.values) and is_moderate(later_groups.values)):
        return None  # the product may leave the number range where one after the other would not
    # Strips are columns: the blocks of a product are those of the transposed factors in reverse order.
    earlier_blocks, later_blocks = (each.values.reshape(-1, 2, 2) for each in (earlier_groups, later_groups))
    in_earlier, in_later = np.argsort(earlier_pairs.ravel()), np.argsort(later_pairs.ravel())  # where rows stand

    # The pair (i, j) of a square is a later pair whose rows both are the upper rows of earlier pairs.
    ij = np.flatnonzero((in_earlier[later_pairs] % 2 == 0).all(axis=1))
    i, j = later_pairs[ij].T
    ik, jm = in_earlier[i] // 2, in_earlier[j] // 2
    k, m = earlier_pairs[ik, 1], earlier_pairs[jm, 1]
    km = in_later[k] // 2
    if 4 * ij.size != earlier.shape[0] or (later_pairs[km] != np.stack([k, m], axis=1)).any():
        return None
    first, second = np.zeros((2, ij.size, 4, 4), dtype=earlier_blocks.dtype)  # both factors on the rows i, j, k, m
    first[:, 0::2, 0::2] = earlier_blocks[ik]
    first[:, 1::2, 1::2] = earlier_blocks[jm]
    second[:, :2, :2] = later_blocks[ij]
    second[:, 2:, 2:] = later_blocks[km]
    squares = np.stack([i, j, k, m], axis=1)
    groups = Groups(4, squares, 4 * np.arange(ij.size + 1), squares.ravel(), (first @ second).reshape(-1, 4))
    return PackedFactor(None, later.shape, [groups])


def modelled_cost(factors: Sequence[Factor]) -> tuple[float, float]:
    """The modelled time of a product for one vector, and for a block of 256, relative to the dense matrix.

    ``factors`` are as `SparseProduct.factors` has them.
    """
    shape, dtype = (factors[0].shape[0], factors[-1].shape[1]), factors[0].dtype
    times = modelled_times([pack_factor(factor) for factor in factors], dtype)
    vector, block = (time / rates(dtype, i == 1).blas(shape) for i, time in enumerate(times))
    return vector, block


def modelled_times(packed: Sequence[PackedFactor], dtype: np.dtype[Any]) -> tuple[float, float]:
    """What a product of packed factors, from left to right, takes for one vector, and per vector of a block."""
    units = join_neighbours(list(reversed(packed)))
    return plan(units, rates(dtype, False)).cost, plan(units, rates(dtype, True)).cost
