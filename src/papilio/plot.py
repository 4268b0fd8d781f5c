"""Pictures: axes in, axes out. Needs matplotlib (``pip install "papilio[plot]"``)."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, isqrt, sqrt
from typing import Any

import numpy as np

from .operators import SparseProduct
from .results import Factorization
from .validation import Array, as_matrix, as_shape

# Diverging, readable by the colour-blind: blue is negative, red positive, zero almost white.
COLOURS = "RdBu_r"


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('papilio.plot needs matplotlib: pip install "papilio[plot]"') from error
    return plt


def matrix(values: Any, ax: Any = None, title: str | None = None) -> Any:
    """Draw a matrix as an image: zeros pale, signs as colours, each picture on its own scale.

    Complex matrices show their real part.
    """
    if ax is None:
        ax = _pyplot().figure().add_subplot()
    shown: Array = np.asarray(values.toarray() if hasattr(values, "toarray") else values).real
    limit = float(np.abs(shown).max(initial=0.0)) or 1.0
    ax.imshow(shown, cmap=COLOURS, vmin=-limit, vmax=limit, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    if title is not None:
        ax.set_title(title, fontsize="small")
    return ax


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
    count = len(op.factors)
    if axes is None:
        figure = _pyplot().figure(figsize=(2.1 * (count + 1), 2.5), layout="constrained")
        axes = list(np.atleast_1d(figure.subplots(1, count + 1)))
    if len(axes) != count + 1:
        raise ValueError(f"axes must hold {count + 1} axes, one more than factors, got {len(axes)}")
    matrix(op, axes[0], f"{op.shape[0]}×{op.shape[1]}\n{op.shape[0] * op.shape[1]} entries")
    for i, (ax, factor) in enumerate(zip(axes[1:], op.factors, strict=True)):
        matrix(factor, ax, f"$S_{{{i + 1}}}$: {factor.shape[0]}×{factor.shape[1]}\n{factor.nnz} entries")
    return axes


def atoms(dictionary: Any, shape: tuple[int, int] | None = None, ax: Any = None) -> Any:
    """Draw the atoms of a dictionary of patches as a mosaic, each on its own scale.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        One atom a column.
    shape : (int, int), optional
        Rows and columns of the patches; square by default.
    ax : matplotlib axes, optional
    """
    columns = as_matrix("dictionary", dictionary).real
    features, count = columns.shape
    height, width = (isqrt(features), isqrt(features)) if shape is None else as_shape("shape", shape)
    if height * width != features:
        raise ValueError(f"shape must hold {features} pixels, as the atoms do, got {height}×{width}")
    if ax is None:
        ax = _pyplot().figure().add_subplot()
    across = ceil(sqrt(count))
    down = ceil(count / across)
    mosaic = np.full((down * (height + 1) - 1, across * (width + 1) - 1), np.nan)
    for i, atom in enumerate(columns.T):
        top, left = (i // across) * (height + 1), (i % across) * (width + 1)
        limit = float(np.abs(atom).max()) or 1.0
        mosaic[top : top + height, left : left + width] = atom.reshape(height, width) / limit
    ax.imshow(mosaic, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def convergence(result: Factorization, ax: Any = None) -> Any:
    """Draw the relative error of each iteration on a logarithmic axis, with the phases marked.

    Global steps are shaded; a last point shows the error of the result, polish included.
    """
    if ax is None:
        ax = _pyplot().figure(figsize=(7, 3.2), layout="constrained").add_subplot()
    history = result.history
    iterations = np.arange(1, len(history) + 1)
    floor = 1e-17  # errors of exactly zero are drawn here
    starts = [i for i in range(len(history)) if i == 0 or history[i].phase != history[i - 1].phase]
    for begin, end in pairwise([*starts, len(history)]):
        phase = slice(begin, end)
        # Splits and global steps measure against different matrices: no line joins them.
        ax.semilogy(iterations[phase], np.maximum(history.error[phase], floor), color="black", marker=".")
        if history[begin].phase.startswith("global"):
            ax.axvspan(begin + 0.5, end + 0.5, color="0.88", zorder=0)
    ax.semilogy(len(history) + 1, max(result.error, floor), "D", color="#d95f02", label="result")
    ax.set_xlabel("iteration (shaded: global steps)")
    ax.set_ylabel("relative error")
    ax.legend(frameon=False)
    return ax
