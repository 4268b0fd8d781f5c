"""Matrices, factors, and a product beside its target, as images."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..operators.factors import as_csr
from ..typing import Array, MatrixLike
from ..validation import as_matrix, as_real, require_finite
from .common import as_axes, as_panels, new_figure, png_url, pyplot, signed_colours, without_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_LEAST_SIDE, _MOST_SIDE = 64, 512  # cells along an image
_CELLS_PER_PIXEL = 0.7  # Below 1 because axes shrink when titles are laid out.
_PER_LINE = 6  # panels in a line, at most
_MOST_ENTRIES = 1 << 22  # With more stored entries, only every second or third is looked at.
_BLOCK_ENTRIES = 1 << 22  # Entries of a product that are computed at a time.
_LONGEST = 4.0  # Largest aspect ratio; the cells of longer matrices are not drawn as squares.


def matrix(
    values: MatrixLike, ax: "Axes | None" = None, title: str | None = None, *, limit: float | None = None
) -> "Axes":
    """Draw a matrix as an image: negative entries are blue, zeros nearly white, positive ones orange.

    Parameters
    ----------
    values : (m, n) matrix, sparse matrix or SparseProduct
        For complex entries the real part is shown. Where a sparse matrix has more entries than the image has
        pixels, a pixel shows the largest of its entries, so that none vanishes.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        The title of the axes.
    limit : float, optional
        The magnitude with the full colour; by default the largest in the matrix.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import papilio as pp
    >>> ax = pp.plot.matrix(pp.transforms.haar(16), title="Haar")
    """
    shaped: Any = values
    if not isinstance(values, SparseProduct):
        shaped = as_csr("values", values) if sp.issparse(values) else as_matrix("values", values)
    limit = None if limit is None else as_real("limit", limit, 0.0)
    ax = as_axes(ax)
    shown = thumbnail(shaped, _cells(ax)).astype(np.float64)
    require_finite("values", shown)  # A product may overflow.
    if limit is None:
        limit = float(np.abs(shown).max(initial=0.0))
    limit = limit or 1.0
    rows, columns = shaped.shape
    ax.imshow(
        shown,
        cmap=signed_colours(),
        vmin=-limit,
        vmax=limit,
        interpolation="nearest",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
        aspect=columns / rows / _ratio((rows, columns), _LONGEST),
    )
    return without_ticks(ax, title)


def factors(op: SparseProduct, axes: "Sequence[Axes] | None" = None) -> "Sequence[Axes]":
    """Draw a product and its factors side by side, as in the paper's figure 1.

    Parameters
    ----------
    op : SparseProduct
        The product.
    axes : sequence of matplotlib Axes, optional
        One more than there are factors; a new figure by default.

    Returns
    -------
    sequence of matplotlib Axes

    Examples
    --------
    >>> import papilio as pp
    >>> axes = pp.plot.factors(pp.transforms.hadamard(16))
    """
    if not isinstance(op, SparseProduct):
        raise TypeError(f"op must be a SparseProduct, got {type(op).__name__}")
    shapes = [op.shape, *(factor.shape for factor in op.factors)]
    axes = panels(shapes) if axes is None else as_panels(axes, len(shapes), "one more than factors")
    matrix(op, axes[0], f"{op.shape[0]}×{op.shape[1]}\n{op.shape[0] * op.shape[1]:,} entries")
    for i, ax in enumerate(axes[1:]):
        _factor(op, i, ax)
    return axes


def _factor(op: SparseProduct, i: int, ax: "Axes") -> None:
    factor = op.factors[i]
    matrix(factor, ax, f"$S_{{{i + 1}}}$: {factor.shape[0]}×{factor.shape[1]}\n{factor.size:,} entries")


def some_factors(op: SparseProduct, most: int) -> "Figure":
    """The product and its factors, only the first ones and the last if there are more than ``most``."""
    count = len(op.factors)
    chosen = range(count) if count <= most else [*range(most - 1), count - 1]
    shapes = [op.shape, *(op.factors[i].shape for i in chosen)]
    figure: Figure = new_figure(*size_of_panels(shapes))
    first, *others = panels(shapes, figure)
    matrix(op, first, f"{op.shape[0]}×{op.shape[1]}")
    for i, ax in zip(chosen, others, strict=True):
        _factor(op, i, ax)
    return figure


def thumbnail_url(values: Any, side: int) -> str:
    """A `thumbnail` in the colours of `matrix`, as the address of an image in a page."""
    from matplotlib.image import imsave

    shown = thumbnail(values, side).astype(np.float64)
    limit = float(np.abs(shown).max(initial=0.0)) or 1.0
    written = io.BytesIO()
    imsave(written, shown / limit, cmap=signed_colours(), vmin=-1, vmax=1, format="png")
    return png_url(written)


def comparison(
    target: MatrixLike, approximation: MatrixLike, axes: "Sequence[Axes] | None" = None
) -> "Sequence[Axes]":
    """Draw a target, its approximation and their difference on one colour scale, with a colour bar.

    Parameters
    ----------
    target : (m, n) matrix
        The matrix that was approximated.
    approximation : (m, n) matrix or SparseProduct
        What approximates it.
    axes : sequence of three matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    sequence of matplotlib Axes

    Examples
    --------
    >>> import papilio as pp
    >>> C = pp.transforms.dct(16).toarray()
    >>> axes = pp.plot.comparison(C, pp.factorize(C, complexity=0.6).operator)
    """
    wanted: Array = as_matrix("target", target)
    got = as_matrix("approximation", approximation, wanted.shape)
    axes = panels([wanted.shape] * 3) if axes is None else as_panels(axes, 3, "one per image")
    limit = float(max(np.abs(wanted.real).max(), np.abs(got.real).max()))
    size = frobenius(wanted)
    error = frobenius(wanted - got) / size if size else float(got.any())
    spent = (
        f"{approximation.nnz:,} entries in {len(approximation.factors)} factors"
        if isinstance(approximation, SparseProduct)
        else f"{np.count_nonzero(got):,} entries"
    )
    matrix(wanted, axes[0], f"target\n{wanted.shape[0]}×{wanted.shape[1]}, {wanted.size:,} entries", limit=limit)
    matrix(got, axes[1], f"approximation\n{spent}", limit=limit)
    matrix(wanted - got, axes[2], f"difference\nrelative error {error:.2g}", limit=limit)
    bar = axes[0].figure.colorbar(axes[2].images[0], ax=list(axes), shrink=0.85, pad=0.02)
    bar.ax.tick_params(labelsize="small")
    return axes


def thumbnail(matrix: Any, side: int) -> Array:
    """The real part of ``matrix``, reduced to at most ``side`` rows and columns.

    Each cell stands for a block of rows and columns. If most of the matrix is zero, it shows the entry of largest
    magnitude in its block, so that even a single entry of a large factor is seen. Otherwise it shows the entry in
    the middle: the largest ones alone would hide the mix of signs.
    """
    # Where the cells begin, and where the last one ends.
    rows, columns = (np.arange(min(n, side) + 1) * n // min(n, side) for n in matrix.shape)
    if sp.issparse(matrix):
        if 2 * matrix.nnz < matrix.shape[0] * matrix.shape[1]:
            return _of_sparse(sp.coo_array(matrix), rows, columns)
        matrix = SparseProduct([matrix])
    largest, middle, n_nonzero = [], [], 0
    per_cell = -(-matrix.shape[0] * matrix.shape[1] // (len(columns) - 1))
    step = max(_BLOCK_ENTRIES // per_cell, 1)
    for first in range(0, len(columns) - 1, step):
        edges = columns[first : first + step + 1]
        block = matrix[:, edges[0] : edges[-1]]
        values = (block.toarray() if isinstance(block, SparseProduct) else np.asarray(block)).real
        largest.append(_extreme(_extreme(values, rows[:-1], 0), edges[:-1] - edges[0], 1))
        middle.append(values[np.ix_(_middles(rows), _middles(edges) - edges[0])])
        n_nonzero += int(np.count_nonzero(values))
    is_sparse = 2 * n_nonzero < matrix.shape[0] * matrix.shape[1]
    return np.concatenate(largest if is_sparse else middle, axis=1)


def _middles(edges: Array) -> Array:
    return (edges[:-1] + edges[1:] - 1) // 2


def _extreme(values: Array, starts: Array, axis: int) -> Array:
    """The value of largest magnitude in each run that begins at ``starts``."""
    largest = np.maximum.reduceat(values, starts, axis=axis)
    smallest = np.minimum.reduceat(values, starts, axis=axis)
    return np.where(-smallest > largest, smallest, largest)


def _of_sparse(matrix: sp.coo_array, rows: Array, columns: Array) -> Array:
    """The largest entry of each cell."""
    step = max(-(-matrix.nnz // _MOST_ENTRIES), 1)
    values = matrix.data[::step].real
    row, column = (
        np.searchsorted(edges, coordinates[::step], side="right") - 1
        for edges, coordinates in zip((rows, columns), matrix.coords, strict=True)
    )
    picture = np.zeros((len(rows) - 1, len(columns) - 1), values.dtype)
    order = np.argsort(np.abs(values), kind="stable")  # The last entry written to a cell remains: the largest.
    picture[row[order], column[order]] = values[order]
    return picture


def _cells(ax: "Axes") -> int:
    """The number of image cells that fit into ``ax``."""
    box = ax.get_window_extent()
    return int(np.clip(_CELLS_PER_PIXEL * min(box.width, box.height), _LEAST_SIDE, _MOST_SIDE))


def size_of_panels(shapes: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The width and height, in inches, of a figure with one panel per matrix."""
    widths = _widths(shapes)
    return 2.1 * sum(widths), 2.6 * -(-len(shapes) // len(widths))


def panels(shapes: Sequence[tuple[int, int]], figure: "Figure | SubFigure | None" = None) -> "list[Axes]":
    """Create axes in a figure, a new one by default: one per matrix, with widths that suit the matrices."""
    widths = _widths(shapes)
    if figure is None:
        figure = pyplot().figure(figsize=size_of_panels(shapes), layout="constrained")
    down = -(-len(shapes) // len(widths))
    grid = figure.subplots(down, len(widths), squeeze=False, width_ratios=widths).ravel()
    for unused in grid[len(shapes) :]:
        unused.remove()
    return list(grid[: len(shapes)])


def _widths(shapes: Sequence[tuple[int, int]]) -> list[float]:
    """The relative widths of the columns of panels; lines are about equally long."""
    down = -(-len(shapes) // _PER_LINE)
    across = -(-len(shapes) // down)
    ratios = [max(_ratio(shape, 2.5), 0.5) for shape in shapes]
    return [max(ratios[column::across]) for column in range(across)]


def _ratio(shape: tuple[int, int], longest: float) -> float:
    """Columns over rows, at most ``longest`` and at least its inverse."""
    return float(np.clip(shape[1] / shape[0], 1 / longest, longest))
