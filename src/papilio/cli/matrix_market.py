"""Matrices in the text format of Matrix Market.

`scipy.io.mmread` is not used: it crashes the process on some files, cuts off the fractions of indices, allocates
what a file claims, and takes a symmetric matrix given by its upper triangle for one that is not symmetric.
"""

import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..operators.factors import as_csr
from ..runtime.unpacking import require_room, require_sides
from ..typing import Array
from .delimited import Rows, read_table, shortened

_FORMS = ("coordinate", "array")
_FIELDS = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}  # numbers each
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


def read_matrix_market(content: bytes) -> Any:
    """The matrix that ``content``, the bytes of an .mtx file, holds; entries given twice are added."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")  # comments may be in any language

    def lines() -> Iterator[tuple[int, str]]:
        for number, line in enumerate(io.StringIO(text, newline=None), start=1):  # of any system
            if number > 1 and line.strip() and not line.lstrip().startswith("%"):
                yield number, line

    def rows() -> Iterator[tuple[int, str]]:
        return islice(lines(), 1, None)

    form, field, symmetry = _banner(io.StringIO(text, newline=None).readline().strip())
    shape, count = _sizes(next(lines(), (0, ""))[1], form, symmetry)
    if form == "coordinate":
        require_sides(shape, len(content))
    else:
        require_room(8 * max(_FIELDS[field], 1) * shape[0] * shape[1], len(content))
    values = _numbers(rows, count, 2 * (form == "coordinate") + _FIELDS[field])
    if "integer" in field and (values % 1 != 0).any():
        raise ValueError("its entries must be integers, as its first line says")
    if form == "array":
        return _dense(_entries(values, field), shape, symmetry)
    return _sparse(rows, values, _entries(values[:, 2:], field), shape, symmetry)


def _banner(line: str) -> tuple[str, str, str]:
    """Form, field and symmetry from the first line."""
    words = line.lower().split()
    if words[:2] != ["%%matrixmarket", "matrix"] or len(words) != 5:
        raise ValueError(
            f"its first line must be %%MatrixMarket matrix, a form, a field and a symmetry, got {shortened(line)}"
        )
    form, field, symmetry = words[2:]
    for word, accepted in ((form, _FORMS), (field, _FIELDS), (symmetry, _SYMMETRIES)):
        if word not in accepted:
            raise ValueError(f"its first line must name one of {', '.join(accepted)}, got {shortened(word)}")
    if field == "pattern" and (form == "array" or symmetry in _SYMMETRIES[2:]):
        raise ValueError(f"a pattern must be coordinate, and general or symmetric, got {form} {symmetry}")
    return form, field, symmetry


def _sizes(line: str, form: str, symmetry: str) -> tuple[tuple[int, int], int]:
    """The shape, and the number of entries that follow."""
    words = line.split()
    wanted = 3 if form == "coordinate" else 2
    if len(words) != wanted or not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        raise ValueError(f"its sizes must be {wanted} integers of at least 0, got {shortened(line.strip())}")
    rows, columns, *given = map(int, words)
    if min(rows, columns) < 1:
        raise ValueError(f"it must be a matrix with rows and columns, got {rows}×{columns}")
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a {symmetry} matrix must be square, got {rows}×{columns}")
    if given:
        return (rows, columns), given[0]
    # Matrices with a symmetry are given by their lower triangle.
    halves = {"general": rows * columns, "skew-symmetric": rows * (rows - 1) // 2}
    return (rows, columns), halves.get(symmetry, rows * (rows + 1) // 2)


def _numbers(rows: Rows, count: int, width: int) -> Array:
    """The lines after the sizes: ``count`` of them, each with ``width`` numbers."""
    found = sum(1 for _ in rows())
    if found != count:
        raise ValueError(f"it must hold {count} entries, one per line, got {found}")
    if not count:
        return np.zeros((0, width))
    values = read_table(rows, None)
    if values.shape[1] != width or np.iscomplexobj(values):
        number, line = next(rows())
        raise ValueError(f"line {number} must hold {width} real numbers, got {shortened(line.strip())}")
    return values


def _entries(values: Array, field: str) -> Array:
    if field == "pattern":
        return np.ones(len(values))
    return np.ascontiguousarray(values).view(np.complex128)[:, 0] if field == "complex" else values[:, 0]


def _mirrored(entries: Array, symmetry: str) -> Array:
    """The entries above the diagonal from those below it."""
    return -entries if symmetry == "skew-symmetric" else entries.conj() if symmetry == "hermitian" else entries


def _dense(entries: Array, shape: tuple[int, int], symmetry: str) -> Array:
    if symmetry == "general":
        return entries.reshape(shape, order="F")
    # Column by column, the lower triangle has the order of the upper one row by row.
    column, row = np.triu_indices(shape[0], 1 if symmetry == "skew-symmetric" else 0)
    matrix = np.zeros(shape, entries.dtype)
    matrix[column, row] = _mirrored(entries, symmetry)
    matrix[row, column] = entries
    return matrix


def _sparse(rows: Rows, values: Array, entries: Array, shape: tuple[int, int], symmetry: str) -> sp.csr_array:
    places = values[:, :2]

    def require(sound: Any, message: str) -> None:
        if not sound.all():
            bad = int(np.argmin(sound))
            number = next(islice(rows(), bad, None))[0]
            where = ", ".join(f"{side:.17g}" for side in places[bad])
            raise ValueError(f"line {number}: {message}, got an entry at ({where})")

    require((places % 1 == 0).all(axis=1), "indices must be integers")
    inside = (places >= 1) & (places <= np.array(shape))
    require(inside.all(axis=1), f"indices must be from 1 to {shape[0]} and from 1 to {shape[1]}")
    row, column = places.astype(np.int64).T - 1
    if symmetry != "general":
        require(row >= column, f"a {symmetry} matrix must be given by its lower triangle")
        below = row > column
        if symmetry == "skew-symmetric":
            require(below | (entries == 0), "the diagonal of a skew-symmetric matrix must be zero")
        elif symmetry == "hermitian":
            require(below | (entries.imag == 0), "the diagonal of a hermitian matrix must be real")
        entries = np.concatenate([entries, _mirrored(entries[below], symmetry)])
        row, column = np.concatenate([row, column[below]]), np.concatenate([column, row[below]])
    return as_csr("it", sp.coo_array((entries, (row, column)), shape=shape))
