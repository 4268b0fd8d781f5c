"""What is factorized: a matrix in memory, or one that is known by its entries or by its products only."""

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..runtime.session import Session
from ..typing import Array
from .curves import relative_error
from .nested.cluster_trees import Coordinates
from .singular import Block, assembled, blocks_of, decomposed

_MOST_RANK = 256  # singular vectors of large matrices


class Problem(Protocol):
    """A matrix as a search sees it, whatever is known of it."""

    session: Session
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def block(self, rows: Array, columns: Array) -> Array:
        """The entries of some rows and columns."""
        ...

    def apply(self, vectors: Array) -> Array:
        """The product with a block of vectors."""
        ...

    def error_of(self, operator: SparseProduct) -> float:
        """The relative Frobenius error of a product, or an estimate of it."""
        ...


class Stored:
    """A matrix in memory, in units, with the coordinates of its lines where users know them."""

    def __init__(self, session: Session, matrix: Array, coordinates: Coordinates | None = None) -> None:
        self.session, self.matrix, self.coordinates = session, matrix, coordinates
        self.shape, self.dtype = matrix.shape, matrix.dtype
        self._blocks: list[Block] = []
        self._rank = 0  # up to which singular vectors are known

    def block(self, rows: Array, columns: Array) -> Array:
        return self.matrix[np.ix_(rows, columns)]

    def apply(self, vectors: Array) -> Array:
        return self.matrix @ vectors

    def error_of(self, operator: SparseProduct) -> float:
        return relative_error(self.matrix, operator)

    @cached_property
    def is_zero(self) -> bool:
        return not self.matrix.any()

    @cached_property
    def nnz(self) -> int:
        return int(np.count_nonzero(self.matrix))

    @cached_property
    def energy(self) -> float:
        """The squared norm."""
        return frobenius(self.matrix) ** 2

    def blocks(self, budget: int | None = None) -> list[Block]:
        """The leading singular vectors and values of each block of the matrix; none for zeros.

        Of a large block, they are those that twice a budget of entries has room for.
        """
        rank = _MOST_RANK if budget is None else 2 * budget // sum(self.shape)
        if rank > self._rank:
            lines = [] if self.is_zero else blocks_of(self.matrix)
            self._blocks = [decomposed(self.session, self.matrix, *each, rank) for each in lines]
            are_whole = all(
                block.values.size == min(block.rows.size, block.columns.size) for block in self._blocks
            )
            self._rank = min(self.shape) if are_whole else rank
        return self._blocks

    def of_rank(self, rank: int) -> SparseProduct:
        """The best approximation of a rank, as two factors."""
        blocks = self.blocks(rank * sum(self.shape))
        values = np.concatenate([block.values for block in blocks])
        owners = np.concatenate([np.full(block.values.size, b) for b, block in enumerate(blocks)])
        counts = np.bincount(owners[np.argsort(-values, kind="stable")[:rank]], minlength=len(blocks))
        return assembled(blocks, counts, self.shape)

    def beside_identities(
        self, n_factors: int | None, matrix: Array | sp.csr_array | None = None
    ) -> SparseProduct:
        """The matrix, or another one, as one of ``n_factors`` with identities; as the only one without them."""
        matrix = self.matrix if matrix is None else matrix
        others = [sp.eye_array(min(self.shape))] * ((n_factors or 1) - 1)
        is_wide = self.shape[0] < self.shape[1]
        return SparseProduct([*others, matrix] if is_wide else [matrix, *others]).astype(self.dtype)
