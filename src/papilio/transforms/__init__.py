"""Exact SparseProducts: known fast transforms, convolutions, random products; and the supports of butterflies."""

from .chains import butterfly_chain
from .convolutions import circulant, toeplitz
from .known import dct, dft, hadamard, hartley
from .random import random_butterfly, random_product
from .wavelets import haar, wavelet

__all__ = [
    "butterfly_chain",
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
