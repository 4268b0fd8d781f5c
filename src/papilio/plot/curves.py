"""Errors as diagrams: over the iterations, and against complexities and times."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from ..operators.cost import BLOCK
from ..results import Factorization, History, Tradeoff, pareto_front
from ..typing import Array
from ..validation import as_matrix, is_series
from .common import HIGHLIGHT, SERIES, as_axes, is_figure, new_axes, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ..estimators.base import DictionaryEstimator

_FLOOR = 1e-17  # errors of exactly zero are drawn here
_MOST_POINTS, _MOST_MARKERS = 1500, 200  # of a long history
_PALE = 0.35  # the opacity of errors of a share of the signals
_TIMES = 0.5, 2.0  # relative times that the axis always shows
_MARGIN = 1.25  # between the points and its ends
_MOST_RANGE = 1000  # with more ticks than the powers of ten


def convergence(result: "Factorization | History | DictionaryEstimator", ax: "Axes | None" = None) -> "Axes":
    """Draw the relative error of each iteration on a logarithmic axis, phase by phase.

    Global steps are shaded. Pale lines are errors of a share of the signals (`Step.share`), as learners report
    them until the last iterations of a phase: they differ by chance, and may be lower than that of all signals.
    A final point marks the error of the result.

    Parameters
    ----------
    result : Factorization, History or fitted estimator
        What a solver returned, a history, or an estimator with a ``history_``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(16).toarray()
    >>> ax = pp.plot.convergence(pp.hierarchical(H, pp.Schedule.hadamard(16)))
    """
    history = getattr(result, "history_", result)
    if not isinstance(history, Factorization | History):
        raise TypeError(
            f"result must be a Factorization, a History or a fitted estimator, got {type(result).__name__}"
        )
    ax = as_axes(ax, (7, 3.2))
    if isinstance(history, History):
        return draw_convergence(history, None, ax)
    return draw_convergence(history.history, history.error, ax)


def draw_convergence(history: History, error: float | None, ax: "Axes") -> "Axes":
    """Draw what `convergence` describes; the error of the result is ``error``, or that of the phase "final"."""
    if history and history[-1].phase == "final":
        history, error = History(history[:-1]), history[-1].error if error is None else error
    from matplotlib.lines import Line2D

    colours: dict[str, str] = {}
    handles: list[Any] = []  # of the legend
    errors, is_part = np.maximum(history.error, _FLOOR), history.share < 1
    # Splits and global steps measure against different matrices, and shares of signals differ: no line joins them.
    kinds = list(zip(history.phase, is_part.tolist(), strict=True))
    starts = [i for i in range(len(history)) if i == 0 or kinds[i] != kinds[i - 1]]
    share = min(_MOST_POINTS / max(len(history), 1), 1.0)
    for begin, end in pairwise([*starts, len(history)]):
        kind = history[begin].phase.partition(" ")[0]
        if kind not in colours:
            colours[kind] = SERIES[len(colours) % len(SERIES)][0]
            handles.append(Line2D([], [], color=colours[kind], marker=".", label=kind))
        shown = np.unique(np.linspace(begin, end - 1, max(int(share * (end - begin)), 2)).astype(int))
        marker = "." if len(history) <= _MOST_MARKERS or end - begin == 1 else ""
        ax.semilogy(
            shown + 1, errors[shown], color=colours[kind], marker=marker, alpha=_PALE if is_part[begin] else 1
        )
        if kind == "global":
            ax.axvspan(begin + 0.5, end + 0.5, color="0.88", zorder=0)
    if is_part.any():
        handles.append(
            Line2D([], [], color="0.35", alpha=_PALE, marker=".", label="pale: of a share of the signals")
        )
    if error is not None:
        handles += ax.semilogy(len(history) + 1, max(error, _FLOOR), "D", color=HIGHLIGHT, label="result")
    ax.set_xlabel("iteration (shaded: global steps)" if "global" in colours else "iteration")
    ax.set_ylabel("relative error")
    ax.legend(handles=handles, frameon=False, fontsize="small")
    return ax


def tradeoff(
    series: Tradeoff | Mapping[str, Sequence[Any]] | Sequence[Factorization],
    ax: "Axes | Figure | SubFigure | None" = None,
    *,
    error: str | None = None,
) -> "Axes":
    """Draw errors against relative complexities, with the Pareto front of all points.

    Errors of a `Tradeoff` are also drawn against times, in a diagram on the right: the time for a block of 256
    vectors, measured on this machine, relative to that of the dense matrix. Points right of 1 are slower than the
    dense matrix. Only this diagram needs ``Tradeoff.speedups``; it is left out where the dense matrix is too large
    to be measured.

    Parameters
    ----------
    series : Tradeoff, mapping from names to sequences of points, or sequence of Factorization
        A point is a pair (relative complexity, error) or a `Factorization`. For a `Tradeoff` the knee is marked,
        and a line shows the error of the dense dictionary.
    ax : matplotlib Axes, Figure or SubFigure, optional
        Where to draw: everything in a figure, a new one by default, or complexities alone in axes.
    error : str, optional
        The label of the error axis. By default that of the `Tradeoff`, or "relative error".

    Returns
    -------
    matplotlib Axes
        The diagram of complexities; that of times, if there is one, is ``ax.figure.axes[1]``.

    Examples
    --------
    >>> import papilio as pp
    >>> ax = pp.plot.tradeoff({"dense": [(1.0, 0.40)], "fast": [(0.5, 0.45), (0.25, 0.52)]})
    >>> left, right = pp.plot.tradeoff(pp.tradeoff(pp.transforms.dct(16).toarray(), [0.3, 0.8])).figure.axes
    """
    if error is not None and not isinstance(error, str):
        raise TypeError(f"error must be the label of an axis, got {error!r}")
    if isinstance(series, Tradeoff):
        return _both(series, ax, error or series.error_name)
    named = series if isinstance(series, Mapping) else {"": series}
    points = {name: _points(name, members) for name, members in named.items()}
    if not points:
        raise ValueError("series must hold at least one series of points, got none")
    place: Any = new_axes((6, 4)) if ax is None else ax
    drawn: Axes = place.add_subplot() if is_figure(place) else place
    _draw_points(points, drawn, error or "relative error")
    return _over_complexities(drawn)


def _draw_points(points: Mapping[str, Array], ax: "Axes", error: str) -> None:
    """Draw series of pairs (cost, error), and the Pareto front of all."""
    for (name, xy), (colour, marker) in zip(points.items(), _styles(), strict=False):
        ax.plot(xy[:, 0], xy[:, 1], linestyle="", color=colour, marker=marker, label=name or None, zorder=3)
    every = np.concatenate(list(points.values()))
    front = every[pareto_front(every[:, 0].tolist(), every[:, 1].tolist())]
    label = "best of all" if len(front) > 1 else None
    style: dict[str, Any] = {"drawstyle": "steps-post", "color": "0.55", "linestyle": "--", "zorder": 2}
    ax.plot(front[:, 0], front[:, 1], label=label, **style)
    if every[:, 1].max() > 100 * every[:, 1].min() > 0:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.1 * every[:, 1].max() or 1)
    ax.set_ylabel(error)
    _add_legend(ax)


def _styles() -> Iterator[tuple[str, str]]:
    """Colours and markers: those of `SERIES` first, then the same colours with other markers."""
    for turn in count():
        for i, (colour, _) in enumerate(SERIES):
            yield colour, SERIES[(i + turn) % len(SERIES)][1]


def _both(result: Tradeoff, where: Any, error: str) -> "Axes":
    """Draw what `tradeoff` says about a `Tradeoff`."""
    if where is not None and not is_figure(where):
        return draw_complexities(result, where, error)
    times = relative_times(result)
    figure = pyplot().figure(figsize=(11 if times else 6, 4), layout="constrained") if where is None else where
    left, *right = figure.subplots(1, 2 if times else 1, sharey=True, squeeze=False)[0]
    draw_complexities(result, left, error)
    for ax in right:
        draw_times(result, times, ax, "")
    return left


def relative_times(result: Tradeoff) -> list[float]:
    """The time of each point for a block, over that of the dense matrix; empty if it cannot be measured."""
    gains = [speedup.block for speedup in result.speedups]
    return [] if any(map(isnan, gains)) else [1 / gain for gain in gains]


def draw_complexities(result: Tradeoff, ax: "Axes", error: str) -> "Axes":
    """Draw the errors of a trade-off against relative complexities."""
    _draw_with_knee(result, [point.operator.relative_complexity for point in result.points], ax, error)
    return _over_complexities(ax)


def _over_complexities(ax: "Axes") -> "Axes":
    ax.set_xlim(left=0)
    ax.set_xlabel("relative complexity (entries of the factors / entries of the matrix)")
    return ax


def draw_times(result: Tradeoff, times: Sequence[float], ax: "Axes", error: str) -> "Axes":
    """Draw the errors of a trade-off against the `relative_times` of its points."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    first, last = min(min(times) / _MARGIN, _TIMES[0]), max(max(times) * _MARGIN, _TIMES[1])
    _draw_with_knee(result, times, ax, error)
    ax.axvline(1, color="0.35", linewidth=1, zorder=1)
    ax.axvspan(1, last, color="0.88", zorder=0, label="slower than the dense matrix")
    ax.set_xlim(first, last)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if last < _MOST_RANGE * first else (1,)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(f"time for {BLOCK} vectors / time of the dense matrix")
    _add_legend(ax)
    return ax


