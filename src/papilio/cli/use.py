"""``papilio encode``, ``apply``, ``export`` and ``denoise``: commands that use an operator."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

import papilio as pp

from .console import BadInput, ProgressBar, Terminal, counted
from .options import Json, NNonzeroCoefs, Positive, Quiet, Seed

_BLOCK = 1 << 22  # numbers between two updates of the progress bar


def encode(
    samples: Annotated[str, typer.Argument(help="File with one sample per row.")],
    dictionary: Annotated[str, typer.Argument(help="Operator or matrix with one atom per column.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the codes go (.npz, .mtx or .mat).")],
    n_nonzero_coefs: NNonzeroCoefs = None,
    tol: Annotated[float | None, typer.Option(help="Stop at this squared residual per sample.")] = None,
    positive: Positive = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find sparse codes of samples, by orthogonal matching pursuit.

    The codes are a SciPy sparse matrix with one row per sample and one column per atom.
    """
    import scipy.sparse as sp

    from ..coding import Atoms, omp_codes
    from ..runtime.session import Session
    from .inputs import read_matrix, read_operator
    from .outputs import SPARSE, check_output, write

    terminal = Terminal(quiet, json)
    check_output(output, SPARSE)
    D, X = read_operator(dictionary), read_matrix(samples)
    if X.shape[1] != D.shape[0]:
        raise BadInput(f"{samples}: rows must have {D.shape[0]} features, as the atoms do, got {X.shape[1]}")
    dtype = np.result_type(X.dtype, D.dtype)
    D, X = D.astype(dtype), X.astype(dtype, copy=False)
    begin = perf_counter()
    with ProgressBar(terminal, "Coding") as bar:
        atoms = Atoms(D.toarray() if len(D.factors) == 1 else D)
        found = omp_codes(atoms, X.T, n_nonzero_coefs, tol, positive, Session(bar.report))
        height, left = max(_BLOCK // max(D.shape), 1), 0.0
        for start in range(0, len(X), height):
            missed = X[start : start + height] - (D @ found[:, start : start + height]).toarray().T
            left += float(np.linalg.norm(missed)) ** 2
    codes = sp.csr_array(found.T)
    seconds = perf_counter() - begin
    size = float(np.linalg.norm(X))
    error = np.sqrt(left) / size if size else 0.0
    write(output, codes)
    terminal.result(
        {"output": str(output), "shape": list(codes.shape)}
        | {"entries": codes.nnz, "error": error, "seconds": seconds}
    )
    terminal.say(
        f"{counted(codes.shape[0], 'code')} in {counted(codes.shape[1], 'atom')}, "
        f"{codes.nnz / codes.shape[0]:.3g} entries each, "
        f"relative error {error:.4g}, {seconds:.1f} s; written to {output}"
    )


def apply(
    operator: Annotated[str, typer.Argument(help="Operator or matrix.")],
    vectors: Annotated[str, typer.Argument(help="File with one vector per column.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the products go (.npy, .csv or .mat).")],
    adjoint: Annotated[bool, typer.Option("--adjoint", help="Apply the adjoint.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Vectors are rows, like samples and codes.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Multiply vectors by an operator."""
    from .inputs import read_matrix, read_operator
    from .outputs import DENSE, check_output, write

    terminal = Terminal(quiet, json)
    check_output(output, DENSE)
    op, X = read_operator(operator), read_matrix(vectors)
    op, X = op.H if adjoint else op, X.T if rows else X
    if X.shape[0] != op.shape[1]:
        hint = f" ({'without' if rows else 'with'} --rows it fits)" if X.shape[1] == op.shape[1] else ""
        raise BadInput(f"{vectors}: vectors must have {op.shape[1]} entries, got {X.shape[0]}{hint}")
    begin = perf_counter()
    with ProgressBar(terminal, "Applying") as bar:
        products = np.empty((op.shape[0], X.shape[1]), np.result_type(op.dtype, X.dtype, np.float32))
        width = max(_BLOCK // max(op.shape), 1)
        for start in range(0, X.shape[1], width):
            products[:, start : start + width] = op @ X[:, start : start + width]
            bar.advance(min(start + width, X.shape[1]) / X.shape[1])
    seconds = perf_counter() - begin
    products = products.T if rows else products
    write(output, products)
    terminal.result(
        {"output": str(output), "shape": list(products.shape)} | {"dtype": str(products.dtype), "seconds": seconds}
    )
    terminal.say(f"{products.shape[0]}×{products.shape[1]} {products.dtype} written to {output}")


def export(
    operator: Annotated[str, typer.Argument(help="Operator or matrix.")],
    output: Annotated[Path, typer.Argument(help="Where the program goes (.c or .onnx).")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write an operator as a C file or an ONNX model."""
    from .inputs import read_operator
    from .outputs import PROGRAMS, check_output, saving

    terminal = Terminal(quiet, json)
    check_output(output, PROGRAMS)
    op = read_operator(operator)
    with saving(output):
        op.export(output)
    terminal.result({"output": str(output), "shape": list(op.shape), "dtype": str(op.dtype), "entries": op.nnz})
    terminal.say(f"{op.shape[0]}×{op.shape[1]} {op.dtype} with {op.nnz:,} entries written to {output}")


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
    from ..images import estimated_sigma
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
