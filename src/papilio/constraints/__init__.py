"""Constraint sets: what a factor may look like, and the nearest matrix that does."""

from .base import Constraint
from .blocks import SparseBlocks
from .convolutions import Circulant
from .fixed import Fixed, UnitColumns, UnitRows
from .sign import NonNegative
from .sparsity import Dense, Sparse, SparseColumns, SparseRows, SparseRowsAndColumns, Support
from .structure import BlockDiagonal, Diagonal, Hankel, Symmetric, Toeplitz, Triangular

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
