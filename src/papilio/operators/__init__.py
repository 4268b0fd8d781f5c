"""Operators: `SparseProduct`, and how it is packed for the kernels, indexed, measured and stored."""

from .algebra import block_diag, hstack, kron, vstack
from .product import SparseProduct
from .storage import from_faust

__all__ = ["SparseProduct", "block_diag", "from_faust", "hstack", "kron", "vstack"]
