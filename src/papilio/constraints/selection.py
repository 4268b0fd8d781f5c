"""Which entries to keep: the largest, with ties broken towards the lowest index.

In a Hadamard matrix all magnitudes are equal: the first projections consist of ties, and how these are broken
decides whether the factorization succeeds. Rounding must not break them, so that magnitudes that differ by less
than `slack_of` times the largest are ties.
"""

import numpy as np

from ..kernels import select
from ..kernels.matching import exchange, fill
from ..kernels.select import keep_largest, keep_largest_of_lines, keep_largest_with_columns, nth_largest
from ..linalg import writeable
from ..typing import Array

_SLACK = {4: 16 * float(np.finfo(np.float32).eps), 8: 1e-9}  # by the size of a number


def slack_of(worth: Array) -> float:
    """How far apart, relative to the largest, magnitudes may be and still be equal up to rounding."""
    return _SLACK[worth.dtype.itemsize]


def largest(worth: Array, count: int) -> Array:
    """A mask of the ``count`` largest positive entries of each line (along the last axis)."""
    if count >= worth.shape[-1]:
        return worth > 0
    keep = np.zeros(worth.shape, dtype=bool)
    if count == 0:
        return keep
    worth = writeable(worth)
    if worth.ndim == 1:
        keep_largest(worth, count, slack_of(worth), keep)
    else:
        lines = worth.reshape(-1, worth.shape[-1])
        keep_largest_of_lines(lines, count, slack_of(worth), keep.reshape(lines.shape))
    return keep


def at_unit_norm(values: Array, keep: Array) -> Array:
    """``values`` where ``keep``, divided by their norm, and zero elsewhere."""
    result = np.empty(values.shape, values.dtype)
    select.at_unit_norm(values.ravel(), writeable(keep).ravel(), result.ravel())
    return result


def largest_with_columns(worth: Array, count: int) -> Array:
    """A mask of the ``count`` largest positive entries of a matrix, the largest of each column first."""
    keep = np.zeros(worth.shape, dtype=bool)
    keep_largest_with_columns(np.ascontiguousarray(worth), count, slack_of(worth), keep)
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
    flat = worth.ravel()
    slack = slack_of(worth) * float(flat.max())
    mask = np.zeros(worth.shape, dtype=bool)
    rows = np.full(worth.shape[0], count)
    columns = np.full(worth.shape[1], count)
    # Most places go to the few largest entries: the others are looked at only where room is left.
    first = flat > slack
    few = 4 * count * min(worth.shape)
    n_first = int(np.count_nonzero(first))
    if n_first > 4 * few:
        first = flat > max(nth_largest(np.ascontiguousarray(flat), few, slack) - slack, slack)
    fill(_descending(flat, np.flatnonzero(first), slack), mask, rows, columns)
    if rows.any() and columns.any():
        others = np.flatnonzero(~first & (flat > 0))
        fill(_descending(flat, others, slack), mask, rows, columns)
    if n_first <= np.count_nonzero(mask) and mask.ravel()[flat > slack].all():
        return mask  # what is left out is rounding
    squares = np.square(worth, dtype=np.float64, order="C")  # the kernel is compiled for each order
    exchange(squares, mask, rows, columns, 4 * slack_of(worth) * float(squares.max()))
    return mask


def _descending(values: Array, places: Array, slack: float) -> Array:
    """``places`` of ``values`` from the largest down; values within ``slack`` of the next keep their order."""
    chosen = values[places]
    if chosen.size == 0 or chosen.max() - chosen.min() <= slack:
        return places
    ordered = np.sort(chosen)
    steps = np.flatnonzero(np.diff(ordered) > slack)
    if steps.size == chosen.size - 1:
        return places[np.argsort(-chosen)]
    # Few classes of ties fit into small integers, which sort in linear time.
    classes = steps.size - np.searchsorted(ordered[steps], chosen)
    return places[np.argsort(classes.astype(np.int16 if steps.size < 2**15 else np.int64), kind="stable")]
