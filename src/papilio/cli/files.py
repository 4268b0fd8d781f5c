"""Reading matrices and operators from files of many formats; damaged or hostile ones get one clear line.

Nothing is ever unpickled, and no array is allocated before the file was found to hold as much.
"""

import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import papilio as pp

from ..operators.csr import as_csr
from ..runtime.files import read_npy
from ..typing import Array
from ..validation import as_matrix
from .errors import BadInput
from .limits import check_sides, memory
from .matlab import read_mat
from .matrix_market import read_mtx

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm")
_NAMED = (".npz", ".mat")  # formats that hold several matrices
BUILT_IN = {
    "hadamard": pp.transforms.hadamard,
    "dft": pp.transforms.dft,
    "dct": pp.transforms.dct,
    "haar": pp.transforms.haar,
}


def read(source: str) -> Any:
    """What ``source`` names: a SparseProduct, a sparse array or a dense one.

    ``source`` is a path; ``path:name`` for one of several matrices in .npz and .mat; or ``hadamard:64`` (and dft,
    dct, haar) and ``patches:8`` for built-in data, unless there is a file of that name.
    """
    path, name = _split(source)
    if name is not None and not path.suffix:
        return _built_in(str(path), name)
    readers: Mapping[str, Callable[[Path, str | None], Any]] = {
        ".npy": _npy,
        ".npz": _npz,
        ".csv": _csv,
        ".txt": _csv,
        ".mat": _mat,
        ".mtx": _mtx,
    } | dict.fromkeys(IMAGES, _image)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise BadInput(f"{source}: unknown format; readable are {', '.join(readers)}")
    if not path.exists():
        raise BadInput(f"{path}: there is no such file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that readers do not understand
            return reader(path, name)
    except BadInput:
        raise
    except OSError as error:
        # Pillow's and zipfile's complaints are OSErrors without a number.
        raise BadInput(f"{path}: {error.strerror or _one_line(error)}") from error
    except MemoryError as error:
        raise BadInput(f"{path}: there is not enough memory for what it says it holds") from error
    except Exception as error:  # whatever a parser makes of a damaged file
        raise BadInput(f"{path}: not an intact {path.suffix} file: {_one_line(error)}") from error


def read_matrix(source: str) -> Array:
    """What ``source`` names as a dense, finite, non-empty matrix; a vector is one column."""
    return as_dense(source, read(source))


def open_samples(source: str) -> Any:
    """What ``source`` names, one sample a row: .npy files, and folders of them, are read when they are needed."""
    path = Path(source)
    if not path.is_dir() and path.suffix.lower() != ".npy":
        return read_matrix(source)
    try:
        return pp.datasets.on_disk(path)
    except FileNotFoundError:
        raise BadInput(f"{source}: there is no such file") from None
    except OSError as error:
        raise BadInput(f"{source}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{source}: {error}") from error


def as_dense(source: str, value: Any) -> Array:
    """What was read from ``source`` as a dense, finite, non-empty matrix; a vector is one column."""
    if hasattr(value, "toarray") and value.shape[0] * value.shape[1] * value.dtype.itemsize > memory():
        raise BadInput(f"{source}: {value.shape[0]}×{value.shape[1]} is too large for a dense matrix here")
    try:
        return as_matrix(source, value[:, None] if len(value.shape) == 1 else value)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error


def read_operator(source: str) -> pp.SparseProduct:
    """What ``source`` names as an operator; any matrix is an operator of one factor."""
    value = read(source)
    if isinstance(value, pp.SparseProduct):
        return value
    return pp.SparseProduct([value if sp.issparse(value) else as_dense(source, value)])


def is_image(source: str) -> bool:
    return Path(source).suffix.lower() in IMAGES


def patches(image: Array, size: int, count: int, random_state: int | None) -> Array:
    """Patches of ``size``×``size`` pixels at random places of an image, one a row, each less its mean."""
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
    named = Path(head).suffix.lower() in _NAMED or head in BUILT_IN or head == "patches"
    return (Path(head), tail) if named else (Path(source), None)


def _built_in(kind: str, size: str) -> Any:
    if not size.isdigit():
        raise BadInput(f"{kind}:{size}: the size must be a whole number, as in {kind}:8")
    try:
        return (
            pp.datasets.image_patches(10_000, int(size), random_state=0)
            if kind == "patches"
            else BUILT_IN[kind](int(size))
        )
    except ValueError as error:
        raise BadInput(f"{kind}:{size}: {error}") from error


def _npy(path: Path, name: str | None) -> Array:
    with open(path, "rb") as file:
        return read_npy(file, os.path.getsize(path)).copy()


def _npz(path: Path, name: str | None) -> Any:
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename.removesuffix(".npy"): member.file_size for member in archive.infolist()}
        if {"format", "version", "n_factors"} <= set(sizes) and name is None:
            return pp.load(path)
        if sum(sizes.values()) > memory():
            raise ValueError("it unpacks to more than this machine's memory")

        def member(key: str) -> Array:
            with archive.open(f"{key}.npy") as file:
                return read_npy(file, sizes[key]).copy()

        if {"format", "shape", "data"} <= set(sizes) and name is None:
            return _sparse({key: member(key) for key in sizes})
        return member(_choice(path, name, list(sizes)))


