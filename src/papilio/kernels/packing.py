"""From sparse rows to groups of rows with a common set of columns, in linear time.

All of it works on the structure alone, whatever the values are: see `papilio.operators.engine`, which calls it,
and `papilio.kernels.multiply`, which reads the result. Plain loops over scalars, as slices take long to compile.
"""

from typing import Any

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True)


@compiled
def group_alike(
    pointers: Array,
    indices: Array,
    left_out: Array,
    table: Array,
    links: Array,
    fours: Array,
    twos: Array,
    ones: Array,
) -> tuple[int, int, int]:
    """The rows that have their entries in the same columns in groups of four, two and one; the number of each.

    Rows that are ``left_out`` are in none. ``table``, all -1, has a power of two places, at least twice as many
    as there are rows. ``links``, all -1, are two for each row: to the next one that is alike, -1 for none, and, at
    the first of those that are alike, to the last.
    """
    for row in range(pointers.size - 1):
        if left_out[row]:
            continue
        begin, end, key = pointers[row], pointers[row + 1], np.uint64(0)
        for k in range(begin, end):
            key = (key ^ np.uint64(indices[k])) * np.uint64(0x9E3779B97F4A7C15)
        place = np.int64(key >> np.uint64(32)) & (table.size - 1)
        while table[place] >= 0:
            other = table[place]
            shift, is_alike = pointers[other] - begin, pointers[other + 1] - pointers[other] == end - begin
            k = begin
            while is_alike and k < end:
                is_alike = indices[k] == indices[k + shift]
                k += 1
            if is_alike:
                break
            place = (place + 1) & (table.size - 1)
        first = table[place]
        if first < 0:
            table[place] = links[row, 1] = row
        else:
            links[links[first, 1], 0] = row
            links[first, 1] = row

    n_fours, n_twos, n_ones = 0, 0, 0
    for first in range(pointers.size - 1):
        if links[first, 1] < 0:
            continue
        alike, left = np.int64(first), 0
        while alike >= 0:  # into the next four, which may not become full
            fours[4 * n_fours + left] = alike
            left += 1
            alike = links[alike, 0]
            if left == 4:
                n_fours, left = n_fours + 1, 0
        if left >= 2:
            twos[2 * n_twos], twos[2 * n_twos + 1] = fours[4 * n_fours], fours[4 * n_fours + 1]
            n_twos += 1
        if left % 2:
            ones[n_ones] = fours[4 * n_fours + left - 1]
            n_ones += 1
    return n_fours, n_twos, n_ones


@compiled
def merge(pointers: Array, indices: Array, rows: Array, begin: int, end: int, heads: Array, out: Any) -> int:
    """The number of columns in which any of the rows from ``begin`` to ``end`` has an entry.

    ``out`` are two arrays and a place. Unless they are empty, the first gets the columns, from that place on, and
    the second where each row has its entry in each of them, -1 for none. ``heads`` is room for an integer per row.
    """
    columns, places, start = out
    n, height = start, end - begin
    for i in range(height):
        heads[i] = pointers[rows[begin + i]]
    while True:
        column = np.int64(-1)
        for i in range(height):
            if heads[i] < pointers[rows[begin + i] + 1] and (column < 0 or indices[heads[i]] < column):
                column = np.int64(indices[heads[i]])
        if column < 0:
            return n - start
        for i in range(height):
            is_here = heads[i] < pointers[rows[begin + i] + 1] and indices[heads[i]] == column
            if places.size:
                places[n * height + i] = heads[i] if is_here else -1
            heads[i] += is_here
        if columns.size:
            columns[n] = column
        n += 1


@compiled
def group_neighbours(
    pointers: Array, indices: Array, prices: Any, fours: Array, twos: Array, ones: Array, counts: Array
) -> None:
    """Move neighbouring ``ones`` into groups of four and of two where filling up with zeros pays.

    ``prices`` are those of a strip of one, two and four entries; ``counts`` are the numbers of groups of four, two
    and one.
    """
    heads, nothing, counted = np.empty(4, np.int64), np.empty(0, np.int32), np.empty(3, np.int64)
    price_of_pair, price_of_ones = np.empty(2), np.empty(2)
    n_ones, end = 0, counts[2] // 4 * 4
    for begin in range(0, end, 4):
        for part in range(3):  # two pairs, and all four
            at = begin + part % 2 * 2
            counted[part] = merge(
                pointers, indices, ones, at, at + 2 + part // 2 * 2, heads, (nothing, nothing, 0)
            )
        for half in range(2):
            at = begin + 2 * half
            price_of_pair[half], price_of_ones[half] = prices[1] * counted[half], 0
            for k in range(at, at + 2):
                price_of_ones[half] += prices[0] * (pointers[ones[k] + 1] - pointers[ones[k]])
        apart = min(price_of_pair[0], price_of_ones[0]) + min(price_of_pair[1], price_of_ones[1])
        if prices[2] * counted[2] < apart:
            for k in range(4):
                fours[4 * counts[0] + k] = ones[begin + k]
            counts[0] += 1
            continue
        for half in range(2):
            first, second = ones[begin + 2 * half], ones[begin + 2 * half + 1]
            if price_of_pair[half] < price_of_ones[half]:
                twos[2 * counts[1]], twos[2 * counts[1] + 1] = first, second
                counts[1] += 1
            else:
                ones[n_ones], ones[n_ones + 1] = first, second
                n_ones += 2
    for k in range(end, counts[2]):
        ones[n_ones] = ones[k]
        n_ones += 1
    counts[2] = n_ones


@compiled
def fill_groups(
    pointers: Array, indices: Array, rows: Array, height: int, starts: Array, columns: Array, places: Array
) -> None:
    """The pointers, columns and places of groups: which entry each row of a strip has, -1 for none."""
    heads = np.empty(4, np.int64)
    for g in range(starts.size - 1):
        n = starts[g]
        if height == 1:
            for k in range(pointers[rows[g]], pointers[rows[g] + 1]):
                columns[n], places[n] = indices[k], k
                n += 1
            starts[g + 1] = n
        else:
            at = g * height
            starts[g + 1] = n + merge(pointers, indices, rows, at, at + height, heads, (columns, places, n))
