"""Errors against complexity and time, on axes that show exact results, too."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from math import ceil, floor, inf, isnan, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg import error_in_words, exact_below
from ..operators.cost import BLOCK
from ..results import Factorization, Tradeoff, pareto_front
from ..typing import Array
from ..validation import as_matrix, is_series
from .common import HIGHLIGHT, SERIES, SLOWER, is_figure, new_axes, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_ORDERS = 100.0  # Ratio of errors from which the axis is logarithmic.
_GAP, _MARGIN = 0.2, 0.07  # Below the lowest error, and around all errors, relative to their range.
_LEAST_RANGE = 10.0  # Smallest ratio that counts as the range of errors.
_MOST_TICKS, _MOST_DECADES = 8, 4  # decades with a label; decades with ticks between them


class ErrorAxis:
    """A vertical axis for errors.

    Errors of rounding, below ``exact``, say no more than that a result is exact. On a logarithmic axis down to
    1e-16, all others would look the same. They are drawn at the bottom, below a line, under the label "exact".

    Parameters
    ----------
    errors : array
        All errors to be drawn.
    exact : float
        Errors below are those of rounding.
    always_log : bool, default=False
        Whether the axis is logarithmic even if the errors are of one order of magnitude.
    """

    def __init__(self, errors: Any, exact: float, always_log: bool = False) -> None:
        errors = np.asarray(errors, dtype=np.float64)
        errors = errors[np.isfinite(errors)]
        self._exact, self._has_exact = exact, bool((errors < exact).any())
        rest = errors[errors >= exact]
        self._lowest, self._highest = (float(rest.min()), float(rest.max())) if len(rest) else (1.0, 1.0)
        self.is_log = bool(len(rest)) and (always_log or self._highest > _ORDERS * self._lowest)
        self._range = max(self._highest / self._lowest, _LEAST_RANGE)
        self._bottom = max(self._lowest / self._range**_GAP, 1e-300)

    def heights(self, errors: Any) -> Array:
        """Where ``errors`` are drawn."""
        given = np.asarray(errors, dtype=np.float64)
        return np.where(given < self._exact, self._bottom, given) if self.is_log else given

    def apply(self, ax: "Axes") -> None:
        """Set the scale, the limits and the ticks of a vertical axis."""
        from matplotlib.ticker import FixedLocator, FuncFormatter

        if not self.is_log:
            ax.set_ylim(0, 1.1 * self._highest)
            if self._has_exact:
                ax.yaxis.set_major_formatter(lambda value, _: "exact" if value == 0 else f"{value:g}")
            return
        ax.set_yscale("log")
        if not self._has_exact:
            ax.margins(y=_MARGIN)
            plain_log(ax)
            return
        margin = self._range**_MARGIN
        ax.set_ylim(self._bottom / margin, self._highest * margin)
        edge = self._lowest / self._range ** (_GAP / 2)
        ax.axhline(edge, color="0.55", linewidth=0.8, zorder=1)
        decades = range(ceil(log10(edge)), floor(log10(self._highest * margin)) + 1)
        step = -(-len(decades) // _MOST_TICKS)
        ticks = [10.0**k for k in decades if k % step == 0]
        between = [m * 10.0**k for k in [decades.start - 1, *decades] for m in range(2, 10)]
        few = [tick for tick in between if edge < tick < self._highest * margin and len(decades) <= _MOST_DECADES]
        ax.yaxis.set_major_locator(FixedLocator([self._bottom, *ticks]))
        ax.yaxis.set_minor_locator(FixedLocator(few))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "exact" if value < edge else _power(value)))
        ax.yaxis.set_minor_formatter("")


def plain_log(ax: "Axes") -> None:
    """Label a vertical logarithmic axis with 0.4 rather than 4 × 10⁻¹, except for very small and large numbers."""
    from matplotlib.ticker import LogFormatterMathtext

    class Plain(LogFormatterMathtext):
        def __call__(self, x: float, pos: Any = None) -> str:
            label: str = super().__call__(x, pos)
            return f"{x:g}" if label and 1e-3 <= x < 1e4 else label

    ax.yaxis.set_major_formatter(Plain())
    ax.yaxis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(2, 0.5)))


def _power(value: float) -> str:
    return f"{value:g}" if 1e-3 <= value < 1e4 else f"$10^{{{round(log10(value))}}}$"


_TIMES = 0.5, 2.0  # relative times that the axis always shows
_TIME_MARGIN = 1.25  # Factor between the outermost points and the ends of the axis.
_MOST_RANGE = 1000  # Up to this ratio, there are ticks between the powers of ten.


def tradeoff(
    series: Tradeoff | Mapping[str, Sequence[Any]] | Sequence[Factorization],
    ax: "Axes | Figure | SubFigure | None" = None,
    *,
    error: str | None = None,
) -> "Axes":
    """Draw errors against relative complexities, with the Pareto front of all points.

    Errors that are no more than rounding are drawn at the bottom, under the label "exact".

    Errors of a `Tradeoff` are also drawn against times, in a diagram on the right: the time for a block of 256
    vectors, measured on this machine, relative to that of the dense matrix. Hollow points, right of 1, are slower
    than the dense matrix. Only this diagram needs ``Tradeoff.speedups``; it is left out where the dense matrix is
    too large to be measured.

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
    points = {name: as_points(name, members) for name, members in named.items()}
    if not points:
        raise ValueError("series must hold at least one series of points, got none")
    place: Any = new_axes((6, 4)) if ax is None else ax
    drawn: Axes = place.add_subplot() if is_figure(place) else place
    axis = ErrorAxis(np.concatenate(list(points.values()))[:, 1], _exact(named.values()))
    draw_points(points, drawn, axis, error or "relative error")
    return _over_complexities(drawn)


