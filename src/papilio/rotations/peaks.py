"""Chains of rotations that make the rows of a matrix sparse, layer by layer."""

import numpy as np

from ..kernels.peaks import peak_gains, turn_to_peaks
from ..kernels.rotations import POLAR, disjoint
from ..typing import Array
from .greedy import Growth

LARGEST_SIDE = 256  # a layer takes O(n³) operations
_SHARE = 0.3  # of the mean gain in a layer so far, as in `Growth`
_AGREEING = 1e-9  # how far from 1 the agreement of two rows may be for their rotation to be exact
_LEAST = 1e-12  # of Σ|w|⁴ per row: a smaller gain is rounding


class PeakGrowth(Growth):
    """Rotations that are added greedily to a chain, so that Σ|w|⁴ of W = UᴴM grows.

    Pairs whose rotation leaves one entry per column come first, however little they gain: if M is a product of few
    rotations, these are its first ones, and undoing them makes it a signed permutation.
    """

    def __init__(self, matrix: Array, width: int | None = None) -> None:
        super().__init__(POLAR, matrix, width)
        n = self.size
        self._least = _LEAST * float((abs(matrix) ** 4).sum()) / n
        self._units = np.array([1.0, -1j] if matrix.dtype.kind == "c" else [1.0, 0.0], matrix.dtype)
        self._pair_gains, self._agreements = np.zeros((n, n)), np.zeros((n, n))
        self._changed = np.arange(n)

    def add(self, most: int) -> int:
        """Add a layer of at most so many rotations; their number, 0 if no pair gains anything."""
        gains, agreements = self._pair_gains, self._agreements
        peak_gains(self.matrix, self._changed, gains, agreements)
        room = min(self.width, most)
        pairs = self._chosen(np.where(agreements >= 1 - _AGREEING, gains, 0.0), 0.0, room)
        if not len(pairs):
            pairs = self._chosen(gains, _SHARE, room)
        blocks = np.empty((len(pairs), 2, 2), self.matrix.dtype)
        turn_to_peaks(self.matrix, pairs, self._units, blocks)
        self._changed = np.unique(pairs)
        return self._keep(pairs, blocks, blocks)

    def _chosen(self, gains: Array, share: float, room: int) -> Array:
        """Disjoint pairs by descending gain."""
        rows, columns = np.nonzero(np.triu(gains > self._least, 1))
        values = gains[rows, columns]
        order = np.argsort(-values, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
        chosen = np.empty(room, np.int64)
        count = disjoint(rows, columns, values, self.size, self._least, share, chosen)
        return np.stack([rows, columns], axis=1)[chosen[:count]]
