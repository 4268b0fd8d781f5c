"""Readers of single file formats: .npy, .npz, .csv, .mat, .mtx and images.

Nothing is unpickled, and nothing is allocated before the file was found to hold as much. Damaged files raise
whatever their parsers raise; `papilio.cli.inputs` makes one line of it.
"""

import io
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
from .errors import BadInput
from .limits import check_sides, memory
from .matlab import read_mat

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm")


def _npy(path: Path, name: str | None) -> Array:
    with open(path, "rb") as file:
        return read_npy(file, os.path.getsize(path)).copy("K")


def _npz(path: Path, name: str | None) -> Any:
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename.removesuffix(".npy"): member.file_size for member in archive.infolist()}
        if {"format", "version", "n_factors"} <= set(sizes) and name is None:
            return pp.load(path)
        if sum(sizes.values()) > memory():
            raise ValueError("it unpacks to more than this machine's memory")

        def member(key: str) -> Array:
            with archive.open(f"{key}.npy") as file:
                return read_npy(file, sizes[key]).copy("K")

        if {"format", "shape", "data"} <= set(sizes) and name is None:
            return _scipy_sparse({key: member(key) for key in sizes})
        return member(_choice(path, name, list(sizes)))


def _scipy_sparse(arrays: dict[str, Array]) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote, checked before its indices are used."""
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
    """A Matrix Market file, by `scipy.io.mmread`.

    That crashes the process if a side is 0 or if the last line has no end, and allocates what the file claims.
    """
    from scipy.io import mmread

    content = path.read_bytes() + b"\n"
    lines = [line for line in content.splitlines() if line.strip() and not line.startswith(b"%")]
    sizes = [int(number) for number in lines[0].split()] if lines else []
    if len(sizes) not in (2, 3) or min(sizes[:2]) < 1:
        raise ValueError("it does not give the size of a matrix")
    check_sides(tuple(sizes[:2]))
    # A symmetric matrix is given by half of it.
    needed = sizes[2] if len(sizes) == 3 else sizes[0] * (sizes[1] - 1) // 2
    if len(lines) - 1 < needed:
        raise ValueError(f"it holds {len(lines) - 1} entries instead of {needed} or more")
    matrix = mmread(io.BytesIO(content))
    return as_csr("it", matrix) if sp.issparse(matrix) else matrix


def _image(path: Path, name: str | None) -> Array:
    """Grey values from 0 to 1."""
    with open_image(path) as image:
        if image.mode.startswith("I;16"):
            return np.asarray(image, dtype=np.float64) / 65535
        if image.mode in ("F", "I"):
            return np.asarray(image, dtype=np.float64)
        return np.asarray(image.convert("RGB").convert("F"), dtype=np.float64) / 255


def open_image(path: Path) -> Any:
    """A Pillow image; within `inputs.refusing`, which restores the warnings."""
    try:
        from PIL import Image
    except ImportError:
        raise BadInput(f'{path}: images need Pillow: pip install "papilio[cli]"') from None
    warnings.simplefilter("error", Image.DecompressionBombWarning)  # a small file that unpacks into a large one
    return Image.open(path)


def _choice(path: Path, name: str | None, names: list[str]) -> str:
    """The name of one of several matrices."""
    if name is None and len(names) == 1:
        return names[0]
    if name is not None and name in names:
        return name
    held = ", ".join(sorted(names)) or "none"
    if name is None:
        raise BadInput(f"{path}: name one of its matrices, as in {path}:{(names or ['name'])[0]}; it holds {held}")
    raise BadInput(f"{path}: holds no matrix {name!r}; it holds {held}")


# Each takes the path and the name of one of several matrices, if one was given.
READERS: Mapping[str, Callable[[Path, str | None], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".txt": _csv,
    ".mat": _mat,
    ".mtx": _mtx,
} | dict.fromkeys(IMAGES, _image)
