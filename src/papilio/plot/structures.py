"""Convolutions, signals on graphs, and treelets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..convolution.composition import ConvolutionFit
from ..convolution.operator import ConvolutionChain
from ..rotations.bases import Eigenbasis
from ..rotations.graphs import HasLaplacian, graph_laplacian
from ..typing import Array, ArrayLike, MatrixLike
from ..validation import as_integer, as_matrix, as_numbers, require_finite
from .common import (
    HIGHLIGHT,
    NEGATIVE,
    POSITIVE,
    SERIES,
    as_panels,
    is_figure,
    pyplot,
    signed_colours,
    without_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ..rotations.treelets import Treelets

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
        What `papilio.convolution.convolution_chain` returned, or an operator.
    target : (*grid) array, optional
        The atom to approximate; it is drawn next to the composed one, in the same diagram if they are curves.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; a new figure by default.

    Returns
    -------
    list of matplotlib Axes
        The target if it is an image, the atom, and the kernels from left to right.

    Examples
    --------
    >>> import papilio as pp
    >>> supports = pp.convolution.kernel_supports(3, [1, 2])
    >>> chain = pp.convolution.ConvolutionChain([[1, 2, 1], [1, 2, 1]], supports, 16, scale=1 / 16)
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
    """The indices of the grid where the atom may be non-zero; all indices along axes where it wraps around."""
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
    """Draw a kernel at its places; in two dimensions they are drawn side by side, however far apart they are."""
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


_NODE_AREA = 12_000  # Total area of all nodes in square points.
_LARGEST_NODE, _SMALLEST_NODE = 60.0, 3.0


def graph_signal(
    transform: Eigenbasis,
    signal: ArrayLike,
    coordinates: ArrayLike,
    graph: MatrixLike | HasLaplacian | None = None,
    axes: "list[Axes] | None" = None,
) -> "list[Axes]":
    """Draw a signal on the nodes of a graph, and the size of its coefficients by frequency.

    Parameters
    ----------
    transform : Eigenbasis
        A graph Fourier transform, from `papilio.rotations.graph_fourier`.
    signal : (n,) array
        A real value for each node.
    coordinates : (n, 2) array
        Where the nodes are drawn.
    graph : sparse or dense (n, n) matrix, or a PyGSP graph, optional
        Its edges are drawn.
    axes : sequence of two matplotlib Axes, optional
        For the signal and for the spectrum; those of a new figure by default.

    Returns
    -------
    list of matplotlib Axes

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> ring = np.roll(np.eye(24), 1, axis=0) + np.roll(np.eye(24), -1, axis=0)
    >>> angles = 2 * np.pi * np.arange(24) / 24
    >>> places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> axes = pp.plot.graph_signal(pp.rotations.graph_fourier(ring), np.cos(angles), places, ring)
    """
    if not isinstance(transform, Eigenbasis):
        raise TypeError(f"transform must be an Eigenbasis, got {type(transform).__name__}")
    n = transform.operator.shape[0]
    places = as_matrix("coordinates", coordinates, (n, 2))
    values = as_numbers("signal", signal)
    if values.shape != (n,) or values.dtype.kind == "c":
        raise ValueError(f"signal must be {n} real numbers, got {values.dtype} of shape {values.shape}")
    require_finite("signal", values)
    if axes is None:
        figure = pyplot().figure(figsize=(10, 4.2), layout="constrained")
        nodes, spectrum = figure.subplots(1, 2, width_ratios=[1.2, 1])
    else:
        nodes, spectrum = as_panels(axes, 2, "for the signal and its spectrum")
    if graph is not None:
        _draw_edges(nodes, places, graph_laplacian(graph), n)
    limit = float(np.abs(values).max()) or 1.0
    area = float(np.clip(_NODE_AREA / n, _SMALLEST_NODE, _LARGEST_NODE))
    points = nodes.scatter(
        *places.T,
        c=values,
        s=area,
        cmap=signed_colours(),
        vmin=-limit,
        vmax=limit,
        edgecolors="#555555",
        linewidths=0.3,
    )
    nodes.figure.colorbar(points, ax=nodes, shrink=0.8)
    nodes.set_aspect("equal")
    without_ticks(nodes, f"signal on {n} nodes")
    for spine in nodes.spines.values():
        spine.set_visible(False)
    coefficients = np.abs(transform.operator.H @ values.astype(transform.operator.dtype))
    spectrum.vlines(transform.eigenvalues, 0, coefficients, color=HIGHLIGHT, linewidth=1)
    spectrum.plot(transform.eigenvalues, coefficients, "o", color=HIGHLIGHT, markersize=2.5)
    spectrum.set_ylim(bottom=0)
    spectrum.set_xlabel("frequency (eigenvalue of the Laplacian)")
    spectrum.set_ylabel("|coefficient|")
    spectrum.set_title(
        f"spectrum by {transform.n_rotations} rotations, error {transform.error:.2g}", fontsize="small"
    )
    return [nodes, spectrum]


def _draw_edges(ax: "Axes", places: Any, matrix: sp.csr_array, n: int) -> None:
    from matplotlib.collections import LineCollection

    if matrix.shape[0] != n:
        raise ValueError(f"graph must have {n} nodes, as the transform has, got {matrix.shape[0]}")
    upper = sp.coo_array(sp.triu(matrix, 1))
    ends = np.stack([places[upper.coords[0]], places[upper.coords[1]]], axis=1)
    ax.add_collection(LineCollection(list(ends), colors="#bbbbbb", linewidths=0.6, zorder=0))


_MOST_NAMES = 80  # With more variables, names are left out.
_DARK, _PALE = "#0072b2", "0.72"  # Merges within the basis, and those above its level.


def treelets(
    model: "Treelets",
    n_vectors: int = 8,
    names: Sequence[str] | Array | None = None,
    figure: "Figure | SubFigure | None" = None,
) -> "tuple[Axes, Axes]":
    """Draw the tree of a `Treelets` model, and below it its basis vectors on the same variables.

    Variables are in the order of the tree. The height of a merge is the smallest |correlation| of all merges up to
    it, so that the tree grows upwards. Merges above the level of the basis are pale. Vectors have scales of their
    own.

    Parameters
    ----------
    model : Treelets
        A fitted model.
    n_vectors : int, default=8
        How many basis vectors to draw, from the highest energy downwards; all if there are fewer.
    names : sequence of str, optional
        The names of the variables; by default those of the data frame that the model has seen, or numbers.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; a new figure by default.

    Returns
    -------
    tuple of matplotlib Axes
        The tree, and the vectors.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(rng.standard_normal((50, 2)), 3, axis=1) + 0.1 * rng.standard_normal((50, 6))
    >>> tree, vectors = pp.plot.treelets(pp.rotations.Treelets(2).fit(X))
    """
    from ..rotations.treelets import Treelets

    if not isinstance(model, Treelets):
        raise TypeError(f"model must be Treelets, got {type(model).__name__}")
    if not hasattr(model, "merges_"):
        raise ValueError("model must be fitted: call model.fit(X) first")
    n_vectors = min(as_integer("n_vectors", n_vectors, 1), len(model.components_))
    if figure is not None and not is_figure(figure, "figure"):
        raise TypeError("figure must be a matplotlib Figure or SubFigure, got Axes")
    size = model.n_features_in_
    labels: Any = getattr(model, "feature_names_in_", np.arange(size)) if names is None else names
    if isinstance(labels, str) or len(labels) != size:
        raise ValueError(f"names must be {size} names, one per variable, got {names!r:.40}")
    if figure is None:
        figsize = (min(max(0.22 * size, 6), 14), 4.2 + 0.22 * n_vectors)
        figure = pyplot().figure(figsize=figsize, layout="constrained")
    ratios = [3.0, 0.22 * n_vectors + 0.2]
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
    order = leaf_order(model.merges_, size)
    _draw_tree(model, order, above)
    _draw_vectors(model, order, n_vectors, [str(labels[k]) for k in order], below)
    return above, below


def leaf_order(merges: Array, size: int) -> Array:
    """Order the variables so that each group of the tree is an interval."""
    leaves: list[list[int]] = [[i] for i in range(size)]
    for total, difference in merges.tolist():
        # The group with the first variable stays on the left.
        pair = sorted((leaves[total], leaves[difference]), key=min)
        leaves[total], leaves[difference] = pair[0] + pair[1], []
    return np.array([leaf for group in sorted(filter(None, leaves), key=min) for leaf in group])


def _draw_tree(model: Any, order: Array, ax: "Axes") -> None:
    places = np.empty(len(order))
    places[order] = np.arange(len(order))
    levels = np.ones(len(order))
    heights = np.minimum.accumulate(np.abs(model.correlations_))
    for level, (i, j) in enumerate(model.merges_):
        colour = _DARK if level < model.level_ else _PALE
        x, top = [places[i], places[i], places[j], places[j]], heights[level]
        ax.plot(x, [levels[i], top, top, levels[j]], color=colour, linewidth=1.3, solid_joinstyle="miter")
        places[i], levels[i] = (places[i] + places[j]) / 2, top
    is_part = 0 < model.level_ < len(heights)
    if is_part:
        cut = heights[model.level_ - 1 : model.level_ + 1].mean()
        ax.axhline(cut, color=HIGHLIGHT, linestyle="--", linewidth=1)
        label = f"level {model.level_} of {len(heights)}"
        across = ax.get_yaxis_transform()  # x in axes coordinates, y in data coordinates.
        ax.text(0.01, cut, label, color=HIGHLIGHT, fontsize="small", va="bottom", transform=across)
    lowest = float(heights[-1]) if len(heights) else 0.0
    ax.set_ylim(1.02, max(lowest - 0.08 * (1 - lowest), -0.02))
    ax.set_ylabel("|correlation| of merges")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", bottom=False, labelbottom=False)


def _draw_vectors(model: Any, order: Array, n_vectors: int, names: list[str], ax: "Axes") -> None:
    vectors = model.components_[:n_vectors, order]
    vectors = vectors / np.abs(vectors).max(axis=1, keepdims=True)  # Vectors on many variables have small entries.
    ax.imshow(vectors, cmap=signed_colours(), vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    ax.set_yticks(range(n_vectors), [f"{energy:.1%}" for energy in model.energies_[:n_vectors]], fontsize="small")
    ax.set_ylabel("energy")
    if len(order) <= _MOST_NAMES:
        long = max(map(len, names)) > 2
        ax.set_xticks(range(len(order)), names, fontsize="small", rotation=90 if long else 0)
    else:
        ax.set_xticks([])
        ax.set_xlabel(f"{len(order)} variables, in the order of the tree")
    ax.tick_params(length=0)
    ax.set_xlim(-0.5, len(order) - 0.5)
    for place in np.arange(0.5, n_vectors - 1):
        ax.axhline(place, color="white", linewidth=1.5)
