"""Exact SparseProducts: known fast transforms, convolutions, and random products to try things with."""

from .convolutions import circulant, toeplitz
from .drawn import random_butterfly, random_product
from .known import dct, dft, haar, hadamard, hartley, wavelet

__all__ = [
    "circulant",
    "dct",
    "dft",
    "haar",
    "hadamard",
    "hartley",
    "random_butterfly",
    "random_product",
    "toeplitz",
    "wavelet",
]
