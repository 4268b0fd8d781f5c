"""Butterflies of rank r from entries: matrices whose blocks have a low rank if they are narrow or flat enough.

The rows and the columns of a matrix are clustered. It is complementary low-rank if the block of a cluster of rows
and one of columns has a low rank wherever their levels have the same sum, the ``depth``: long and narrow blocks at
one end, square ones in the middle, flat and wide ones at the other end. Fourier integral operators, non-uniform
Fourier transforms and kernels of waves are such matrices.

A sweep goes from narrow to wide blocks. Each block is expressed by a few of its own columns (an interpolative
decomposition, seen through some of its rows). These are chosen among those of the two blocks of half the width
that it consists of. Each step is a sparse factor, and the last one has the entries of the chosen columns
(Pang, Ho and Yang 2018, "Interpolative decomposition butterfly factorization").
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...kernels.interpolation import interpolate, interpolate_blocks, write_rows
from ...operators import SparseProduct
from ...runtime.session import Session
from ...runtime.threads import split_work
from ...typing import Array
from ..implicit import CHUNK, Entries, in_chunks, sampled_lines
from .cluster_trees import Clusters

_MORE_ROWS, _ROWS_PER_RANK = 8, 2  # sampled rows: more than the columns of a block, or than its expected rank
_MOST_RANK = 0.7  # Relative to the sampled rows; blocks of a higher rank are sampled with twice as many.
_ASSEMBLED = 1000  # multiplications that take as long as what a column adds to the assembly
_GRAIN = 8  # blocks that a thread takes at a time
_SAMPLED = 96  # Rows and columns of a block that are sampled.
_BLOCKS = 12  # Blocks that are sampled for each depth.
LEAF = 4  # the fewest lines of a cluster


class Shape(NamedTuple):
    """Levels of a butterfly: it begins with the rows of level ``first``, and ends with the columns of ``last``."""

    depth: int  # the sum of the levels of rows and columns
    first: int
    last: int
    rank: int  # Rank of most blocks, by estimate.

    @property
    def row_levels(self) -> range:
        return range(self.first, self.depth - self.last + 1)


class Chosen(NamedTuple):
    """The skeleton columns of each block, block after block: first by clusters of rows, then of columns."""

    columns: Array
    begins: Array


class Precision(NamedTuple):
    """What is neglected: ``tolerance`` times the root mean square of the entries, ``typical``, in each block."""

    tolerance: float
    typical: float
    samples: float = 1.0  # how many times as many lines as usual blocks are seen through

    def limits(self, n_rows: Array, n_columns: Array) -> Array:
        """The largest squared norm of what is neglected, for blocks of such sizes."""
        return (self.tolerance * self.typical) ** 2 * n_rows * n_columns


def butterfly_of_rank(
    session: Session,
    entries: Entries,
    clusters: tuple[Clusters, Clusters],
    shape: Shape,
    precision: Precision,
    points: Array | None = None,
) -> SparseProduct | None:
    """The product of a sweep from narrow to wide blocks; None if all sampled entries are zero.

    ``points`` are the places of the rows, if they are known.
    """
    rows, columns = clusters
    factors: list[sp.csr_array] = []
    chosen = Chosen(columns.order, columns.bounds[shape.depth - shape.first])
    for level in shape.row_levels:
        step = level - shape.first
        session.tick("levels", step, len(shape.row_levels) + 1)
        candidates = _candidates(chosen, level, is_first=step == 0)
        lines = _Rows(rows, level, points, np.random.RandomState(level))
        done = list(_decomposed(entries, lines, candidates, precision, shape.rank))
        work = _ASSEMBLED * candidates.begins[-1, -1]
        factor, chosen = session.wait(partial(_assembled, entries, candidates, done), work)
        if chosen.columns.size == 0:
            return None
        factors.append(factor)
    session.tick("levels", len(shape.row_levels), len(shape.row_levels) + 1)
    factors.append(_last_factor(entries, rows, shape.row_levels[-1], chosen))
    if not np.array_equal(columns.order, np.arange(columns.order.size)):
        factors[0].indices = columns.order[factors[0].indices].astype(factors[0].indices.dtype)
        factors[0].has_sorted_indices = False
    return SparseProduct._trusted(reversed(factors), 1.0)


# -- one level -----------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """The clusters of rows of a level, and where rows are, if that is known."""

    clusters: Clusters
    level: int
    points: Array | None
    random: np.random.RandomState

    def sample(self, cluster: int, count: int) -> Array:
        return sampled_lines(self.clusters, self.level, cluster, count, self.random, self.points)

    def sizes(self) -> Array:
        return self.clusters.sizes(self.level)


class _Candidates(NamedTuple):
    """Columns among which those of each block are chosen: those from one of ``begins`` to the next."""

    columns: Array
    begins: Array  # (clusters of rows, clusters of columns + 1)

    def counts(self) -> Array:
        return np.diff(self.begins, axis=1)


class _Piece(NamedTuple):
    """Blocks with the same rows: ``blocks`` numbers the clusters of columns, and ``sample`` are its rows."""

    cluster: int
    blocks: Array
    sample: Array


class _Done(NamedTuple):
    """Blocks that were decomposed: what `write_rows` needs."""

    blocks: Array  # Numbers of the blocks within their level.
    lines: Array
    begins: Array
    places: Array
    ranks: Array


def _candidates(before: Chosen, level: int, is_first: bool) -> _Candidates:
    """At first, all columns of each cluster; then those of the two blocks that were halved in height."""
    n_clusters = 1 << level
    if is_first:
        return _Candidates(before.columns, np.tile(before.begins, (n_clusters, 1)))
    width = 2 * (before.begins.size - 1) // n_clusters  # blocks of the level before with the same rows
    halves = np.arange(n_clusters // 2)[:, None] * width + np.arange(0, width + 1, 2)
    return _Candidates(before.columns, np.repeat(before.begins[halves], 2, axis=0))


def _decomposed(
    entries: Entries, rows: _Rows, candidates: _Candidates, precision: Precision, rank: int
) -> Iterator[_Done]:
    """All blocks of a level, in batches of some size."""
    counts = candidates.counts()
    waiting = [
        piece
        for cluster, own in enumerate(counts)
        for n_rows in [min(int(own.max()), _ROWS_PER_RANK * rank + _MORE_ROWS) + _MORE_ROWS]
        for piece in _pieces(rows, cluster, np.flatnonzero(own), counts, int(precision.samples * n_rows))
    ]
    waiting.reverse()
    while waiting:
        batch, size = [waiting.pop()], 0
        while waiting and size <= CHUNK:
            batch.append(waiting.pop())
            size += int(counts[batch[-1].cluster, batch[-1].blocks].sum()) * batch[-1].sample.size
        done, is_short = _batch(entries, candidates, batch, precision, rows.sizes())
        yield done
        begin = 0
        for piece in batch:
            again = piece.blocks[is_short[begin : begin + piece.blocks.size]]
            begin += piece.blocks.size
            waiting += _pieces(rows, piece.cluster, again, counts, 2 * piece.sample.size)


def _pieces(rows: _Rows, cluster: int, blocks: Array, counts: Array, n_rows: int) -> list[_Piece]:
    """Blocks of the same rows, so many in each piece that one call for their entries is not too large."""
    if blocks.size == 0:
        return []
    sample = rows.sample(cluster, n_rows)
    ends = np.cumsum(counts[cluster, blocks]) * sample.size
    return [_Piece(cluster, part, sample) for part in np.split(blocks, np.flatnonzero(np.diff(ends // CHUNK)) + 1)]


def _batch(
    entries: Entries, candidates: _Candidates, batch: list[_Piece], precision: Precision, heights: Array
) -> tuple[_Done, Array]:
    """Some pieces, decomposed by compiled code, and which of their blocks have too high a rank for their rows.

    ``heights`` are the numbers of rows of all clusters.
    """
    counts = [np.diff(candidates.begins[piece.cluster])[piece.blocks] for piece in batch]
    begins = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    half = max(piece.sample.size for piece in batch)
    lines = np.zeros((begins[-1], 2 * half if entries.is_complex else half))
    top = 0
    for piece, own in zip(batch, counts, strict=True):
        places = _ranges(candidates.begins[piece.cluster][piece.blocks], own)
        block = in_chunks(entries, piece.sample, candidates.columns[places]).T
        lines[top : top + places.size, : block.shape[1]] = block.real
        if entries.is_complex:
            lines[top : top + places.size, half : half + block.shape[1]] = block.imag
        top += places.size
    widths = np.concatenate(counts)
    n_rows = np.repeat([piece.sample.size for piece in batch], [piece.blocks.size for piece in batch])
    limits = precision.limits(n_rows, widths)
    places, ranks = np.empty(begins[-1], np.int64), np.empty(widths.size, np.int64)
    middle = half if entries.is_complex else 0

    def run(start: int, stop: int) -> None:
        interpolate_blocks(lines, middle, n_rows, begins, limits, places, ranks, start, stop)

    split_work(run, widths.size, _GRAIN, shares=4)
    n_blocks = candidates.begins.shape[1] - 1
    numbers = np.concatenate([piece.cluster * n_blocks + piece.blocks for piece in batch])
    most_rows = np.minimum(heights[numbers // n_blocks], widths + _MORE_ROWS)
    is_short = (ranks > _MOST_RANK * n_rows) & (n_rows < most_rows)
    most = int(ranks.max(initial=0))
    kept = [lines[:, :most], lines[:, half : half + most]] if middle else [lines[:, :most]]
    places[np.repeat(is_short, widths)] = -1  # They are repetitions, and do not count here.
    ranks[is_short] = 0
    return _Done(numbers, np.concatenate(kept, axis=1), begins, places, ranks), is_short


def _ranges(begins: Array, counts: Array) -> Array:
    """The numbers from each of ``begins`` on, so many of each."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) + np.repeat(begins - (ends - counts), counts)


