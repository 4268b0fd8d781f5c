"""HSS matrices from entries, by skeletonization: each cluster of rows or columns is expressed by a few of its own.

The block of a cluster of rows and of all columns outside of it has a low rank where a kernel is smooth away from
its diagonal. An interpolative decomposition, seen through some of these columns, chooses rows that stand for the
cluster; those of a larger cluster are chosen among those of its halves. The same for columns. Couplings are then
entries of the matrix: those of the chosen rows and columns (Martinsson and Rokhlin 2005). `nested_product` makes
one product of it.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ...kernels.interpolation import interpolate_blocks
from ...operators import SparseProduct
from ...runtime.session import Session
from ...runtime.threads import split_work
from ...typing import Array
from ..implicit import Entries, in_chunks, sampled_lines, spread
from .cluster_trees import Clusters
from .nested_bases import Bases, nested_product
from .rank_butterfly import Precision, block_rank

_SAMPLED = 96  # Rows and columns of a block whose rank is estimated.
_CLUSTERS = 4  # Clusters of a level that are sampled.
_SAMPLES, _MORE = 2, 16  # columns through which a cluster is seen: so many for each row, and some more
_AT_ONCE = 1 << 22  # entries of clusters that are decomposed together
_ASSEMBLED = 1000  # multiplications that take as long as what a line adds to the assembly
_NEAR = 4  # times its own size: how far what counts as the neighbourhood of a cluster reaches


class Levels(NamedTuple):
    """The levels of a nested product: those of its ``leaves``, up to the ``top``, and about its entries."""

    leaves: int
    top: int
    entries: float


class Side(NamedTuple):
    """The rows, or the columns, of a matrix: their clusters, and where they are, if that is known."""

    clusters: Clusters
    points: Array | None = None
    tree: cKDTree | None = None

    @classmethod
    def of(cls, clusters: Clusters, points: Array | None) -> "Side":
        return cls(clusters, points, None if points is None else cKDTree(points))


def nested_from_entries(
    session: Session, entries: Entries, sides: tuple[Side, Side], levels: Levels, precision: Precision
) -> SparseProduct:
    """The nested product of two sides, whose clusters correspond."""
    chain = range(levels.leaves, levels.top - 1, -1)
    found = []
    for axis in (0, 1):
        session.tick("sides", axis, 3)
        found.append(_skeletons(entries, sides, axis, chain, precision))
    session.tick("sides", 2, 3)
    (rows, row_lines), (columns, column_lines) = found
    near = {
        (i, i): entries(*(side.clusters.lines(levels.leaves, i) for side in sides))
        for i in range(1 << levels.leaves)
    }
    couplings = []
    for step, level in enumerate(chain):
        count = 1 << level
        halves = [(i, i + 1) for i in range(0, count, 2)] if level > levels.top else combinations(range(count), 2)
        pairs = [pair for i, j in halves for pair in ((i, j), (j, i))]
        couplings.append({(i, j): entries(row_lines[step][i], column_lines[step][j]) for i, j in pairs})
    if not any(block.any() for block in near.values()) and not any(rows.width(s) for s in range(len(chain))):
        return SparseProduct([np.zeros(entries.shape, entries.dtype)])
    return session.wait(lambda: nested_product(rows, columns, near, couplings), _ASSEMBLED * sum(entries.shape))


def _skeletons(
    entries: Entries, sides: tuple[Side, Side], axis: int, chain: range, precision: Precision
) -> tuple[Bases, list[list[Array]]]:
    """The bases of one side, and the lines that were chosen for each cluster, level by level."""
    clusters = sides[axis].clusters
    bases, lines = [], [[clusters.lines(chain[0], i) for i in range(1 << chain[0])]]
    for step, level in enumerate(chain):
        before = lines[-1]
        if step > 0:
            before = [np.concatenate(pair) for pair in zip(before[::2], before[1::2], strict=True)]
        own, chosen = _decomposed(entries, sides, axis, level, before, precision)
        bases.append(own)
        lines.append(chosen)
    return Bases(clusters, list(chain), bases), lines[1:]


def _decomposed(
    entries: Entries, sides: tuple[Side, Side], axis: int, level: int, lines: list[Array], precision: Precision
) -> tuple[list[Array], list[Array]]:
    """The interpolative decompositions of all clusters of a level, whose lines are chosen among ``lines``."""
    bases: list[Array] = []
    chosen: list[Array] = []
    counts = np.array([own.size for own in lines])
    wanted = (precision.samples * (_SAMPLES * counts + _MORE)).astype(int)
    ends = np.cumsum(counts * np.maximum(wanted, 1)) // _AT_ONCE
    for some in np.split(np.arange(counts.size), np.flatnonzero(np.diff(ends)) + 1):
        samples = [far_lines(sides, 1 - axis, level, int(i), int(wanted[i])) for i in some]
        for basis, own in _decomposed_together(entries, axis, [lines[i] for i in some], samples, precision):
            bases.append(basis)
            chosen.append(own)
    return bases, chosen


def _decomposed_together(
    entries: Entries, axis: int, lines: list[Array], samples: list[Array], precision: Precision
) -> Iterator[tuple[Array, Array]]:
    """The basis and the chosen lines of each of some clusters, seen through its sample."""
    counts, n_samples = (np.array([each.size for each in own]) for own in (lines, samples))
    begins = np.concatenate([[0], np.cumsum(counts)])
    half = int(n_samples.max())
    values = np.zeros((begins[-1], 2 * half if entries.is_complex else half))
    for i, (own, sample) in enumerate(zip(lines, samples, strict=True)):
        block = in_chunks(entries, own, sample) if axis == 0 else in_chunks(entries, sample, own).T
        values[begins[i] : begins[i + 1], : sample.size] = block.real
        if entries.is_complex:
            values[begins[i] : begins[i + 1], half : half + sample.size] = block.imag
    limits = precision.limits(n_samples, counts)
    places, ranks = np.empty(begins[-1], np.int64), np.empty(counts.size, np.int64)
    middle = half if entries.is_complex else 0

    def run(start: int, stop: int) -> None:
        interpolate_blocks(values, middle, n_samples, begins, limits, places, ranks, start, stop)

    split_work(run, counts.size, 1, shares=4)
    for i, own in enumerate(lines):
        some = slice(begins[i], begins[i + 1])
        basis = _basis(values[some], middle, places[some], int(ranks[i])).astype(entries.dtype)
        yield basis if axis == 0 else basis.conj(), own[places[some] >= 0]


def _basis(values: Array, half: int, places: Array, rank: int) -> Array:
    """Coefficients, one row for each line: the identity at the chosen ones."""
    basis = values[:, :rank] + 1j * values[:, half : half + rank] if half else values[:, :rank].copy()
    is_chosen = places >= 0
    basis[is_chosen] = np.eye(rank)[places[is_chosen]]
    return basis


def far_lines(sides: tuple[Side, Side], axis: int, level: int, i: int, count: int) -> Array:
    """Lines of one side outside of the cluster i: half of them near it, the others all over the matrix."""
    side, random = sides[axis], np.random.RandomState((level << 26) + i)
    order, bounds = side.clusters.order, side.clusters.bounds[level]
    begin, end = int(bounds[i]), int(bounds[i + 1])
    if order.size - (end - begin) <= count:
        return np.sort(np.concatenate([order[:begin], order[end:]]))
    places = spread(order.size - (end - begin), count // 2, random)
    wide = order[np.where(places < begin, places, places + end - begin)]
    if side.tree is not None:
        near = _nearest(sides, axis, level, i, count - count // 2)
    else:
        near = _neighbours(order, begin, end, count - count // 2)
    return np.unique(np.concatenate([wide, near]))


def _nearest(sides: tuple[Side, Side], axis: int, level: int, i: int, count: int) -> Array:
    """Lines of one side near the cluster i of the other: the nearest ones, and others at growing distances."""
    side, other = sides[axis], sides[1 - axis]
    assert side.tree is not None
    assert side.points is not None
    assert other.points is not None
    points = other.points[other.clusters.lines(level, i)]
    own = side.clusters.lines(level, i)
    around = side.tree.query(points.mean(axis=0), min(_NEAR * own.size + count, len(side.points)))[1]
    around = around[~np.isin(around, own)]
    around = around[np.argsort(cKDTree(points).query(side.points[around])[0], kind="stable")]
    places = np.concatenate([np.arange(count // 2), np.geomspace(1, max(around.size, 1), count).astype(int) - 1])
    return around[np.unique(places[places < around.size])]


def _neighbours(order: Array, begin: int, end: int, count: int) -> Array:
    """Lines before and after a run, at distances that grow: the nearest ones first."""
    steps = np.unique(np.geomspace(1, order.size, 2 * count).astype(np.int64))[: 2 * count]
    places = np.concatenate([begin - steps, end - 1 + steps])
    places = places[(places >= 0) & (places < order.size)]
    return order[places[np.argsort(np.minimum(abs(places - begin), abs(places - end)), kind="stable")]]


def planned_levels(entries: Entries, sides: tuple[Side, Side], precision: Precision) -> Levels | None:
    """The levels with the fewest entries, by the ranks of some clusters; None if these are too high."""
    deepest = min(side.clusters.depth for side in sides)
    ranks: dict[int, float] = {}
    for level in range(deepest, 0, -1):
        rank = _rank(entries, sides, level, precision)
        if rank is None:
            break
        ranks[level] = rank
    options = [
        Levels(leaves, top, _predicted(entries.shape, ranks, leaves, top))
        for leaves in ranks
        for top in ranks
        if top <= leaves
    ]
    return min(options, key=lambda option: option.entries, default=None)


def _rank(entries: Entries, sides: tuple[Side, Side], level: int, precision: Precision) -> float | None:
    """The mean rank of some clusters of rows against what is far from them."""
    random, ranks = np.random.RandomState(level), []
    for i in random.permutation(1 << level)[:_CLUSTERS]:
        rows = sampled_lines(sides[0].clusters, level, int(i), _SAMPLED, random)
        columns = far_lines(sides, 1, level, int(i), 2 * _SAMPLED)
        rank = block_rank(entries(rows, columns).T, float(precision.limits(*np.array([rows.size, columns.size]))))
        if rank > _SAMPLED / 2 and rows.size >= _SAMPLED:
            return None
        ranks.append(rank)
    return max(float(np.mean(ranks)), 1.0)


def _predicted(size: tuple[int, int], ranks: dict[int, float], leaves: int, top: int) -> float:
    """The entries of a nested product whose clusters have about these ranks."""
    count = 2.0**leaves
    total = size[0] * size[1] / count  # the blocks of the leaves
    passed = 0.0
    for level in range(leaves, top - 1, -1):
        rank = ranks[level]
        height = sum(size) if level == leaves else 2 * 2.0 ** (level + 1) * ranks[level + 1]
        total += passed + height + height * rank  # Entries passed through, the identity, and the bases.
        total += (4.0**level if level == top else 2.0**level) * rank**2
        passed += height
    return total
