"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
PatchSize = Annotated[
    int | None, typer.Option("--patches", metavar="SIZE", help="Learn from SIZE×SIZE patches of an image.")
]
NPatches = Annotated[int, typer.Option(min=1, help="How many patches to draw at random.")]
