"""Images from files and into files, with their depth and their channels."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..runtime.files import replacing
from ..typing import Array
from .built_in import make
from .errors import BadInput
from .inputs import read, refusing
from .outputs import saving, write
from .pillow import IMAGES, open_image

OUTPUTS = (".png", ".tif", ".tiff", ".npy")
_NOISY = re.compile(r"noisy:(\d{1,3})")


class Image(NamedTuple):
    """Pixels (height, width) or (height, width, 3), and their transparency, if there is one."""

    pixels: Array
    alpha: Array | None = None


def read_image(source: str) -> Image:
    """The image in a file; ``noisy:30`` is a built-in photograph with noise of standard deviation 30."""
    path = Path(source)
    built_in = _NOISY.fullmatch(source)
    if built_in is not None and not path.exists():
        return Image(make("noisy", built_in[1]))
    if path.suffix.lower() not in (*IMAGES, ".npy"):
        raise BadInput(f"{source}: unknown format; readable are {', '.join((*IMAGES, '.npy'))}, and noisy:30")
    if path.suffix.lower() == ".npy":
        return Image(read(source))
    with refusing(path):
        return _opened(path)


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


def _opened(path: Path) -> Image:
    with open_image(path) as opened:
        from PIL import ImageOps

        if opened.mode.startswith("I;16") and "transparency" in opened.info:
            raise BadInput(f"{path}: transparency beside grey pixels of 16 bits is not accepted; .npy is")
        upright = ImageOps.exif_transpose(opened)  # the orientation is not written again
        if upright.mode.startswith("I;16") or (upright.mode == "I" and opened.format == "PPM"):
            return Image(np.asarray(upright).astype(np.uint16))
        if upright.mode in ("F", "I"):
            return Image(np.asarray(upright, np.float32 if upright.mode == "F" else np.int32))
        grey = upright.mode in ("1", "L", "LA")
        clear = "A" in upright.mode or "transparency" in upright.info
        pixels: Any = np.asarray(upright.convert(("LA" if grey else "RGBA") if clear else "L" if grey else "RGB"))
        if not clear:
            return Image(pixels)
        return Image(pixels[..., 0] if grey else pixels[..., :3], pixels[..., -1])
