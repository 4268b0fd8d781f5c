"""Figures: axes in, axes out. Needs matplotlib (``pip install "papilio[plot]"``)."""

from .curves import convergence, tradeoff
from .fits import factorization
from .matrices import atoms, comparison, factors, matrix

__all__ = ["atoms", "comparison", "convergence", "factorization", "factors", "matrix", "tradeoff"]
