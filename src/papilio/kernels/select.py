"""The largest entries of a line, without sorting it, and the unit-norm matrix of those that are kept."""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True)
# Sums in any order, so that they run on vector units.
summing = kernel(nogil=True, fastmath={"nsz", "reassoc", "contract"})


@compiled
def largest_of(score: Array) -> float:
    """The largest of ``score`` ≥ 0, in four independent chains, as each comparison waits for the one before."""
    a = b = c = d = score.dtype.type(0)
    whole = score.size // 4 * 4
    for i in range(0, whole, 4):
        a = score[i] if score[i] > a else a
        b = score[i + 1] if score[i + 1] > b else b
        c = score[i + 2] if score[i + 2] > c else c
        d = score[i + 3] if score[i + 3] > d else d
    for i in range(whole, score.size):
        a = score[i] if score[i] > a else a
    return max(max(a, b), max(c, d))


@compiled
def _count_from(score: Array, least: float) -> int:
    count = 0
    for i in range(score.size):
        count += score[i] >= least
    return count


@compiled
def _bisect(score: Array, count: int, top: float, slack: float) -> tuple[float, int]:
    """A threshold that just ``count`` entries reach, or at most ``slack`` below the ``count``-th largest.

    And how many entries reach it. Counting is fast on vector units, and needs no copy. The first steps alternate
    between the middle and where as many entries should be larger if they were spread evenly.
    """
    low, high = score.dtype.type(0), top  # at least ``count`` entries are ≥ low, fewer are > high
    n_low, n_high = score.size, 0
    for step in range(2000):
        if high - low <= slack or n_low == count:
            break
        share = 0.5
        if step % 2 == 1 and step < 16:
            share = (n_low - count + 0.5) / (n_low - n_high + 1)
        middle = score.dtype.type(low + share * (high - low))
        if not low < middle < high:
            middle = high
        above = _count_from(score, middle)
        if above >= count:
            low, n_low = middle, above
            if middle == high:
                break
        elif middle == high:
            break
        else:
            high, n_high = middle, above
    return low, n_low


@compiled
def nth_largest(score: Array, count: int, slack: float) -> float:
    """The ``count``-th largest of ``score`` ≥ 0, or an entry less than ``slack`` away; count < score.size."""
    top = largest_of(score)
    low, _ = _bisect(score, count, top, 0.25 * slack)
    least = top
    for i in range(score.size):
        if low <= score[i] < least:
            least = score[i]
    return least


@compiled
def keep_largest(score: Array, count: int, slack: float, keep: Array) -> None:
    """Set ``keep`` where ``score`` ≥ 0 is among the ``count`` ≥ 1 largest, and positive.

    Entries within ``slack`` times the largest of the threshold are ties, which go to the lowest indices.
    """
    top = largest_of(score)
    slack *= top
    low, n_low = score.dtype.type(0), score.size
    if count < score.size:
        low, n_low = _bisect(score, count, top, 0.25 * slack)
    if n_low == count and low > slack and _count_from(score, low - slack) == count:
        for i in range(score.size):
            keep[i] = score[i] >= low
        return
    threshold = low
    if count < score.size:
        threshold = top
        for i in range(score.size):
            if low <= score[i] < threshold:
                threshold = score[i]
    room = count
    for i in range(score.size):
        keep[i] = score[i] > threshold + slack
        room -= keep[i]
    for i in range(score.size):
        if room == 0:
            break
        if not keep[i] and score[i] > 0 and score[i] >= threshold - slack:
            keep[i] = True
            room -= 1


@summing
def _norm_of(values: Array, keep: Array) -> float:
    """The norm of the ``values`` that are kept."""
    square = 0.0
    for i in range(values.size):
        size = (np.conj(values[i]) * values[i]).real
        square += size if keep[i] else 0 * size
    return np.sqrt(square)


@compiled
def at_unit_norm(values: Array, keep: Array, result: Array) -> None:
    """result = ``values`` where ``keep``, over their norm, and zero elsewhere."""
    norm = values.real.dtype.type(_norm_of(values, keep))
    for i in range(values.size):
        result[i] = values[i] / norm if keep[i] else values.dtype.type(0)


@compiled
def project_lines(matrix: Array, n_lines: int, count: int, slack: float, result: Array) -> bool:
    """result = the largest ``count`` entries of each line of a row-major matrix, over their norm.

    False, and no result, where squares may overflow or underflow, as for zero.
    """
    values = matrix.ravel()
    score = np.empty(values.size, values.real.dtype)
    for i in range(values.size):
        score[i] = abs(values[i])
    if not 1e-15 < largest_of(score) < 1e15:
        return False
    keep = np.empty(values.size, np.bool_)
    length = values.size // n_lines
    for begin in range(0, values.size, length):
        end = begin + length
        keep_largest(score[begin:end], count, slack, keep[begin:end])
    at_unit_norm(values, keep, result.ravel())
    return True


@compiled
def keep_largest_of_lines(score: Array, count: int, slack: float, keep: Array) -> None:
    """`keep_largest` for each line."""
    for i in range(score.shape[0]):
        keep_largest(score[i], count, slack, keep[i])


@compiled
def keep_largest_with_columns(score: Array, count: int, slack: float, keep: Array) -> None:
    """`keep_largest` of a matrix, with the largest of each column first; ``count`` ≥ the number of columns."""
    rest = score.copy()
    for j in range(score.shape[1]):
        top = score[0, j]
        for i in range(score.shape[0]):
            top = max(top, score[i, j])
        for i in range(score.shape[0]):
            if score[i, j] >= (1 - slack) * top:  # the first of the ties for the largest
                rest[i, j] = 0
                break
    keep[:] = False
    count -= score.shape[1]
    if count > 0:
        keep_largest(rest.ravel(), count, slack, keep.ravel())
    for i in range(score.shape[0]):
        for j in range(score.shape[1]):
            keep[i, j] |= score[i, j] > rest[i, j]


@compiled
def norms_of_blocks(score: Array, rows: Array, columns: Array, norms: Array) -> None:
    """The Frobenius norms of the blocks of a grid: line i belongs to group ``rows[i]`` or ``columns[i]``."""
    squares = np.zeros((norms.shape[0], score.shape[1]))
    for i in range(score.shape[0]):
        for j in range(score.shape[1]):
            squares[rows[i], j] += np.float64(score[i, j]) * score[i, j]
    sums = np.zeros(norms.shape)
    for i in range(norms.shape[0]):
        for j in range(score.shape[1]):
            sums[i, columns[j]] += squares[i, j]
        for j in range(norms.shape[1]):
            norms[i, j] = np.sqrt(sums[i, j])


@compiled
def spread(kept: Array, rows: Array, columns: Array, keep: Array) -> None:
    """Set ``keep`` for the entries of the blocks that are ``kept``."""
    for i in range(keep.shape[0]):
        for j in range(keep.shape[1]):
            keep[i, j] = kept[rows[i], columns[j]]
