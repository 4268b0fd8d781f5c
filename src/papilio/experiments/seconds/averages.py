"""The table averaged over the seeds."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..tables import Row


class Point(NamedTuple):
    """One dictionary of a figure: ``time`` is over that of the dense matrix, forward and adjoint together."""

    complexity: str  # the limit, empty where there is none
    relative_complexity: float
    training: float
    held_out: float
    forward: float
    adjoint: float
    fit_seconds: float
    time: float


def averages(rows: Iterable[Row]) -> dict[int, dict[str, list[Point]]]:
    """The points of each kind of dictionary by the number of atoms, in the order of the table."""
    groups: dict[tuple[int, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((int(row["atoms"]), row["kind"], row["complexity"]), []).append(row)
    points: dict[int, dict[str, list[Point]]] = {}
    for (atoms, kind, complexity), group in groups.items():
        points.setdefault(atoms, {}).setdefault(kind, []).append(_point(complexity, group))
    return points


def _point(complexity: str, rows: list[Row]) -> Point:
    def mean(column: str) -> float:
        return float(np.mean([float(row[column]) for row in rows]))

    # Those of seconds, not of speed-ups: the mean time counts.
    forward, adjoint = (
        float(np.mean([1 / float(row[column]) for row in rows]))
        for column in ("speedup_forward", "speedup_adjoint")
    )
    return Point(
        complexity,
        mean("relative_complexity"),
        mean("error_training"),
        mean("error_held_out"),
        1 / forward,
        1 / adjoint,
        mean("fit_seconds"),
        (forward + adjoint) / 2,
    )
