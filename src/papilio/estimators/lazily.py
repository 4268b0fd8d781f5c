"""Codes and signals of Dask arrays, computed lazily, block by block."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..dictionary.statistics import Coding
from ..operators import SparseProduct
from ..runtime.threads import one_thread
from ..samples.chunks import with_checked_chunks
from ..typing import Array
from ..validation import require_finite, working_dtype


def lazily_coded(X: Any, coding: Coding, as_sparse: bool) -> Any:
    """The codes of a Dask array as a Dask array, with one block per chunk along samples."""
    dtype, n_components = coding.dictionary.dtype, coding.dictionary.shape[1]
    meta = sp.csr_array((0, n_components), dtype=dtype) if as_sparse else np.empty((0, n_components), dtype)
    options = coding.n_nonzero_coefs, coding.positive, coding.alpha, as_sparse
    return _by_blocks(with_checked_chunks(X), _coded, coding.dictionary, meta, *options)


def lazily_decoded(codes: Any, operator: SparseProduct) -> Any:
    """The signals of a Dask array of codes as a Dask array."""
    dtype = np.result_type(working_dtype("X", codes.dtype), operator.dtype)
    codes = with_checked_chunks(codes, accept_sparse=True)
    return _by_blocks(codes, _decoded, operator, np.empty((0, operator.shape[0]), dtype))


def _by_blocks(X: Any, function: Any, shared: Any, meta: Any, *options: Any) -> Any:
    """``function(rows, shared, *options)`` for each chunk along samples; ``meta`` is an empty result."""
    import dask

    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    chunks = X.chunks[0], (meta.shape[1],)
    shared = dask.delayed(shared, traverse=False)
    return X.map_blocks(function, shared, *options, dtype=meta.dtype, chunks=chunks, meta=meta)


def _coded(
    rows: Any,
    dictionary: Any,
    n_nonzero_coefs: int,
    positive: bool,
    alpha: float | None,
    as_sparse: bool,
    block_id: Any = None,
) -> Any:
    rows = np.asarray(rows, dtype=working_dtype("X", rows.dtype))
    require_finite(f"X, chunk {block_id[0] if block_id else 0},", rows)
    with one_thread():
        codes = (
            Coding(dictionary, n_nonzero_coefs, positive=positive, alpha=alpha).codes(Coder(dictionary), rows).T
        )
    return sp.csr_array(codes) if as_sparse else codes.toarray()


def _decoded(codes: Any, operator: Any, block_id: Any = None) -> Array:
    codes = sp.csc_array(codes.T) if sp.issparse(codes) else np.asarray(codes).T
    require_finite(f"X, chunk {block_id[0] if block_id else 0},", codes.data if sp.issparse(codes) else codes)
    with one_thread():
        signals = operator @ codes
    return signals.toarray().T if sp.issparse(signals) else signals.T
