"""Figures: axes in, axes out. Needs matplotlib (``pip install "papilio[plot]"``)."""

from .curves import convergence, tradeoff
from .matrices import atoms, comparison, factors, matrix

__all__ = ["atoms", "comparison", "convergence", "factors", "matrix", "tradeoff"]
