"""Sets with a structure: triangular, block diagonal, symmetric, circulant, Toeplitz, Hankel."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from ..linalg import rescaled
from ..typing import Array
from ..validation import as_integer, as_shape
from .base import UnitNorm
from .selection import largest, slack_of
from .sparsity import Support


class Triangular(Support):
    """{A : A lower (or upper) triangular, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}. The projection is exact.

    Parameters
    ----------
    shape : (int, int) or int
    n_nonzero : int, optional
        All places of the triangle by default.
    lower : bool
        The diagonal belongs to both triangles.
    """

    def __init__(self, shape: Any, n_nonzero: int | None = None, *, lower: bool = True) -> None:
        full = np.ones(as_shape("shape", shape), dtype=bool)
        super().__init__(np.tril(full) if lower else np.triu(full), n_nonzero)


class Diagonal(Support):
    """{A : A zero off the diagonal, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}. The projection is exact."""

    def __init__(self, shape: Any, n_nonzero: int | None = None) -> None:
        super().__init__(np.eye(*as_shape("shape", shape), dtype=bool), n_nonzero)


class BlockDiagonal(Support):
    """{A : A zero outside blocks along the diagonal, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}. The projection is exact.

    Parameters
    ----------
    blocks : sequence of (int, int) or int
        Rows and columns of each block, from the upper left on.
    n_nonzero : int, optional
        All places of the blocks by default.
    """

    def __init__(self, blocks: Iterable[Any], n_nonzero: int | None = None) -> None:
        if not isinstance(blocks, Iterable):
            raise TypeError(f"blocks must be a sequence of block shapes, got {blocks!r}")
        shapes = [as_shape(f"blocks[{i}]", shape) for i, shape in enumerate(blocks)]
        if not shapes:
            raise ValueError("blocks must hold at least one block shape, got none")
        super().__init__(scipy.linalg.block_diag(*(np.ones(shape, dtype=bool) for shape in shapes)), n_nonzero)


class _Tied(UnitNorm):
    """Matrices whose entries are equal within groups; sparsity counts groups, the free parameters.

    For a group g of |g| places, the orthonormal coordinate is Σ_g a / √|g|: averaging comes first, signs and
    sparsity are decided on averages, and a group's worth grows with its size.
    """

    free_on_support: ClassVar[bool] = False

    def __init__(self, labels: Array, name: str, count: int | None) -> None:
        """Group the places by ``labels``; groups are numbered by their first place in row-major order.

        ``count`` is the limit, which the constructor calls ``name``.
        """
        _, first, groups = np.unique(labels.ravel(), return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.intp)
        rank[np.argsort(first)] = np.arange(first.size)
        self.shape = labels.shape
        self._groups: Array = rank[groups]
        self._sizes: Array = np.bincount(self._groups)
        available = self._available()
        self._count = available if count is None else as_integer(name, count, 1, available)
        self.n_nonzero = self._bound()

    def _available(self) -> int:
        """The largest limit: all groups."""
        return self._sizes.size

    def _bound(self) -> int:
        """The most entries that a member can have."""
        return int(np.sort(self._sizes)[-self._count :].sum())

    def _coordinates(self, matrix: Array) -> Array:
        matrix = rescaled(matrix)  # or sums could overflow
        sums = np.bincount(self._groups, weights=matrix.real.ravel())
        if matrix.dtype.kind == "c":
            sums = sums + 1j * np.bincount(self._groups, weights=matrix.imag.ravel())
        return (sums / np.sqrt(self._sizes)).astype(matrix.dtype)

    def _matrix(self, coordinates: Array) -> Array:
        values = coordinates / np.sqrt(self._sizes).astype(coordinates.real.dtype)
        return values[self._groups].reshape(self.shape)

    def _select(self, worth: Array) -> Array:
        return largest(worth, self._count)

    def _describe(self) -> str:
        return f"{self.shape}, {self._count}"


class Circulant(_Tied):
    """{A : a_ij depends on (i − j) mod n, at most n_diagonals of these n values, ‖A‖_F = 1}; exact.

    Parameters
    ----------
    n : int
        Rows and columns.
    n_diagonals : int, optional
        How many of the n free parameters may be non-zero (each fills n places); all by default.
    """

    def __init__(self, n: Any, n_diagonals: int | None = None) -> None:
        side = _as_side(n)
        super().__init__(np.subtract.outer(np.arange(side), np.arange(side)) % side, "n_diagonals", n_diagonals)


class Toeplitz(_Tied):
    """{A : a_ij depends on i − j, at most n_diagonals of these values, ‖A‖_F = 1}. The projection is exact.

    There are rows + columns − 1 diagonals in all.
    """

    def __init__(self, shape: Any, n_diagonals: int | None = None) -> None:
        rows, columns = as_shape("shape", shape)
        super().__init__(np.subtract.outer(np.arange(rows), np.arange(columns)), "n_diagonals", n_diagonals)


class Hankel(_Tied):
    """{A : a_ij depends on i + j, at most n_antidiagonals of these values, ‖A‖_F = 1}. The projection is exact.

    There are rows + columns − 1 antidiagonals in all.
    """

    def __init__(self, shape: Any, n_antidiagonals: int | None = None) -> None:
        rows, columns = as_shape("shape", shape)
        super().__init__(np.add.outer(np.arange(rows), np.arange(columns)), "n_antidiagonals", n_antidiagonals)


class Symmetric(_Tied):
    """{A : A = Aᵀ, ‖A‖₀ ≤ n_nonzero, ‖A‖_F = 1}, complex matrices included (Aᵀ, not Aᴴ). Exact.

    ``n_nonzero`` counts entries, all n² by default: a pair off the diagonal takes two of them. The best support
    is the best a diagonal entries with the best ⌊(n_nonzero − a)/2⌋ pairs, for the best a; of equally good ones,
    the largest.
    """

    def __init__(self, n: Any, n_nonzero: int | None = None) -> None:
        side = _as_side(n)
        row, column = np.indices((side, side))
        super().__init__(np.minimum(row, column) * side + np.maximum(row, column), "n_nonzero", n_nonzero)

    def _available(self) -> int:
        return self.shape[0] * self.shape[1]

    def _bound(self) -> int:
        return self._count

    def _may_stand_alone(self) -> Array | None:
        return self._sizes <= self.n_nonzero

    def _select(self, worth: Array) -> Array:
        diagonal = self._sizes == 1
        # What is lost, not what is kept: sums of small squares only, so that nothing small drowns in rounding.
        lost_diagonal = _lost(worth[diagonal])
        lost_pairs = _lost(worth[~diagonal])
        n_diagonal = np.arange(min(lost_diagonal.size, self.n_nonzero + 1))
        n_pairs = np.minimum((self.n_nonzero - n_diagonal) // 2, lost_pairs.size - 1)
        lost = lost_diagonal[n_diagonal] + lost_pairs[n_pairs]
        n_diagonal = n_diagonal[lost <= lost.min() * (1 + slack_of(worth))][-1]
        mask = np.zeros(worth.shape, dtype=bool)
        mask[diagonal] = largest(worth[diagonal], int(n_diagonal))
        mask[~diagonal] = largest(worth[~diagonal], int(n_pairs[n_diagonal]))
        return mask


def _lost(worth: Array) -> Array:
    """The sum of all squares but the k largest, for k = 0, 1, …"""
    squares = np.sort(np.square(worth, dtype=np.float64))
    return np.concatenate([[0.0], np.cumsum(squares)])[::-1]


def _as_side(n: Any) -> int:
    rows, columns = as_shape("n", n)
    if rows != columns:
        raise ValueError(f"n must be one integer or a square shape, got {n!r}")
    return rows
