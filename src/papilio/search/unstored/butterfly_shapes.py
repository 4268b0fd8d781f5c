"""Which levels a butterfly of rank r should have: the ranks of a few blocks tell how many entries it will need."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...kernels.interpolation import interpolate
from ...typing import Array
from ..nested.clusters import Clusters
from .rank_butterfly import Precision, Shape
from .sampled import Entries, sampled_lines

_SAMPLED = 96  # rows and columns of a block that is looked at
_BLOCKS = 12  # that are looked at for each depth
LEAF = 4  # the fewest lines of a cluster


class Plan(NamedTuple):
    """The levels of a butterfly, and about how many entries it will have."""

    shape: Shape
    entries: float


def deepest(size: int) -> int:
    """The depth of a tree whose leaves have `LEAF` lines or a few more."""
    return max(int(np.log2(size / LEAF)), 0)


def planned(entries: Entries, clusters: tuple[Clusters, Clusters], precision: Precision) -> Plan | None:
    """The levels with the fewest entries; None if there are none that the samples tell anything about."""
    best: Plan | None = None
    deepest_rows, deepest_columns = (tree.depth for tree in clusters)
    for depth in range(deepest_rows + deepest_columns, -1, -1):
        rank = _rank(entries, clusters, depth, precision)
        if rank is None:
            break  # higher blocks have higher ranks
        for first in range(max(depth - deepest_columns, 0), min(depth, deepest_rows) + 1):
            for last in range(max(depth - deepest_rows, 0), depth - first + 1):
                shape = Shape(depth, first, last, int(np.ceil(rank)))
                cost = predicted_entries(entries.shape, shape, rank)
                if best is None or cost < best.entries:
                    best = Plan(shape, cost)
    return best


def predicted_entries(size: tuple[int, int], shape: Shape, rank: float) -> float:
    """The entries of a butterfly whose blocks have about this rank."""
    n_blocks = 2.0**shape.depth
    candidates = size[1] / 2 ** (shape.depth - shape.first)
    total = 0.0
    for level in shape.row_levels:
        kept = max(min(rank, candidates, size[0] / 2**level), 1.0)
        total += n_blocks * kept * (candidates - kept + 1)
        candidates = 2 * kept
    return total + size[0] * 2.0**shape.last * candidates / 2


def _rank(entries: Entries, clusters: tuple[Clusters, Clusters], depth: int, precision: Precision) -> float | None:
    """The mean rank of some blocks of a depth; None if the samples of a block are too few to tell."""
    ranks = []
    for rows, columns in _sampled_blocks(clusters, depth):
        sizes = rows.size, columns.size
        rank = block_rank(entries(rows, columns), float(precision.limits(*np.array(sizes))))
        if rank > _SAMPLED / 2 and max(sizes) >= _SAMPLED:
            return None
        ranks.append(rank)
    return max(float(np.mean(ranks)), 1.0)


def _sampled_blocks(clusters: tuple[Clusters, Clusters], depth: int) -> Iterator[tuple[Array, Array]]:
    """Some rows and columns of blocks all over the matrix, at middle levels: the same places for each depth."""
    random = np.random.RandomState(0)
    low, high = max(depth - clusters[1].depth, 0), min(depth, clusters[0].depth)
    corners = np.stack([np.arange(_BLOCKS), random.permutation(_BLOCKS)])
    places = (corners + random.random_sample((2, _BLOCKS))) / _BLOCKS
    for i, (down, right) in enumerate(places.T):
        level = int(np.clip((depth + i % 2) // 2, low, high))
        rows, columns = (
            sampled_lines(tree, own, int(place * (1 << own)), _SAMPLED, random)
            for tree, own, place in zip(clusters, (level, depth - level), (down, right), strict=True)
        )
        yield rows, columns


def block_rank(block: Array, limit: float) -> int:
    """The rank up to what is neglected."""
    half = block.shape[0] if block.dtype.kind == "c" else 0
    parts = [block.real.T, block.imag.T] if half else [block.T]
    lines = np.concatenate(parts, axis=1).astype(np.float64, order="C")  # as all callers of the kernel give them
    return int(interpolate(lines, half, block.shape[0], limit, np.empty(len(lines), np.int64)))
