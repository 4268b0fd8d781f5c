"""``papilio denoise``."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

import papilio as pp

from .errors import BadInput
from .files import read_operator
from .outputs import check_output
from .pictures import OUTPUTS, Picture, check_picture, read_picture, write_picture
from .progress import Phase, Watch
from .terminal import Json, Quiet, Seed, Terminal, examples

HELP_END = examples("papilio denoise noisy:30 -o clean.png --sigma 30 --atoms 64 --complexity 0.3")

# How learning spends its time, as measured: the rest is denoising.
_LEARNING = [Phase("ksvd", 0.05, 101), Phase("split 1", 0.1, 100), Phase("global 1", 0.05, 100)]
_LEARNING += [Phase("refine", 0.6, 100)]


def denoise(
    image: Annotated[str, typer.Argument(help="Picture, grey or colour; an array in .npy; or noisy:30.")],
    output: Annotated[Path, typer.Option("-o", "--output", help=f"Where it goes ({', '.join(OUTPUTS)}).")],
    sigma: Annotated[
        float, typer.Option(help="Standard deviation of the noise; white is 255, or 65535 with 16 bits.")
    ],
    dictionary: Annotated[
        str | None, typer.Option(help="Operator or matrix with one atom a column, instead of learning one.")
    ] = None,
    atoms: Annotated[
        int | None, typer.Option("--atoms", "--n-components", help="Atoms to learn; 256 by default.")
    ] = None,
    complexity: Annotated[
        float | None,
        typer.Option(help="Their largest number of entries, relative to dense atoms; 0.4 by default."),
    ] = None,
    stride: Annotated[int, typer.Option(min=1, help="Pixels from one patch to the next; more are faster.")] = 1,
    random_state: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Remove white Gaussian noise from a picture.

    A fast dictionary is learned from the picture itself, unless there is one. Depth, colour and transparency of
    the picture stay as they are.
    """
    terminal = Terminal(quiet, json)
    check_output(output, OUTPUTS)
    if dictionary is not None and (atoms is not None or complexity is not None):
        raise BadInput("--atoms and --complexity are for learning, not together with --dictionary")
    picture = read_picture(image)
    check_picture(output, picture)
    D = None if dictionary is None else read_operator(dictionary)
    begin = perf_counter()
    with Watch(terminal, "Denoising", _LEARNING if D is None else ()) as watch:

        def report(step: pp.results.Step) -> bool:
            if step.done is None:
                return watch.report(step)
            watch.advance(step.done, "coding")
            return False

        clean = pp.images.denoise(
            picture.pixels,
            sigma,
            D,
            n_components=256 if atoms is None else atoms,
            complexity=0.4 if complexity is None else complexity,
            stride=stride,
            random_state=random_state,
            callback=report,
        )
    seconds = perf_counter() - begin
    write_picture(output, Picture(clean, picture.alpha))
    terminal.result(
        {
            "output": str(output),
            "shape": list(clean.shape),
            "dtype": str(clean.dtype),
            "sigma": sigma,
            "seconds": seconds,
        }
    )
    height, width, *_ = clean.shape
    kind = "grey" if clean.ndim == 2 else "colour"
    terminal.say(f"{height}×{width} {kind} pixels, {clean.dtype}, {seconds:.1f} s; written to {output}")
