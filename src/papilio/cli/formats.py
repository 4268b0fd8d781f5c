"""Readers of single file formats: .npy, .npz, .csv, .mat, .mtx and images.

Nothing is unpickled. Nothing is allocated before the file was found to hold as much, except by SciPy, which reads
.mat files. Damaged files raise whatever their parsers raise; `papilio.cli.inputs` makes one line of it.
"""

import os
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import scipy.sparse as sp

import papilio as pp

from ..operators.factors import as_csr
from ..operators.files import FAUST_FACTORS, mat_classes, mat_variable
from ..runtime.files import npy_members, open_regular, read_member, read_npy
from ..runtime.unpacking import require_memory, require_room, require_sides
from ..typing import Array
from .delimited import read_delimited
from .errors import BadInput
from .matrix_market import read_matrix_market
from .pillow import IMAGES, grey_values

_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of NumPy; others unpack without a limit
_SPARSE_PARTS = ("format", "shape", "data", "indices", "indptr", "row", "col", "coords")  # of SciPy's files
_MATLAB_NUMBERS = re.compile("double|single|u?int[0-9]+|logical|sparse")
_MOST_NAMES, _LONGEST_NAME = 8, 40  # in a message


def _content(path: Path) -> bytes:
    with open_regular(path) as file:
        require_memory(os.fstat(file.fileno()).st_size)
        return file.read()


def _npy(path: Path, name: str | None) -> Array:
    with open_regular(path) as file:
        return read_npy(file, os.fstat(file.fileno()).st_size)


def _npz(path: Path, name: str | None) -> Any:
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        members = npy_members(archive)

        def unpacked(*names: str) -> dict[str, Array]:
            wanted = {key: members[key] for key in names}
            for member in wanted.values():
                if member.compress_type not in _PACKINGS:
                    raise ValueError(f"member {member.filename!r} is compressed in a way that NumPy does not use")
            require_room(sum(member.file_size for member in wanted.values()), os.fstat(file.fileno()).st_size)
            return {key: read_member(archive, member) for key, member in wanted.items()}

        if name is None and {"format", "version", "n_factors"} <= members.keys():
            return pp.load(path)
        if name is None and {"format", "shape", "data"} <= members.keys():
            return _scipy_sparse(unpacked(*(part for part in _SPARSE_PARTS if part in members)))
        key = _choice(path, name, list(members))
        return unpacked(key)[key]


def _scipy_sparse(arrays: dict[str, Array]) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote, checked before its indices are used."""
    kind = arrays["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    for part in arrays.keys() - {"format", "data"}:
        if arrays[part].dtype.kind not in "iu":
            raise ValueError(f"{part} must hold integers, got {arrays[part].dtype}")
    shape = tuple(int(side) for side in arrays["shape"])
    require_sides(shape, sum(array.nbytes for array in arrays.values()))
    if kind in ("csr", "csc"):
        form = sp.csr_array if kind == "csr" else sp.csc_array
        return as_csr("it", form((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape))
    if kind == "coo":
        coordinates = (arrays["row"], arrays["col"]) if "row" in arrays else tuple(arrays["coords"])
        return as_csr("it", sp.coo_array((arrays["data"], coordinates), shape=shape))
    raise ValueError(f"sparse format {kind!r} is not accepted; csr, csc and coo are")


def _csv(path: Path, name: str | None) -> Array:
    return read_delimited(_content(path))


def _mat(path: Path, name: str | None) -> Any:
    with open_regular(path) as file:
        classes = mat_classes(file)
        if name is None and classes.get(FAUST_FACTORS) == "cell":
            return pp.load(path)
        classes.pop("__function_workspace__", None)  # SciPy's name for MATLAB's own notes.
        names = [each for each, kind in classes.items() if _MATLAB_NUMBERS.fullmatch(kind)]
        value = mat_variable(file, _choice(path, name, names))
    return as_csr("it", value) if sp.issparse(value) else value  # SciPy does not check the indices.


def _mtx(path: Path, name: str | None) -> Any:
    return read_matrix_market(_content(path))


def _image(path: Path, name: str | None) -> Array:
    return grey_values(path)


def _choice(path: Path, name: str | None, names: list[str]) -> str:
    """The name of one of several matrices."""
    if name is None and len(names) == 1:
        return names[0]
    if name is not None and name in names:
        return name
    if not names:
        raise BadInput(f"{path}: holds no matrix{'' if name is None else f' {name!r}'}; it holds none at all")
    held = ", ".join(each[:_LONGEST_NAME] for each in sorted(names)[:_MOST_NAMES])
    held += f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES)
    if name is None:
        raise BadInput(
            f"{path}: name one of its matrices, as in {path}:{names[0][:_LONGEST_NAME]}; it holds {held}"
        )
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
