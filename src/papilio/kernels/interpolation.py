"""Interpolative decompositions of many small blocks: each as some of its columns, times coefficients.

A block W of a few sampled rows is W ≈ W[:, s]·T, where T has the identity at the columns s: QR with pivoting finds
the columns, and a triangular system the other coefficients. Complex numbers are kept as two halves of a line, real
and imaginary parts, so that sums run on vector units.
"""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"})
# A kernel from the cache may find another copy of a function that it calls, compiled to another order of sums.
inlined = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"}, forceinline=True)


@inlined
def project_out(unit: Array, line: Array, half: int) -> tuple[float, float]:
    """Subtract from ``line`` its part along ``unit``; returns the coefficient. ``half`` is 0 for real numbers."""
    real, imaginary = 0.0, 0.0
    for i in range(line.size):
        real += unit[i] * line[i]
    for i in range(half):
        imaginary += unit[i] * line[half + i] - unit[half + i] * line[i]
    for i in range(line.size):
        line[i] -= real * unit[i]
    for i in range(half):
        line[i] += imaginary * unit[half + i]
    for i in range(half):
        line[half + i] -= imaginary * unit[i]
    return real, imaginary


@inlined
def square(line: Array) -> float:
    """‖line‖²."""
    total = 0.0
    for i in range(line.size):
        total += line[i] * line[i]
    return total


@compiled
def interpolate(lines: Array, half: int, n_rows: int, limit: float, places: Array) -> int:
    """The interpolative decomposition of one block, whose columns are ``lines``, in their place.

    Columns are chosen until the squared norm of what they do not span is at most ``limit``. ``places`` says for
    each column which of the chosen ones it is, in their order; −1 for the others. The coefficients of these, one
    for each chosen column, then stand at the beginnings of the halves of their lines. Returns the rank.
    """
    count = lines.shape[0]
    most = min(count, n_rows)
    squares = np.empty(count)
    above = np.zeros((count, 2, most))  # R, column by column: real and imaginary parts
    chosen = np.empty(most, np.int64)
    rank = 0
    for j in range(count):
        squares[j] = square(lines[j])
        places[j] = -1
    while rank < most and squares.sum() > limit:
        pivot = np.argmax(squares)
        length = np.sqrt(squares[pivot])
        if not length > 0.0:
            break
        unit = lines[pivot]
        unit /= length
        above[pivot, 0, rank] = length
        chosen[rank], places[pivot], squares[pivot] = pivot, rank, 0.0
        for j in range(count):
            if places[j] < 0:
                above[j, 0, rank], above[j, 1, rank] = project_out(unit, lines[j], half)
                squares[j] = square(lines[j])
        rank += 1
    order = np.argsort(np.argsort(chosen[:rank]))  # Order of the chosen columns among themselves.
    for j in range(count):
        if places[j] < 0:
            for i in range(rank - 1, -1, -1):
                column = above[chosen[i]]
                real, imaginary = above[j, 0, i] / column[0, i], above[j, 1, i] / column[0, i]
                lines[j, order[i]] = real
                if half > 0:
                    lines[j, half + order[i]] = imaginary
                for k in range(i):
                    above[j, 0, k] -= column[0, k] * real - column[1, k] * imaginary
                for k in range(i):
                    above[j, 1, k] -= column[0, k] * imaginary + column[1, k] * real
    for i in range(rank):
        places[chosen[i]] = order[i]
    return rank


@compiled
def interpolate_blocks(
    lines: Array,
    half: int,
    n_rows: Array,
    begins: Array,
    limits: Array,
    places: Array,
    ranks: Array,
    start: int,
    stop: int,
) -> None:
    """`interpolate` the blocks from ``start`` to ``stop``: block b has the lines begins[b] to begins[b + 1]."""
    for b in range(start, stop):
        begin, end = begins[b], begins[b + 1]
        ranks[b] = interpolate(lines[begin:end], half, n_rows[b], limits[b], places[begin:end])


@compiled
def write_rows(
    lines: Array,
    half: int,
    begins: Array,
    places: Array,
    ranks: Array,
    entries: Array,
    tops: Array,
    lefts: Array,
    pointers: Array,
    columns: Array,
    values: Array,
) -> None:
    """Write the coefficients of blocks as rows of a sparse matrix.

    Block b has the rows from tops[b] on, one for each chosen column, and its columns begin at lefts[b]. Its
    entries begin at entries[b]. ``values`` are pairs of real and imaginary parts; single numbers without ``half``.
    """
    for b in range(ranks.size):
        begin, end, rank = begins[b], begins[b + 1], ranks[b]
        length = end - begin - rank + 1
        for i in range(rank):
            place = entries[b] + i * length
            pointers[tops[b] + i] = place
            for j in range(begin, end):
                if places[j] < 0:
                    values[place, 0] = lines[j, i]
                    if half > 0:
                        values[place, 1] = lines[j, half + i]
                elif places[j] == i:
                    values[place, 0] = 1.0
                    if half > 0:
                        values[place, 1] = 0.0
                else:
                    continue
                columns[place] = lefts[b] + j - begin
                place += 1
