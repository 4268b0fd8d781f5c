"""Tables in csv files, and matrices as tables of their entries."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.files import replacing
from ..typing import Array

META = "meta.json"  # the record of a run, beside its tables
Row = dict[str, str]
ENTRIES = ("matrix", "row", "column", "value", "shape")


def lines_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as csv without the heading; floats are written with all their digits."""
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all."""
    write_text(path, ",".join(columns) + "\n" + lines_of(columns, rows))


def read_table(path: Path) -> list[Row]:
    """All rows, as text."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_text(path: Path, text: str) -> Path:
    """Write ``text`` to ``path``, which is returned; a crash leaves either the old file or the new one."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
    return path


def rounded(number: float, digits: int) -> float:
    """The first digits: the others are rounding errors, which differ from machine to machine."""
    return float(f"{number:.{digits}g}")


def entries_of(name: str, matrix: Any) -> list[dict[str, Any]]:
    """The nonzero entries of a matrix, one per row."""
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    shape = f"{dense.shape[0]}×{dense.shape[1]}"
    return [
        {"matrix": name, "row": int(i), "column": int(j), "value": dense[i, j].item(), "shape": shape}
        for i, j in zip(*np.nonzero(dense), strict=True)
    ]


def matrices_of(rows: Iterable[Row]) -> dict[str, Array]:
    """The matrices in a table of entries, by name, in the order of the table."""
    matrices: dict[str, Array] = {}
    for row in rows:
        if row["matrix"] not in matrices:
            kind = complex if "j" in row["value"] else float
            matrices[row["matrix"]] = np.zeros([int(side) for side in row["shape"].split("×")], kind)
        matrix = matrices[row["matrix"]]
        matrix[int(row["row"]), int(row["column"])] = matrix.dtype.type(row["value"])
    return matrices
