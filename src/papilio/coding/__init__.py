"""Sparse codes of many signals at once."""

from .coder import Coder as Coder
from .coder import as_signals as as_signals
from .coder import omp as omp
