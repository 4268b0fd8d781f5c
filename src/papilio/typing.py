"""The types that signatures use."""

from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import DTypeLike as DTypeLike

Array: TypeAlias = np.ndarray[Any, Any]
#: Whatever papilio takes for a matrix: an array, nested sequences, a SciPy sparse matrix, or a `SparseProduct`.
MatrixLike: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix
Path: TypeAlias = str | PathLike[str]
#: An integer, a ``RandomState``, a ``Generator``, or None for NumPy's global state.
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