def _assembled(entries: Entries, candidates: _Candidates, done: list[_Done]) -> tuple[sp.csr_array, Chosen]:
    """The factor of a level, and the skeleton columns of its blocks."""
    lefts, counts = candidates.begins[:, :-1].ravel(), candidates.counts().ravel()
    ranks = np.zeros(counts.size, np.int64)
    for part in done:
        ranks[part.blocks] += part.ranks
    tops = np.concatenate([[0], np.cumsum(ranks)])
    ends = np.concatenate([[0], np.cumsum(ranks * (counts - ranks + 1))])
    values = np.empty((ends[-1], 2 if entries.is_complex else 1))
    indices, pointers = np.empty(ends[-1], np.int32), np.empty(tops[-1] + 1, np.int64)
    pointers[-1] = ends[-1]
    chosen = np.empty(tops[-1], np.int64)
    while done:
        part = done.pop()
        half = part.lines.shape[1] // 2 if entries.is_complex else 0
        places = ends[part.blocks], tops[part.blocks], lefts[part.blocks]
        write_rows(part.lines, half, part.begins, part.places, part.ranks, *places, pointers, indices, values)
        widths = np.diff(part.begins)
        columns = candidates.columns[_ranges(lefts[part.blocks], widths)]
        is_chosen = part.places >= 0
        chosen[(np.repeat(tops[part.blocks], widths) + part.places)[is_chosen]] = columns[is_chosen]
    data = values.view(np.complex128).ravel() if entries.is_complex else values.ravel()
    pointers = pointers.astype(np.int32) if ends[-1] < 2**31 else pointers
    n_columns = int(candidates.begins[-1, -1])
    factor = sp.csr_array((data.astype(entries.dtype, copy=False), indices, pointers), shape=(tops[-1], n_columns))
    return factor, Chosen(chosen, tops)


