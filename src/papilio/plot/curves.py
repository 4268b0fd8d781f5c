"""Errors as diagrams: over the iterations, and against the complexity."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np

from ..results import Factorization, Tradeoff
from ..typing import Array
from ..validation import as_matrix
from .common import SERIES, new_axes

_FLOOR = 1e-17  # errors of exactly zero are drawn here


def convergence(result: Factorization, ax: Any = None) -> Any:
    """Draw the relative error of each iteration on a logarithmic axis, with the phases marked.

    Global steps are shaded; a last point shows the error of the result, polish included.

    Parameters
    ----------
    result : Factorization
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    ax = new_axes((7, 3.2)) if ax is None else ax
    history = result.history
    iterations = np.arange(1, len(history) + 1)
    starts = [i for i in range(len(history)) if i == 0 or history[i].phase != history[i - 1].phase]
    for begin, end in pairwise([*starts, len(history)]):
        phase = slice(begin, end)
        # Splits and global steps measure against different matrices: no line joins them.
        ax.semilogy(iterations[phase], np.maximum(history.error[phase], _FLOOR), color="black", marker=".")
        if history[begin].phase.startswith("global"):
            ax.axvspan(begin + 0.5, end + 0.5, color="0.88", zorder=0)
    ax.semilogy(len(history) + 1, max(result.error, _FLOOR), "D", color="#d55e00", label="result")
    ax.set_xlabel("iteration (shaded: global steps)")
    ax.set_ylabel("relative error")
    ax.legend(frameon=False)
    return ax


def tradeoff(
    series: Tradeoff | Mapping[str, Sequence[Any]] | Sequence[Factorization],
    ax: Any = None,
    *,
    error: str | None = None,
) -> Any:
    """Draw errors against relative complexities, with the Pareto front of all points.

    The front is the staircase below which nothing lies: to its left there is no point of so small an error.

    Parameters
    ----------
    series : Tradeoff, mapping from names to sequences of points, or sequence of Factorization
        A point is a pair (relative complexity, error) or a `Factorization`. Of a `Tradeoff`, the knee is marked,
        and the error of the dense dictionary is a line.
    ax : matplotlib axes, optional
    error : str, optional
        What is measured: the label of the axis. By default what the `Tradeoff` says, or "relative error".

    Returns
    -------
    matplotlib axes
    """
    if isinstance(series, Tradeoff):
        return _dial(series, ax, error)
    named = series if isinstance(series, Mapping) else {"": series}
    points = {name: _points(name, members) for name, members in named.items()}
    if not points:
        raise ValueError("series must hold at least one series of points, got none")
    ax = new_axes((6, 4)) if ax is None else ax
    for (name, xy), (colour, marker) in zip(points.items(), cycle(SERIES), strict=False):
        ax.plot(xy[:, 0], xy[:, 1], linestyle="", color=colour, marker=marker, label=name or None, zorder=3)
    every = np.concatenate(list(points.values()))
    front = _pareto_front(every)
    ax.plot(
        front[:, 0],
        front[:, 1],
        drawstyle="steps-post",
        color="0.55",
        linestyle="--",
        zorder=2,
        label="best of all" if len(front) > 1 else None,
    )
    if every[:, 1].max() > 100 * every[:, 1].min() > 0:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.1 * every[:, 1].max() or 1)
    ax.set_xlim(left=0)
    ax.set_xlabel("relative complexity (entries of the factors / entries of the matrix)")
    ax.set_ylabel(error or "relative error")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _dial(dial: Tradeoff, ax: Any, error: str | None) -> Any:
    pairs = [(point.operator.relative_complexity, point.error) for point in dial.points]
    ax = tradeoff({"points": pairs}, ax, error=error or dial.error_name)
    knee = dial.knee
    where = knee.operator.relative_complexity, knee.error
    ax.plot(
        *where, "D", color="#d55e00", markersize=10, zorder=4, label=f"knee: {where[0]:.2g}, error {where[1]:.3g}"
    )
    if dial.dense_error > 0:
        ax.axhline(dial.dense_error, color="0.35", linestyle=":", label=f"dense: error {dial.dense_error:.3g}")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _points(name: str, members: Any) -> Array:
    if isinstance(members, Factorization):
        members = [members]
    where = f"series[{name!r}]" if name else "series"
    pairs = [(m.operator.relative_complexity, m.error) if isinstance(m, Factorization) else m for m in members]
    points = as_matrix(where, pairs) if pairs else np.empty((0, 2))
    if points.shape[1] != 2 or not len(points) or points.dtype.kind == "c" or (points < 0).any():
        raise ValueError(f"{where} must hold points (relative complexity, error), neither of them negative")
    return points


def _pareto_front(points: Array) -> Array:
    """The points that no other one beats in both complexity and error, from the left to the right."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    best_before = np.minimum.accumulate(np.concatenate([[np.inf], ordered[:-1, 1]]))
    return ordered[ordered[:, 1] < best_before]
