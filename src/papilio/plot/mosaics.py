"""Atoms: as pictures side by side, or as curves."""

from math import ceil, isqrt, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg import column_norms
from ..operators import SparseProduct
from ..typing import Array, MatrixLike
from ..validation import as_integer, as_matrix, as_shape
from .common import BETWEEN, SERIES, as_axes, signed_colours, without_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..dictionary.estimator import DictionaryEstimator
    from ..dictionary.learner import LearnedDictionary

_SOME = 256  # Number of atoms that are looked at to tell pictures from curves.
_ALIKE = 0.3  # Correlation of vertical neighbours from which atoms may be pictures.
_GOES_ON = 0.5  # Relative correlation across the ends of rows from which the rows are parts of a curve.
_FLAT = 1e-3  # Relative norm, after the median is subtracted, below which only rounding is left.
_UNIT = 1e-3  # Tolerance for unit norms.
_GAP = 0.12  # between two curves, relative to their length


def atoms(
    dictionary: "MatrixLike | DictionaryEstimator | LearnedDictionary",
    atom_shape: int | tuple[int, ...] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the atoms of a dictionary, each on its own scale: pictures as a mosaic, other signals as curves.

    Pictures have the colours of `matrix`: negative values are blue, zeros nearly white, positive ones orange.

    A dictionary does not say what its atoms are. Without ``atom_shape``, they are treated as pictures of w × w
    pixels if the number of features is a square, pixels below each other are alike (entries w apart have a
    correlation of 0.3 or more, as a root mean square over the atoms), and rows do not go on in the next row (the
    correlation of the end of a row with the next entry is less than half of that within rows). Otherwise they are
    drawn as curves. The median of each atom is subtracted first.

    Parameters
    ----------
    dictionary : (d, a) matrix, SparseProduct, fitted estimator or LearnedDictionary
        One atom per column.
    atom_shape : int or tuple of int, optional
        What the atoms are: (rows, columns) for pictures, d or (d,) for curves.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import papilio as pp
    >>> ax = pp.plot.atoms(pp.images.redundant_dct(8, 11))
    >>> ax = pp.plot.atoms(pp.transforms.haar(16).T, atom_shape=16)
    """
    matrix = _as_dictionary(dictionary)
    columns = matrix.toarray() if isinstance(matrix, SparseProduct) else as_matrix("dictionary", matrix)
    if atom_shape is None and _is_transposed(columns):
        raise ValueError(
            "dictionary must have one atom per column, got rows of unit norm: give its transpose (components_ of "
            "an estimator has atoms as rows), or atom_shape"
        )
    shape = as_atom_shape(columns, atom_shape)
    ax = as_axes(ax)
    if len(shape) == 1:
        return draw_curves(columns.real, ax)
    tiles = mosaic(columns.real, *shape)
    colours = signed_colours().with_extremes(bad=BETWEEN)
    ax.imshow(tiles, cmap=colours, vmin=-1, vmax=1, interpolation="nearest")
    for spine in ax.spines.values():
        spine.set_visible(False)
    return without_ticks(ax)


def mosaic(columns: Array, height: int, width: int) -> Array:
    """Columns as patches side by side, each divided by its largest magnitude, with NaN between them."""
    count = columns.shape[1]
    across = ceil(sqrt(count))
    down = ceil(count / across)
    made = np.full((down * (height + 1) - 1, across * (width + 1) - 1), np.nan)
    for i, column in enumerate(columns.T):
        top, left = (i // across) * (height + 1), (i % across) * (width + 1)
        limit = float(np.abs(column).max()) or 1.0
        made[top : top + height, left : left + width] = column.reshape(height, width) / limit
    return made


def as_atom_shape(columns: Any, given: Any = None) -> tuple[int, ...]:
    """The shape of atoms, the columns of a matrix or product: (rows, columns) of pictures, or (d,) of curves.

    It is ``given``, or decided as `atoms` says.
    """
    n_features, n_atoms = columns.shape
    if given is not None:
        return _as_given(given, n_features, n_atoms)
    some = columns[:, :_SOME]
    some = some.toarray() if isinstance(some, SparseProduct) else some
    side = isqrt(n_features)
    is_square = side > 1 and side * side == n_features
    return (side, side) if is_square and _are_pictures(some.real, side) else (n_features,)


def draw_curves(columns: Array, ax: "Axes") -> "Axes":
    """Draw columns as curves side by side, each divided by its largest magnitude, with a line at zero."""
    from matplotlib.collections import LineCollection

    length, count = columns.shape
    across = max(ceil(sqrt(count / 2)), 1)
    sizes = np.abs(columns).max(axis=0)
    curves = np.empty((count, length, 2))
    lefts, tops = np.arange(count) % across * (1 + _GAP), -(np.arange(count) // across) * (1 + _GAP)
    curves[..., 0] = lefts[:, None] + np.linspace(0, 1, length)
    curves[..., 1] = tops[:, None] + 0.5 * (columns / np.where(sizes > 0, sizes, 1)).T
    ax.hlines(tops, lefts, lefts + 1, color="0.88", linewidth=0.8, zorder=1)
    ax.add_collection(LineCollection(list(curves), colors=SERIES[1][0], linewidths=1.0, zorder=2))
    ax.set_xlim(-_GAP, across * (1 + _GAP))
    ax.set_ylim(tops[-1] - 0.5 - _GAP, 0.5 + _GAP)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return without_ticks(ax)


def _as_dictionary(value: Any) -> Any:
    """The dictionary (d, a) of a fitted estimator or a result; anything else as it is."""
    for name in ("operator_", "dictionary", "operator"):
        if hasattr(value, name):
            return getattr(value, name)
    if hasattr(value, "components_"):  # An estimator of scikit-learn.
        return np.transpose(value.components_)
    if hasattr(value, "fit"):
        raise TypeError(f"dictionary must be a fitted estimator, got {type(value).__name__} before fit")
    return value


def _as_given(given: Any, n_features: int, n_atoms: int) -> tuple[int, ...]:
    if isinstance(given, tuple | list) and len(given) == 2:
        shape: tuple[int, ...] = as_shape("atom_shape", tuple(given))
    else:
        is_single = isinstance(given, tuple | list) and len(given) == 1
        shape = (as_integer("atom_shape", given[0] if is_single else given, 1),)
    size = int(np.prod(shape))
    if size == n_features:
        return shape
    named = "×".join(map(str, shape))
    hint = ": is the dictionary transposed? It has one atom per column" if size == n_atoms else ""
    raise ValueError(f"atom_shape must hold {n_features} entries, as the atoms do, got {named}{hint}")


def _is_transposed(matrix: Array) -> bool:
    """Whether the rows have unit norm, as learned atoms do, and the columns do not."""
    rows, columns = column_norms(matrix.T), column_norms(matrix)
    return bool((np.abs(rows - 1) < _UNIT).all() and (np.abs(columns - 1) > _UNIT).any())


def _are_pictures(columns: Array, side: int) -> bool:
    """Whether columns are pictures of ``side`` × ``side`` pixels rather than curves: the rule of `atoms`."""
    pictures = columns - np.median(columns, axis=0)  # The median is the background of digits and the like.
    norms = column_norms(pictures)
    is_flat = norms <= _FLAT * column_norms(columns)
    pictures = np.where(is_flat, 0, pictures / np.where(is_flat, 1, norms)).T.reshape(-1, side, side)
    within = (pictures[:, :, 1:] * pictures[:, :, :-1]).sum(axis=(1, 2)) / (side * (side - 1))
    below = (pictures[:, 1:] * pictures[:, :-1]).sum(axis=(1, 2)) / (side * (side - 1))
    ends = (pictures[:, 1:, 0] * pictures[:, :-1, -1]).sum(axis=1) / (side - 1)
    is_alike = side * side * np.sqrt(np.mean(below * below)) >= _ALIKE
    return bool(is_alike and within @ ends < _GOES_ON * (within @ within))
