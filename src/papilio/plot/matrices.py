"""Matrices, factors, and a product beside its target, as images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operators import SparseProduct
from ..typing import Array
from ..validation import as_matrix
from .common import new_axes, pyplot, signed_colours, without_ticks
from .thumbnails import thumbnail

_LEAST_SIDE, _MOST_SIDE = 64, 512  # cells along an image
_CELLS_PER_PIXEL = 0.7  # below 1, as axes shrink when their titles find their place
_PER_LINE = 6  # panels in a line of a new figure


def matrix(values: Any, ax: Any = None, title: str | None = None, *, limit: float | None = None) -> Any:
    """Draw a matrix as an image: zeros pale, negative entries dark and blue, positive ones orange.

    Parameters
    ----------
    values : matrix, sparse matrix or SparseProduct
        Complex ones show their real part. Where there are more entries than pixels, a pixel of a sparse matrix
        shows the largest of its entries, so that none vanishes.
    ax : matplotlib axes, optional
    title : str, optional
    limit : float, optional
        The magnitude that has the full colour; the largest in the matrix by default.

    Returns
    -------
    matplotlib axes
    """
    ax = new_axes() if ax is None else ax
    values = values if hasattr(values, "shape") else np.asarray(values)
    shown = thumbnail(values, _cells(ax))
    if limit is None:
        limit = float(np.abs(shown).max(initial=0.0))
    limit = limit or 1.0
    rows, columns = values.shape
    ax.imshow(
        shown,
        cmap=signed_colours(),
        vmin=-limit,
        vmax=limit,
        interpolation="nearest",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    return without_ticks(ax, title)


def _cells(ax: Any) -> int:
    """How many cells an image in ``ax`` has room for."""
    box = ax.get_window_extent()
    return int(np.clip(_CELLS_PER_PIXEL * min(box.width, box.height), _LEAST_SIDE, _MOST_SIDE))


def factors(op: SparseProduct, axes: Sequence[Any] | None = None) -> Sequence[Any]:
    """Draw a product and its factors side by side, as the paper's figure 1 does.

    Parameters
    ----------
    op : SparseProduct
    axes : sequence of matplotlib axes, optional
        One more than there are factors; a new figure by default.

    Returns
    -------
    sequence of matplotlib axes
    """
    shapes = [op.shape, *(factor.shape for factor in op.factors)]
    if axes is None:
        axes = _panels(shapes)
    if len(axes) != len(shapes):
        raise ValueError(f"axes must hold {len(shapes)} axes, one more than factors, got {len(axes)}")
    matrix(op, axes[0], f"{op.shape[0]}×{op.shape[1]}\n{op.shape[0] * op.shape[1]} entries")
    for i, (ax, factor) in enumerate(zip(axes[1:], op.factors, strict=True)):
        matrix(factor, ax, f"$S_{{{i + 1}}}$: {factor.shape[0]}×{factor.shape[1]}\n{factor.nnz} entries")
    return axes


def comparison(target: Any, approximation: Any, axes: Sequence[Any] | None = None) -> Sequence[Any]:
    """Draw a target, its approximation and their difference on one colour scale, with its colour bar.

    Parameters
    ----------
    target : (m, n) matrix
    approximation : (m, n) matrix or SparseProduct
    axes : sequence of three matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    sequence of matplotlib axes
    """
    wanted: Array = as_matrix("target", target)
    got = as_matrix("approximation", approximation, wanted.shape)
    if axes is None:
        axes = _panels([wanted.shape] * 3)
    if len(axes) != 3:
        raise ValueError(f"axes must hold 3 axes, got {len(axes)}")
    limit = float(max(np.abs(wanted.real).max(), np.abs(got.real).max()))
    size = float(np.linalg.norm(wanted))
    error = float(np.linalg.norm(wanted - got)) / size if size else float(got.any())
    spent = (
        f"{approximation.nnz} entries in {len(approximation.factors)} factors"
        if isinstance(approximation, SparseProduct)
        else f"{np.count_nonzero(got)} entries"
    )
    matrix(wanted, axes[0], f"target\n{wanted.shape[0]}×{wanted.shape[1]}, {wanted.size} entries", limit=limit)
    matrix(got, axes[1], f"approximation\n{spent}", limit=limit)
    matrix(wanted - got, axes[2], f"difference\nrelative error {error:.2g}", limit=limit)
    bar = axes[0].figure.colorbar(axes[2].images[0], ax=list(axes), shrink=0.85, pad=0.02)
    bar.ax.tick_params(labelsize="small")
    return axes


def _panels(shapes: Sequence[tuple[int, int]]) -> list[Any]:
    """Axes of a new figure, one for each matrix, in lines of a few, wide ones for wide matrices."""
    across = min(len(shapes), _PER_LINE)
    down = -(-len(shapes) // across)
    ratios = [float(np.clip(columns / rows, 0.5, 2.5)) for rows, columns in shapes]
    widths = [max(ratios[column::across]) for column in range(across)]
    figure = pyplot().figure(figsize=(2.1 * sum(widths), 2.6 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, width_ratios=widths).ravel()
    for unused in grid[len(shapes) :]:
        unused.remove()
    return list(grid[: len(shapes)])
