"""How a solver converged, and a factorization at a glance."""

from collections import defaultdict
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg import error_in_words, exact_below
from ..results import Factorization, History, Result
from ..typing import Array
from .common import HIGHLIGHT, SERIES, as_axes, is_figure, panel_below, pyplot
from .matrices import factors, panels, size_of_panels
from .tradeoffs import ErrorAxis, as_points, draw_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ..dictionary.estimator import DictionaryEstimator

_SMALLEST = 1e-300  # Smaller errors count as zero.
_MOST_POINTS, _MOST_MARKERS = 1500, 200  # Limits for long histories.
_PALE = 0.35  # the opacity of errors of a share of the signals
_SPLIT = "split"  # phases whose errors are relative to the residual that is split
_SHARE_OF_SPLITS = 0.4  # Relative to the height of the axes.


def convergence(result: "Result | History | DictionaryEstimator", ax: "Axes | None" = None) -> "Axes":
    """Draw the relative error of each iteration on a logarithmic axis, phase by phase.

    Errors of splits are relative to the residual that is split, all others to the whole matrix or to the data:
    where there are both, splits are drawn in a panel of their own below. A phase of a single iteration is a large
    point. Pale lines are errors of a share of the signals (`Step.share`), as learners report them until the last
    iterations of a phase: they differ by chance, and may be lower than that of all signals. A final point marks
    the error of the result.

    Parameters
    ----------
    result : Result, History or fitted estimator
        What a solver returned, a history, or an estimator with a ``history_``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default. A panel of splits takes a part of its room.

    Returns
    -------
    matplotlib Axes
        The diagram of errors of the whole, or of splits if there are no others; a panel of splits is
        ``ax.figure.axes[-1]``.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(16).toarray()
    >>> ax = pp.plot.convergence(pp.hierarchical(H, pp.Schedule.hadamard(16)))
    >>> [panel.get_ylabel() for panel in ax.figure.axes]
    ['relative error', 'of the split']
    """
    history = getattr(result, "history_", result)
    if not isinstance(history, Result | History):
        raise TypeError(f"result must be a Result, a History or a fitted estimator, got {type(result).__name__}")
    steps, error = (history, None) if isinstance(history, History) else (history.history, history.error)
    ax = as_axes(ax, (7, 4.4 if has_both_errors(steps) else 3.4))
    return draw_convergence(steps, error, ax)


def has_both_errors(history: History) -> bool:
    """Whether there are errors of splits and errors of the whole, which need a panel each."""
    return len({is_split(phase) for phase in history.phase if phase != "final"}) == 2


def is_split(phase: str) -> bool:
    """Whether errors of a phase are relative to the residual that is split."""
    return phase.startswith(_SPLIT)


def draw_convergence(history: History, error: float | None, ax: "Axes") -> "Axes":
    """Draw what `convergence` describes; the error of the result is ``error``, or that of the phase "final"."""
    if history and history[-1].phase == "final":
        history, error = History(history[:-1]), history[-1].error if error is None else error
    of_split = np.array([is_split(phase) for phase in history.phase], dtype=bool)
    below = panel_below(ax, _SHARE_OF_SPLITS) if of_split.any() and not of_split.all() else ax
    whole = history.error[~of_split].tolist() + [error] * (error is not None)
    heights = np.empty(len(history))
    axes = {}
    for panel, errors, chosen in ((ax, whole, ~of_split), (below, history.error[of_split], of_split)):
        if len(errors):
            axes[panel] = ErrorAxis(errors, _SMALLEST, always_log=True)
            heights[chosen] = axes[panel].heights(history.error[chosen])
    handles = _draw_phases(history, heights, [below if each else ax for each in of_split])
    if error is not None:
        label = f"result: {error_in_words(error)}"
        handles += ax.plot(
            len(history) + 1, axes[ax].heights(error), "D", color=HIGHLIGHT, label=label, zorder=5, clip_on=False
        )
    for panel, axis in axes.items():
        axis.apply(panel)
    ax.set_ylabel("relative error" if below is not ax or not of_split.any() else "relative error of the split")
    if below is not ax:
        below.set_ylabel("of the split")
        ax.tick_params(labelbottom=False)
    below.set_xlabel("iteration")
    _add_legend(ax, handles)
    return ax


def _draw_phases(history: History, heights: Array, panels: "list[Axes]") -> list[Any]:
    """Draw the line of each phase in its panel, and return the handles of a legend."""
    from matplotlib.lines import Line2D

    colours: dict[str, str] = {}
    handles: list[Any] = []
    is_part = history.share < 1
    # Phases measure different things, and shares of signals differ: no line joins them.
    kinds = list(zip(history.phase, is_part.tolist(), strict=True))
    starts = [i for i in range(len(history)) if i == 0 or kinds[i] != kinds[i - 1]]
    share = min(_MOST_POINTS / max(len(history), 1), 1.0)
    for begin, end in pairwise([*starts, len(history)]):
        kind = history[begin].phase.partition(" ")[0]
        if kind not in colours:
            colours[kind] = SERIES[len(colours) % len(SERIES)][0]
            handles.append(Line2D([], [], color=colours[kind], marker=".", label=kind))
        shown = np.unique(np.linspace(begin, end - 1, max(int(share * (end - begin)), 2)).astype(int))
        style: dict[str, Any] = {"marker": "." if len(history) <= _MOST_MARKERS else ""}
        if end - begin == 1:  # A single point would vanish between the lines.
            style = {
                "marker": "o",
                "markersize": 6,
                "markeredgecolor": "white",
                "markeredgewidth": 0.6,
                "zorder": 4,
            }
        opacity = _PALE if is_part[begin] else 1
        panels[begin].plot(shown + 1, heights[shown], color=colours[kind], alpha=opacity, **style)
    if is_part.any():
        handles.append(Line2D([], [], color="0.35", alpha=_PALE, marker=".", label="pale: some signals"))
    return handles


