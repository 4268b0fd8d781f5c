"""Opening images with Pillow."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..runtime.files import open_regular
from ..runtime.unpacking import require_room
from ..typing import Array
from .errors import BadInput

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm")
# Pillow knows more, and goes by the content: some, such as EPS, start other programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_PER_PIXEL = 16  # bytes: the grey value as float64, and what it is made from


@contextmanager
def open_image(path: Path) -> Iterator[Any]:
    """A Pillow image of one frame, small enough to be unpacked, that loses nothing when it is."""
    try:
        from PIL import Image
    except ImportError:
        raise BadInput(f'{path}: images need Pillow: pip install "papilio[cli]"') from None
    pixels = Image.MAX_IMAGE_PIXELS
    with open_regular(path) as file:
        try:
            Image.MAX_IMAGE_PIXELS = None  # there is one limit for all formats
            with _opened(file) as image:
                require_room(_PER_PIXEL * image.width * image.height, os.fstat(file.fileno()).st_size)
                _require_kept(path, image)
                yield image
        finally:
            Image.MAX_IMAGE_PIXELS = pixels


def _opened(file: IO[bytes]) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(file, formats=_FORMATS)
    except UnidentifiedImageError:
        raise ValueError(f"it must be one of {', '.join(_FORMATS)}") from None


def grey_values(path: Path) -> Array:
    """Grey values from 0 to 1, if the file says what white is."""
    with open_image(path) as image:
        if image.mode in ("F", "I") and image.format != "PPM":
            return np.asarray(image, dtype=np.float64)
        if image.mode.startswith("I"):
            return np.asarray(image, dtype=np.float64) / 65535
        grey = image if image.mode == "L" else image.convert("RGB")
        values = np.asarray(grey.convert("F"), dtype=np.float64)
    return np.divide(values, 255, out=values)


def _require_kept(path: Path, image: Any) -> None:
    """Refuse what Pillow would drop without a word."""
    if getattr(image, "is_animated", False) and image.format != "MPO":  # photographs with a preview
        raise BadInput(f"{path}: several frames are not accepted; an image of one frame is")
    if image.mode in ("RGB", "RGBA", "LA") and any(_has_16_bits(tile[3]) for tile in image.tile):
        raise BadInput(f"{path}: colour pixels of 16 bits are not accepted; 8 bits are, or .npy")


def _has_16_bits(arguments: Any) -> bool:
    """Whether a decoder's arguments name channels of 16 bits; ``BGR;16`` has 16 bits for all three."""
    raw = arguments if isinstance(arguments, str) else arguments[0] if arguments else ""
    return re.search(r"(?<!BGR);16[BLNS]?$", str(raw)) is not None
