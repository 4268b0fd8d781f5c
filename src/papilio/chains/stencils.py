"""How the stages of a chain of convolutions are grouped, and applied to images."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from ..constraints.places import Grid
from ..kernels.stencils import convolve_tiles
from ..runtime.threads import get_num_threads, scratch, split_work
from ..typing import Array

_CACHE = 320 << 10  # bytes of both buffers of a tile, so that they stay in the second level of cache
_LEAST_ROWS = 8  # of a tile
_LEAST_WORK = 1 << 16  # multiplications that are worth another thread


class Stages(NamedTuple):
    """Consecutive convolutions that run tile by tile, as `papilio.kernels.stencils.convolve_tiles` wants them."""

    starts: Array
    rows: Array
    columns: Array
    weights: Array
    above: Array
    below: Array
    ghost: int

    @classmethod
    def of(cls, kernels: Sequence[Array], supports: Sequence[Array]) -> Self:
        """Stages of signed places in two dimensions."""
        # Row i of a stage reads rows i − max r to i − min r of the one before: from the last stage backwards.
        highest = np.array([places[:, 0].max() for places in supports])
        lowest = np.array([places[:, 0].min() for places in supports])
        above, below = (np.ascontiguousarray(np.cumsum(each[::-1])[::-1]) for each in (highest, -lowest))
        return cls(
            np.cumsum([0, *map(len, kernels)]),
            np.concatenate([top - places[:, 0] for top, places in zip(highest, supports, strict=True)]),
            np.concatenate([places[:, 1] for places in supports]),
            np.concatenate(kernels),
            above,
            below,
            max(int(np.abs(places[:, 1]).max()) for places in supports),
        )

    def apply(self, source: Array, result: Array) -> None:
        """Convolve images (n, rows, columns), on threads."""
        count, n_rows, width = source.shape
        halo = int(self.above[0] + self.below[0])
        length = width + 2 * self.ghost
        height = max(_CACHE // (2 * length * source.itemsize) - halo, 2 * halo, _LEAST_ROWS)
        height = min(height, -(-count * n_rows // get_num_threads()), n_rows)
        n_tiles = count * -(-n_rows // height)
        grain = -(-_LEAST_WORK // max(height * width * len(self.weights), 1))

        def run(begin: int, end: int) -> None:
            (room,) = scratch("stencils", ((2, height + halo, length), source.dtype))
            convolve_tiles(source, result, *self, height, room, begin, end)

        split_work(run, n_tiles, grain, 4)


def plan(kernels: Sequence[Array], supports: Sequence[Array], grid: Grid) -> list[Stages]:
    """A chain in groups of stages: as many in a group as need few rows above and below a tile."""
    places = [_signed(each, grid) for each in supports]
    most = max(grid[0] // 8, 16) if len(grid) > 1 else 0
    groups: list[list[int]] = [[]]
    total = 0
    # The kernel on the right of the chain comes first; they commute, but rounding is then that of the product.
    for k in reversed(range(len(kernels))):
        halo = int(np.ptp(places[k][:, 0]))
        if groups[-1] and total + halo > most:
            groups.append([])
            total = 0
        groups[-1].append(k)
        total += halo
    return [Stages.of([kernels[k] for k in group], [places[k] for k in group]) for group in groups]


def _signed(places: Array, grid: Grid) -> Array:
    """Places in two dimensions, nearest to zero: one dimension is an image of one row."""
    sides = np.array(grid)
    near = (places + sides // 2) % sides - sides // 2
    return near if len(grid) == 2 else np.stack([np.zeros(len(near), np.int64), near[:, 0]], axis=1)


def run_plan(groups: Sequence[Stages], source: Array) -> Array:
    """All groups, one after the other."""
    for group in groups:
        result = np.empty_like(source)
        group.apply(source, result)
        source = result
    return source
