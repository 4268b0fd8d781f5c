"""The table of figure 3 averaged over its trials, and the points of the paper."""

import csv
from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from ..tables import Row
from .run import HAD, Method


class MethodResult(NamedTuple):
    """A method on one of the data sets.

    ``rmse`` is the mean over the trials and ``standard_error`` its standard error. ``normalised`` is the mean of
    RMSE·√5/rms(X): on RAND the expectation of rms(X)² is 5, the number of atoms per signal, and draws that happen
    to be louder do not count more. ``n_complexities`` is the number of different complexities.
    """

    data: str
    method: Method
    relative_complexity: float
    rmse: float
    standard_error: float = 0.0
    normalised: float = 0.0
    trials: int = 0
    n_complexities: int = 1


def averages(rows: Iterable[Row], n_nonzero_coefs: int = 5) -> dict[tuple[str, Method], MethodResult]:
    """The results by data set and method, in the order of the table."""
    groups: dict[tuple[str, Method], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["data"], _method(row, "p")), []).append(row)
    return {key: _average(*key, group, n_nonzero_coefs) for key, group in groups.items()}


def _average(data: str, method: Method, rows: list[Row], n_nonzero_coefs: int) -> MethodResult:
    errors = np.array([float(row["rmse"]) for row in rows])
    loudness = np.array([float(row["signal_rms"]) for row in rows]) / np.sqrt(n_nonzero_coefs)
    complexities = [float(row["relative_complexity"]) for row in rows]
    spread = float(errors.std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else 0.0
    cost, error, normalised = (float(np.mean(values)) for values in (complexities, errors, errors / loudness))
    return MethodResult(data, method, cost, error, spread, normalised, len(rows), len(set(complexities)))


def published() -> dict[tuple[str, Method], MethodResult]:
    """The paper's results by data set and method."""
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    points = (
        MethodResult(row["data"], _method(row, "p_per_row"), float(row["relative_complexity"]), float(row["rmse"]))
        for row in rows
    )
    return {(point.data, point.method): point for point in points}


def comparable(ours: dict[tuple[str, Method], MethodResult]) -> dict[tuple[str, Method], MethodResult]:
    """The paper's results for the methods in ``ours``, if signals have the paper's size, which HAD tells."""
    theirs = published()
    had = [(key, point) for key, point in ours.items() if key[1] == Method(HAD)]
    if any(abs(point.relative_complexity - theirs[key].relative_complexity) > 1e-3 for key, point in had):
        return {}
    return {key: point for key, point in theirs.items() if key in ours}


def paper_scale(data: str, ours: dict[tuple[str, Method], MethodResult]) -> float:
    """The factor for the paper's RMSE: 1 on RAND; on FACT, whose scale is not published, HAD is made to agree."""
    key = data, Method(HAD)
    return 1.0 if data == "RAND" else ours[key].rmse / published()[key].rmse


def _method(row: Row, p: str) -> Method:
    """P is written in the same way, whatever its digits in the file."""
    return Method(row["method"], row["Q"], row[p], str(float(row["P"])) if row["P"] else "")
