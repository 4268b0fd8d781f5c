"""Figures: axes in, axes out. Needs matplotlib (``pip install matplotlib``)."""

from .fits import convergence, factorization
from .matrices import comparison, factors, matrix
from .mosaics import atoms
from .structures import convolutions, graph_signal, treelets
from .tradeoffs import tradeoff

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
