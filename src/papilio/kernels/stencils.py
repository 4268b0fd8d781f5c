"""Chains of short convolutions on periodic images, tile by tile.

A stage is one convolution: out[i, j] = Σ_s w_s · in[i − r_s, j − c_s]. All stages run on a tile of rows while it
is in cache. A tile needs rows above and below its own from the stages before: these are computed twice, by both
neighbours. Columns wrap around by ghost columns on both sides, filled anew after each stage.
"""

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
            if stage == n_stages - 1:
                for t in range(last - first):
                    _line(
                        near,
                        t,
                        result[image, first + t],
                        rows,
                        columns,
                        weights,
                        starts[stage],
                        starts[stage + 1],
                        ghost,
                    )
            else:
                for t in range(last - first + above[stage + 1] + below[stage + 1]):
                    line = far[t]
                    _line(
                        near,
                        t,
                        line[ghost : ghost + width],
                        rows,
                        columns,
                        weights,
                        starts[stage],
                        starts[stage + 1],
                        ghost,
                    )
                    _wrap(line, ghost, width)


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
    """One row of a stage, four places at a time."""
    width = len(out)
    s = first
    while s < last:
        count = min(last - s, 4)
        # Places that are missing repeat the first one, with weight zero.
        p, q, r = s + min(1, count - 1), s + min(2, count - 1), s + min(3, count - 1)
        zero = weights[s] * 0
        w0 = weights[s]
        w1 = weights[p] if count > 1 else zero
        w2 = weights[q] if count > 2 else zero
        w3 = weights[r] if count > 3 else zero
        a = near[t + rows[s], ghost - columns[s] : ghost - columns[s] + width]
        b = near[t + rows[p], ghost - columns[p] : ghost - columns[p] + width]
        c = near[t + rows[q], ghost - columns[q] : ghost - columns[q] + width]
        d = near[t + rows[r], ghost - columns[r] : ghost - columns[r] + width]
        _combine(out, a, b, c, d, w0, w1, w2, w3, count, s > first)
        s += 4


@compiled
def _combine(
    out: Array,
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    w0: float,
    w1: float,
    w2: float,
    w3: float,
    count: int,
    adds: bool,
) -> None:
    """out = w0·a + w1·b + w2·c + w3·d, or as many of them as there are; or that is added."""
    if count == 4:
        if adds:
            for j in range(len(out)):
                out[j] += (w0 * a[j] + w1 * b[j]) + (w2 * c[j] + w3 * d[j])
        else:
            for j in range(len(out)):
                out[j] = (w0 * a[j] + w1 * b[j]) + (w2 * c[j] + w3 * d[j])
    elif count == 1 and adds:
        for j in range(len(out)):
            out[j] += w0 * a[j]
    elif adds:
        for j in range(len(out)):
            out[j] += w0 * a[j] + w1 * b[j] + w2 * c[j]
    else:
        for j in range(len(out)):
            out[j] = w0 * a[j] + w1 * b[j] + w2 * c[j]
