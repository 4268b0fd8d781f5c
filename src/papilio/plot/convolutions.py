"""Chains of convolutions: the atom, and the kernels that it is composed of."""

from typing import TYPE_CHECKING

import numpy as np

from ..chains.convolution import ConvolutionFit
from ..chains.operator import ConvolutionChain
from ..typing import Array, ArrayLike
from ..validation import as_numbers
from .common import NEGATIVE, POSITIVE, SERIES, is_figure, pyplot, signed_colours, without_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_PER_LINE = 4  # kernels


def convolutions(
    chain: ConvolutionFit | ConvolutionChain,
    target: ArrayLike | None = None,
    figure: "Figure | SubFigure | None" = None,
) -> "list[Axes]":
    """Draw the atom that a chain of convolutions makes, and each of its kernels at its places.

    Parameters
    ----------
    chain : ConvolutionFit or ConvolutionChain
        What `papilio.convolution_chain` returned, or an operator.
    target : (*grid) array, optional
        The atom that was to be found: drawn beside the chain's, or below it if they are curves.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; a new figure by default.

    Returns
    -------
    list of matplotlib Axes
        The target if it is an image, the atom, and the kernels from left to right.

    Examples
    --------
    >>> import papilio as pp
    >>> chain = pp.ConvolutionChain([[1, 2, 1], [1, 2, 1]], pp.kernel_supports(3, [1, 2]), 16, scale=1 / 16)
    >>> axes = pp.plot.convolutions(chain)
    >>> len(axes)
    3
    """
    op = chain.chain if isinstance(chain, ConvolutionFit) else chain
    if not isinstance(op, ConvolutionChain):
        raise TypeError(f"chain must be a ConvolutionFit or a ConvolutionChain, got {type(chain).__name__}")
    wanted = None if target is None else as_numbers("target", target)
    if wanted is not None and wanted.shape != op.grid:
        raise ValueError(f"target must have shape {op.grid}, the grid of the chain, got {wanted.shape}")
    if figure is not None and not is_figure(figure, "figure"):
        raise TypeError("figure must be a matplotlib Figure or SubFigure, got Axes")
    is_image = len(op.grid) == 2
    n_kernels, n_large = len(op.kernels), 2 if is_image and wanted is not None else 1
    n_lines = -(-n_kernels // _PER_LINE)
    if figure is None:
        width = 2.9 * n_large + 1.5 * min(n_kernels, _PER_LINE) + (2.0 if not is_image else 0.0)
        figure = pyplot().figure(figsize=(width, max(1.55 * n_lines, 2.9)), layout="constrained")
    wide = 2.0 if is_image else 3.5
    ratios = [wide] * n_large + [1.0] * min(n_kernels, _PER_LINE)
    grid = figure.add_gridspec(n_lines, len(ratios), width_ratios=ratios)
    large = [figure.add_subplot(grid[:, i]) for i in range(n_large)]
    small = [figure.add_subplot(grid[k // _PER_LINE, n_large + k % _PER_LINE]) for k in range(n_kernels)]
    draw = _draw_images if is_image else _draw_curves
    draw(op, wanted, large)
    for k, ax in enumerate(small):
        _draw_kernel(op, k, ax)
    return [*large, *small]


def window(op: ConvolutionChain) -> tuple[Array, ...]:
    """Where the atom may be other than zero, in order, as indices of the grid: all of it where it wraps around."""
    lowest = np.sum([places.min(axis=0) for places in op.supports], axis=0)
    sides = np.sum([np.ptp(places, axis=0) for places in op.supports], axis=0) + 1
    return tuple(
        np.arange(n) if side >= n else (low + np.arange(side)) % n
        for low, side, n in zip(lowest, sides, op.grid, strict=True)
    )


def _draw_images(op: ConvolutionChain, target: Array | None, axes: "list[Axes]") -> None:
    inside = np.ix_(*window(op))
    pictures = {} if target is None else {"target": target[inside]}
    pictures["composed"] = op.atom[inside]
    limit = max(float(np.abs(picture).max()) for picture in pictures.values()) or 1.0
    for ax, (name, picture) in zip(axes, pictures.items(), strict=True):
        ax.imshow(picture.real, cmap=signed_colours(), vmin=-limit, vmax=limit, interpolation="nearest")
        without_ticks(ax, name)


def _draw_curves(op: ConvolutionChain, target: Array | None, axes: "list[Axes]") -> None:
    (ax,), (inside,) = axes, window(op)
    if target is not None:
        ax.plot(target[inside].real, color="0.75", linewidth=4, label="target")
    ax.plot(op.atom[inside].real, color=SERIES[1][0], linewidth=1.4, label="composed")
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_kernel(op: ConvolutionChain, k: int, ax: "Axes") -> None:
    """A kernel at its places, of an image one next to the other, however far apart they are."""
    places, values = op.supports[k], op.kernels[k].real
    title = f"kernel {k + 1}: {len(values)} places"
    if places.shape[1] == 1:
        at = places[:, 0]
        colours = np.where(values < 0, NEGATIVE, POSITIVE)
        ax.vlines(at, 0, values, color=colours)
        ax.scatter(at, values, 9, color=colours, zorder=3)
        ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(title, fontsize="small")
        ax.tick_params(labelsize="x-small")
        return
    (rows, i), (columns, j) = (np.unique(each, return_inverse=True) for each in places.T)
    picture = np.full((len(rows), len(columns)), np.nan)
    picture[i, j] = values
    limit = float(np.abs(values).max()) or 1.0
    ax.imshow(picture, cmap=signed_colours(), vmin=-limit, vmax=limit, interpolation="nearest")
    without_ticks(ax, title)
