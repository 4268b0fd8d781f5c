"""Operators: `SparseProduct`, and how it is packed for the kernels, indexed, measured and stored."""

from .product import SparseProduct as SparseProduct
