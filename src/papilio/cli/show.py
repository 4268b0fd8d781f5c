"""``papilio info`` and ``papilio plot``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import papilio as pp

from ..runtime.files import replacing
from .errors import Failed
from .inputs import as_dense, read, read_matrix, read_operator
from .options import AtomShape, Json, Quiet, as_shape_option
from .outputs import FIGURES, check_output, saving
from .terminal import Terminal, facts, sentence, table


class Kind(StrEnum):
    """What `plot` draws."""

    FACTORS = "factors"
    ATOMS = "atoms"


def info(
    operator: Annotated[str, typer.Argument(help="Operator, or any matrix file.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Describe what a file holds: size, entries, complexity.

    With --quiet, the exit code alone says whether the file is sound.
    """
    terminal = Terminal(quiet, json)
    value = read(operator)
    if not isinstance(value, pp.SparseProduct):
        matrix = as_dense(operator, value)
        entries = int(np.count_nonzero(matrix))
        terminal.result({"shape": list(matrix.shape), "dtype": str(matrix.dtype), "entries": entries})
        rows, columns = matrix.shape
        terminal.say(
            f"{rows}×{columns} {matrix.dtype} matrix, {entries:,} of {rows * columns:,} entries are not zero"
        )
        return
    terminal.result(facts(value))
    terminal.say(sentence(value))
    terminal.say(f"scale {value.scale:.6g}")
    listing = table(None, "factor", "shape", "entries", "density", "per row")
    for i, factor in enumerate(value.factors):
        rows, columns = factor.shape
        listing.add_row(
            str(i + 1),
            f"{rows}×{columns}",
            f"{factor.size:,}",
            f"{factor.size / (rows * columns):.3g}",
            f"{factor.size / rows:.3g}",
        )
    terminal.say(listing)


def plot(
    operator: Annotated[str, typer.Argument(help="Operator.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the figure goes (.png, .pdf or .svg).")],
    kind: Annotated[Kind, typer.Option(help="The product and its factors, or its columns, the atoms.")] = (
        Kind.FACTORS
    ),
    target: Annotated[str | None, typer.Option(help="Show it beside this matrix, with their difference.")] = None,
    atom_shape: AtomShape = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw an operator."""
    terminal = Terminal(quiet, json)
    check_output(output, FIGURES)
    op = read_operator(operator)
    try:
        import matplotlib
    except ImportError:
        raise Failed('figures need matplotlib: pip install "papilio[cli]"') from None
    matplotlib.use("Agg")
    figure: Any
    if target is not None:
        figure = pp.plot.comparison(read_matrix(target), op)[0].figure
    elif kind is Kind.ATOMS:
        figure = pp.plot.atoms(op, as_shape_option(atom_shape)).figure
    else:
        figure = pp.plot.factors(op)[0].figure
    with saving(output), replacing(output) as partial:
        figure.savefig(partial, dpi=150)
    terminal.result({"output": str(output)} | facts(op))
    terminal.say(f"Figure: {output}")
