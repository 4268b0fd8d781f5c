"""Numbers as text: .csv and .txt files, and tables of numbers in general."""

import io
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from ..typing import Array

Rows: TypeAlias = Callable[[], Iterator[tuple[int, str]]]  # the lines that count, with their numbers in the file

_DELIMITERS = (",", ";", "\t")  # or blanks
_MISSING = ("", "na", "n/a", "null", "none", "?", "-")
_LONGEST = 40  # characters of a cell or line in a message


def read_delimited(content: bytes) -> Array:
    """Numbers, real or complex, separated by commas, semicolons, tabs or blanks.

    A first line in which no cell is a number is a heading. As for `numpy.loadtxt`, ``#`` begins a comment, and
    empty lines do not count.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it must be text in UTF-8, got byte {content[error.start]:#04x}") from None

    def lines() -> Iterator[tuple[int, str]]:
        for number, line in enumerate(io.StringIO(text, newline=None), start=1):
            told = line.rstrip("\n").partition("#")[0]
            if told.strip():
                yield number, told

    head, first = next(lines(), (0, ""))
    if not head:
        raise ValueError("it is empty")
    delimiter = next((mark for mark in _DELIMITERS if mark in first), None)
    cells = first.split(delimiter)
    if not _is_heading(cells):
        return read_table(lines, delimiter)

    def rows() -> Iterator[tuple[int, str]]:
        return (row for row in lines() if row[0] != head)

    if next(rows(), None) is None:
        raise ValueError("it holds no numbers")
    values = read_table(rows, delimiter)
    width = values.shape[1]
    if delimiter is not None and len(cells) != width:  # blanks may be part of a name
        raise ValueError(f"line {head}, a heading, must have {width} cells, as the rows have, got {len(cells)}")
    return values


def read_table(rows: Rows, delimiter: str | None) -> Array:
    """The numbers in ``rows``, each with the same number of cells; the first that is wrong is named."""
    problem = None
    for dtype in (np.float64, np.complex128):
        try:
            return np.loadtxt((row for _, row in rows()), dtype, comments=None, delimiter=delimiter, ndmin=2)
        except ValueError as error:
            problem = error
        if not any("j" in row for _, row in rows()):
            break
    raise ValueError(_fault(rows(), delimiter) or str(problem)) from problem


def _fault(rows: Iterator[tuple[int, str]], delimiter: str | None) -> str:
    """What is wrong with the first row that is not like the others."""
    width = first = 0
    for number, row in rows:
        cells = row.split(delimiter)
        for place, cell in enumerate(cells, start=1):
            if not cell.strip():
                return f"line {number}, cell {place} must be a number, but it is empty"
            if not (_is_number(cell) and cell.isascii() and "_" not in cell):
                return f"line {number}, cell {place} must be a number, got {shortened(cell.strip())}"
        if width and len(cells) != width:
            return f"line {number} must have {width} cells, as line {first} has, got {len(cells)}"
        width, first = len(cells), first or number
    return ""


def shortened(text: str) -> str:
    """The beginning of ``text``, in quotes."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _is_heading(cells: list[str]) -> bool:
    """Whether no cell is a number, be it in quotes, and one is a name: missing values are no heading."""
    cells = [cell.strip().strip("\"'") for cell in cells]
    return not any(map(_is_number, cells)) and not all(cell.lower() in _MISSING for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        complex(cell)
    except ValueError:
        return False
    return cell.strip().lower() != "j"  # a name, unlike 1j
