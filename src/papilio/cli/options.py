"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from .console import BadInput

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Seed = Annotated[int | None, typer.Option("--random-state", min=0, help="Seed of the random numbers.")]
Report = Annotated[Path | None, typer.Option("--report", help="Also write a page about the result (.html).")]
NComponents = Annotated[
    int | None,
    typer.Option("--n-components", "--atoms", help="Number of atoms; by default that of the features."),
]
NNonzeroCoefs = Annotated[
    int | None,
    typer.Option(
        "--n-nonzero-coefs", "--nonzero", min=1, help="Atoms per sample; by default a tenth of the features."
    ),
]
Positive = Annotated[bool, typer.Option("--positive", help="Codes without negative entries.")]
PatchSize = Annotated[
    int | None, typer.Option("--patches", metavar="SIZE", help="Learn from SIZE×SIZE patches of an image.")
]
Block = Annotated[
    str | None,
    typer.Option(
        "--block", metavar="ROWSxCOLUMNS", help="Entries in blocks, as 4x4 or 4, which run faster; 1: none."
    ),
]
Wanted = Annotated[
    float | None,
    typer.Option("--speedup", help="How many times faster than the dense matrix, on this machine: above 1."),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        "--inputs", help="File with what the matrix is applied to, one sample per row: errors are of outputs."
    ),
]
Vectors = Annotated[
    int, typer.Option("--vectors", min=1, help="For --speedup: how many vectors are applied at a time.")
]
AtomShape = Annotated[
    str | None,
    typer.Option(
        "--atom-shape",
        "--patch-shape",
        metavar="SHAPE",
        help="What the atoms are: 8x8 for pictures, 100 for curves; by default what they look like.",
    ),
]
NPatches = Annotated[int, typer.Option(min=1, help="How many patches to draw at random.")]


def as_block(text: str | None) -> tuple[int, int] | None:
    """Rows and columns of a block from 4x4 or 4; None if not given."""
    sides = _sides("--block must be one or two positive integers, as 4x4 or 4", text)
    return None if sides is None else (sides[0], sides[-1])


def as_shape_option(text: str | None) -> tuple[int, ...] | None:
    """The shape of pictures from 8x8, or of curves from 100; None if not given."""
    return _sides("--atom-shape must be like 8x8 for pictures, or like 100 for curves", text)


def _sides(rule: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) > 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise BadInput(f"{rule}, got {text}")
    return tuple(map(int, sides))
