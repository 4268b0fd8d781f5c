"""A chain of rotations U = G₁G₂…G_g, each of two coordinates, and its form as a product of sparse factors."""

from dataclasses import dataclass
from itertools import pairwise
from math import nan
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching

from ..kernels.givens import rotate_block
from ..linalg import wide
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..typing import Array


class Chain(NamedTuple):
    """Rotations in their order in the product: the pair of each, and its 2×2 unitary block."""

    size: int  # the side of U
    pairs: Array  # (g, 2) int64
    blocks: Array  # (g, 2, 2) float64 or complex128

    def apply(self, block: Array, inverse: bool = False) -> Array:
        """UX, or UᴴX, as a new array."""
        turned = np.array(block, np.result_type(block.dtype, self.blocks.dtype), order="C")
        rotate_block(turned, self.pairs, self.blocks, inverse)
        return turned

    def layers(self) -> Array:
        """The layer of each rotation, from 0: as early as the layers of earlier rotations of its pair allow."""
        depth, layers = [0] * self.size, []
        for i, j in self.pairs.tolist():
            layer = max(depth[i], depth[j])
            layers.append(layer)
            depth[i] = depth[j] = layer + 1
        return np.array(layers, np.int64)

    def by_layers(self) -> tuple["Chain", Array]:
        """The same product with its rotations in the order of their layers, and where each layer begins."""
        layers = self.layers()
        order = np.argsort(layers, kind="stable")
        starts = np.searchsorted(layers[order], np.arange(layers.max(initial=-1) + 2))
        return Chain(self.size, self.pairs[order], self.blocks[order]), starts

    def as_product(
        self,
        dtype: np.dtype[Any],
        columns: Array | None = None,
        signs: Array | None = None,
        is_short: bool = False,
    ) -> Any:
        """U as a `SparseProduct` with one factor per layer, its columns in the given order and times the signs.

        If ``is_short``, neighbouring layers are multiplied out, as many as give the fewest entries: where each
        rotation waits for the one before, there are as many layers as rotations, and most entries of a layer are
        ones of coordinates that no rotation of it changes.
        """
        chain, starts = self.by_layers()
        parts = [slice(*ends) for ends in pairwise(starts)]
        factors = [layer(self.size, chain.pairs[part], chain.blocks[part]) for part in parts]
        if not factors:
            factors = [sp.eye_array(self.size, format="csr")]
        if is_short:
            factors = _fewest_entries(factors)
        if signs is not None:
            factors[-1] = factors[-1] * signs[None]
        if columns is not None:
            factors[-1] = sp.csr_array(factors[-1].tocsc()[:, columns])
        return SparseProduct([sp.csr_array(each).astype(dtype) for each in factors])


@dataclass(frozen=True)
class Turned:
    """U = G₁G₂…G_g P: rotations, and the order and signs of the columns of their product."""

    chain: Chain
    columns: Array  # column q of U is column columns[q] of the chain's product, times the sign of this one
    signs: Array
    trace: float  # Re tr UᴴM

    def as_product(self, dtype: np.dtype[Any]) -> SparseProduct:
        """U with one factor per layer."""
        return self.chain.as_product(dtype, self.columns, self.signs)

    def toarray(self) -> Array:
        """U as a dense matrix."""
        return (self.chain.apply(np.eye(self.chain.size)) * self.signs)[:, self.columns]

    @classmethod
    def from_product(cls, product: SparseProduct) -> "Turned":
        """The rotations of a product that `as_product` returned.

        A permutation is separated from the last factor, whose diagonal then has no zero.
        """
        n, pairs, blocks, order = product.shape[0], [], [], np.arange(product.shape[0])
        for k, factor in enumerate(product.factors):
            turn = to_dense(factor)
            if k == len(product.factors) - 1:
                order = maximum_bipartite_matching(sp.csr_array(turn != 0), perm_type="column")
                if (order < 0).any():
                    raise ValueError("product must have orthogonal factors, got a singular one")
                turn = turn[:, order]
            rows, columns = np.nonzero(np.triu((turn != 0) | (turn != 0).T, 1))
            if np.unique([rows, columns]).size < 2 * rows.size:
                raise ValueError("product must have layers of rotations, got a row with more than two entries")
            alone = np.setdiff1d(np.arange(n), [rows, columns])
            pairs.append(np.stack([rows, columns], axis=1))
            ends = pairs[-1]
            blocks.append(turn[ends[:, :, None], ends[:, None, :]])
            signs = np.ones(n, turn.dtype)
            signs[alone] = turn[alone, alone]
        kind = wide(product.dtype)
        chain = Chain(n, np.concatenate(pairs), np.concatenate(blocks).astype(kind))
        return cls(chain, np.argsort(order), signs.astype(kind), nan)

    def times_inverse(self, matrix: Array) -> Array:
        """MPᴴ: the columns of a matrix in the order, and with the signs, in which the chain has them."""
        ordered = np.empty_like(matrix)
        ordered[:, self.columns] = matrix
        return np.ascontiguousarray(ordered * self.signs.conj())


def layer(size: int, pairs: Array, blocks: Array) -> sp.csr_array:
    """Disjoint rotations as one sparse matrix, which is the identity elsewhere."""
    rest = np.setdiff1d(np.arange(size), pairs)
    rows = np.concatenate([np.repeat(pairs, 2, axis=1).ravel(), rest])
    columns = np.concatenate([np.tile(pairs, 2).ravel(), rest])
    values = np.concatenate([blocks.ravel(), np.ones(rest.size, blocks.dtype)])
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(size, size)))


def _fewest_entries(factors: list[sp.csr_array]) -> list[sp.csr_array]:
    """The same product with 1, 2, 4, … neighbours multiplied out, whichever has the fewest entries.

    `papilio.operators.factors.joined` tries all groups of neighbours, which takes time quadratic in their number.
    """
    best = factors
    while len(factors) > 1:
        pairs = [factors[k : k + 2] for k in range(0, len(factors), 2)]
        factors = [sp.csr_array(pair[0] @ pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
        if sum(factor.nnz for factor in factors) <= sum(factor.nnz for factor in best):
            best = factors
    return best


def depth(chain: Chain) -> int:
    """The number of layers."""
    return int(chain.layers().max(initial=-1)) + 1
