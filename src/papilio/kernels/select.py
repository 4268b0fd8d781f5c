"""The largest entries of a line, without sorting it."""

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True)


@compiled
def nth_largest(worth: Array, count: int, slack: float, guess: float) -> float:
    """The ``count``-th largest of ``worth`` ≥ 0, or an entry less than ``slack`` away; count < worth.size.

    Found by bisection, from a ``guess`` if that is positive: counting is fast on vector units, and needs no copy.
    """
    top = worth.max()
    low, high = top * 0, top  # at least ``count`` entries are ≥ low, fewer are > high
    middle = 0.5 * top
    reach = 0.0
    if 0 < guess < top:
        middle = guess
        reach = 0.01 * guess
    # Until just ``count`` are left, or all between low and high are ties.
    while high - low > 0.25 * slack and low < middle < high:
        above = 0
        for i in range(worth.size):
            above += worth[i] >= middle
        if above >= count:
            low = middle
        else:
            high = middle
        if above == count:
            break
        middle = low + 0.5 * (high - low)
        if reach > 0 and high == top and low + reach < middle:
            middle = low + reach
        elif reach > 0 and low == 0 and high - reach > middle:
            middle = high - reach
        reach *= 4
    threshold = top
    for i in range(worth.size):
        if low <= worth[i] < threshold:
            threshold = worth[i]
    return threshold


@compiled
def keep_largest(worth: Array, count: int, slack: float, guess: float, keep: Array) -> float:
    """Set ``keep`` where ``worth`` ≥ 0 is among the ``count`` ≥ 1 largest, and positive; returns the threshold.

    Entries within ``slack`` times the largest of the threshold are ties, which go to the lowest indices.
    """
    slack *= worth.max()
    threshold = 0 * worth[0]
    if count < worth.size:
        threshold = nth_largest(worth, count, slack, guess)
    room = count
    for i in range(worth.size):
        keep[i] = worth[i] > threshold + slack
        room -= keep[i]
    for i in range(worth.size):
        if room == 0:
            break
        if not keep[i] and worth[i] > 0 and worth[i] >= threshold - slack:
            keep[i] = True
            room -= 1
    return threshold


@compiled
def keep_largest_of_lines(worth: Array, count: int, slack: float, keep: Array) -> None:
    """`keep_largest` for each line."""
    for i in range(worth.shape[0]):
        if worth[i].max() > 0:
            keep_largest(worth[i], count, slack, 0.0, keep[i])
        else:
            keep[i] = False


@compiled
def keep_largest_with_columns(worth: Array, count: int, slack: float, guess: float, keep: Array) -> float:
    """`keep_largest` of a matrix, with the largest of each column first; ``count`` ≥ the number of columns."""
    rest = worth.copy()
    for j in range(worth.shape[1]):
        least = (1 - slack) * worth[:, j].max()  # of the ties for the largest
        for i in range(worth.shape[0]):
            if worth[i, j] >= least:
                rest[i, j] = 0
                break
    keep[:] = False
    count -= worth.shape[1]
    if count > 0 and rest.max() > 0:
        guess = keep_largest(rest.ravel(), count, slack, guess, keep.ravel())
    for i in range(worth.shape[0]):
        for j in range(worth.shape[1]):
            keep[i, j] |= worth[i, j] > rest[i, j]
    return guess
