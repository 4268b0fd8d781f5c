"""Rows of a matrix that pursuits look up by atom: of the Gram matrix, or of the atoms themselves."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from ..typing import Array


class Rows:
    """One row for each atom j, Dᴴd_j or d_j itself: of all atoms, or of those that were required so far.

    ``rows`` is the whole matrix, or room for as many rows as are kept at a time, which ``compute`` then returns
    for given atoms. ``rows[where[j]]`` is the row of atom j, if it is there; ``where[j]`` is −1 if not.
    """

    def __init__(self, rows: Array, n_atoms: int, compute: Callable[[Array], Array] | None = None) -> None:
        self.rows = rows
        self.where = np.arange(n_atoms) if compute is None else np.full(n_atoms, -1)
        self._compute = compute
        self._used = 0

    @property
    def is_whole(self) -> bool:
        return self._compute is None

    def make_room(self, count: int) -> None:
        """Forget all rows if ``count`` more might not fit."""
        if self._used + count > len(self.rows) < len(self.where):
            self._forget()

    def require(self, atoms: Array) -> None:
        """Compute the rows of ``atoms`` that are missing; all others are forgotten if there is no room."""
        if self._compute is None:
            return
        atoms = np.unique(atoms)
        missing = atoms[self.where[atoms] < 0]
        if self._used + missing.size > len(self.rows):
            self._forget()
            missing = atoms
        if missing.size:
            places = slice(self._used, self._used + missing.size)
            self.rows[places] = self._compute(missing)
            self.where[missing] = np.arange(places.start, places.stop)
            self._used = places.stop

    def _forget(self) -> None:
        self.where[:] = -1
        self._used = 0


def as_columns(counts: Array, indices: Array, values: Array, n_atoms: int) -> sp.csc_array:
    """Codes as the columns of a matrix, from their numbers of entries, and these one code after the other."""
    pointers = np.concatenate([[0], np.cumsum(counts)])
    kind = np.int32 if pointers[-1] < 2**31 else np.int64
    return sp.csc_array((values, indices.astype(kind), pointers.astype(kind)), shape=(n_atoms, len(counts)))