def _add_legend(ax: "Axes", handles: list[Any]) -> None:
    """Add a legend above the diagram."""
    if handles:
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
        ax.legend(handles=handles, frameon=False, fontsize="small", ncols=min(len(handles), 4), **place)


_DIAGRAM_WIDTH, _DIAGRAM_HEIGHT, _PANEL_HEIGHT = 5.0, 3.0, 1.2  # inches


def factorization(fit: Factorization, figure: "Figure | SubFigure | None" = None) -> "list[Axes]":
    """Draw a result: the product and its factors, and below them how it was found.

    That is the error of each iteration (`convergence`), if there were at least two, and, from `papilio.factorize`,
    errors and complexities of all attempts beside those of the result, if there were at least two.

    Parameters
    ----------
    fit : Factorization
        What a solver or `papilio.factorize` returned.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; a new figure by default.

    Returns
    -------
    list of matplotlib Axes
        The product, its factors, and the diagrams.

    Examples
    --------
    >>> import papilio as pp
    >>> axes = pp.plot.factorization(pp.factorize(pp.transforms.hadamard(16).toarray()))
    >>> len(axes)
    6
    """
    if not isinstance(fit, Factorization):
        raise TypeError(f"fit must be a Factorization, got {type(fit).__name__}")
    if figure is not None and not is_figure(figure, "figure"):
        raise TypeError("figure must be a matplotlib Figure or SubFigure, got Axes")
    op = fit.operator
    attempts = _attempts(fit)
    has_curve, has_attempts = len(fit.history) > 1, sum(map(len, attempts.values())) > 1
    shapes = [op.shape, *(factor.shape for factor in op.factors)]
    n_diagrams = has_curve + has_attempts
    below_height = _DIAGRAM_HEIGHT + _PANEL_HEIGHT * (has_curve and has_both_errors(fit.history))
    width, height = size_of_panels(shapes)
    if figure is None:
        size = (max(width, _DIAGRAM_WIDTH * max(n_diagrams, 1)), height + below_height * bool(n_diagrams) + 0.5)
        figure = pyplot().figure(figsize=size, layout="constrained")
    figure.suptitle(_title(fit), fontsize="medium")
    if not n_diagrams:
        return list(factors(op, panels(shapes, figure)))
    parts: Any = figure.subfigures(2, 1, height_ratios=[height, below_height])
    above, below = parts
    axes = list(factors(op, panels(shapes, above)))
    rest = list(below.subplots(1, n_diagrams, squeeze=False)[0])
    if has_curve:
        convergence(fit, rest[0])
    if has_attempts:
        _draw_attempts(fit, attempts, rest[-1])
    return [*axes, *rest]


def _title(fit: Factorization) -> str:
    op = fit.operator
    rows, columns = op.shape
    about = "about " if fit.error_is_estimate else ""
    first = f"relative error {about}{fit.error:.2g}, relative complexity {op.relative_complexity:.3g}"
    found = f"{fit.method.replace('_', ' ')}, " if fit.method else ""
    return f"{first}\n{found}{fit.status.replace('_', ' ')}: {op.nnz:,} entries instead of {rows * columns:,}"


def _attempts(fit: Factorization) -> dict[str, list[tuple[float, float]]]:
    """Relative complexities and errors of the attempts that found something, by method."""
    rows, columns = fit.operator.shape
    found = defaultdict(list)
    for attempt in fit.attempts:
        if isfinite(attempt.error):
            found[attempt.method.replace("_", " ")].append((attempt.nnz / (rows * columns), attempt.error))
    return dict(found)


def _draw_attempts(fit: Factorization, attempts: dict[str, Any], ax: "Axes") -> None:
    complexity = fit.operator.relative_complexity
    points = {name: as_points(name, found) for name, found in attempts.items()}
    errors = [fit.error, *(error for found in attempts.values() for _, error in found)]
    axis = ErrorAxis(errors, exact_below(fit.operator.dtype))
    draw_points(points, ax, axis, "relative error")
    ring: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 2, "color": HIGHLIGHT}
    ax.plot(complexity, axis.heights(fit.error), "D", zorder=4, label="result", clip_on=False, **ring)
    ax.set_xlim(0, 1.05 * max(complexity, *(point[0] for points in attempts.values() for point in points)))
    ax.set_xlabel("relative complexity")
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
