"""Constraint sets: what a factor may look like, and the nearest matrix that does."""

from .base import Constraint
from .fixed import Fixed, NonNegative, UnitColumns, UnitRows
from .sparsity import Dense, Sparse, SparseBlocks, SparseColumns, SparseRows, SparseRowsAndColumns, Support
from .structure import BlockDiagonal, Circulant, Diagonal, Hankel, Symmetric, Toeplitz, Triangular

__all__ = [
    "BlockDiagonal",
    "Circulant",
    "Constraint",
    "Dense",
    "Diagonal",
    "Fixed",
    "Hankel",
    "NonNegative",
    "Sparse",
    "SparseBlocks",
    "SparseColumns",
    "SparseRows",
    "SparseRowsAndColumns",
    "Support",
    "Symmetric",
    "Toeplitz",
    "Triangular",
    "UnitColumns",
    "UnitRows",
]
