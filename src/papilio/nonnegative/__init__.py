"""Non-negative matrices as products of several non-negative factors, which may be sparse."""

from .multilayer import NonnegativeChain, nonnegative_chain
from .nmf import MultilayerNMF

__all__ = ["MultilayerNMF", "NonnegativeChain", "nonnegative_chain"]
