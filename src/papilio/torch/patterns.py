"""Supports of factors for layers that are trained from scratch.

Rows come in groups that read the same, evenly spread columns, so that every factor is made of dense blocks, up to
the order of its columns, and so that each output soon depends on all inputs. With two factors and √n entries per
row this is block-diagonal matrices with a permutation between them (Monarch); with log₂ n factors and two entries
per row it is the butterfly of the fast Fourier transform, in its form of constant geometry.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import gcd

import numpy as np
import scipy.sparse as sp

_DEFAULT = 0.25  # Relative to the entries of the dense matrix.
_USED = 0.75  # Supports of equal groups should use at least this share of the entries that are allowed.


def spread_supports(sizes: tuple[int, ...], complexity: float | None, block: int) -> list[sp.csr_array]:
    """Supports of factors that chain through ``sizes``, from left to right, of ``block`` × ``block`` blocks.

    All together have at most ``complexity`` times the entries of the dense matrix, and as many in each row as
    possible, as nearly equal from factor to factor as possible. None stands for a quarter, or the least possible.
    """
    units = [size // block for size in sizes]
    shapes = list(pairwise(units))
    least = sum(rows * _fewest(rows, columns) for rows, columns in shapes)
    budget = int((_DEFAULT if complexity is None else complexity) * units[0] * units[-1] + 1e-9)
    if complexity is None:
        budget = max(budget, least)
    elif least > budget:
        needed = least / (units[0] * units[-1])
        reason = f"one block of {block}×{block} in" if block > 1 else "one entry in"
        raise ValueError(
            f"complexity must be at least {needed:.4g}, {reason} each row and column of {len(shapes)} factors, "
            f"got {complexity:g}"
        )
    counts = _raised(shapes, budget, [_even(*shape) for shape in shapes])
    if sum(n * k for (n, _), k in zip(shapes, counts, strict=True)) < _USED * budget:
        counts = _raised(shapes, budget, [range(_fewest(*shape), shape[1] + 1) for shape in shapes])
    ones = np.ones((block, block))
    return [
        sp.csr_array(sp.kron(_spread(*shape, k), ones, format="csr")).sorted_indices()
        for shape, k in zip(shapes, counts, strict=True)
    ]


def _fewest(rows: int, columns: int) -> int:
    """The entries per row with which all columns are read."""
    return -(-columns // rows)


def _even(rows: int, columns: int) -> list[int]:
    """The entries per row for which all groups have equally many rows, and all columns are read equally often."""
    return [columns // n for n in range(columns, 0, -1) if columns % n == 0 and gcd(rows, n) == n]


def _raised(shapes: list[tuple[int, int]], budget: int, choices: Sequence[Sequence[int]]) -> list[int]:
    """The entries per row of each factor, one of its choices, raised in turns as far as the budget allows."""
    at = [0] * len(shapes)
    left = budget - sum(rows * choice[0] for (rows, _), choice in zip(shapes, choices, strict=True))
    if left < 0:
        return [0] * len(shapes)
    while True:
        prices = {
            f: shapes[f][0] * (choice[at[f] + 1] - choice[at[f]])
            for f, choice in enumerate(choices)
            if at[f] + 1 < len(choice)
        }
        affordable = [f for f, price in prices.items() if price <= left]
        if not affordable:
            return [choice[i] for choice, i in zip(choices, at, strict=True)]
        f = min(affordable, key=lambda f: choices[f][at[f]])
        left -= prices[f]
        at[f] += 1


def _spread(rows: int, columns: int, per_row: int) -> sp.csr_array:
    """Groups of neighbouring rows, each with columns spread evenly from first to last."""
    n_groups = -(-columns // per_row)
    group = np.arange(rows) * n_groups // rows
    steps = np.arange(per_row) * n_groups + group[:, None]
    indices = steps * columns // (per_row * n_groups)
    return sp.csr_array((np.ones(indices.size), indices.ravel(), per_row * np.arange(rows + 1)), (rows, columns))
