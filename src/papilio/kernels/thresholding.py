"""Codes in an orthonormal basis: the largest coefficients of each signal."""

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True)


@compiled
def largest_of_rows(sizes: Array, floors: Array, indices: Array, counts: Array, start: int, stop: int) -> None:
    """The places of the largest entries of each row, in ascending order, as many as ``indices`` has columns.

    Of equal ones, the first. ``sizes`` are the absolute values; none is taken that is not above its row's floor.
    """
    most = indices.shape[1]
    for s in range(start, stop):
        row, chosen, count = sizes[s], indices[s], 0
        least = floors[s]
        for j in range(row.size):
            if row[j] <= least:
                continue
            k = count if count < most else most - 1  # by descending size; the last one drops out
            while k > 0 and row[chosen[k - 1]] < row[j]:
                chosen[k] = chosen[k - 1]
                k -= 1
            chosen[k] = j
            count = min(count + 1, most)
            if count == most:
                least = row[chosen[most - 1]]
        for i in range(1, count):  # by place
            j, k = chosen[i], i
            while k > 0 and chosen[k - 1] > j:
                chosen[k] = chosen[k - 1]
                k -= 1
            chosen[k] = j
        counts[s] = count
