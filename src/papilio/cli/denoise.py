"""``papilio denoise``."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

import papilio as pp

from .errors import BadInput
from .image_files import OUTPUTS, Image, check_image, read_image, write_image
from .inputs import read_operator
from .options import Json, Quiet, Seed
from .outputs import check_output
from .progress import ProgressBar
from .terminal import Terminal


def denoise(
    image: Annotated[str, typer.Argument(help="Image, grey or colour; an array in .npy; or noisy:30.")],
    output: Annotated[Path, typer.Option("-o", "--output", help=f"Where it goes ({', '.join(OUTPUTS)}).")],
    sigma: Annotated[
        float, typer.Option(help="Standard deviation of the noise; white is 255, or 65535 with 16 bits.")
    ],
    dictionary: Annotated[
        str | None, typer.Option(help="Operator or matrix with one atom per column, instead of learning one.")
    ] = None,
    n_components: Annotated[
        int | None, typer.Option("--n-components", "--atoms", help="Number of atoms to learn; 256 by default.")
    ] = None,
    complexity: Annotated[
        float | None,
        typer.Option(help="Largest number of entries, relative to a dense dictionary; 0.4 by default."),
    ] = None,
    stride: Annotated[int, typer.Option(min=1, help="Pixels from one patch to the next; larger is faster.")] = 1,
    random_state: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Remove white Gaussian noise from an image.

    By default a fast dictionary is learned from the image itself. Depth, colours and transparency of the image are
    kept.
    """
    terminal = Terminal(quiet, json)
    check_output(output, OUTPUTS)
    if dictionary is not None and (n_components is not None or complexity is not None):
        raise BadInput("--n-components and --complexity are for learning; they exclude --dictionary")
    noisy = read_image(image)
    check_image(output, noisy)
    D = None if dictionary is None else read_operator(dictionary)
    begin = perf_counter()
    with ProgressBar(terminal, "Denoising") as bar:
        clean = pp.images.denoise(
            noisy.pixels,
            sigma,
            D,
            n_components=256 if n_components is None else n_components,
            complexity=0.4 if complexity is None else complexity,
            stride=stride,
            random_state=random_state,
            callback=bar.report,
        )
    seconds = perf_counter() - begin
    write_image(output, Image(clean, noisy.alpha))
    terminal.result(
        {"output": str(output), "shape": list(clean.shape), "dtype": str(clean.dtype)}
        | {"sigma": sigma, "seconds": seconds}
    )
    height, width, *_ = clean.shape
    kind = "grey" if clean.ndim == 2 else "colour"
    terminal.say(f"{height}×{width} {kind} pixels, {clean.dtype}, {seconds:.1f} s; written to {output}")
