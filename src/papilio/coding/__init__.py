"""Sparse codes of many signals at once."""

from .coder import Coder as Coder
from .matching_pursuit import as_signals as as_signals
from .matching_pursuit import omp as omp
