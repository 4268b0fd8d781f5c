"""At most so many entries per row and column: greedy filling and improvement by exchange.

Each kernel changes ``mask`` and the room left in ``rows`` and ``columns`` in place; all are C-contiguous.
"""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel()


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
