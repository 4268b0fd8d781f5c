"""Nested bases (HSS, H² matrices): which blocks are kept, bases for all others, and the product that they make.

The lines are in clusters, and blocks of clusters are padded with zeros to one size, so that one call of LAPACK
takes all of them. A block is near, and kept as it is, or far. The far blocks of a cluster's lines share one basis:
the leading eigenvectors of the sum of their Gram matrices. In the bases, far blocks become small couplings, and
these are a matrix in blocks again, to be compressed by clusters of clusters. With the near blocks N, the bases U
and V of each level, and couplings B of pairs of clusters of one level,

    M ≈ N + U₁(B₁ + U₂(B₂ + …)V₂ᴴ)V₁ᴴ.

A sum is a product of wider factors, here of

    [I U₁]·diag(I, [I U₂])·…·diag(N, B₁, B₂, …)·…·diag(I, [I; V₂ᴴ])·[I; V₁ᴴ].
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...operators import SparseProduct
from ...operators.factors import pruned
from ...typing import Array
from .cluster_trees import Clusters

Blocks = Mapping[tuple[int, int], Array]  # Keys are the clusters of rows and columns.


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
    """A nested representation as a product.

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


class Grid:
    """A matrix in blocks: ``values`` (p, a, q, b), of which the rows (p, a) and columns (q, b) are in use.

    ``sizes`` (p, q) are the entries of each block that is kept as it is. Where ``is_kept``, it has to be: a part
    of it was kept before and is missing here.
    """

    def __init__(self, values: Array, rows: Array, columns: Array, sizes: Array, is_kept: Array) -> None:
        self.values, self.rows, self.columns, self.sizes, self.is_kept = values, rows, columns, sizes, is_kept

    @cached_property
    def blocks(self) -> Array:
        return self.values.transpose(0, 2, 1, 3)

    @cached_property
    def row_grams(self) -> Array:
        """A_ij·A_ijᴴ for each block, (p, q, a, a)."""
        return self.blocks @ self.blocks.conj().swapaxes(2, 3)

    @cached_property
    def column_grams(self) -> Array:
        """A_ijᴴ·A_ij for each block, by its column first: (q, p, b, b)."""
        return (self.blocks.conj().swapaxes(2, 3) @ self.blocks).swapaxes(0, 1)

    @cached_property
    def energies(self) -> Array:
        """The squared norm of each block, (p, q)."""
        return _energies(self.values)

    @cached_property
    def tails(self) -> Array:
        """The energy of each block outside of its k leading singular vectors, (p, q, k) for k = 0, 1, …"""
        is_tall = self.values.shape[1] > self.values.shape[3]
        grams = self.column_grams.swapaxes(0, 1) if is_tall else self.row_grams
        return np.cumsum(np.maximum(np.linalg.eigvalsh(grams), 0), axis=2)[:, :, ::-1]


class Step(NamedTuple):
    """Bases (p, a, r) and (q, b, c) of the clusters, and the couplings (p, r, q, c) of their far blocks."""

    is_near: Array
    left: Array
    right: Array
    rows: Array  # (p, r), those in use
    columns: Array
    couplings: Array
    missed: Array  # (p, q): the energy of each block that a coupling lacks; near blocks have none

    @property
    def lost(self) -> float:
        """The energy that all far blocks lack."""
        return float(self.missed[~self.is_near].sum())


def gridded(matrix: Array, rows: Clusters, columns: Clusters, level: int) -> Grid:
    """A matrix in the blocks of a level."""
    places, sides = [], []
    for side in (rows, columns):
        sizes = side.sizes(level)
        used = np.arange(sizes.max())[None] < sizes[:, None]
        place = np.full(used.shape, -1)
        place[used] = side.order
        places.append(place.ravel())
        sides.append(used)
    values = matrix[np.ix_(*places)]
    values[~sides[0].ravel()] = 0
    values[:, ~sides[1].ravel()] = 0
    exact = np.complex128 if np.iscomplexobj(matrix) else np.float64
    values = values.astype(exact, copy=False).reshape(sides[0].shape + sides[1].shape)
    sizes = np.multiply.outer(sides[0].sum(axis=1), sides[1].sum(axis=1))
    return Grid(values, sides[0], sides[1], sizes, np.zeros(sizes.shape, bool))


def compressed(grid: Grid, is_near: Array, tolerances: tuple[float, float], is_precise: bool = False) -> Step:
    """Bases of the blocks that are not near, of vectors with more energy than a tolerance, for rows and columns.

    Gram matrices resolve energies down to 1e-15 of the largest, and errors down to 1e-7. ``is_precise`` takes
    singular vectors of the blocks, which is slower.
    """
    if is_precise:
        left, rows = _leading_vectors(grid.values, ~is_near, grid.rows, tolerances[0])
        mirrored = grid.values.transpose(2, 3, 0, 1).conj()
        right, columns = _leading_vectors(mirrored, ~is_near.T, grid.columns, tolerances[1])
    else:
        left, rows = _leading(grid.row_grams, ~is_near, grid.rows, tolerances[0])
        right, columns = _leading(grid.column_grams, ~is_near.T, grid.columns, tolerances[1])
    p, a, q, b = grid.values.shape
    half = left.conj().swapaxes(1, 2) @ grid.values.reshape(p, a, q * b)
    r, c = left.shape[2], right.shape[2]
    couplings = half.reshape(p * r, q, b).swapaxes(0, 1) @ right  # (q, p·r, c)
    if is_precise:
        back = couplings @ right.conj().swapaxes(1, 2)  # (q, p·r, b)
        back = left @ back.swapaxes(0, 1).reshape(p, r, q * b)
        missed = _energies(grid.values - back.reshape(grid.values.shape))
    couplings = couplings.reshape(q, p, r, c).transpose(1, 2, 0, 3)
    if not is_precise:
        missed = np.maximum(grid.energies - _energies(couplings), 0.0)
    return Step(is_near, left, right, rows, columns, couplings * ~is_near[:, None, :, None], missed)


