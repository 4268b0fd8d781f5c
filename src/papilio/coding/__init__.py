"""Sparse codes of many signals at once."""

from .coder import Coder as Coder
from .omp import as_signals as as_signals
from .omp import omp as omp
