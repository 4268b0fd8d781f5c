"""Nested low rank as one product: a sum is a product of wider factors.

The lines of a matrix are clustered. A few pairs of small clusters are near each other, and their blocks are kept
as they are: N. All other blocks are of low rank, and share one basis per cluster. The bases of a level are the
blocks of a block-diagonal matrix U₁, those of the next level up are combinations of them, U₁U₂, and so on:

    M ≈ N + U₁(B₁ + U₂(B₂ + …)V₂ᴴ)V₁ᴴ,

where B_s couples pairs of clusters of one level. As a product of wider factors this is

    [I U₁]·diag(I, [I U₂])·…·diag(N, B₁, B₂, …)·…·diag(I, [I; V₂ᴴ])·[I; V₁ᴴ].
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...operators import SparseProduct
from ...operators.factors import pruned
from ...typing import Array
from .clusters import Clusters

Blocks = Mapping[tuple[int, int], Array]  # by the clusters of their rows and columns


class Bases(NamedTuple):
    """Bases of the clusters of rows, or of columns, from the leaves upwards.

    ``levels`` are levels of the tree, descending; there may be gaps. ``bases[0][i]`` is the basis of cluster i of
    ``levels[0]``, one row per line. ``bases[s][i]`` is that of cluster i of ``levels[s]`` in terms of those
    of the clusters of ``levels[s - 1]`` within it, one below the other.
    """

    clusters: Clusters
    levels: Sequence[int]
    bases: Sequence[Sequence[Array]]

    def ranks(self, step: int) -> Array:
        """The number of basis vectors of each cluster."""
        return np.array([basis.shape[1] for basis in self.bases[step]])

    def width(self, step: int) -> int:
        return int(self.ranks(step).sum())


def nested_product(rows: Bases, columns: Bases, near: Blocks, couplings: Sequence[Blocks]) -> SparseProduct:
    """The product that a nested representation stands for.

    Parameters
    ----------
    rows, columns : Bases
        Of the same levels. The basis of a cluster of columns holds V; the product has Vᴴ.
    near : mapping of (i, j) to (m_i, n_j) array
        Blocks of clusters of the level ``levels[0]``.
    couplings : sequence of mappings of (i, j) to (r_i, c_j) array
        For each level of ``levels``, in the same order.
    """
    middle = sp.block_diag(
        [
            _placed(near, rows.clusters.sizes(rows.levels[0]), columns.clusters.sizes(columns.levels[0])),
            *(_placed(blocks, rows.ranks(s), columns.ranks(s)) for s, blocks in enumerate(couplings)),
        ]
    )
    right = [factor.conj().T for factor in reversed(_widening(columns))]
    dtype = np.result_type(*rows.bases[0], *columns.bases[0], *near.values())
    factors = pruned([sp.csr_array(factor) for factor in (*_widening(rows), middle, *right)])
    if 0 in (factor.shape[0] for factor in factors[1:]):  # nothing goes through
        factors = [sp.csr_array((factors[0].shape[0], factors[-1].shape[1]))]
    return SparseProduct(factors).astype(dtype)


def _widening(side: Bases) -> list[Any]:
    """[I U₁], diag(I, [I U₂]), …; the first one puts the lines back into their own order."""
    factors, passed = [], 0
    for bases in side.bases:
        basis = sp.block_diag([sp.coo_array(each) for each in bases])
        height = basis.shape[0]
        factors.append(sp.block_diag([sp.eye_array(passed), sp.hstack([sp.eye_array(height), basis])]).tocsr())
        passed += height
    places = np.empty_like(side.clusters.order)
    places[side.clusters.order] = np.arange(places.size)
    factors[0] = factors[0][places]
    return factors


def _placed(blocks: Blocks, heights: Array, widths: Array) -> Any:
    """A sparse matrix with blocks at their places."""
    tops, lefts = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (heights, widths))
    parts = [(tops[i], lefts[j], block) for (i, j), block in blocks.items() if block.size]
    if not parts:
        return sp.csr_array((tops[-1], lefts[-1]))
    row, column = (
        np.concatenate(
            [
                (index + offset[axis]).ravel()
                for *offset, block in parts
                for index in [np.indices(block.shape)[axis]]
            ]
        )
        for axis in (0, 1)
    )
    values = np.concatenate([block.ravel() for *_, block in parts])
    return sp.csr_array((values, (row, column)), shape=(tops[-1], lefts[-1]))
