"""Orthogonal matrices as products of rotations of two coordinates each: eigenvectors, singular vectors, graphs."""

from typing import TYPE_CHECKING, Any

from .bases import Eigenbasis, SingularBases, fast_eigenbasis, fast_svd
from .graphs import graph_fourier, graph_laplacian

if TYPE_CHECKING:
    from .covariance import SparseMatrixTransform
    from .treelets import Treelets

__all__ = [
    "Eigenbasis",
    "SingularBases",
    "SparseMatrixTransform",
    "Treelets",
    "fast_eigenbasis",
    "fast_svd",
    "graph_fourier",
    "graph_laplacian",
]


def __getattr__(name: str) -> Any:
    # These estimators load scikit-learn, which `factorize`, a user of this package, does not need.
    if name == "SparseMatrixTransform":
        from .covariance import SparseMatrixTransform

        return SparseMatrixTransform
    if name == "Treelets":
        from .treelets import Treelets

        return Treelets
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
