"""The errors of the iterations, phase by phase."""

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg import error_in_words
from ..results import Factorization, History
from ..typing import Array
from .common import HIGHLIGHT, SERIES, as_axes, panel_below
from .error_axis import ErrorAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..estimators.base import DictionaryEstimator

_SMALLEST = 1e-300  # errors below are zero
_MOST_POINTS, _MOST_MARKERS = 1500, 200  # of a long history
_PALE = 0.35  # the opacity of errors of a share of the signals
_SPLIT = "split"  # phases whose errors are relative to the residual that is split
_SHARE_OF_SPLITS = 0.4  # of the height
_CHARACTER = 0.62  # its width in a legend, relative to its height


def convergence(result: "Factorization | History | DictionaryEstimator", ax: "Axes | None" = None) -> "Axes":
    """Draw the relative error of each iteration on a logarithmic axis, phase by phase.

    Errors of splits are relative to the residual that is split, all others to the whole matrix or to the data:
    where there are both, splits are drawn in a panel of their own below. A phase of a single iteration is a large
    point. Pale lines are errors of a share of the signals (`Step.share`), as learners report them until the last
    iterations of a phase: they differ by chance, and may be lower than that of all signals. A final point marks
    the error of the result.

    Parameters
    ----------
    result : Factorization, History or fitted estimator
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
    if not isinstance(history, Factorization | History):
        raise TypeError(
            f"result must be a Factorization, a History or a fitted estimator, got {type(result).__name__}"
        )
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
        if end - begin == 1:  # it would vanish between the lines
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
    """A legend above the diagram, where it hides nothing, in as few lines as fit."""
    if not handles:
        return
    figure: Any = ax.get_figure(root=True)
    size = 0.83 * float(ax.xaxis.label.get_fontsize())
    width = max(len(str(handle.get_label())) for handle in handles) * _CHARACTER * size + 4 * size
    room = ax.get_window_extent().width / figure.dpi * 72
    across = min(max(int(room / width), 1), len(handles))
    down = ceil(len(handles) / across)
    ax.legend(
        handles=handles,
        frameon=False,
        fontsize=size,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=ceil(len(handles) / down),
        borderaxespad=0.2,
    )
