"""Readers of file formats: .npy, .npz, .csv, .txt, .mat, .mtx and images.

NumPy, SciPy and Pillow do the work; `papilio.cli.inputs` makes one line of whatever they raise. Nothing is
unpickled, and what a compressed, sparse or image file unpacks to has a limit.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import scipy.sparse as sp

import papilio as pp

from ..operators.factors import as_csr
from ..operators.storage import FAUST_FACTORS, mat_classes, mat_variable
from ..runtime.files import as_regular, open_archive, require_room
from ..typing import Array
from .console import BadInput

_PER_LINE = 32  # Bytes per row or column of a sparse matrix: its pointer, and copies in other formats.
_MATLAB_NUMBERS = re.compile("double|single|u?int[0-9]+|logical|sparse")
_MOST_NAMES, _LONGEST_NAME = 8, 40  # In error messages.
_DELIMITERS = (",", ";", "\t")  # Without any of these, blanks separate the columns.
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
# Names that pandas and R give to the column of row names.
_INDEX_NAMES = ("", "index", "id", "row.names", "unnamed: 0")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm")
# Pillow knows more, and goes by the content: some, such as EPS, start other programs.
_IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_PER_PIXEL = 16  # Bytes: the grey value as float64, and the colours that it is computed from.
_LUMINANCE = (0.299, 0.587, 0.114)  # Weights of red, green and blue (ITU-R BT.601).


# -- NumPy's files ---------------------------------------------------------------------------------------------


def _npy(path: Path, name: str | None) -> Array:
    values = np.load(as_regular(path), allow_pickle=False)
    if not isinstance(values, np.ndarray):
        raise ValueError("it is an .npz file")
    return values


def _npz(path: Path, name: str | None) -> Any:
    with open_archive(as_regular(path)) as archive:
        if name is None and {"format", "version", "n_factors"} <= set(archive.files):
            return pp.load(path)
        if name is None and {"format", "shape", "data"} <= set(archive.files):
            require_sides(tuple(int(side) for side in archive["shape"]), path.stat().st_size)
            return as_csr("it", sp.load_npz(path))  # SciPy does not check the indices.
        return archive[_choice(path, name, archive.files)]


# -- text ------------------------------------------------------------------------------------------------------


def _csv(path: Path, name: str | None) -> Array:
    """Read real or complex numbers, separated by commas, semicolons, tabs or blanks, with or without a heading."""
    with open(as_regular(path), encoding="utf-8-sig") as text:
        number, first = next(((i, line) for i, line in enumerate(text, start=1) if _uncommented(line)), (0, ""))
        if not number:
            raise ValueError("it is empty")
        first = _uncommented(first)
        delimiter = next((mark for mark in _DELIMITERS if mark in first), None)
        cells = [cell.strip().strip("\"'") for cell in first.split(delimiter)]
        # Column names of a pandas table without names.
        is_numbered = cells[0] == "" and cells[1:] == [str(i) for i in range(len(cells) - 1)]
        is_heading = not any(map(_is_number, cells)) and not all(cell.lower() in _MISSING for cell in cells)
        if delimiter is not None and (is_numbered or (is_heading and cells[0].lower() in _INDEX_NAMES)):
            raise BadInput(
                f"{path}: its first column is an index, not data; write the table without it (in pandas with "
                "index=False, in R with row.names=FALSE)"
            )
        values = _numbers(text, number if is_heading else 0, delimiter)
    if is_heading and delimiter is not None and len(cells) != values.shape[1]:
        raise ValueError(f"its heading must have {values.shape[1]} cells, as the rows have, got {len(cells)}")
    return values


def _numbers(text: TextIO, skipped: int, delimiter: str | None) -> Array:
    """Read the numbers below the heading: real if possible, else complex."""

    def table(dtype: type) -> Array:
        text.seek(0)
        return np.loadtxt(text, dtype, delimiter=delimiter, skiprows=skipped, ndmin=2)

    try:
        values = table(float)
    except ValueError as problem:
        try:
            values = table(complex)
        except ValueError:
            raise problem from None
    if not values.size:
        raise ValueError("it holds no numbers")
    return values


def _uncommented(line: str) -> str:
    return line.partition("#")[0].strip("\r\n ")


def _is_number(cell: str) -> bool:
    try:
        complex(cell)
    except ValueError:
        return False
    return cell.lower() != "j"  # Python reads "j" as a number; here it is a name.


# -- MATLAB's files and Matrix Market --------------------------------------------------------------------------


def _mat(path: Path, name: str | None) -> Any:
    with open(as_regular(path), "rb") as file:
        classes = mat_classes(file)
        if name is None and classes.get(FAUST_FACTORS) == "cell":
            return pp.load(path)
        classes.pop("__function_workspace__", None)  # SciPy's name for MATLAB's own notes.
        names = [each for each, kind in classes.items() if _MATLAB_NUMBERS.fullmatch(kind)]
        value = mat_variable(file, _choice(path, name, names))
    return as_csr("it", value) if sp.issparse(value) else value  # SciPy does not check the indices.


def _mtx(path: Path, name: str | None) -> Any:
    from scipy.io import mminfo, mmread

    size = as_regular(path).stat().st_size
    rows, columns, entries, form, _, _ = mminfo(path)
    if form == "coordinate":
        require_sides((rows, columns), size)
        if entries > size:
            raise ValueError(f"it must hold {entries} entries, which do not fit into {size} bytes")
    else:
        require_room(16 * rows * columns, size)
    value = mmread(path)
    return as_csr("it", sp.coo_array(value)) if sp.issparse(value) else value


def require_sides(shape: tuple[int, ...], held: int = 0) -> None:
    """Refuse a sparse matrix whose shape alone would take too much memory."""
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"it must be a matrix with rows and columns, got shape {shape}")
    require_room(_PER_LINE * max(shape), held)


def _choice(path: Path, name: str | None, names: list[str]) -> str:
    """Choose one of the matrices in a file."""
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


# -- images ----------------------------------------------------------------------------------------------------


class Image(NamedTuple):
    """Pixels (height, width) or (height, width, 3), and their transparency, if there is one."""

    pixels: Array
    alpha: Array | None = None


def read_image(path: Path) -> Image:
    """Read an image file with its orientation and depth; refuse what Pillow would drop silently."""
    try:
        from PIL import Image as pillow
        from PIL import ImageOps, UnidentifiedImageError
    except ImportError:
        raise BadInput(f"{path}: images need Pillow: pip install pillow") from None
    with open(as_regular(path), "rb") as file:
        try:
            opened = pillow.open(file, formats=_IMAGE_FORMATS)
        except UnidentifiedImageError:
            raise ValueError(f"it must be one of {', '.join(_IMAGE_FORMATS)}") from None
        with opened:
            require_room(_PER_PIXEL * opened.width * opened.height, path.stat().st_size)
            _require_kept(path, opened)
            return _pixels(ImageOps.exif_transpose(opened), opened.format == "PPM")


def _pixels(image: Any, is_ppm: bool) -> Image:
    if image.mode.startswith("I;16") or (image.mode == "I" and is_ppm):
        return Image(np.asarray(image).astype(np.uint16))
    if image.mode in ("F", "I"):
        return Image(np.asarray(image, np.float32 if image.mode == "F" else np.int32))
    grey = image.mode in ("1", "L", "LA")
    clear = "A" in image.mode or "transparency" in image.info
    pixels: Any = np.asarray(image.convert(("LA" if grey else "RGBA") if clear else "L" if grey else "RGB"))
    if not clear:
        return Image(pixels)
    return Image(pixels[..., 0] if grey else pixels[..., :3], pixels[..., -1])


def _require_kept(path: Path, image: Any) -> None:
    """Refuse what Pillow would drop silently."""
    if getattr(image, "is_animated", False) and image.format != "MPO":  # MPO: photographs with a preview.
        raise BadInput(f"{path}: several frames are not accepted; an image of one frame is")
    if image.mode in ("RGB", "RGBA", "LA") and any(_has_16_bits(tile[3]) for tile in image.tile):
        raise BadInput(f"{path}: colour pixels of 16 bits are not accepted; 8 bits are, or .npy")
    if image.mode.startswith("I;16") and "transparency" in image.info:
        raise BadInput(f"{path}: transparency beside grey pixels of 16 bits is not accepted; .npy is")


def _has_16_bits(arguments: Any) -> bool:
    """Whether a decoder's arguments name channels of 16 bits; ``BGR;16`` has 16 bits for all three."""
    raw = arguments if isinstance(arguments, str) else arguments[0] if arguments else ""
    return re.search(r"(?<!BGR);16[BLNS]?$", str(raw)) is not None


def _grey(path: Path, name: str | None) -> Array:
    """Read grey values, scaled to 0…1 for unsigned integers."""
    pixels = read_image(path).pixels
    white = np.iinfo(pixels.dtype).max if pixels.dtype.kind == "u" else 1
    return (pixels @ np.array(_LUMINANCE) if pixels.ndim == 3 else pixels.astype(np.float64)) / white


# Each takes the path and the name of one of several matrices, if one was given.
READERS: Mapping[str, Callable[[Path, str | None], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".txt": _csv,
    ".mat": _mat,
    ".mtx": _mtx,
} | dict.fromkeys(IMAGES, _grey)
