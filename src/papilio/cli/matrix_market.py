"""Matrices of Matrix Market files (.mtx).

`scipy.io.mmread` crashes the process on some damaged files. This reader believes no number of entries before it
has counted them.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..operators.csr import as_csr
from ..typing import Array
from .limits import check_sides

_LAYOUTS = ("coordinate", "array")
_FIELDS = {"real": 1, "double": 1, "integer": 1, "complex": 2, "pattern": 0}  # and numbers an entry
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


def read_mtx(text: str) -> Any:
    """The matrix that ``text`` describes: a csr_array if it is given by coordinates, else a dense one."""
    lines = text.splitlines()
    words = lines[0].lower().split() if lines else []
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("it does not begin with '%%MatrixMarket matrix'")
    layout, field, symmetry = words[2:]
    if layout not in _LAYOUTS or field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise ValueError(f"{layout} {field} {symmetry} is not a kind of matrix")
    sizes, *body = [line for line in lines[1:] if line.strip() and not line.startswith("%")] or [""]
    shape = [int(number) for number in sizes.split()]
    if len(shape) != (3 if layout == "coordinate" else 2) or min(shape[:2]) < 1:
        raise ValueError("it does not say its size")
    if symmetry != "general" and shape[0] != shape[1]:
        raise ValueError(f"{shape[0]}×{shape[1]} cannot be {symmetry}")
    check_sides(tuple(shape))
    if layout == "coordinate":
        return _sparse(body, (shape[0], shape[1]), shape[2], field, symmetry)
    return _dense(body, (shape[0], shape[1]), field, symmetry)


def _sparse(lines: list[str], shape: tuple[int, int], count: int, field: str, symmetry: str) -> sp.csr_array:
    table = _table(lines, count, 2 + _FIELDS[field])
    rows, columns = table[:, 0].astype(np.int64) - 1, table[:, 1].astype(np.int64) - 1
    values = np.ones(count) if field == "pattern" else _values(table[:, 2:])
    matrix = as_csr("the matrix", sp.coo_array((values, (rows, columns)), shape=shape))
    return (
        matrix
        if symmetry == "general"
        else as_csr("the matrix", matrix + _mirrored(sp.tril(matrix, -1), symmetry))
    )


def _dense(lines: list[str], shape: tuple[int, int], field: str, symmetry: str) -> Array:
    rows, columns = shape
    if symmetry == "general":
        return _values(_table(lines, rows * columns, _FIELDS[field])).reshape(shape, order="F")
    diagonal = 1 if symmetry == "skew-symmetric" else 0  # which is zero there
    count = rows * (rows + 1) // 2 - diagonal * rows
    values = _values(_table(lines, count, _FIELDS[field]))
    matrix = np.zeros(shape, values.dtype)
    # Columns of the lower triangle one after the other, which are the rows of the upper one.
    matrix.T[np.triu_indices(rows, diagonal)] = values
    return matrix + _mirrored(np.tril(matrix, -1), symmetry)


def _table(lines: list[str], count: int, width: int) -> Array:
    if len(lines) != count:
        raise ValueError(f"it holds {len(lines)} entries instead of {count}")
    table = np.loadtxt(lines, ndmin=2) if lines else np.empty((0, width))
    if table.shape != (count, width):
        raise ValueError(f"its lines hold {table.shape[1]} numbers instead of {width}")
    return table


def _values(table: Array) -> Array:
    if table.shape[1] not in (1, 2):
        raise ValueError("it holds no values")
    return table[:, 0] if table.shape[1] == 1 else table[:, 0] + 1j * table[:, 1]


def _mirrored(lower: Any, symmetry: str) -> Any:
    """What stands above the diagonal."""
    if symmetry == "hermitian":
        return lower.conj().T
    return -lower.T if symmetry == "skew-symmetric" else lower.T
