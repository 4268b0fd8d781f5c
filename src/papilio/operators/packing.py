"""Applying a product: its factors packed for the kernels or for BLAS, once per operator and direction."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..runtime.forks import cached_property
from ..typing import Array
from .cost import Rates, cost_of, plan, rates
from .csr import Factor, is_moderate, to_dense, with_scale
from .groups import Groups, grouped, is_in_place
from .lanes import separate_chains
from .segments import Dense, Fused

_CLEARLY = 0.9  # of the modelled time: what chains apart must take less than


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
        dtype = self.dtype = factors[0].dtype
        if scale != 1.0:
            i, factor = with_scale(factors, scale)
            packed[-1 - i] = pack_factor(factor)
        self.units = join_neighbours(packed)
        plans = [plan(self.units, rates(dtype, block)) for block in (False, True)]
        self.vector_plan, self.block_plan = (each.by_blas for each in plans)
        self.vector_cost, self.block_cost = (each.cost for each in plans)
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

    def cost(self, rate: Rates, block: bool) -> float:
        """The modelled time, with these figures."""
        return cost_of(self.units, self.block_plan if block else self.vector_plan, rate)

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


class PackedSum:
    """A product that falls apart into a sum of chains, which are applied one by one where that is faster."""

    def __init__(self, whole: PackedProduct, chains: Sequence[PackedProduct]) -> None:
        n_rows, dtype = whole.units[-1].shape[0], whole.dtype
        self._vector, self._block = (
            chains if self._cost(chains, rates(dtype, block), block, n_rows) < _CLEARLY * before else [whole]
            for block, before in ((False, whole.vector_cost), (True, whole.block_cost))
        )
        self._n_rows = n_rows

    @staticmethod
    def _cost(chains: Sequence[PackedProduct], rate: Rates, block: bool, n_rows: int) -> float:
        adding = (len(chains) - 1) * (rate.call + 2 * rate.line * n_rows)
        return sum(chain.cost(rate, block) for chain in chains) + adding

    def cost(self, rate: Rates, block: bool) -> float:
        """The modelled time, with these figures."""
        return self._cost(self._block if block else self._vector, rate, block, self._n_rows)

    def vector(self, x: Array) -> Array:
        total = self._vector[0].vector(x)
        for chain in self._vector[1:]:
            total += chain.vector(x)
        return total

    def block(self, X: Array) -> Array:
        total = self._block[0].block(X)
        for chain in self._block[1:]:
            total += chain.block(X)
        return total


def packed_product(
    factors: Sequence[Factor], scale: float, packed: Sequence[PackedFactor]
) -> PackedProduct | PackedSum:
    """scale · S₁…S_M, ready to be applied in the fastest way."""
    whole = PackedProduct(factors, scale, packed)
    chains = separate_chains(factors)
    if not chains:
        return whole
    parts = [PackedProduct(chain, scale, [pack_factor(factor) for factor in chain]) for chain in chains]
    return PackedSum(whole, parts)


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
