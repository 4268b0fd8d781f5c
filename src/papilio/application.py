"""Applying an operator: its factors packed for the kernels, once per operator and direction."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .kernels.apply import apply_columns, apply_rows, apply_vector
from .kernels.threads import split_work
from .linalg import wide
from .validation import Array

_TILE_BYTES = 512  # of one row of a tile: a few cache lines for each vector instruction stream
_THREAD_WORK = 500_000  # entries × vectors from which a second thread pays, about 0.2 ms


class Application:
    """scale · S₁…S_M times vectors and blocks of the operator's own dtype.

    Parameters
    ----------
    factors : sequence of csr_array
        Sound ones, left to right: kernels do not check bounds.
    scale : float
    """

    def __init__(self, factors: Sequence[sp.csr_array], scale: float) -> None:
        packed = list(reversed(factors))
        steps, first, offset, pointers = [], 0, 0, []
        for factor in packed:
            counts = np.diff(factor.indptr)
            width = int(counts[0]) if counts[0] <= 4 and (counts == counts[0]).all() else 0
            steps.append((factor.shape[0], width, first))
            pointers.append(factor.indptr.astype(np.int64) + offset)
            first += factor.shape[0] + 1
            offset += factor.nnz
        self._dtype = packed[0].dtype
        self._rows = packed[-1].shape[0]
        last = packed[-1].data
        if scale != 1.0:
            last = (last.astype(wide(self._dtype)) * scale).astype(self._dtype)
        self._packed = (
            np.array(steps, dtype=np.int64),
            np.concatenate(pointers),
            np.concatenate([factor.indices for factor in packed]).astype(np.int32),
            np.concatenate([*(factor.data for factor in packed[:-1]), last]),
        )
        self._entries = offset
        self._tile = _TILE_BYTES // self._dtype.itemsize

    def vector(self, x: Array) -> Array:
        """scale · S₁…S_M x."""
        y = np.empty(self._rows, self._dtype)
        apply_vector(*self._packed, _as_source(x), y)
        return y

    def block(self, X: Array) -> Array:
        """scale · S₁…S_M X, row-major for row-major X and column-major for column-major X."""
        count = X.shape[1]
        if X.flags.f_contiguous and not X.flags.c_contiguous:
            Y = np.empty((count, self._rows), self._dtype)
            self._run(apply_columns, X.T, Y, count)
            return Y.T
        Y = np.empty((self._rows, count), self._dtype)
        self._run(apply_rows, X, Y, count)
        return Y

    def _run(self, kernel: Callable[..., Any], X: Array, Y: Array, count: int) -> None:
        grain = self._tile if self._entries * count >= _THREAD_WORK else max(count, 1)
        split_work(kernel, (*self._packed, _as_source(X), Y), count, grain, self._tile)


def _as_source(array: Array) -> Array:
    """A contiguous, read-only view: one compiled kernel serves writeable and read-only arrays alike."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
