"""Treelets: the tree of variables, and the basis vectors below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..typing import Array
from ..validation import as_integer
from .common import HIGHLIGHT, is_figure, pyplot, signed_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ..estimators import Treelets

_MOST_NAMES = 80  # variables that have room for their names
_DARK, _PALE = "#0072b2", "0.72"  # merges of the basis, and those above it


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
    >>> tree, vectors = pp.plot.treelets(pp.Treelets(2).fit(X))
    """
    from ..estimators import Treelets

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
    """The variables in an order in which each group of the tree is an interval."""
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
        across = ax.get_yaxis_transform()  # x in shares of the axes, y in data
        ax.text(0.01, cut, label, color=HIGHLIGHT, fontsize="small", va="bottom", transform=across)
    lowest = float(heights[-1]) if len(heights) else 0.0
    ax.set_ylim(1.02, max(lowest - 0.08 * (1 - lowest), -0.02))
    ax.set_ylabel("|correlation| of merges")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", bottom=False, labelbottom=False)


def _draw_vectors(model: Any, order: Array, n_vectors: int, names: list[str], ax: "Axes") -> None:
    vectors = model.components_[:n_vectors, order]
    vectors = vectors / np.abs(vectors).max(axis=1, keepdims=True)  # long ones have small entries
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
