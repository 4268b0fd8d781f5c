"""Chunks of Dask arrays: what is computed may differ from what the array declares."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def with_checked_chunks(X: Any, accept_sparse: bool = False) -> Any:
    """The same Dask array, with chunks that are checked where they are computed, before any use.

    Sparse chunks stay sparse if ``accept_sparse``.
    """
    return X.map_blocks(_checked, X.dtype, accept_sparse, dtype=X.dtype, meta=X._meta)


def _checked(chunk: Any, dtype: Any, accept_sparse: bool, block_info: Any = None) -> Any:
    """A chunk in the dtype and shape that its array declares; an error that names it if it has others."""
    declared = block_info[0]
    row, column = declared["chunk-location"]
    place = f"chunk {row}" if declared["num-chunks"][1] == 1 else f"chunk ({row}, {column})"
    # Rows may be unknown before the chunk is computed: their number is then NaN.
    shape = tuple(stop - start for start, stop in declared["array-location"])
    if np.ma.is_masked(chunk):
        raise ValueError(f"X must have no masked entries, got some in {place}: fill them first")
    is_sparse = sp.issparse(chunk)
    if (is_sparse and not accept_sparse) or (hasattr(chunk, "todense") and not is_sparse):
        raise TypeError(f"X must have dense chunks (NumPy arrays), got {place} of type {type(chunk).__name__}")
    try:
        array = chunk if is_sparse else np.asarray(chunk)
    except (TypeError, ValueError) as error:
        raise TypeError(f"X must have chunks of numbers, got {place} of {type(chunk).__name__}: {error}") from None
    if array.ndim != 2 or any(
        got != want and not np.isnan(want) for got, want in zip(array.shape, shape, strict=True)
    ):
        wanted = " × ".join("any number" if np.isnan(side) else str(side) for side in shape)
        raise ValueError(f"X must have chunks of the shapes it declares, {wanted} for {place}, got {array.shape}")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"X must have chunks of the dtype it declares, {dtype}, got {place} of {array.dtype}")
    with np.errstate(over="ignore"):  # infinity is found later
        return array.astype(dtype, copy=False)