def _last_factor(entries: Entries, rows: Clusters, level: int, chosen: Chosen) -> sp.csr_array:
    """The entries of the chosen columns: one dense block for each cluster of rows."""
    n_clusters = 1 << level
    ends = chosen.begins[:: (chosen.begins.size - 1) // n_clusters]
    widths, heights = np.diff(ends), rows.sizes(level)
    counts = np.empty(rows.order.size, np.int64)
    counts[rows.order] = np.repeat(widths, heights)
    pointers = np.concatenate([[0], np.cumsum(counts)])
    values, indices = np.empty(pointers[-1], entries.dtype), np.empty(pointers[-1], np.int32)
    for cluster in range(n_clusters):
        lines, columns = rows.lines(level, cluster), np.arange(ends[cluster], ends[cluster + 1])
        if columns.size:
            places = pointers[lines][:, None] + np.arange(columns.size)
            values[places] = in_chunks(entries, lines, chosen.columns[columns])
            indices[places] = columns
    pointers = pointers.astype(np.int32) if pointers[-1] < 2**31 else pointers
    return sp.csr_array((values, indices, pointers), shape=(rows.order.size, chosen.columns.size))


class Plan(NamedTuple):
    """The levels of a butterfly, and about how many entries it will have."""

    shape: Shape
    entries: float


def deepest(size: int) -> int:
    """The depth of a tree whose leaves have `LEAF` lines or a few more."""
    return max(int(np.log2(size / LEAF)), 0)


def planned(entries: Entries, clusters: tuple[Clusters, Clusters], precision: Precision) -> Plan | None:
    """The levels with the fewest entries; None if the samples determine none."""
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
    """The mean rank of some blocks of a depth; None if a block has too few samples."""
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
    # The layout for which the kernel is compiled.
    lines = np.concatenate(parts, axis=1).astype(np.float64, order="C")
    return int(interpolate(lines, half, block.shape[0], limit, np.empty(len(lines), np.int64)))
