"""Signals on graphs: fast graph Fourier transforms."""

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ..results import Callback
from ..typing import MatrixLike
from ..validation import as_array, as_choice, as_sparse, require_finite
from .bases import Eigenbasis, fast_eigenbasis

_KINDS = ("combinatorial", "normalized")


class HasLaplacian(Protocol):
    """A graph of PyGSP."""

    L: Any


def graph_fourier(
    graph: MatrixLike | HasLaplacian,
    *,
    kind: str = "combinatorial",
    n_rotations: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    n_sweeps: int = 10,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Eigenbasis:
    """The graph Fourier transform as a fast transform: L ≈ U diag(λ) Uᵀ, where U is a product of rotations.

    ``operator.T @ x`` are the coefficients of a signal x on the nodes, ``operator @ c`` is the signal with
    coefficients c; the eigenvalues λ are the frequencies, ascending.

    Parameters
    ----------
    graph : sparse or dense (n, n) matrix, or a PyGSP graph
        Symmetric weights of the edges, not negative; or a Laplacian, which has no positive off-diagonal
        entry. Of a PyGSP graph, the Laplacian ``graph.L`` is used.
    kind : {"combinatorial", "normalized"}
        The Laplacian of weights W with degrees D: D − W, or I − D^(−1/2) W D^(−1/2).
    n_rotations, complexity, max_error, n_sweeps, time_budget, progress, callback
        As in `papilio.rotations.fast_eigenbasis`.

    Returns
    -------
    Eigenbasis

    Examples
    --------
    The path through 64 nodes, whose transform is a cosine transform:

    >>> import numpy as np, scipy.sparse as sp, papilio as pp
    >>> path = sp.diags_array([np.ones(63), np.ones(63)], offsets=[-1, 1])
    >>> transform = pp.rotations.graph_fourier(path, max_error=0.05)
    >>> signal = np.arange(64.0)
    >>> coefficients = transform.operator.T @ signal
    >>> bool(np.allclose(transform.operator @ coefficients, signal))
    True
    """
    return fast_eigenbasis(
        graph_laplacian(graph, kind),
        n_rotations=n_rotations,
        complexity=complexity,
        max_error=max_error,
        n_sweeps=n_sweeps,
        time_budget=time_budget,
        progress=progress,
        callback=callback,
    )


def graph_laplacian(graph: MatrixLike | HasLaplacian, kind: str = "combinatorial") -> sp.csr_array:
    """The Laplacian of a graph, sparse.

    Parameters
    ----------
    graph : sparse or dense (n, n) matrix, or a PyGSP graph
        As in `graph_fourier`. A Laplacian is returned as it is.
    kind : {"combinatorial", "normalized"}
        D − W, or I − D^(−1/2) W D^(−1/2). Nodes without edges have zero rows.

    Returns
    -------
    (n, n) csr_array

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> pp.rotations.graph_laplacian(np.array([[0.0, 2.0], [2.0, 0.0]])).toarray()
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    as_choice("kind", kind, _KINDS)
    given: Any = getattr(graph, "L", graph)
    matrix = sp.csr_array(
        as_sparse("graph", given if sp.issparse(given) else sp.csr_array(as_array("graph", given)))
    )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"graph must be a square matrix, got shape {matrix.shape}")
    if matrix.dtype.kind == "c":
        raise ValueError("graph must have real weights, got complex ones")
    require_finite("graph", matrix.data)
    matrix.sum_duplicates()
    if abs(matrix - matrix.T).max() > 1e3 * np.finfo(matrix.dtype).eps * abs(matrix).max():
        raise ValueError(
            "graph must be undirected, with a symmetric matrix such as W + W.T, got one that is not symmetric"
        )
    rest = matrix - sp.dia_array((matrix.diagonal()[None], [0]), shape=matrix.shape)
    has_positive, has_negative = (rest.data > 0).any(), (rest.data < 0).any()
    if has_positive and has_negative:
        raise ValueError(
            "graph must have weights of one sign, not negative, or be a Laplacian, with no positive "
            "off-diagonal entry, got both signs: papilio.rotations.fast_eigenbasis takes any symmetric matrix"
        )
    if has_negative or (not has_positive and matrix.diagonal().any()):
        return matrix
    return _laplacian_of_weights(sp.csr_array(rest), kind)


def _laplacian_of_weights(weights: sp.csr_array, kind: str) -> sp.csr_array:
    """The Laplacian of weights with a zero diagonal, as loops do not change it."""
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    if kind == "combinatorial":
        return sp.csr_array(sp.diags_array(degrees) - weights)
    roots = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    scaling = sp.diags_array(roots)
    return sp.csr_array(sp.diags_array((degrees > 0).astype(weights.dtype)) - scaling @ weights @ scaling)