def _energies(values: Array) -> Array:
    """The squared norm of each block, (p, q)."""
    return np.einsum("iajb,iajb->ij", values, values.conj()).real


def _leading(grams: Array, is_far: Array, used: Array, tolerance: float) -> tuple[Array, Array]:
    """Eigenvectors of the sums of far Gram matrices, of eigenvalues above the tolerance, and which are in use."""
    p, q, a, _ = grams.shape
    sums = (is_far[:, None, :].astype(float) @ grams.reshape(p, q, a * a)).reshape(p, a, a)
    values, vectors = np.linalg.eigh(sums)
    return _trimmed(vectors[:, :, ::-1], values[:, ::-1], used, tolerance)


def _leading_vectors(values: Array, is_far: Array, used: Array, tolerance: float) -> tuple[Array, Array]:
    """The same by singular vectors of the far blocks, beside each other."""
    p, a, _, _ = values.shape
    vectors, energies = np.zeros((p, a, a), values.dtype), np.zeros((p, a))
    for i in range(p):
        rows = values[i][:, is_far[i]].reshape(a, -1)
        if rows.shape[1] > a:
            rows = np.asarray(np.linalg.qr(rows.conj().T, mode="r")).conj().T
        if rows.size:
            U, sizes, _ = np.linalg.svd(rows, full_matrices=False)
            vectors[i, :, : sizes.size], energies[i, : sizes.size] = U, sizes**2
    return _trimmed(vectors, energies, used, tolerance)


def _trimmed(vectors: Array, energies: Array, used: Array, tolerance: float) -> tuple[Array, Array]:
    """The vectors (p, a, r) whose energies are above the tolerance, zeros beside them, and which are in use."""
    count = np.minimum((energies > tolerance).sum(axis=1), used.sum(axis=1))
    most = max(int(count.max()), 1)
    is_used = np.arange(most)[None] < count[:, None]
    return vectors[:, :, :most] * is_used[:, None, :], is_used


def merged(step: Step, factor: int) -> Grid:
    """The couplings of a step as blocks of clusters of ``factor`` clusters each."""
    p, r, q, c = step.couplings.shape
    values = step.couplings.reshape(p // factor, factor * r, q // factor, factor * c)
    sizes = np.multiply.outer(step.rows.sum(axis=1), step.columns.sum(axis=1)) * ~step.is_near

    def grouped(pairs: Array) -> Array:
        return pairs.reshape(p // factor, factor, q // factor, factor).sum(axis=(1, 3))

    rows, columns = step.rows.reshape(p // factor, -1), step.columns.reshape(q // factor, -1)
    return Grid(values, rows, columns, grouped(sizes), grouped(step.is_near) > 0)


def kept_blocks(steps: Sequence[Step]) -> list[Array]:
    """Which blocks are kept: of the lines, and of the vectors of each step, by the clusters of that step.

    These are the near blocks of the first step, and then those couplings that are near for the next step.
    """
    masks = [steps[0].is_near]
    for step, above in zip(steps, [*steps[1:], None], strict=True):
        is_far = ~step.is_near
        if above is not None:
            factor = len(is_far) // len(above.is_near)
            is_far = is_far & np.kron(above.is_near, np.ones((factor, factor), bool))
        masks.append(is_far)
    return masks


def entries_of(grid: Grid, steps: Sequence[Step]) -> int:
    """The entries of the product that `assembled` makes of the steps from a grid, if no value is zero."""
    masks, total = kept_blocks(steps), 0
    sides = []
    for axis, used in enumerate([grid.rows, grid.columns]):
        lines = [used.sum(axis=1), *((step.rows, step.columns)[axis].sum(axis=1) for step in steps)]
        sides.append(lines)
        for s, step in enumerate(steps):
            below = lines[s].reshape(step.is_near.shape[axis], -1).sum(axis=1)
            total += int(below @ lines[s + 1])
            passed = int(lines[s][masks[s].any(axis=1 - axis)].sum())
            total += passed * (len(steps) - s)  # ones, in the factor of this step and of those above
    return total + sum(int(rows @ mask @ columns) for mask, rows, columns in zip(masks, *sides, strict=True))


def assembled(
    grid: Grid, steps: Sequence[Step], rows: Clusters, columns: Clusters, levels: Sequence[int], dtype: np.dtype
) -> SparseProduct:
    """The product of all steps from a grid, where each step has a level of the trees."""
    masks = kept_blocks(steps)
    used = [(grid.rows, grid.columns), *((step.rows, step.columns) for step in steps)]
    values = [grid.values, *(step.couplings for step in steps)]
    kept = [
        {
            (i, j): value[i][lines[0][i]][:, j][:, lines[1][j]].astype(dtype)
            for i, j in zip(*np.nonzero(mask), strict=True)
        }
        for mask, lines, value in zip(masks, used, values, strict=True)
    ]
    sides = []
    for axis, side in enumerate((rows, columns)):
        bases = []
        for s, step in enumerate(steps):
            vectors = (step.left, step.right)[axis]
            below, own = used[s][axis].reshape(len(vectors), -1), used[s + 1][axis]
            bases.append([vectors[i][below[i]][:, own[i]].astype(dtype) for i in range(len(vectors))])
        sides.append(Bases(side, levels, bases))
    return nested_product(sides[0], sides[1], kept[0], kept[1:])
