"""The two ways to apply a part of a product: several factors in one fused kernel, or one dense factor by BLAS."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.apply import ALIGNMENT, DIRECT, ENDS, FIELDS, IN_PLACE, LAST, apply_block, apply_vector
from ..kernels.simd import TILE
from ..runtime.threads import get_num_threads, one_blas_thread, split_work, workspace
from ..typing import Array
from . import assistants

if TYPE_CHECKING:
    from .packing import PackedFactor

_LINE = 64  # bytes that go to and from memory together: no two threads should write into the same
_THREAD_WORK = 2_000_000  # multiplications from which a second thread pays for BLAS
_SHARED_BYTES = 8_000_000  # multiplications, times the bytes of a number: the same for the kernel, if it is awake
_SPLIT_WORK = 10_000_000  # multiplications: the same if it is not
_MANY_TILES = 4  # from which on threads share whole tiles
_FEW_READS = 1.5  # strips per row of the vectors up to which the first factor reads them where they are


class Fused:
    """Packed factors, in the order of application, in one kernel."""

    def __init__(self, factors: "Sequence[PackedFactor]", dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._n_rows = factors[-1].shape[0]
        self._longest = max(factors[0].shape[1], *(factor.shape[0] for factor in factors))
        self._room = 2 * TILE * self._longest + ALIGNMENT
        steps: list[list[int]] = []
        pointers: list[Array] = []
        indices: list[Array] = []
        values: list[Array] = []
        for f, factor in enumerate(factors):
            own = LAST * (f == len(factors) - 1) | IN_PLACE * factor.is_in_place
            for groups in factor.groups:
                places = [sum(array.size for array in arrays) for arrays in (pointers, indices, values)]
                steps.append([groups.height, len(groups.rows), own, *places])
                pointers.append(groups.pointers)
                indices += [groups.rows.ravel(), groups.columns]
                values.append(groups.values.ravel())
            steps[-1][2] |= ENDS
        n_reads = sum(groups.columns.size for groups in factors[0].groups)
        steps[0][2] |= DIRECT * (n_reads <= _FEW_READS * factors[0].shape[1])
        for step in steps:
            step[3] += 1 + FIELDS * len(steps)
        self._work = sum(array.size for array in values)
        self._arrays = (
            np.concatenate([[len(steps)], *steps, *pointers]).astype(np.int64),
            np.concatenate(indices).astype(np.uint32),
            np.concatenate(values).astype(dtype, copy=False),
        )

    def vector(self, x: Array) -> Array:
        y = np.empty(self._n_rows, self._dtype)
        apply_vector(*self._arrays, writeable(x if x.flags.c_contiguous else x.copy()), y, self._longest)
        return y

    def block(self, X: Array) -> Array:
        count = X.shape[1]
        by_rows = not X.flags.f_contiguous or X.flags.c_contiguous
        source = writeable(np.ascontiguousarray(X if by_rows else X.T))
        Y = np.empty((self._n_rows, count) if by_rows else (count, self._n_rows), self._dtype)
        work, tile = self._work * count, TILE // self._dtype.itemsize
        if work >= _SPLIT_WORK:

            def run(start: int, stop: int) -> None:
                apply_block(*self._arrays, source, Y, by_rows, workspace(self._room), start, stop)

            split_work(run, count, tile if count >= _MANY_TILES * tile else _LINE // self._dtype.itemsize)
            return Y if by_rows else Y.T
        room = workspace(self._room)
        is_shared = work * self._dtype.itemsize >= _SHARED_BYTES and count > tile and get_num_threads() > 1
        if not (is_shared and assistants.assistants.apply(self._arrays, source, Y, by_rows, room, count)):
            apply_block(*self._arrays, source, Y, by_rows, room, 0, count)
        return Y if by_rows else Y.T


class _Writeable:
    """Memory that NumPy takes for writeable."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}
        self._array = array


def writeable(array: Array) -> Array:
    """The same array for a kernel that does not write into it, but would be compiled again for a read-only one."""
    return array if array.flags.writeable else np.asarray(_Writeable(array))


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
