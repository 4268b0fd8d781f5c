"""Sparse codes of many signals at once."""

from .basis_pursuit import lasso as lasso
from .coder import Coder as Coder
from .l1 import as_alpha as as_alpha
from .l1 import lasso_codes as lasso_codes
from .matching_pursuit import as_signals as as_signals
from .matching_pursuit import omp as omp
