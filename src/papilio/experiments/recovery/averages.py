"""The table averaged over the trials, and what others have published."""

import csv
from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from ..tables import Row


class Size(NamedTuple):
    """Of a problem."""

    atoms: int
    features: int
    signals: int

    def __str__(self) -> str:
        return f"{self.atoms}×{self.features}, {self.signals:,} signals"


class Point(NamedTuple):
    """Means over the trials; ``least`` is the smallest cosine of a trial, ``seconds`` the longest time."""

    cosine: float
    least: float
    recovered: float
    correlation: float
    error: float
    seconds: float


Points = dict[Size, dict[str, dict[str, Point]]]  # by the distribution of values, and the method


def averages(rows: Iterable[Row], times: Iterable[Row]) -> Points:
    """The points in the order of the table; ``times`` has the same rows."""
    groups: dict[tuple[Size, str, str], list[tuple[Row, Row]]] = {}
    for row, time in zip(rows, times, strict=True):
        key = size_of(row), row["values"], row["method"]
        groups.setdefault(key, []).append((row, time))
    points: Points = {}
    for (size, values, method), group in groups.items():
        points.setdefault(size, {}).setdefault(values, {})[method] = _point(group)
    return points


def published() -> dict[str, dict[Size, float]]:
    """The mean correlations of codes that others report, by method (Barin Pacela et al., 2026)."""
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    found: dict[str, dict[Size, float]] = {}
    for row in csv.DictReader(text.splitlines()):
        found.setdefault(row["method"], {})[size_of(row)] = float(row["correlation"])
    return found


def size_of(row: Row) -> Size:
    return Size(int(row["atoms"]), int(row["features"]), int(row["signals"]))


def _point(group: list[tuple[Row, Row]]) -> Point:
    def mean(column: str) -> float:
        return float(np.mean([float(row[column]) for row, _ in group]))

    least = min(float(row["cosine"]) for row, _ in group)
    longest = max(float(time["seconds"]) for _, time in group)
    return Point(mean("cosine"), least, mean("recovered"), mean("correlation"), mean("error"), longest)
