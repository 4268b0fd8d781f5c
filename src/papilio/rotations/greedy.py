"""Chains of rotations that grow layer by layer: the one loop behind eigenbases, singular vectors and treelets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.rotations import (
    CORRELATION,
    POLAR,
    add_layer,
    add_sequence,
    best_partner,
    diagonalise_all,
    disjoint,
    find_partners,
)
from ..typing import Array
from .chain import Chain, layer

LARGEST = 1 << 28  # entries of the largest dense matrix
_SHARE = 0.3  # of the mean gain in a layer so far: a pair that gains less has to wait for the next layer
_FILLED = 8  # a sparse matrix with more entries than an eighth of all is made dense
_MOST = 1 << 27  # entries of the largest sparse one
_EPS = float(np.finfo(np.float64).eps)


class Growth:
    """Rotations that are added greedily to a chain, and the working matrix W that follows them.

    ``kind`` is one of `papilio.kernels.rotations`: what W is, what a rotation gains, and what it does to W. A
    layer has disjoint pairs, up to ``width`` of them. Coordinates that are ``retired`` are rotated no more. W
    is changed in place. It may be sparse if the kind is EIGEN, and stays so until it is filled.
    """

    def __init__(self, kind: int, matrix: Any, width: int | None = None) -> None:
        self.kind, self.matrix = kind, matrix
        self.size = matrix.shape[1]
        self.width = max(self.size // 2, 1) if width is None else width
        self.retired = np.zeros(self.size, bool)
        self.count = 0
        self._found: list[tuple[Array, Array, Array]] = []
        self._depths = [0] * self.size  # the layers that each coordinate has been through
        largest = float(abs(matrix).max())
        least = {CORRELATION: (8 * _EPS) ** 2, POLAR: 8 * _EPS * largest}
        self._least = least.get(kind, (_EPS * largest) ** 2)  # a smaller gain is rounding
        self._gains, self._partners = np.empty(0), np.empty(0, np.int64)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return max(self._depths)

    @property
    def entries(self) -> int:
        """Of the product of all layers so far, with those of coordinates that pass through one."""
        return self.size * max(self.depth, 1) + 2 * self.count

    @property
    def is_full(self) -> bool:
        """Whether W would not find room, neither sparse nor dense."""
        return self.size**2 > LARGEST and sp.issparse(self.matrix) and self.matrix.nnz > _MOST

    def add(self, most: int) -> int:
        """Add a layer of at most so many rotations; their number, 0 if no pair gains anything."""
        if sp.issparse(self.matrix):
            if _FILLED * self.matrix.nnz <= self.size**2 or self.size**2 > LARGEST:
                return self._keep(*self._sparse_layer(min(self.width, most)))
            self.matrix = self.matrix.toarray()
        room = min(self.width, most)
        pairs, lefts, rights = self._empty(room)
        known = self._known()
        found = add_layer(self.kind, self.matrix, self.retired, *known, self._least, _SHARE, pairs, lefts, rights)
        return self._keep(pairs[:found], lefts[:found], rights[:found])

    def add_in_turn(self, most: int) -> int:
        """Add so many rotations one by one, as with a width of 1, to a dense matrix; their number."""
        pairs, lefts, rights = self._empty(most)
        known = self._known()
        found = add_sequence(self.kind, self.matrix, self.retired, *known, self._least, pairs, lefts, rights)
        return self._keep(pairs[:found], lefts[:found], rights[:found])

    def _known(self) -> tuple[Array, Array]:
        """The best gain and partner of each row."""
        if not self._gains.size:
            rows = self.matrix.shape[0]
            self._gains, self._partners = np.empty(rows), np.empty(rows, np.int64)
            find_partners(self.kind, self.matrix, self.retired, self._gains, self._partners)
        return self._gains, self._partners

    def _empty(self, count: int) -> tuple[Array, Array, Array]:
        """Room for pairs and their blocks, of rows and of columns."""
        shape, dtype = (count, 2, 2), self.matrix.dtype
        return np.empty((count, 2), np.int64), np.empty(shape, dtype), np.empty(shape, dtype)

    def retire(self, coordinate: int) -> None:
        """Rotate a coordinate no more."""
        self.retired[coordinate] = True
        for i in np.flatnonzero((self._partners == coordinate) | (np.arange(self._partners.size) == coordinate)):
            self._gains[i], self._partners[i] = best_partner(self.kind, self.matrix, i, self.retired)

    def last(self) -> tuple[Array, Array]:
        """The pair and the 2×2 block of the last rotation."""
        pairs, lefts, _ = self._found[-1]
        return pairs[-1], lefts[-1]

    def chain(self, side: int = 1) -> Chain:
        """The rotations of the rows, or with side 2 those of the columns."""
        if not self._found:
            return Chain(self.size, np.empty((0, 2), np.int64), np.empty((0, 2, 2), self.matrix.dtype))
        pairs, blocks = (np.concatenate([found[k] for found in self._found]) for k in (0, side))
        return Chain(self.size, pairs, blocks)

    def continue_from(self, chain: Chain, matrix: Array, right: Chain | None = None) -> None:
        """Go on from the same rotations by other angles, ``right`` for the columns, and what W is then."""
        self._found = [(chain.pairs, chain.blocks, (right or chain).blocks)]
        self.matrix, self._gains = matrix, np.empty(0)

    def _keep(self, pairs: Array, lefts: Array, rights: Array) -> int:
        if len(pairs):
            self._found.append((pairs, lefts, rights))
            self.count += len(pairs)
            for i, j in pairs.tolist():
                self._depths[i] = self._depths[j] = max(self._depths[i], self._depths[j]) + 1
        return len(pairs)

    def _sparse_layer(self, room: int) -> tuple[Array, Array, Array]:
        """What `add_layer` does, for a sparse matrix."""
        upper = sp.coo_array(sp.triu(self.matrix, 1))
        gains = np.abs(upper.data) ** 2
        order = np.argsort(-gains, kind="stable")
        rows, columns = (place[order].astype(np.int64) for place in upper.coords)
        chosen = np.empty(room, np.int64)
        chosen = chosen[: disjoint(rows, columns, gains[order], self.size, self._least, _SHARE, chosen)]
        pairs = np.stack([rows[chosen], columns[chosen]], axis=1)
        blocks = np.empty((len(pairs), 2, 2), self.matrix.dtype)
        diagonalise_all(self.matrix.diagonal().real[pairs], upper.data[order][chosen], blocks)
        turn = layer(self.size, pairs, blocks)
        matrix = sp.csr_array(turn.conj().T @ self.matrix @ turn)
        matrix.data[np.abs(matrix.data) ** 2 <= self._least] = 0
        matrix.eliminate_zeros()
        self.matrix = matrix
        return pairs, blocks, blocks


def grow(growth: Growth, room: Callable[[], int]) -> bool:
    """Add layers of at most ``room()`` rotations until that is 0; False if no pair gains anything before."""
    while (most := room()) > 0:
        if growth.is_full or not growth.add(most):
            return False
    return True