def _draw_with_knee(result: Tradeoff, costs: Sequence[float], ax: "Axes", error: str) -> None:
    """Draw errors against costs, one per point, with the knee and the error of the dense matrix."""
    pairs = [(cost, point.error) for cost, point in zip(costs, result.points, strict=True)]
    _draw_points({"points": _points("points", pairs)}, ax, error)
    x, y = pairs[result.points.index(result.knee)]
    ax.plot(x, y, "D", color=HIGHLIGHT, markersize=10, zorder=4, label=f"knee: {x:.2g}, error {y:.3g}")
    if 0 < result.dense_error < inf:
        ax.axhline(result.dense_error, color="0.35", linestyle=":", label=f"dense: error {result.dense_error:.3g}")
    _add_legend(ax)


def _add_legend(ax: "Axes") -> None:
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize="small")


def _points(name: str, members: Any) -> Array:
    if isinstance(members, Factorization):
        members = [members]
    where = f"series[{name!r}]" if name else "series"
    if not is_series(members):
        raise TypeError(f"{where} must be a sequence of points or Factorizations, got {type(members).__name__}")
    pairs = [(m.operator.relative_complexity, m.error) if isinstance(m, Factorization) else m for m in members]
    points = as_matrix(where, pairs) if pairs else np.empty((0, 2))
    if points.shape[1] != 2 or not len(points) or points.dtype.kind == "c" or (points < 0).any():
        raise ValueError(f"{where} must hold points (relative complexity, error), neither of them negative")
    return points
