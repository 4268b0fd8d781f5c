"""``papilio denoise``."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

import papilio as pp

from .console import BadInput, ProgressBar, Terminal
from .options import Json, Quiet, Seed


def denoise(
    image: Annotated[str, typer.Argument(help="Image, grey or colour; an array in .npy; or noisy:30.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where it goes (.png, .tif, .tiff or .npy).")],
    sigma: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise; white is 255 or 65535. By default, estimated."),
    ] = None,
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
    from .formats import Image
    from .inputs import read_operator, read_pixels
    from .outputs import IMAGES, check_image, check_output, write_image

    terminal = Terminal(quiet, json)
    check_output(output, IMAGES)
    if dictionary is not None and (n_components is not None or complexity is not None):
        raise BadInput("--n-components and --complexity are for learning; they exclude --dictionary")
    noisy = read_pixels(image)
    check_image(output, noisy)
    if sigma is None:
        sigma = estimated_sigma(noisy.pixels)
        if not sigma > 0:
            raise BadInput(f"{image}: no noise was found in it; give its standard deviation with --sigma")
        terminal.note(f"the noise was estimated: --sigma {sigma:.3g}")
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


def estimated_sigma(pixels: Any) -> float:
    """The standard deviation of white noise, from the median of the finest diagonal Haar coefficients of an image.

    Few of these belong to edges, and the median absolute value of Gaussian numbers is 0.6745 times their standard
    deviation (Donoho and Johnstone, 1994).
    """
    values = np.asarray(pixels, np.float64)
    rows, columns = (2 * (side // 2) for side in values.shape[:2])
    corners = [values[i:rows:2, j:columns:2] for i in (0, 1) for j in (0, 1)]
    details = (corners[0] - corners[1] - corners[2] + corners[3]) / 2
    return float(np.median(np.abs(details)) / 0.6745) if details.size else 0.0
