"""From dense matrices to sparse ones."""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True)


@compiled
def count_entries(matrix: Array) -> Array:
    """The row pointers of ``matrix`` in CSR form."""
    pointers = np.zeros(matrix.shape[0] + 1, dtype=np.int32)
    for i in range(matrix.shape[0]):
        count = 0
        for j in range(matrix.shape[1]):
            count += matrix[i, j] != 0
        pointers[i + 1] = pointers[i] + count
    return pointers


@compiled
def fill_entries(matrix: Array, pointers: Array) -> tuple[Array, Array]:
    """The indices and values of ``matrix`` in CSR form."""
    indices = np.empty(pointers[-1], dtype=np.int32)
    values = np.empty(pointers[-1], dtype=matrix.dtype)
    n = 0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if matrix[i, j] != 0:
                indices[n] = j
                values[n] = matrix[i, j]
                n += 1
    return indices, values
