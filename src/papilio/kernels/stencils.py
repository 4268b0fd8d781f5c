"""Convolutions on periodic images: chains of short ones, and matching pursuit with all shifts of some atoms.

A chain is applied tile by tile. A stage is one convolution: out[i, j] = Σ_s w_s · in[i − r_s, j − c_s]. All
stages run on a tile of rows while it is in cache. A tile needs rows above and below its own from the stages
before: these are computed twice, by both neighbours. Columns wrap around by ghost columns on both sides, filled
anew after each stage.
"""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz"})


@compiled
def convolve_tiles(
    source: Array,
    result: Array,
    starts: Array,
    rows: Array,
    columns: Array,
    weights: Array,
    above: Array,
    below: Array,
    ghost: int,
    height: int,
    room: Array,
    begin: int,
    end: int,
) -> None:
    """The tiles from ``begin`` to ``end`` of the chain applied to ``source``, into ``result``.

    Both are (images, rows, columns). The places of stage k are ``starts[k]`` to ``starts[k + 1]``; rows are
    counted from the lowest that the stage reads, so that none is negative. Stage k needs ``above[k]`` rows of its
    input above the tile, and ``below[k]`` below it. ``room`` has two buffers with ``ghost`` columns on both sides.
    """
    n_rows, width = source.shape[1], source.shape[2]
    n_stages, per_image = len(starts) - 1, (n_rows + height - 1) // height
    for tile in range(begin, end):
        image, first = tile // per_image, tile % per_image * height
        last = min(first + height, n_rows)
        for t in range(last - first + above[0] + below[0]):
            line, origin = room[0, t], source[image, (first - above[0] + t) % n_rows]
            for j in range(width):
                line[ghost + j] = origin[j]
            _wrap(line, ghost, width)
        for stage in range(n_stages):
            near, far = room[stage % 2], room[1 - stage % 2]
            is_last = stage == n_stages - 1
            n_lines = last - first
            if not is_last:
                n_lines += above[stage + 1] + below[stage + 1]
            for t in range(n_lines):
                line = result[image, first + t] if is_last else far[t, ghost : ghost + width]
                _line(near, t, line, rows, columns, weights, starts[stage], starts[stage + 1], ghost)
                if not is_last:
                    _wrap(far[t], ghost, width)


@compiled
def _wrap(line: Array, ghost: int, width: int) -> None:
    for j in range(ghost):
        line[j] = line[width + j]
        line[ghost + width + j] = line[ghost + j]


@compiled
def _line(
    near: Array,
    t: int,
    out: Array,
    rows: Array,
    columns: Array,
    weights: Array,
    first: int,
    last: int,
    ghost: int,
) -> None:
    """One row of a stage: the first place, then four places at a time, then those that are left."""
    width = len(out)
    a = near[t + rows[first], ghost - columns[first] : ghost - columns[first] + width]
    w = weights[first]
    for j in range(width):
        out[j] = w * a[j]
    s = first + 1
    while s + 4 <= last:
        a = near[t + rows[s], ghost - columns[s] : ghost - columns[s] + width]
        b = near[t + rows[s + 1], ghost - columns[s + 1] : ghost - columns[s + 1] + width]
        c = near[t + rows[s + 2], ghost - columns[s + 2] : ghost - columns[s + 2] + width]
        d = near[t + rows[s + 3], ghost - columns[s + 3] : ghost - columns[s + 3] + width]
        w, x, y, z = weights[s], weights[s + 1], weights[s + 2], weights[s + 3]
        for j in range(width):
            out[j] += (w * a[j] + x * b[j]) + (y * c[j] + z * d[j])
        s += 4
    while s < last:
        a = near[t + rows[s], ghost - columns[s] : ghost - columns[s] + width]
        w = weights[s]
        for j in range(width):
            out[j] += w * a[j]
        s += 1


# -- matching pursuit ----------------------------------------------------------------------------------


@compiled
def pursue_shifts(
    correlations: Array, gram: Array, top: int, left: int, codes: Array, most: int, n_steps: int, least: float
) -> tuple[int, int]:
    """Take ``most`` shifted atoms in at most ``n_steps``, each time the one of the largest |correlation|.

    ``correlations`` (rows, atoms, columns) are those of the image with all shifts of the atoms, which have unit
    norm; they become those of the residual. ``gram[m, n, top + u, left + v]`` is the correlation of atom m with
    atom n when that is shifted by (u, v). Coefficients are added to ``codes`` (atoms, rows, columns). An atom that
    is chosen again at the same place counts once. The end is where all correlations are at most ``least``.
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
