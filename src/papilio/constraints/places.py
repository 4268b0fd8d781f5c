"""Where convolutions may be non-zero: places on a periodic grid."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..typing import Array, ArrayLike
from ..validation import as_array, as_flag, as_integer, is_series

Grid: TypeAlias = tuple[int, ...]
_MOST_KERNELS = 1000
_LONGEST = 2**31 - 1


def kernel_supports(
    size: int | Sequence[int], dilations: Sequence[int], *, centered: bool = False
) -> tuple[Array, ...]:
    """Places of kernels that are boxes, one kernel per dilation.

    A kernel of ``size`` S and dilation t has the places 0, t, …, (S − 1)t, in two dimensions all pairs of them.

    Parameters
    ----------
    size : int or (int, int)
        How many places, or rows and columns of places, each kernel has.
    dilations : sequence of int
        The distance between neighbouring places of each kernel, at least one.
    centered : bool, default=False
        Whether the box is centred at zero, up to half of a place if its size is even.

    Returns
    -------
    tuple of (n_places, n_dimensions) ndarray of int

    Examples
    --------
    Two kernels of four places in one dimension, and one of 3×3 in two:

    >>> import papilio as pp
    >>> [support.ravel().tolist() for support in pp.convolution.kernel_supports(4, [1, 3])]
    [[0, 1, 2, 3], [0, 3, 6, 9]]
    >>> pp.convolution.kernel_supports((3, 3), [1], centered=True)[0].shape
    (9, 2)
    """
    sides = (size,) if isinstance(size, int) or not is_series(size) else tuple(size)
    if len(sides) not in (1, 2):
        raise ValueError(f"size must be one integer or two, got {size!r}")
    counts = [as_integer("size", side, 1, _LONGEST) for side in sides]
    if not is_series(dilations) or not len(dilations):
        raise ValueError(f"dilations must be a sequence of integers, one per kernel, got {dilations!r}")
    steps = [as_integer(f"dilations[{i}]", step, 1, _LONGEST) for i, step in enumerate(dilations)]
    first = np.array([(count - 1) // 2 if as_flag("centered", centered) else 0 for count in counts])
    box = np.indices(counts).reshape(len(counts), -1).T - first
    return tuple(box * step for step in steps)


def as_grid(name: str, value: Any) -> Grid:
    """The sides of a periodic grid, one or two."""
    sides = tuple(value) if is_series(value) else (value,)
    if len(sides) not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions, got {len(sides)}")
    return tuple(as_integer(f"{name}[{i}]", side, 1, _LONGEST) for i, side in enumerate(sides))


def as_supports(supports: Any, n_dimensions: int | None = None) -> tuple[Array, ...]:
    """The places of each kernel as (n_places, n_dimensions) integers, not yet compared with a grid."""
    if not is_series(supports):
        raise TypeError(f"supports must be a sequence of places, one per kernel, got {type(supports).__name__}")
    kernels = list(supports)
    if not 1 <= len(kernels) <= _MOST_KERNELS:
        raise ValueError(f"supports must hold the places of 1 to {_MOST_KERNELS} kernels, got {len(kernels)}")
    found = [as_places(f"supports[{k}]", places) for k, places in enumerate(kernels)]
    wanted = found[0].shape[1] if n_dimensions is None else n_dimensions
    for k, places in enumerate(found):
        if places.shape[1] != wanted:
            raise ValueError(f"supports[{k}] must have places in {wanted} dimensions, got {places.shape[1]}")
    return tuple(found)


def as_places(name: str, places: ArrayLike) -> Array:
    """The places of one kernel as (n_places, n_dimensions) integers, not yet compared with a grid."""
    array = as_array(name, places)
    if array.size == 0:
        raise ValueError(f"{name} must have at least one place, got none")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] not in (1, 2):
        raise ValueError(
            f"{name} must be a sequence of integers, or in two dimensions of pairs, got shape {array.shape}"
        )
    if array.dtype.kind == "u" and (array > _LONGEST).any():
        raise ValueError(f"{name} must have places below {_LONGEST}, got {array.max()}")
    return array.astype(np.int64)


def require_on_grid(supports: Sequence[Array], grid: Grid) -> None:
    """Refuse places outside of the grid, where negative ones count from its end, and places that coincide."""
    for k, places in enumerate(supports):
        require_places(f"supports[{k}]", places, grid)


def require_places(name: str, places: Array, grid: Grid) -> None:
    """The same for the places of one kernel."""
    sides = np.array(grid)
    outside = ((places < -sides) | (places >= sides)).any(axis=1)
    if outside.any():
        limits = " and ".join(f"from {-side} to {side - 1}" for side in grid)
        raise ValueError(f"{name} must have places on the grid {grid}, {limits}, got {_shown(places[outside][0])}")
    distinct, counts = np.unique(places % sides, axis=0, return_counts=True)
    if len(distinct) < len(places):
        twice = distinct[counts > 1][0]
        raise ValueError(f"{name} must have distinct places on the grid {grid}, got {_shown(twice)} twice")


def sources(places: Array, grid: Grid) -> Array:
    """The points that a periodic convolution reads for each point of the grid, i − p: (n_points, n_places)."""
    points = np.indices(grid).reshape(len(grid), -1, 1)
    shifted = [(axis - places[:, i]) % side for i, (axis, side) in enumerate(zip(points, grid, strict=True))]
    return np.ravel_multi_index(shifted, grid)


def _shown(place: Array) -> str:
    return str(tuple(place.tolist())) if len(place) > 1 else str(int(place[0]))
