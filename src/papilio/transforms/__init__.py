"""Exact SparseProducts: known fast transforms, convolutions, and random products for experiments."""

from .convolutions import circulant, toeplitz
from .known import dct, dft, haar, hadamard, hartley, wavelet
from .random import random_butterfly, random_product

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
