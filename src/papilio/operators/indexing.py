"""What a key such as ``op[rows, columns]`` selects."""

import numbers
from typing import Any

import numpy as np

from ..typing import Array
from ..validation import as_array


def read_key(key: Any, shape: tuple[int, int]) -> tuple[Array | None, Array | None, bool]:
    """The rows and the columns that ``key`` selects, None for all, and whether it names a single entry."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) > 2:
        raise IndexError(f"a SparseProduct has 2 dimensions, got {len(parts)} indices")
    rows, columns = map(_readable, ("rows", "columns"), (*parts, slice(None), slice(None)))
    if np.shape(rows)[1:] == (1,) and np.shape(columns)[:1] == (1,) and np.ndim(columns) == 2:
        rows, columns = np.ravel(rows), np.ravel(columns)  # the two parts of numpy.ix_
    is_entry = _is_integer(rows) and _is_integer(columns)
    return _selected("rows", rows, shape[0]), _selected("columns", columns, shape[1]), is_entry


def _readable(name: str, key: Any) -> Any:
    """``key``, a sequence as an array."""
    if key is Ellipsis or isinstance(key, slice | numbers.Integral):
        return key
    try:
        return as_array(name, key)
    except (ValueError, TypeError) as error:
        raise IndexError(str(error)) from None


def _is_integer(key: Any) -> bool:
    """Whether ``key`` is one integer."""
    return isinstance(key, numbers.Integral) or (isinstance(key, np.ndarray) and key.ndim == 0)


def _selected(name: str, key: Any, size: int) -> Array | None:
    """The indices that ``key`` selects along an axis of ``size``; None for all of them."""
    if key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
        return None
    if isinstance(key, slice):
        try:
            indices = np.arange(size)[key]
        except (TypeError, ValueError) as error:
            raise IndexError(f"{name} must be selected by integers, got {key!r}: {error}") from None
    else:
        given = np.asarray(key)
        if given.dtype == bool and given.shape != (size,):
            raise IndexError(f"a boolean mask of {name} must have shape ({size},), got {given.shape}")
        indices = np.flatnonzero(given) if given.dtype == bool else np.atleast_1d(given)
    if indices.size == 0:
        raise IndexError(f"{name} must be selected so that at least one of {size} is left, got {key!r}")
    if indices.ndim > 1 or indices.dtype.kind not in "iu":
        raise IndexError(f"{name} must be selected by integers, slices or booleans, got {key!r}")
    if ((indices < -size) | (indices >= size)).any():
        raise IndexError(f"{name} must be selected from {-size} to {size - 1}, got {key!r}")
    indices = indices.astype(np.intp)
    return np.where(indices < 0, indices + size, indices)
