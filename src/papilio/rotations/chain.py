"""A chain of rotations U = G₁G₂…G_g, each of two coordinates, and its form as a product of sparse factors."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..kernels.rotations import rotate_block
from ..operators import SparseProduct
from ..typing import Array


class Chain(NamedTuple):
    """Rotations in their order in the product: the pair of each, and its 2×2 unitary block."""

    size: int  # of the square matrix U
    pairs: Array  # (g, 2) of int64
    blocks: Array  # (g, 2, 2) of float64 or complex128

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
        """U as a `SparseProduct` with one factor per layer, its columns in this order and times these signs.

        If ``is_short``, as many neighbouring layers are one factor as give the fewest entries: a chain in which
        each rotation waits for the one before has as many layers as rotations, and most entries of a layer are
        ones of coordinates that pass through it.
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


def layer(size: int, pairs: Array, blocks: Array) -> sp.csr_array:
    """Disjoint rotations as one sparse matrix; coordinates in none of them stay as they are."""
    rest = np.setdiff1d(np.arange(size), pairs)
    rows = np.concatenate([np.repeat(pairs, 2, axis=1).ravel(), rest])
    columns = np.concatenate([np.tile(pairs, 2).ravel(), rest])
    values = np.concatenate([blocks.ravel(), np.ones(rest.size, blocks.dtype)])
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(size, size)))


def _fewest_entries(factors: list[sp.csr_array]) -> list[sp.csr_array]:
    """The same product, of 1, 2, 4, … neighbours multiplied out: whichever has the fewest entries."""
    best = factors
    while len(factors) > 1:
        pairs = [factors[k : k + 2] for k in range(0, len(factors), 2)]
        factors = [sp.csr_array(pair[0] @ pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
        if sum(factor.nnz for factor in factors) <= sum(factor.nnz for factor in best):
            best = factors
    return best


def entries(chain: Chain) -> int:
    """The entries of `Chain.as_product`, with those of coordinates that pass through a layer."""
    return chain.size * max(depth(chain), 1) + 2 * len(chain.pairs)


def depth(chain: Chain) -> int:
    """The number of layers."""
    return int(chain.layers().max(initial=-1)) + 1
