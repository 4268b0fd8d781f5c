"""A factorization in one figure."""

from collections import defaultdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from ..linalg import exact_below
from ..results import Factorization
from .common import HIGHLIGHT, is_figure, pyplot
from .curves import as_points, draw_points
from .error_axis import ErrorAxis
from .histories import convergence, has_both_errors
from .matrices import factors, panels, size_of_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

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
