"""Curves: families of products whose errors are known for each number of entries before one of them is built."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..typing import Array
from .targets import Target

_MANY = 1 << 19  # places of a curve; above, those of many entries are thinned out
_STEP = 1.002  # by which the entries of two places grow then


class Curve(NamedTuple):
    """Products of one family: their numbers of entries, ascending, and their relative errors.

    ``build`` makes the product at a place of these arrays, and ``detail`` says in a few words what it is.
    """

    method: str
    entries: Array
    errors: Array
    build: Callable[[int], SparseProduct]
    detail: Callable[[int], str]

    def best(self, target: Target) -> tuple[float, int]:
        """The lowest rank by a target, and its first place; infinite if no product meets it."""
        ranks = target.ranks(self.entries, target.estimated(self.errors))
        place = int(np.argmin(ranks)) if ranks.size else 0
        return (float(ranks[place]) if ranks.size else np.inf), place

    def place_of(self, entries: int) -> int:
        """The last place with at most so many entries; −1 if there is none."""
        return int(np.searchsorted(self.entries, entries, side="right")) - 1


def single(method: str, detail: str, operator: SparseProduct, error: float) -> Curve:
    """A curve of one product."""
    return Curve(method, np.array([operator.nnz]), np.array([error]), lambda _: operator, lambda _: detail)


def thresholding(
    values: Array,
    target: Target,
    around: Callable[[sp.csr_array], SparseProduct],
    fixed: int,
    method: str,
    name: str,
) -> Curve:
    """Keep the largest entries of ``values``: S = around(kept), whose other factors have ``fixed`` entries.

    The errors are those of S if multiplying by the other factors keeps norms.
    """
    sizes = np.abs(values).ravel().astype(np.float64)
    squares = np.sort(sizes**2)
    missed = np.concatenate([[0.0], np.cumsum(squares)])[::-1]  # the energy outside of the k largest
    count = int(np.count_nonzero(squares))
    kept = np.arange(1, count + 1)
    if count > _MANY:
        grown = _STEP ** np.arange(np.log(_MANY / 8) / np.log(_STEP), np.log(count) / np.log(_STEP))
        kept = np.unique(np.concatenate([grown.astype(int), kept[: _MANY // 8], [count]]))
        if target.budget is not None and 0 < target.budget - fixed < count:
            kept = np.unique(np.append(kept, target.budget - fixed))
    errors = np.sqrt(np.maximum(missed[kept], 0) / missed[0]) if count else np.zeros(0)

    def build(place: int) -> SparseProduct:
        return around(sp.csr_array(largest(values, sizes, int(kept[place]))))

    def detail(place: int) -> str:
        return f"{name}{kept[place]:,} of {values.size:,} entries"

    return Curve(method, fixed + kept, errors, build, detail)


def largest(values: Array, sizes: Array, count: int) -> Array:
    """``values`` with its ``count`` largest entries; of equal ones, the first."""
    threshold = np.partition(sizes, sizes.size - count)[sizes.size - count]
    above, equal = np.flatnonzero(sizes > threshold), np.flatnonzero(sizes == threshold)
    places = np.concatenate([above, equal[: count - above.size]])
    result = np.zeros(values.size, values.dtype)
    result[places] = values.ravel()[places]
    return result.reshape(values.shape)


# -- low rank ------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Rows and columns of a block, its singular vectors (m, r) and (r, n), and its singular values (r,)."""

    rows: Array
    columns: Array
    left: Array
    values: Array
    right: Array


def blocks_of(matrix: Array) -> list[tuple[Array, Array]]:
    """The rows and columns of each block of a matrix that is block-diagonal up to the order of its lines."""
    m, n = matrix.shape
    if matrix.all():
        return [(np.arange(m), np.arange(n))]
    pattern = sp.csr_array(matrix != 0)
    graph = sp.block_array([[None, pattern], [pattern.T, None]])
    labels = sp.csgraph.connected_components(graph, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [(g[g < m], g[g >= m] - m) for g in groups if (g < m).any() and (g >= m).any()]


def low_rank(blocks: Sequence[Block], shape: tuple[int, int], energy: float) -> Curve:
    """The best approximations of low rank, in each block: those triplets first that save most per entry.

    ``energy`` is the squared norm of the matrix, of which large blocks may have lost a part.
    """
    owners = np.concatenate([np.full(block.values.size, b) for b, block in enumerate(blocks)])
    costs = np.array([block.rows.size + block.columns.size for block in blocks])[owners]
    gains = np.concatenate([block.values.astype(np.float64) ** 2 for block in blocks])
    order = np.argsort(-gains / costs, kind="stable")
    entries, ordered = np.cumsum(costs[order]), gains[order]
    is_whole = all(block.values.size == min(block.rows.size, block.columns.size) for block in blocks)
    outside = 0.0 if is_whole else max(energy - gains.sum(), 0.0)
    missed = np.append(np.cumsum(ordered[::-1])[::-1][1:], 0.0) + outside
    useful = entries < shape[0] * shape[1]

    def build(place: int) -> SparseProduct:
        counts = np.bincount(owners[order[: place + 1]], minlength=len(blocks))
        return assembled(blocks, counts, shape)

    def detail(place: int) -> str:
        return f"rank {place + 1}" + (f" in {len(blocks)} blocks" if len(blocks) > 1 else "")

    return Curve("low_rank", entries[useful], np.sqrt(missed[useful] / energy), build, detail)


def assembled(blocks: Sequence[Block], counts: Array, shape: tuple[int, int]) -> SparseProduct:
    """The product of two factors that hold the leading ``counts`` triplets of each block."""
    dtype = blocks[0].left.dtype
    left, right = np.zeros((shape[0], counts.sum()), dtype), np.zeros((counts.sum(), shape[1]), dtype)
    begin = 0
    for block, count in zip(blocks, counts, strict=True):
        inner, roots = np.arange(begin, begin + count), np.sqrt(block.values[:count])
        left[np.ix_(block.rows, inner)] = block.left[:, :count] * roots
        right[np.ix_(inner, block.columns)] = roots[:, None] * block.right[:count]
        begin += count
    return SparseProduct([left, right])


def leading_subspace(matrix: Array, basis: Array, n_iter: int) -> tuple[Array, Array]:
    """Orthonormal columns Q that nearly span the leading left singular vectors, and QᴴM, by subspace iteration.

    ``basis`` (n, r) is a guess for the right singular vectors.
    """
    for _ in range(n_iter):
        left = np.linalg.qr(matrix @ basis)[0]
        basis = (left.conj().T @ matrix).conj().T
        right = basis
        basis = np.linalg.qr(basis)[0]
    return left, right.conj().T


def relative_error(matrix: Array, operator: SparseProduct) -> float:
    """‖M − product‖/‖M‖."""
    size = frobenius(matrix)
    return frobenius(matrix - operator.toarray()) / size if size > 0 else 0.0
