"""Signals on graphs, and their spectra."""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..graphs import HasLaplacian, laplacian
from ..rotations.eigenbasis import Eigenbasis
from ..typing import ArrayLike, MatrixLike
from ..validation import as_matrix, as_numbers, require_finite
from .common import HIGHLIGHT, as_panels, pyplot, signed_colours, without_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NODE_AREA = 12_000  # of all nodes together, in square points
_LARGEST_NODE, _SMALLEST_NODE = 60.0, 3.0


def graph_signal(
    transform: Eigenbasis,
    signal: ArrayLike,
    coordinates: ArrayLike,
    graph: MatrixLike | HasLaplacian | None = None,
    axes: "list[Axes] | None" = None,
) -> "list[Axes]":
    """Draw a signal on the nodes of a graph, and the size of its coefficients by frequency.

    Parameters
    ----------
    transform : Eigenbasis
        A graph Fourier transform, from `papilio.graphs.fourier`.
    signal : (n,) array
        A real value for each node.
    coordinates : (n, 2) array
        Where the nodes are drawn.
    graph : sparse or dense (n, n) matrix, or a PyGSP graph, optional
        Its edges are drawn.
    axes : sequence of two matplotlib Axes, optional
        For the signal and for the spectrum; those of a new figure by default.

    Returns
    -------
    list of matplotlib Axes

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> ring = np.roll(np.eye(24), 1, axis=0) + np.roll(np.eye(24), -1, axis=0)
    >>> angles = 2 * np.pi * np.arange(24) / 24
    >>> places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> axes = pp.plot.graph_signal(pp.graphs.fourier(ring), np.cos(angles), places, ring)
    """
    if not isinstance(transform, Eigenbasis):
        raise TypeError(f"transform must be an Eigenbasis, got {type(transform).__name__}")
    n = transform.operator.shape[0]
    places = as_matrix("coordinates", coordinates, (n, 2))
    values = as_numbers("signal", signal)
    if values.shape != (n,) or values.dtype.kind == "c":
        raise ValueError(f"signal must be {n} real numbers, got {values.dtype} of shape {values.shape}")
    require_finite("signal", values)
    if axes is None:
        figure = pyplot().figure(figsize=(10, 4.2), layout="constrained")
        nodes, spectrum = figure.subplots(1, 2, width_ratios=[1.2, 1])
    else:
        nodes, spectrum = as_panels(axes, 2, "for the signal and its spectrum")
    if graph is not None:
        _draw_edges(nodes, places, laplacian(graph), n)
    limit = float(np.abs(values).max()) or 1.0
    area = float(np.clip(_NODE_AREA / n, _SMALLEST_NODE, _LARGEST_NODE))
    points = nodes.scatter(
        *places.T,
        c=values,
        s=area,
        cmap=signed_colours(),
        vmin=-limit,
        vmax=limit,
        edgecolors="#555555",
        linewidths=0.3,
    )
    nodes.figure.colorbar(points, ax=nodes, shrink=0.8)
    nodes.set_aspect("equal")
    without_ticks(nodes, f"signal on {n} nodes")
    for spine in nodes.spines.values():
        spine.set_visible(False)
    coefficients = np.abs(transform.operator.H @ values.astype(transform.operator.dtype))
    spectrum.vlines(transform.eigenvalues, 0, coefficients, color=HIGHLIGHT, linewidth=1)
    spectrum.plot(transform.eigenvalues, coefficients, "o", color=HIGHLIGHT, markersize=2.5)
    spectrum.set_ylim(bottom=0)
    spectrum.set_xlabel("frequency (eigenvalue of the Laplacian)")
    spectrum.set_ylabel("|coefficient|")
    spectrum.set_title(
        f"spectrum by {transform.n_rotations} rotations, error {transform.error:.2g}", fontsize="small"
    )
    return [nodes, spectrum]


def _draw_edges(ax: "Axes", places: Any, matrix: sp.csr_array, n: int) -> None:
    from matplotlib.collections import LineCollection

    if matrix.shape[0] != n:
        raise ValueError(f"graph must have {n} nodes, as the transform has, got {matrix.shape[0]}")
    upper = sp.coo_array(sp.triu(matrix, 1))
    ends = np.stack([places[upper.coords[0]], places[upper.coords[1]]], axis=1)
    ax.add_collection(LineCollection(list(ends), colors="#bbbbbb", linewidths=0.6, zorder=0))
