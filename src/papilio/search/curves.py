"""Curves: families of products whose errors are known for each number of entries before one of them is built."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..operators import SparseProduct
from ..typing import Array


class Curve(NamedTuple):
    """Products of one family: their numbers of entries, ascending, and their relative errors.

    ``build`` makes the product at a place of these arrays, and ``detail`` says in a few words what it is.
    """

    method: str
    entries: Array
    errors: Array
    build: Callable[[int], SparseProduct]
    detail: Callable[[int], str]

    def within(self, budget: int) -> int | None:
        """The place of the lowest error with at most ``budget`` entries; None if all have more."""
        count = int(np.searchsorted(self.entries, budget, side="right"))
        return int(np.argmin(self.errors[:count])) if count else None

    def reaching(self, limit: float) -> int | None:
        """The place of the fewest entries with an error of at most ``limit``; None if all are above."""
        places = np.flatnonzero(self.errors <= limit)
        return int(places[0]) if places.size else None

    def knee(self, size: int) -> int:
        """The place where error + entries/``size`` is lowest."""
        return int(np.argmin(self.errors + self.entries / size))
