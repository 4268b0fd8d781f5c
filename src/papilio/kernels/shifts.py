"""Matching pursuit with all shifts of some atoms on a periodic image."""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


@compiled
def pursue_shifts(
    correlations: Array, gram: Array, top: int, left: int, codes: Array, most: int, n_steps: int, least: float
) -> tuple[int, int]:
    """Take ``most`` shifted atoms in at most ``n_steps``, each time the one of the largest |correlation|.

    ``correlations`` (rows, atoms, columns) are those of the image with all shifts of the atoms, which have unit
    norm; they become those of the residual. ``gram[m, n, top + u, left + v]`` is the correlation of atom m with
    atom n when that is shifted by (u, v). Coefficients are added to ``codes`` (atoms, rows, columns). An atom that
    is taken again at the same place does not count again. The end is where all correlations are at most ``least``.
    Returned are how many atoms were taken, in how many steps.
    """
    n_rows, n_atoms, width = correlations.shape
    reach_rows, reach_columns = gram.shape[2], gram.shape[3]
    largest, places = np.empty(n_rows, correlations.dtype), np.empty(n_rows, np.int64)
    for i in range(n_rows):
        largest[i], places[i] = _peak(correlations[i])
    taken, steps = 0, 0
    while taken < most and steps < n_steps:
        i = int(np.argmax(largest))
        if largest[i] <= least:
            break
        steps += 1
        m, j = places[i] // width, places[i] % width
        value = correlations[i, m, j]
        if codes[m, i, j] == 0:
            taken += 1
        codes[m, i, j] += value
        for u in range(reach_rows):
            row = (i + u - top) % n_rows
            for other in range(n_atoms):
                line, weights = correlations[row, other], gram[m, other, u]
                at = (j - left) % width
                for v in range(reach_columns):
                    line[at] -= value * weights[v]
                    at += 1
                    if at == width:
                        at = 0
        for u in range(min(reach_rows, n_rows)):
            row = (i + u - top) % n_rows
            largest[row], places[row] = _peak(correlations[row])
    return taken, steps


@compiled
def _peak(lines: Array) -> tuple[float, int]:
    """The largest magnitude of some lines, and where it is."""
    n_lines, width = lines.shape
    best, place = np.abs(lines[0, 0]), 0
    for m in range(n_lines):
        line = lines[m]
        highest = np.abs(line[0])
        for j in range(width):
            highest = max(highest, np.abs(line[j]))
        if highest > best or m == 0:
            for j in range(width):
                if np.abs(line[j]) == highest:
                    best, place = highest, m * width + j
                    break
    return best, place