def draw_points(points: Mapping[str, Array], ax: "Axes", axis: ErrorAxis, error: str) -> None:
    """Draw series of pairs (cost, error), and the Pareto front of all."""
    for (name, xy), (colour, marker) in zip(points.items(), _styles(), strict=False):
        style: dict[str, Any] = {"linestyle": "", "color": colour, "marker": marker, "zorder": 3, "clip_on": False}
        ax.plot(xy[:, 0], axis.heights(xy[:, 1]), label=name or None, **style)
    every = np.concatenate(list(points.values()))
    front = every[pareto_front(every[:, 0].tolist(), every[:, 1].tolist())]
    label = "best of all" if len(front) > 1 else None
    style = {"drawstyle": "steps-post", "color": "0.55", "linestyle": "--", "zorder": 2}
    ax.plot(front[:, 0], axis.heights(front[:, 1]), label=label, **style)
    axis.apply(ax)
    ax.set_ylabel(error)
    _add_legend(ax)


def _exact(series: Iterable[Any]) -> float:
    """The error below which a result is exact up to rounding, in the lowest precision of all series."""
    members = (member for each in series for member in ([each] if isinstance(each, Factorization) else each))
    types = [member.operator.dtype for member in members if isinstance(member, Factorization)]
    return max(map(exact_below, types), default=exact_below(np.dtype(np.float64)))


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
    first, last = min(min(times) / _TIME_MARGIN, _TIMES[0]), max(max(times) * _TIME_MARGIN, _TIMES[1])
    _draw_with_knee(result, times, ax, error)
    slower = [(time, point.error) for time, point in zip(times, result.points, strict=True) if time > 1]
    if slower:
        x, y = np.transpose(slower)
        style: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": SERIES[0][0], "clip_on": False}
        ax.plot(x, _axis(result).heights(y), SERIES[0][1], zorder=3.5, **style)
    ax.axvline(1, color="0.35", linewidth=1, zorder=1)
    ax.axvspan(1, last, color=SLOWER, zorder=0, label="slower than the dense matrix")
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
    axis = _axis(result)
    draw_points({"points": as_points("points", pairs)}, ax, axis, error)
    x, y = pairs[result.points.index(result.knee)]
    found = error_in_words(y, result.knee.operator.dtype)
    label = f"knee: {x:.2g}, {'exact' if found == 'exact' else f'error {found}'}"
    ax.plot(x, axis.heights(y), "D", color=HIGHLIGHT, markersize=10, zorder=4, label=label, clip_on=False)
    if 0 < result.dense_error < inf:
        ax.axhline(result.dense_error, color="0.35", linestyle=":", label=f"dense: error {result.dense_error:.3g}")
    _add_legend(ax)


def _axis(result: Tradeoff) -> ErrorAxis:
    """The axis of all errors of a trade-off."""
    errors = [*(point.error for point in result.points), result.dense_error or inf]
    return ErrorAxis(errors, max(exact_below(point.operator.dtype) for point in result.points))


def _add_legend(ax: "Axes") -> None:
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=True, framealpha=0.85, edgecolor="none", facecolor="white", fontsize="small")


def as_points(name: str, members: Any) -> Array:
    """Pairs (relative complexity, error) of a series, as rows."""
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
