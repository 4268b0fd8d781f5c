"""The two ways to apply a part of a product: several factors in one fused kernel, or one dense factor by BLAS."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.apply import PAIRS, QUADS, apply_block, apply_vector
from ..runtime.threads import get_num_threads, one_blas_thread, split_work, workspace
from ..typing import Array

if TYPE_CHECKING:
    from .packing import PackedFactor

_TILE_BYTES = 1024  # of one row of a tile; half of it where the tile would leave a megabyte of cache
_LINE = 64  # bytes that go to and from memory together: no two threads should write into the same
_ROOM = 1 << 23  # for a tile, in bytes
_THREAD_WORK = 2_000_000  # entries × vectors from which a second thread pays, about 0.2 ms


class Fused:
    """Packed factors, in the order of application, in one kernel."""

    def __init__(self, factors: "Sequence[PackedFactor]", dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._n_rows = factors[-1].shape[0]
        self._n_entries = sum(factor.n_entries for factor in factors)
        self._longest = max(factors[0].shape[1], *(factor.shape[0] for factor in factors))
        steps: list[tuple[int, ...]] = []
        pieces: tuple[list[Array], ...] = ([], [], [])  # pointers, indices, values
        for factor in factors:
            steps.append((factor.shape[0], factor.kind, *(sum(map(len, piece)) for piece in pieces)))
            for piece, array in zip(pieces, factor.arrays, strict=True):
                piece.append(array)
        pointers, indices, values = map(np.concatenate, pieces)
        self._tile = self._tile_width(in_place=all(factor.kind in (PAIRS, QUADS) for factor in factors))
        self._arrays = (
            np.array(steps, dtype=np.int64),
            pointers.astype(np.int64),
            indices.astype(np.uint32),
            values,
        )

    def _tile_width(self, in_place: bool) -> int:
        """How many vectors a tile holds, so that it stays in cache, or else within a few megabytes."""
        if self._longest <= (1024 if in_place else 256):
            return _TILE_BYTES // self._dtype.itemsize
        return max(64, min(_TILE_BYTES // 2, _ROOM // self._longest)) // self._dtype.itemsize

    def vector(self, x: Array) -> Array:
        y = np.empty(self._n_rows, self._dtype)
        apply_vector(*self._arrays, x if x.flags.c_contiguous else x.copy(), y)
        return y

    def block(self, X: Array) -> Array:
        count = X.shape[1]
        by_rows = not X.flags.f_contiguous or X.flags.c_contiguous
        source = np.ascontiguousarray(X if by_rows else X.T)
        Y = np.empty((self._n_rows, count) if by_rows else (count, self._n_rows), self._dtype)

        def run(start: int, stop: int) -> None:
            tiles = -(-(stop - start) // self._tile)
            size = (2, self._longest, -(-(stop - start) // tiles))  # tiles of equal width
            room = workspace(self._dtype.itemsize * prod(size)).view(self._dtype).reshape(size)
            apply_block(*self._arrays, source, Y, by_rows, room[0], room[1], start, stop)

        if count and self._n_entries * count < _THREAD_WORK:
            run(0, count)
        elif count:
            split_work(run, count, _LINE // self._dtype.itemsize)
        return Y if by_rows else Y.T


class Dense:
    """One matrix, by BLAS and its own threads, unless papilio is to use one."""

    def __init__(self, matrix: Array) -> None:
        self._matrix = matrix

    def vector(self, x: Array) -> Array:
        if self._matrix.size >= _THREAD_WORK and get_num_threads() == 1:
            with one_blas_thread:
                return self._matrix @ x
        return self._matrix @ x

    def block(self, X: Array) -> Array:
        if self._matrix.size * X.shape[1] >= _THREAD_WORK and get_num_threads() == 1:
            with one_blas_thread:
                return self._product(X)
        return self._product(X)

    def _product(self, X: Array) -> Array:
        if X.flags.c_contiguous:
            return self._matrix @ X
        if X.flags.f_contiguous:
            return (X.T @ self._matrix.T).T
        return self._matrix @ np.ascontiguousarray(X)  # which BLAS could not read otherwise
