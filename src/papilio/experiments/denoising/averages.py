"""The table averaged over images and trials, and dictionaries compared image by image."""

from collections.abc import Iterable

import numpy as np

from ..tables import Row
from .run import PAPILIO, TARGET, Case


class Results:
    """The table, by noise level and case."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[int, Case], list[Row]] = {}
        for row in rows:
            case = Case(row["coding"], int(row["atoms"]), row["method"], row["complexity"])
            self._rows.setdefault((int(row["sigma"]), case), []).append(row)
        self.sigmas = sorted({sigma for sigma, _ in self._rows})
        self.cases = list(dict.fromkeys(case for _, case in self._rows))
        self.images = list(dict.fromkeys(row["image"] for group in self._rows.values() for row in group))

    def atoms(self, coding: str = TARGET) -> list[int]:
        """The sizes of dictionaries for a way of coding."""
        return sorted({case.atoms for case in self.cases if case.coding == coding})

    def complexities(self, atoms: int) -> list[str]:
        """The limits that papilio was given, in ascending order."""
        wanted = (TARGET, atoms, PAPILIO)
        return sorted((case.complexity for case in self.cases if case[:3] == wanted), key=float)

    def mean(self, sigma: int, case: Case, column: str) -> float:
        """The mean of a column over images and trials."""
        return float(np.mean([float(row[column]) for row in self._rows[sigma, case]]))

    def gains(self, sigma: int, case: Case, other: Case) -> list[float]:
        """The PSNR of ``case`` minus that of ``other`` in decibels, for each image and trial."""
        pairs = zip(self._rows[sigma, case], self._rows[sigma, other], strict=True)
        return [float(row["psnr"]) - float(beside["psnr"]) for row, beside in pairs]
