"""Which entries to keep: the largest, with ties broken towards the lowest index.

Matrices such as Hadamard's have entries of one magnitude only, so that the first projections are all ties and
decide whether a factorization succeeds. Rounding must not decide them: magnitudes that differ by less than
`slack_of` the largest are ties.
"""

import numpy as np

from ..kernels.matching import exchange, fill
from ..kernels.select import keep_largest_of_lines
from ..validation import Array


def slack_of(worth: Array) -> float:
    """How far apart, relative to the largest, magnitudes may be and still be equal up to rounding."""
    return max(1e-9, 16 * float(np.finfo(worth.dtype).eps))


def largest(worth: Array, count: int) -> Array:
    """A mask of the ``count`` largest positive entries of each line (along the last axis)."""
    if count >= worth.shape[-1]:
        return worth > 0
    keep = np.zeros(worth.shape, dtype=bool)
    if count > 0:
        lines = np.ascontiguousarray(worth).reshape(-1, worth.shape[-1])
        keep_largest_of_lines(lines, count, slack_of(worth), keep.reshape(lines.shape))
    return keep


def first_largest(values: Array, allowed: Array | None = None) -> int:
    """The flat index of the first entry that equals the largest allowed one up to rounding."""
    flat = values.ravel()
    if allowed is not None:
        flat = np.where(allowed.ravel(), flat, -np.inf)
    top = flat.max()
    return int(np.argmax(flat >= top - slack_of(values) * abs(top)))


def largest_per_row_and_column(worth: Array, count: int) -> Array:
    """A mask of at most ``count`` entries in each row and column with a large sum of squares.

    The best mask is a maximum-weight b-matching. This one is filled greedily from the largest entry down, and
    then improved by exchanges of two entries for two, or of one for two where rows and columns have room.
    """
    order = _descending(worth)
    mask = np.zeros(worth.shape, dtype=bool)
    rows = np.full(worth.shape[0], count)
    columns = np.full(worth.shape[1], count)
    fill(order, mask, rows, columns)
    squares = np.square(worth, dtype=np.float64)
    exchange(squares, mask, rows, columns, 4 * slack_of(worth) * float(squares.max()))
    return mask


def _descending(worth: Array) -> Array:
    """Flat indices of the positive entries from the largest down, ties in row-major order."""
    flat = worth.ravel()
    positive = np.flatnonzero(flat)
    order = positive[np.argsort(-flat[positive], kind="stable")]
    gaps = flat[order[:-1]] - flat[order[1:]]
    slack = slack_of(worth) * flat[order[0]]
    if ((gaps > 0) & (gaps <= slack)).any():
        # Chains of entries each within rounding of the next are one tie.
        tie = np.concatenate([[0], np.cumsum(gaps > slack)])
        order = order[np.lexsort((order, tie))]
    return order