def _sparse(arrays: dict[str, Array]) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote, checked before anything follows its indices."""
    kind = arrays["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    shape = tuple(int(side) for side in arrays["shape"])
    check_sides(shape)
    if kind in ("csr", "csc"):
        form = sp.csr_array if kind == "csr" else sp.csc_array
        return as_csr("it", form((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape))
    if kind == "coo":
        coordinates = (arrays["row"], arrays["col"]) if "row" in arrays else tuple(arrays["coords"])
        return as_csr("it", sp.coo_array((arrays["data"], coordinates), shape=shape))
    raise ValueError(f"sparse format {kind!r} is not accepted; csr, csc and coo are")


def _csv(path: Path, name: str | None) -> Array:
    """Numbers separated by commas, semicolons, tabs or blanks; a first line of words is a heading."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise ValueError("it is empty")
    delimiter = next((mark for mark in (",", ";", "\t") if mark in lines[0]), None)
    skipped = 0 if _are_numbers(lines[0].split(delimiter)) else 1
    if len(lines) == skipped:
        raise ValueError("it holds no numbers")
    return np.loadtxt(lines, delimiter=delimiter, skiprows=skipped, ndmin=2)


def _are_numbers(cells: list[str]) -> bool:
    try:
        return all(np.isreal(float(cell)) for cell in cells)
    except ValueError:
        return False


def _mat(path: Path, name: str | None) -> Any:
    matrices = read_mat(path.read_bytes())
    return matrices[_choice(path, name, list(matrices))]


def _mtx(path: Path, name: str | None) -> Any:
    return read_mtx(path.read_text(encoding="utf-8", errors="replace"))


def _image(path: Path, name: str | None) -> Array:
    """Grey values from 0 to 1."""
    try:
        from PIL import Image
    except ImportError:
        raise BadInput(f'{path}: images need Pillow: pip install "papilio[cli]"') from None
    warnings.simplefilter("error", Image.DecompressionBombWarning)  # a small file that unpacks into a large one
    with Image.open(path) as image:
        if image.mode.startswith("I;16"):
            return np.asarray(image, dtype=np.float64) / 65535
        if image.mode in ("F", "I"):
            return np.asarray(image, dtype=np.float64)
        return np.asarray(image.convert("RGB").convert("F"), dtype=np.float64) / 255


def _choice(path: Path, name: str | None, names: list[str]) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name is not None and name in names:
        return name
    held = ", ".join(sorted(names)) or "none"
    if name is None:
        raise BadInput(f"{path}: name one of its matrices, as in {path}:{(names or ['name'])[0]}; it holds {held}")
    raise BadInput(f"{path}: holds no matrix {name!r}; it holds {held}")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
