"""One registry of constraint sets, and one of operators, feed all parametrised tests.

`test_package.py` fails when a public constraint class, or a public function that makes operators, is missing here.
"""

from collections.abc import Callable

import numpy as np

import papilio as pp
from papilio import constraints as c
from papilio import transforms as t

MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1]], dtype=bool)
MATRIX = np.array([[0.0, 2.0, 0.0, -1.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0]])

# Every set has shape (3, 4), (4, 3) or (3, 3): small enough for an exhaustive search over supports.
SMALL: dict[str, Callable[[], c.Constraint]] = {
    "Dense": lambda: c.Dense((3, 4)),
    "Sparse-1": lambda: c.Sparse((3, 4), 1),
    "Sparse-5": lambda: c.Sparse((3, 4), 5),
    "Sparse-full": lambda: c.Sparse((3, 4), 12),
    "Sparse-columns-4": lambda: c.Sparse((3, 4), 4, every_column=True),
    "Sparse-columns-6": lambda: c.Sparse((3, 4), 6, every_column=True),
    "SparseRows-1": lambda: c.SparseRows((3, 4), 1),
    "SparseRows-2": lambda: c.SparseRows((3, 4), 2),
    "SparseRows-full": lambda: c.SparseRows((3, 4), 4),
    "SparseColumns-1": lambda: c.SparseColumns((3, 4), 1),
    "SparseColumns-2": lambda: c.SparseColumns((3, 4), 2),
    "SparseRowsAndColumns-1": lambda: c.SparseRowsAndColumns((3, 4), 1),
    "SparseRowsAndColumns-2": lambda: c.SparseRowsAndColumns((4, 3), 2),
    "SparseRowsAndColumns-full": lambda: c.SparseRowsAndColumns((3, 4), 4),
    "SparseBlocks-2x2": lambda: c.SparseBlocks((3, 4), 2, block=(2, 2)),
    "SparseBlocks-2x1": lambda: c.SparseBlocks((4, 3), 3, block=(2, 1)),
    "SparseBlocks-1x2": lambda: c.SparseBlocks((3, 4), 1, block=(1, 2)),
    "SparseBlocks-2x3": lambda: c.SparseBlocks((3, 4), 3, block=(2, 3)),
    "SparseBlocks-columns": lambda: c.SparseBlocks((4, 3), 3, block=2, every_column=True),
    "SparseBlocks-full": lambda: c.SparseBlocks((4, 3), 4, block=2),
    "SparseBlocks-orders": lambda: c.SparseBlocks(
        (3, 4), 2, block=(2, 2), row_order=[2, 0, 1], column_order=[1, 3, 2, 0]
    ),
    "Support": lambda: c.Support(MASK),
    "Support-3": lambda: c.Support(MASK, 3),
    "Triangular-lower": lambda: c.Triangular((3, 4)),
    "Triangular-upper-4": lambda: c.Triangular((4, 3), 4, lower=False),
    "Diagonal": lambda: c.Diagonal((3, 4)),
    "Diagonal-2": lambda: c.Diagonal(3, 2),
    "BlockDiagonal": lambda: c.BlockDiagonal([(2, 1), (1, 3)]),
    "BlockDiagonal-3": lambda: c.BlockDiagonal([(2, 1), (1, 3)], 3),
    "Symmetric": lambda: c.Symmetric(3),
    "Symmetric-1": lambda: c.Symmetric(3, 1),
    "Symmetric-4": lambda: c.Symmetric(3, 4),
    "Circulant": lambda: c.Circulant(3),
    "Circulant-1": lambda: c.Circulant(3, 1),
    "Circulant-support": lambda: c.Circulant(4, support=[-1, 0, 2]),
    "Circulant-support-2": lambda: c.Circulant(4, 2, support=[-1, 0, 2]),
    "Circulant-grid": lambda: c.Circulant(6, grid=(2, 3)),
    "Circulant-grid-support": lambda: c.Circulant(6, 2, support=[(0, 0), (0, -1), (1, 1)], grid=(2, 3)),
    "Toeplitz-1": lambda: c.Toeplitz((3, 4), 1),
    "Toeplitz-3": lambda: c.Toeplitz((3, 4), 3),
    "Hankel-1": lambda: c.Hankel((4, 3), 1),
    "Hankel-3": lambda: c.Hankel((4, 3), 3),
    "UnitColumns": lambda: c.UnitColumns((3, 4)),
    "UnitRows": lambda: c.UnitRows((3, 4)),
    "Fixed": lambda: c.Fixed(MATRIX),
}
NONNEGATIVE: dict[str, Callable[[], c.Constraint]] = {
    f"NonNegative-{name}": (lambda make=make: c.NonNegative(make()))
    for name, make in SMALL.items()
    if name != "Fixed"
} | {"NonNegative-Fixed": lambda: c.NonNegative(c.Fixed(np.abs(MATRIX)))}

CONSTRAINTS = SMALL | NONNEGATIVE

# What makes operators, under its public name, each of few rows and columns.
LEFT = pp.SparseProduct([MATRIX, MATRIX.T * (1 + 2j), np.eye(3)[[2, 0, 1]]], 0.5)  # 3×3, complex
RIGHT = pp.SparseProduct([MATRIX[:, :3]], -2.0)
OPERATORS: dict[str, Callable[[], pp.SparseProduct]] = {
    "SparseProduct": lambda: pp.SparseProduct([MATRIX, MATRIX.T], 3.0),
    "operators.hstack": lambda: pp.operators.hstack([LEFT, RIGHT]),
    "operators.vstack": lambda: pp.operators.vstack([LEFT, RIGHT]),
    "operators.block_diag": lambda: pp.operators.block_diag([LEFT, RIGHT]),
    "operators.kron": lambda: pp.operators.kron(LEFT, RIGHT),
    "sum": lambda: LEFT + RIGHT,
    "difference": lambda: RIGHT - LEFT,
    "real": lambda: LEFT.real,
    "imag": lambda: LEFT.imag,
    "transforms.hadamard": lambda: t.hadamard(8),
    "transforms.dft": lambda: t.dft(6),
    "transforms.hartley": lambda: t.hartley(12),
    "transforms.dct": lambda: t.dct(8),
    "transforms.haar": lambda: t.haar(8),
    "transforms.wavelet": lambda: t.wavelet(16, "db2"),
    "transforms.circulant": lambda: t.circulant(np.arange(1.0, 97.0)),
    "transforms.toeplitz": lambda: t.toeplitz(np.arange(96.0) + 1j, np.arange(64.0) - 1),
    "transforms.random_product": lambda: t.random_product((9, 6), 2, complexity=0.6, random_state=0),
    "transforms.random_butterfly": lambda: t.random_butterfly(8, dtype=complex, random_state=0),
}
