"""Factors as groups of rows with a common set of columns, which is how the kernels apply them.

Rows with the same support form groups, wherever they stand: the rows of block-sparse factors and of butterflies,
of dense ones and of Kronecker products. Neighbours with nearly the same support do so too, with zeros for what is
missing, where this is faster: for a kernel, a strip of two entries costs little more than a single one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..kernels.simd import HEIGHTS, REGISTER
from ..typing import Array
from .csr import Factor

# The cost of a strip by its height, in blocks of vectors: with the widest registers and real numbers, reading the
# vectors takes longest, else multiplying them does.
_WHERE_READING_DECIDES = {4: 1.5, 2: 1.1, 1: 1.0}
_WHERE_MULTIPLYING_DECIDES = {4: 3.0, 2: 1.6, 1: 1.0}
_MASK = 1 << 26  # entries of a mask, up to which supports are compared place by place


class Groups(NamedTuple):
    """Groups of one height: what `papilio.kernels.simd` reads."""

    height: int
    rows: Array  # (n_groups, height)
    pointers: Array  # (n_groups + 1,): group g has the strips from pointers[g] to pointers[g + 1]
    columns: Array  # (n_strips,)
    values: Array  # (n_strips, height)


def grouped(factor: Factor) -> list[Groups]:
    """A factor as groups, the tallest first; each row is in one of them."""
    if isinstance(factor, np.ndarray):
        return _dense(factor)
    return [_packed(factor, rows) for rows in _chosen(factor) if rows.size]


def is_in_place(groups: list[Groups], shape: tuple[int, int]) -> bool:
    """Whether each group reads the rows that it writes, and no others."""
    if shape[0] != shape[1]:
        return False
    return all(
        each.columns.size == each.rows.size
        and (np.diff(each.pointers) == each.height).all()
        and (each.columns.reshape(each.rows.shape) == each.rows).all()
        for each in groups
    )


def in_chunks(all_groups: list[Groups], width: int) -> Iterator[tuple[Groups, bool]]:
    """Groups with the strips of ``width`` columns at a time, and whether these come after others.

    The vectors that a chunk reads stay in the cache until all groups have read them.
    """
    n_columns = max((groups.columns.max(initial=-1) + 1 for groups in all_groups), default=0)
    for groups in all_groups:
        if n_columns <= width:
            yield groups, False
            continue
        owner = np.repeat(np.arange(len(groups.rows)), np.diff(groups.pointers))
        chunk = groups.columns // width
        order = np.argsort(chunk, kind="stable")
        n_chunks = int(chunk.max(initial=0)) + 1
        counts = np.bincount(chunk * len(groups.rows) + owner, minlength=n_chunks * len(groups.rows))
        begin = 0
        for i, own in enumerate(counts.reshape(n_chunks, -1)):
            pointers = np.concatenate([[0], np.cumsum(own)])
            some, begin = order[begin : begin + pointers[-1]], begin + pointers[-1]
            yield Groups(groups.height, groups.rows, pointers, groups.columns[some], groups.values[some]), i > 0


def _dense(matrix: Array) -> list[Groups]:
    """Of a matrix without zeros."""
    n_rows, n_columns = matrix.shape
    found, begin = [], 0
    for height in HEIGHTS:
        count = (n_rows - begin) // height
        rows = np.arange(begin, begin + count * height).reshape(count, height)
        if count:
            values = matrix[rows].swapaxes(1, 2).reshape(-1, height)
            columns = np.tile(np.arange(n_columns), count)
            found.append(Groups(height, rows, n_columns * np.arange(count + 1), columns, values))
        begin += count * height
    return found


def _chosen(factor: sp.csr_array) -> list[Array]:
    """The rows of the groups of each height, as (n_groups, height) arrays."""
    first = _first_alike(factor)
    # Rows alike one after the other, each run where its first row stands.
    order = np.argsort(first, kind="stable")
    begins = np.flatnonzero(np.diff(first[order], prepend=-1))
    lengths = np.diff(begins, append=order.size)
    places = np.arange(order.size) - np.repeat(begins, lengths)  # within the run
    left = np.repeat(lengths, lengths) - places // 4 * 4  # rows of the run from the place's four on
    in_four, in_two = left >= 4, (left == 3) & (places % 4 < 2) | (left == 2)
    fours, twos, ones = order[in_four].reshape(-1, 4), order[in_two].reshape(-1, 2), order[~(in_four | in_two)]
    more_fours, more_twos, ones = _padded(factor, ones)
    return [np.concatenate([fours, more_fours]), np.concatenate([twos, more_twos]), ones.reshape(-1, 1)]


def _first_alike(factor: sp.csr_array) -> Array:
    """For each row, the first one with the same support."""
    n_rows = factor.shape[0]
    # Sums of random numbers, one for each column, tell supports apart, except in one of 2⁶⁴ cases.
    column = np.arange(factor.shape[1], dtype=np.uint64)
    mixed = (column + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed[factor.indices], dtype=np.uint64)])
    keys = totals[factor.indptr[1:]] - totals[factor.indptr[:-1]]
    first = np.unique(keys, return_index=True, return_inverse=True)
    found = first[1][first[2].ravel()]
    counts = np.diff(factor.indptr)
    differs = counts != counts[found]
    # In that one case, rows stay alone.
    others = np.flatnonzero((found != np.arange(n_rows)) & ~differs & (counts > 0))
    if others.size:
        lengths = counts[others]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        own = factor.indices[np.repeat(factor.indptr[others], lengths) + within]
        theirs = factor.indices[np.repeat(factor.indptr[found[others]], lengths) + within]
        differs[np.repeat(others, lengths)[own != theirs]] = True
    return np.where(differs, np.arange(n_rows), found)


def _padded(factor: sp.csr_array, rows: Array) -> tuple[Array, Array, Array]:
    """Groups of four and of two neighbours in ``rows`` where zeros in between pay, and the rows that remain."""
    n_columns = factor.shape[1]
    count = rows.size // 4 * 4
    if count == 0 or count * n_columns > _MASK or factor.nnz < factor.shape[0]:
        return rows[:0].reshape(-1, 4), rows[:0].reshape(-1, 2), rows
    mask = np.zeros((count, n_columns), dtype=bool)
    some = factor[rows[:count]]
    mask[np.repeat(np.arange(count), np.diff(some.indptr)), some.indices] = True
    twos = mask[0::2] | mask[1::2]
    fours = twos[0::2] | twos[1::2]
    reading_decides = REGISTER == 64 and factor.dtype.kind != "c"
    cost = _WHERE_READING_DECIDES if reading_decides else _WHERE_MULTIPLYING_DECIDES
    of_one = cost[1] * np.diff(some.indptr).reshape(-1, 2).sum(axis=1)
    of_two = cost[2] * np.count_nonzero(twos, axis=1)
    of_four = cost[4] * np.count_nonzero(fours, axis=1)
    pays_two = of_two < of_one
    least = np.minimum(of_one, of_two)
    pays_four = of_four < least.reshape(-1, 2).sum(axis=1)
    pays_two &= ~np.repeat(pays_four, 2)
    quads, pairs = rows[:count].reshape(-1, 4), rows[:count].reshape(-1, 2)
    is_single = ~np.repeat(pays_two | np.repeat(pays_four, 2), 2)
    singles = np.concatenate([rows[:count][is_single], rows[count:]])
    return quads[pays_four], pairs[pays_two], singles


def _packed(factor: sp.csr_array, rows: Array) -> Groups:
    """The groups with these rows; columns that only some of them have are filled with zeros."""
    n_groups, height = rows.shape
    some = factor[rows.ravel()] if not np.array_equal(rows.ravel(), np.arange(factor.shape[0])) else factor
    counts = np.diff(some.indptr)
    if height == 1:
        return Groups(1, rows, some.indptr, some.indices, some.data.reshape(-1, 1))
    alike = _alike(some, height)
    if alike is not None:
        pointers = np.concatenate([[0], np.cumsum(counts[::height])])
        return Groups(height, rows, pointers, some.indices[alike[:, 0]], some.data[alike])
    owner = np.repeat(np.arange(rows.size), counts)
    keys = owner // height * np.int64(factor.shape[1]) + some.indices
    kept, strip = np.unique(keys, return_inverse=True)
    values = np.zeros((kept.size, height), dtype=factor.dtype)
    values[strip.ravel(), owner % height] = some.data
    pointers = np.searchsorted(kept, np.arange(n_groups + 1) * np.int64(factor.shape[1]))
    return Groups(height, rows, pointers, kept % factor.shape[1], values)


def _alike(factor: sp.csr_array, height: int) -> Array | None:
    """Where the entries of each strip are, if all rows of each group have the same columns, else None."""
    counts = np.diff(factor.indptr).reshape(-1, height)
    if (counts != counts[:, :1]).any():
        return None
    lengths = counts[:, 0]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = np.repeat(factor.indptr[:-1:height], lengths) + within
    places = first[:, None] + np.repeat(lengths, lengths)[:, None] * np.arange(height)
    return places if (factor.indices[places] == factor.indices[places[:, :1]]).all() else None
