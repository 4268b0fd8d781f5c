"""``papilio info``, ``plot``, ``bench``, ``report`` and ``inputs``: commands that show what is there."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import papilio as pp

from .built_in import BUILT_IN
from .console import BadInput, Failed, ProgressBar, Terminal, facts, gain_cell, sentence, table
from .options import AtomShape, Json, NNonzeroCoefs, Quiet, as_shape_option

_AN_HOUR = 3600.0


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

    With --quiet, the exit code alone says whether the file is valid.
    """
    from .inputs import as_dense, read

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
    from ..runtime.files import replacing
    from .inputs import read_matrix, read_operator
    from .outputs import FIGURES, check_output, saving

    terminal = Terminal(quiet, json)
    check_output(output, FIGURES)
    op = read_operator(operator)
    try:
        import matplotlib
    except ImportError:
        raise Failed("figures need matplotlib: pip install matplotlib") from None
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


def bench(
    operator: Annotated[str, typer.Argument(help="Operator.")],
    block: Annotated[int, typer.Option(min=1, help="Vectors in a block.")] = 256,
    seconds: Annotated[float, typer.Option(min=0, help="Time for each measurement.")] = 0.5,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure how much faster an operator is than its dense matrix."""
    from ..operators.speed import both_ways
    from ..validation import as_real
    from .inputs import as_dense, read_operator

    terminal = Terminal(quiet, json)
    seconds = as_real("--seconds", seconds, 0, _AN_HOUR)
    op = read_operator(operator)
    dense = as_dense(operator, op)
    speeds = []
    with ProgressBar(terminal, "Measuring") as bar:
        for speed in both_ways(op, dense, block, seconds):
            speeds.append(speed)
            bar.advance(len(speeds) / 4)
    terminal.result(
        {
            "threads": pp.get_num_threads(),
            "measurements": [
                {"form": s.form, "vectors": s.vectors, "dense_seconds": s.dense, "product_seconds": s.product}
                | {"speed_up": s.gain}
                for s in speeds
            ],
        }
    )
    terminal.say(sentence(op))
    listing = table(None, "", "vectors", "dense, µs", "product, µs", "speed-up", wraps=["speed-up"])
    for s in speeds:
        listing.add_row(
            s.form, str(s.vectors), f"{1e6 * s.dense:,.1f}", f"{1e6 * s.product:,.1f}", gain_cell(s.gain)
        )
    terminal.say(listing)


def report(
    operator: Annotated[str, typer.Argument(help="Operator.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the page goes (.html).")],
    target: Annotated[str | None, typer.Option(help="The matrix that it approximates, for the error.")] = None,
    samples: Annotated[
        str | None, typer.Option(help="For a dictionary: samples, one per row, for the error of their codes.")
    ] = None,
    n_nonzero_coefs: NNonzeroCoefs = None,
    atom_shape: AtomShape = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a page about an operator: images, error and speed. It is one file that loads nothing."""
    from ..plot.mosaics import as_atom_shape
    from ..report import Subject
    from .inputs import read_operator
    from .pages import check_report, error_of, error_of_coding, write_report

    terminal = Terminal(quiet, json)
    check_report(output)
    if target is not None and samples is not None:
        raise BadInput("--target and --samples exclude each other: give one of them")
    if n_nonzero_coefs is not None and samples is None:
        raise BadInput("--n-nonzero-coefs is for --samples")
    op = read_operator(operator)
    error, name = None, "relative error"
    if target is not None:
        error = error_of(op, target)
    elif samples is not None:
        error, name = error_of_coding(op, samples, n_nonzero_coefs)
    subject = Subject(
        Path(operator).name,
        op,
        error=error,
        error_name=name,
        atom_shape=as_atom_shape(op, as_shape_option(atom_shape)),
        facts={"Target": target} if target else {"Samples": samples} if samples else {},
    )
    write_report(terminal, output, [subject])
    terminal.result({"output": str(output), "error": error, "bytes": output.stat().st_size})
    terminal.say(f"Page: {output}")


def inputs(quiet: Quiet = False, json: Json = False) -> None:
    """List what commands can read: built-in data and file formats."""
    from .formats import READERS

    terminal = Terminal(quiet, json)
    terminal.result(
        {
            "built_in": {
                name: {"kind": str(each.kind), "example": each.example, "number": each.number, "about": each.about}
                for name, each in BUILT_IN.items()
            },
            "formats": list(READERS),
        }
    )
    listing = table(
        "Built in", "example", "what it is", "the number", "kind", n_texts=4, wraps=["what it is", "the number"]
    )
    for each in BUILT_IN.values():
        listing.add_row(each.example, each.about, each.number, str(each.kind))
    terminal.say(listing)
    terminal.say(f"Files: {', '.join(READERS)}")
    terminal.say("FILE:NAME selects one of several matrices in .npz and .mat files.")
