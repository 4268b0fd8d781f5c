"""Figures: axes in, axes out. Needs matplotlib (``pip install "papilio[plot]"``)."""

from .convolutions import convolutions
from .curves import tradeoff
from .fits import factorization
from .graphs import graph_signal
from .histories import convergence
from .matrices import comparison, factors, matrix
from .mosaics import atoms
from .trees import treelets

__all__ = [
    "atoms",
    "comparison",
    "convergence",
    "convolutions",
    "factorization",
    "factors",
    "graph_signal",
    "matrix",
    "tradeoff",
    "treelets",
]
