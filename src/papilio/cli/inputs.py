"""What a command reads: matrices, operators and samples, from files or built in."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import papilio as pp

from ..runtime.files import TooLarge, require_room
from ..typing import Array
from ..validation import as_matrix
from .built_in import Kind, make, names
from .console import BadInput
from .formats import IMAGES, READERS, Image, read_image

_SEVERAL = (".npz", ".mat")  # Formats that hold several matrices.
_BUILT_IN = names(Kind.MATRIX, Kind.SAMPLES)


def read(source: str) -> Any:
    """Read ``source`` as a SparseProduct, a sparse array or a dense array.

    ``source`` is a path, or ``path:name`` for one of several matrices in .npz and .mat; or it is built in, as
    ``hadamard:64``, unless there is a file of that name.
    """
    path, name = _split(source)
    if name is not None and not path.suffix:
        return make(str(path), name)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise BadInput(
            f"{source}: unknown format; readable are {', '.join(READERS)}, and what papilio inputs lists"
        )
    with refusing(path):
        return reader(path, name)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn every error during reading into one line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Readers warn about metadata that they do not understand.
            yield
    except BadInput:
        raise
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file") from error
    except OSError as error:  # Errors of Pillow and zipfile have no number.
        raise BadInput(f"{path}: {error.strerror or _one_line(error)}") from error
    except TooLarge as error:
        raise BadInput(f"{path}: {error}") from error
    except MemoryError as error:
        raise BadInput(f"{path}: not enough memory for what it claims to hold") from error
    except Exception as error:  # A damaged file may raise anything.
        raise BadInput(f"{path}: not an intact {path.suffix} file: {_one_line(error)}") from error


def read_matrix(source: str) -> Array:
    """Read ``source`` as a dense, finite, non-empty matrix; a vector becomes a column."""
    return as_dense(source, read(source))


def as_dense(source: str, value: Any) -> Array:
    """Convert a value to a dense, finite, non-empty matrix; a vector becomes a column."""
    if hasattr(value, "toarray"):
        _check_dense(source, value)
    try:
        return as_matrix(source, value[:, None] if len(value.shape) == 1 else value)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error


def _check_dense(source: str, value: Any) -> None:
    """Refuse a sparse matrix, or an operator, that would take too much memory as a dense one."""
    rows, columns = value.shape
    n_bytes = rows * columns * value.dtype.itemsize
    try:
        # A sparse matrix is from a file, which says its size in a few bytes.
        require_room(n_bytes, 2 * value.data.nbytes if sp.issparse(value) else n_bytes)
    except ValueError as error:
        raise BadInput(f"{source}: {rows}×{columns} as a dense matrix: {error}") from error


def read_operator(source: str) -> pp.SparseProduct:
    """Read ``source`` as an operator; a matrix becomes an operator with one factor."""
    value = read(source)
    if isinstance(value, pp.SparseProduct):
        return value
    return pp.SparseProduct([value if sp.issparse(value) else as_dense(source, value)])


def read_pixels(source: str) -> Image:
    """Read an image or an array; ``noisy:30`` is a photograph with noise of standard deviation 30."""
    path, name = Path(source), source.removeprefix("noisy:")
    if name != source and not path.exists():
        return Image(make("noisy", name))
    if path.suffix.lower() not in (*IMAGES, ".npy"):
        raise BadInput(f"{source}: unknown format; readable are {', '.join((*IMAGES, '.npy'))}, and noisy:30")
    if path.suffix.lower() == ".npy":
        return Image(read(source))
    with refusing(path):
        return read_image(path)


def is_image(source: str) -> bool:
    """Whether the suffix of ``source`` is that of an image."""
    return Path(source).suffix.lower() in IMAGES


def read_samples(source: str, patch_size: int | None, n_patches: int, random_state: int | None) -> Any:
    """Read ``source`` as real samples, one per row; with ``patch_size``, as patches of an image.

    .npy files and folders of them are opened, and read when they are needed.
    """
    if patch_size is not None:
        X: Any = draw_patches(read_matrix(source), patch_size, n_patches, random_state)
    elif is_image(source):
        raise BadInput(f"{source}: to learn from an image, use --patches SIZE")
    else:
        X = _open_samples(source)
    if X.dtype.kind == "c":
        raise BadInput(f"{source}: samples must be real, got {X.dtype}")
    return X


def read_inputs(source: str) -> Any:
    """What ``source`` names as inputs of a matrix, one per row, in the form that `papilio.factorize` takes."""
    X = _open_samples(source)
    return X.T if isinstance(X, np.ndarray) else X


def _open_samples(source: str) -> Any:
    path = Path(source)
    if not path.is_dir() and path.suffix.lower() != ".npy":
        return read_matrix(source)
    try:
        return pp.datasets.on_disk(path)
    except FileNotFoundError:
        raise BadInput(f"{source}: there is no such file") from None
    except OSError as error:  # The file may be one of a folder.
        raise BadInput(f"{error.filename or source}: {error.strerror or _one_line(error)}") from error
    except ValueError as error:
        raise BadInput(f"{source}: {_one_line(error)}") from error


def draw_patches(image: Array, size: int, count: int, random_state: int | None) -> Array:
    """Draw random patches of ``size``×``size`` pixels from an image, one per row, and subtract their means."""
    from sklearn.feature_extraction.image import extract_patches_2d

    if size < 1 or size > min(image.shape):
        raise BadInput(f"--patches must be from 1 to {min(image.shape)}, the image's shorter side, got {size}")
    if image.dtype.kind == "c":
        raise BadInput("--patches takes real images only, got complex values")
    places = (image.shape[0] - size + 1) * (image.shape[1] - size + 1)
    drawn = extract_patches_2d(
        image.astype(np.float64), (size, size), max_patches=min(count, places), random_state=random_state
    ).reshape(-1, size * size)
    return drawn - drawn.mean(axis=1, keepdims=True)


def _split(source: str) -> tuple[Path, str | None]:
    head, colon, tail = source.rpartition(":")
    if not colon or os.path.exists(source):
        return Path(source), None
    named = Path(head).suffix.lower() in _SEVERAL or head in _BUILT_IN
    return (Path(head), tail) if named else (Path(source), None)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
