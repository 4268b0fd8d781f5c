"""Built-in matrices, samples and images, such as ``hadamard:64``: what commands read without a file."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import papilio as pp

from .console import BadInput

if TYPE_CHECKING:
    from ..typing import Array

_SIDE = 128  # pixels of the image


def noisy_photograph(sigma: int) -> "Array":
    """Grey pixels of 8 bits with white Gaussian noise of standard deviation ``sigma``."""
    import numpy as np
    from sklearn.datasets import load_sample_image

    try:
        grey = load_sample_image("china.jpg").mean(axis=2)
    except ImportError:
        raise BadInput(f"noisy:{sigma}: images need Pillow: pip install pillow") from None
    top, left = ((side - _SIDE) // 2 for side in grey.shape)
    noise = sigma * np.random.default_rng(0).standard_normal((_SIDE, _SIDE))
    return np.clip(np.rint(grey[top : top + _SIDE, left : left + _SIDE] + noise), 0, 255).astype(np.uint8)


class Kind(StrEnum):
    """What a built-in input is."""

    MATRIX = "matrix"
    SAMPLES = "samples"
    IMAGE = "image"


class BuiltIn(NamedTuple):
    """An input that is named ``name:number``."""

    kind: Kind
    example: str
    number: str  # Meaning of the number.
    about: str


# The help of the commands, `papilio inputs` and the documentation are made from this.
BUILT_IN: Mapping[str, BuiltIn] = {
    "hadamard": BuiltIn(Kind.MATRIX, "hadamard:64", "size, a power of two", "Hadamard matrix, entries ±1"),
    "dft": BuiltIn(Kind.MATRIX, "dft:64", "size", "discrete Fourier transform, complex"),
    "dct": BuiltIn(Kind.MATRIX, "dct:32", "size", "discrete cosine transform (DCT-II), orthonormal"),
    "haar": BuiltIn(Kind.MATRIX, "haar:64", "size, a power of two", "Haar wavelet transform, orthonormal"),
    "patches": BuiltIn(
        Kind.SAMPLES,
        "patches:8",
        "side of a patch in pixels",
        "10,000 patches of photographs, one per row, without their means",
    ),
    "noisy": BuiltIn(
        Kind.IMAGE,
        "noisy:30",
        "standard deviation of the noise",
        "128×128 pixels of a photograph with white noise, 8 bits, grey",
    ),
}

# What each command reads.
_READ: Mapping[str, tuple[Kind, ...]] = {
    "learn": (Kind.SAMPLES,),
    "encode": (Kind.SAMPLES, Kind.MATRIX),
    "denoise": (Kind.IMAGE,),
} | dict.fromkeys(
    ("factorize", "apply", "export", "info", "plot", "bench", "report", "tradeoff"), (Kind.MATRIX, Kind.SAMPLES)
)


def make(name: str, number: str) -> Any:
    """The built-in input ``name:number``."""
    if not (number.isascii() and number.isdigit()):
        raise BadInput(f"{name}:{number}: the number must be a whole one, as in {BUILT_IN[name].example}")
    try:
        if name == "noisy":
            return noisy_photograph(int(number))
        if name == "patches":
            return pp.datasets.image_patches(10_000, int(number), random_state=0)
        return getattr(pp.transforms, name)(int(number))
    except ValueError as error:
        raise BadInput(f"{name}:{number}: {error}") from error


def names(*kinds: Kind) -> list[str]:
    """The names of all built-in inputs of some kinds."""
    return [name for name, each in BUILT_IN.items() if each.kind in kinds]


def described(command: str) -> str:
    """Lines for the help of a command: the built-in inputs that it reads."""
    chosen = [BUILT_IN[name] for name in names(*_READ.get(command, ()))]
    return "\n".join(f"{each.example:<13}{each.about}" for each in chosen)
