"""Writing results atomically; outputs that cannot be written are refused before the work starts."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..runtime.files import replacing
from .console import BadInput, Failed
from .formats import Image

OPERATORS = (".npz", ".mat")
DENSE = (".npy", ".csv", ".mat")
SPARSE = (".npz", ".mtx", ".mat")
FIGURES = (".png", ".pdf", ".svg")
PROGRAMS = (".c", ".onnx")
IMAGES = (".png", ".tif", ".tiff", ".npy")


def check_output(path: Path, suffixes: Sequence[str]) -> None:
    """Check that an output can be written, before anything is computed."""
    if path.suffix.lower() not in suffixes:
        raise BadInput(f"{path}: the output must end in {' or '.join(suffixes)}")
    if path.is_dir() or (path.exists() and not path.is_file()):
        raise BadInput(f"{path}: exists and is not a regular file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise BadInput(f"{path}: there is no folder {folder}")
    try:
        with replacing(path, keep=False) as partial:
            partial.touch()
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error


def check_folder(path: Path) -> None:
    """Create a folder for results, and check that it can be written to, before anything is computed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with replacing(path / "trial", keep=False) as partial:
            partial.touch()
    except OSError as error:
        raise BadInput(f"{path}: cannot be used as a folder for results: {error.strerror}") from error


def write(path: Path, value: Any) -> None:
    """Write a dense or sparse array in the format of the suffix: one of `DENSE` or `SPARSE`."""
    from scipy.io import mmwrite, savemat

    suffix = path.suffix.lower()
    with saving(path), replacing(path) as partial:
        if suffix == ".mat":
            savemat(partial, {path.stem if path.stem.isidentifier() else "result": value})
        elif suffix == ".mtx":
            with open(partial, "wb") as file:
                mmwrite(file, value)
        elif sp.issparse(value):
            sp.save_npz(partial, value)
        elif suffix == ".csv":
            np.savetxt(partial, value, delimiter=",", fmt="%.17g")
        else:
            np.save(partial, value)


def write_image(path: Path, image: Image) -> None:
    """Write an image in a format that `check_image` has accepted."""
    pixels = image.pixels
    if image.alpha is not None:
        pixels = np.dstack((pixels, image.alpha))
    if path.suffix.lower() == ".npy":
        write(path, pixels)
        return
    from PIL.Image import fromarray

    with saving(path), replacing(path) as partial:
        fromarray(pixels).save(partial)


def check_image(path: Path, image: Image) -> None:
    """Refuse a format that cannot hold the pixels as they are."""
    shape, dtype = image.pixels.shape, image.pixels.dtype.newbyteorder("=")
    grey, suffix = len(shape) == 2, path.suffix.lower()
    if suffix != ".npy" and not grey and (len(shape) != 3 or shape[2] not in (3, 4)):
        raise BadInput(f"{path}: a {suffix} file holds (height, width) or (height, width, 3) pixels, got {shape}")
    fits = {".npy": True, ".png": dtype == np.uint8 or (grey and dtype == np.uint16)}
    if not fits.get(suffix, dtype == np.uint8 or (grey and dtype in (np.uint16, np.float32))):
        kind = "grey" if grey else "colour"
        raise BadInput(f"{path}: a {suffix} file cannot hold {kind} pixels of {dtype}; .npy can")


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Report a failed write in one line."""
    try:
        yield
    except OSError as error:
        raise Failed(f"{path}: could not be written: {error.strerror or error}") from error
