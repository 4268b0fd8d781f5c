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


# -- at most so many entries per row and column: greedy filling and improvement by exchange --------------
#
# Each kernel changes ``mask`` and the room left in ``rows`` and ``columns`` in place; all are C-contiguous.


@compiled
def fill(order: Array, mask: Array, rows: Array, columns: Array) -> None:
    """Take the entries with flat indices ``order``, one after the other, where their row and column have room."""
    n_columns = mask.shape[1]
    left = min(rows.sum(), columns.sum())
    for index in order:
        if left == 0:
            break
        i = index // n_columns
        j = index % n_columns
        if rows[i] > 0 and columns[j] > 0:
            mask[i, j] = True
            rows[i] -= 1
            columns[j] -= 1
            left -= 1


@compiled
def exchange(squares: Array, mask: Array, rows: Array, columns: Array, least_gain: float) -> int:
    """Exchange entries while that raises the sum of ``squares`` on the mask by more than ``least_gain``.

    Returns the number of exchanges. A sweep visits each entry outside the mask once with the least entry of its
    row and of its column in the mask, so it costs rows × columns steps, not their square.
    """
    exchanges = 0
    for _ in range(20):
        before = exchanges
        exchanges += _spread(squares, mask, rows, columns, least_gain)
        exchanges += _cross(squares, mask, least_gain)
        exchanges += _add(squares, mask, rows, columns, least_gain)
        if exchanges == before:
            break
    return exchanges


@compiled
def _spread(squares: Array, mask: Array, rows: Array, columns: Array, least_gain: float) -> int:
    """Give up one entry (i, j) for one in its row and one in its column, where the others ends have room."""
    exchanges = 0
    open_rows = np.flatnonzero(rows)
    open_columns = np.flatnonzero(columns)
    if open_rows.size == 0 or open_columns.size == 0:
        return 0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            if not mask[i, j]:
                continue
            best_row = -1
            best_column = -1
            for row in open_rows:
                free = rows[row] > 0 and not mask[row, j]
                if free and (best_row < 0 or squares[row, j] > squares[best_row, j] + least_gain):
                    best_row = int(row)
            for column in open_columns:
                free = columns[column] > 0 and not mask[i, column]
                if free and (best_column < 0 or squares[i, column] > squares[i, best_column] + least_gain):
                    best_column = int(column)
            if best_row < 0 or best_column < 0:
                continue
            gain = squares[best_row, j] + squares[i, best_column] - squares[i, j]
            if gain > least_gain:
                mask[i, j] = False
                mask[best_row, j] = True
                mask[i, best_column] = True
                rows[best_row] -= 1
                columns[best_column] -= 1
                exchanges += 1
    return exchanges


@compiled
def _least(squares: Array, mask: Array, least_gain: float) -> int:
    """The place of the least entry in the mask, in a row or column; −1 if there is none."""
    least = -1
    for i in range(mask.size):
        if mask[i] and (least < 0 or squares[i] < squares[least] - least_gain):
            least = i
    return least


@compiled
def _cross(squares: Array, mask: Array, least_gain: float) -> int:
    """Give up (i, q) and (p, j) for (i, j) and (p, q): row and column sums stay as they are."""
    exchanges = 0
    least_in_row = np.array([_least(squares[i], mask[i], least_gain) for i in range(mask.shape[0])])
    least_in_column = np.array([_least(squares[:, j], mask[:, j], least_gain) for j in range(mask.shape[1])])
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            q = least_in_row[i]
            p = least_in_column[j]
            if mask[i, j] or q < 0 or p < 0 or mask[p, q]:
                continue
            gain = squares[i, j] + squares[p, q] - squares[i, q] - squares[p, j]
            if gain > least_gain:
                mask[i, q] = False
                mask[p, j] = False
                mask[i, j] = True
                mask[p, q] = True
                for row in (i, p):
                    least_in_row[row] = _least(squares[row], mask[row], least_gain)
                for column in (j, q):
                    least_in_column[column] = _least(squares[:, column], mask[:, column], least_gain)
                exchanges += 1
    return exchanges


@compiled
def _add(squares: Array, mask: Array, rows: Array, columns: Array, least_gain: float) -> int:
    """Take entries whose row and column have room, which `_cross` may have made."""
    additions = 0
    for i in np.flatnonzero(rows):
        for j in np.flatnonzero(columns):
            if rows[i] > 0 and columns[j] > 0 and not mask[i, j] and squares[i, j] > least_gain:
                mask[i, j] = True
                rows[i] -= 1
                columns[j] -= 1
                additions += 1
    return additions
