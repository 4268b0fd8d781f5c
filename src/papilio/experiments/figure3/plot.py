"""The paper's figure 3: the error of each dictionary against its complexity."""

from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from ..drawing import DARK_TO_LIGHT, new_figure, save
from ..tables import read_table
from .averages import MethodResult, averages, comparable, paper_scale
from .run import DCT, HAAR, HAD, KSVD, ONLINE, PROPOSED, SPARSE_KSVD, Method

_NAMES = {"FACT": "FACT: a factorizable dictionary", "RAND": "RAND: a random dictionary"}
# As in the paper: the shape is P, the size p, and the colour Q.
_SHAPES = ("o", "x", "+", "v")
_SIZES = (4.5, 6.5, 9.0)
_BASELINES = {KSVD: "s", ONLINE: "D", SPARSE_KSVD: "p", DCT: "^", HAAR: "<", HAD: ">"}
_UNDER = "0.72"  # the paper's points


def write(folder: Path) -> list[Path]:
    """Draw figure.png from the table in ``folder``."""
    return [save(figure_of(averages(read_table(folder / "table.csv"))), folder / "figure.png")]


def figure_of(ours: dict[tuple[str, Method], MethodResult]) -> Any:
    """A panel for each data set, with the paper's points for the same configurations in grey under ours."""
    panels = [
        (data, [point for point in ours.values() if point.data == data])
        for data in sorted({data for data, _ in ours})
    ]
    styles = _Styles([point.method for point in ours.values() if point.method.name == PROPOSED])
    theirs = comparable(ours)
    figure = new_figure(5.6 * len(panels) + 0.4, 6.4)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (data, points) in zip(axes, panels, strict=True):
        scale = paper_scale(data, ours)
        for (name, method), point in theirs.items():
            if name == data:
                look = styles.of(method) | {"color": _UNDER, "markeredgewidth": 1.6, "zorder": 1}
                ax.plot(point.relative_complexity, point.rmse * scale, **look)
        for point in points:
            ax.plot(point.relative_complexity, point.rmse, **styles.of(point.method))
        _label_baselines(ax, [point for point in points if point.method.name != PROPOSED])
        ax.set_xlim(0.09, 1.15)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("relative complexity")
        ax.set_ylabel("RMSE")
        ax.set_title(_NAMES[data], fontsize="medium")
    grey = "paper" if all(data == "RAND" for data, _ in panels) else "paper (FACT: scaled so that HAD agrees)"
    figure.legend(handles=styles.key(grey if theirs else None), loc="outside lower center", ncols=3, frameon=False)
    trials = max(point.trials for point in ours.values())
    figure.suptitle(f"Means of {trials} trial{'s' * (trials > 1)}", fontsize="small")
    return figure


class _Styles:
    """How methods are drawn; PROPOSED according to its configuration."""

    def __init__(self, proposed: list[Method]) -> None:
        self._shapes, self._colours, self._sizes = (
            dict(zip(sorted({getattr(method, name) for method in proposed}, key=float), looks, strict=False))
            for name, looks in (("P", _SHAPES), ("Q", DARK_TO_LIGHT), ("p", _SIZES))
        )

    def of(self, method: Method) -> dict[str, Any]:
        if method.name in _BASELINES:
            return _look(_BASELINES[method.name], "0.25", 7)
        return _look(self._shapes[method.P], self._colours[method.Q], self._sizes[method.p])

    def key(self, grey: str | None) -> list[Any]:
        """What shapes, colours and sizes mean."""
        shapes = {f"P = {float(P):g}": _look(shape, "0.3", 7) for P, shape in self._shapes.items()}
        colours = {
            f"Q = {Q}": _look("o", colour, 7) | {"fillstyle": "full"} for Q, colour in self._colours.items()
        }
        sizes = {f"p = {p}": _look("o", "0.3", size) for p, size in self._sizes.items()}
        under = {grey: _look("o", _UNDER, 7) | {"markeredgewidth": 1.6}} if grey else {}
        entries = {**colours, **shapes, **sizes, **under}
        return [Line2D([], [], label=label, **look) for label, look in entries.items()]


def _look(marker: str, colour: str, size: float) -> dict[str, Any]:
    return {"marker": marker, "color": colour, "markersize": size, "fillstyle": "none", "linestyle": "none"}


def _label_baselines(ax: Any, points: list[MethodResult]) -> None:
    """Write names beside the markers; those at nearly the same place share a label."""
    top = max(point.rmse for point in points)
    groups: list[list[MethodResult]] = []
    for point in points:
        for group in groups:
            near = abs(group[0].relative_complexity - point.relative_complexity) < 0.03
            if near and abs(group[0].rmse - point.rmse) < 0.05 * top:
                group.append(point)
                break
        else:
            groups.append([point])
    for group in groups:
        first = group[0]
        sides = {"xytext": (8, -4), "ha": "left"}
        if first.relative_complexity < 0.25:
            sides = {"xytext": (-8, -4), "ha": "right"}
        elif first.relative_complexity > 0.9:  # above, since the axes end on the right
            sides = {"xytext": (-14, 20), "ha": "left"}
        ax.annotate(
            ", ".join(point.method.name for point in group),
            (first.relative_complexity, max(point.rmse for point in group)),
            textcoords="offset points",
            fontsize="small",
            **sides,
        )
