"""Compositions of short convolutions, for one atom or a dictionary of atoms that may stand anywhere."""

from ..constraints.places import kernel_supports
from .composition import ConvolutionFit, convolution_chain
from .operator import ConvolutionChain
from .shift_invariant import ConvolutionalDictionary, convolutional_dictionary

__all__ = [
    "ConvolutionChain",
    "ConvolutionFit",
    "ConvolutionalDictionary",
    "convolution_chain",
    "convolutional_dictionary",
    "kernel_supports",
]
