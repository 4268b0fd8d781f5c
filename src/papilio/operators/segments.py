"""The two ways to apply a part of a product: several factors in one fused kernel, or one dense factor by BLAS."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.apply import ADDS, ALIGNMENT, DIRECT, ENDS, FIELDS, IN_PLACE, LAST, apply_block, apply_vector
from ..kernels.shared import share_block, share_vector
from ..kernels.simd import HEIGHTS, REGISTER, TILE
from ..runtime.forks import cached_property
from ..runtime.threads import get_num_threads, one_blas_thread, scratch, workspace
from ..typing import Array
from . import assistants
from .cost import is_near
from .groups import in_chunks

if TYPE_CHECKING:
    from .packing import PackedFactor

_LINE = 64  # bytes that go to and from memory together: no two threads should write into the same
_THREAD_WORK = 2_000_000  # multiplications from which a second thread pays for BLAS
_SHARED_BYTES = 3_000_000  # multiplications, times the bytes of a number: the same for the kernel, if it is awake
_LONG_BYTES = 80_000_000  # the same if it has to be woken
_SHARED_VECTOR_BYTES = 1_000_000  # of the values: the same for one vector
_PARTS = 4  # of a product, for each thread: the last ones to be done are waited for
_NEAR_BYTES, _FAR_BYTES = 1 << 15, 1 << 17  # of a tile, read at a time: they fit into the first or second cache
_MANY_STRIPS = 8  # of a group of four
_FEW_READS = 1.5  # strips per row of the vectors up to which the first factor reads them where they are


def _tile_for(factors: "Sequence[PackedFactor]") -> int:
    """The bytes of one row of a tile.

    With sixteen registers, groups of four take three of each row at a time: where they have many strips, tiles
    have a multiple of that.
    """
    groups = [each for factor in factors for each in factor.groups]
    n_fours = sum(len(each.rows) for each in groups if each.height == HEIGHTS[0])
    in_fours = sum(each.columns.size for each in groups if each.height == HEIGHTS[0])
    is_mostly_fours = in_fours > sum(each.columns.size for each in groups) / 2
    return TILE * 3 // 4 if REGISTER < 64 and is_mostly_fours and in_fours >= _MANY_STRIPS * n_fours else TILE


def _chunk_for(factor: "PackedFactor", tile: int) -> int:
    """The columns of a factor that are read at a time."""
    if factor.is_in_place:
        return factor.shape[1]
    return (_NEAR_BYTES if is_near(factor) else _FAR_BYTES) // tile


def _program(
    factors: "Sequence[PackedFactor]", dtype: np.dtype[Any], chunks: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Program, indices and values for `papilio.kernels.apply`, with so many columns of each factor at a time."""
    steps: list[list[int]] = []
    pointers: list[Array] = []
    indices: list[Array] = []
    values: list[Array] = []
    ends = [0, 0, 0]  # of pointers, indices and values
    for f, (factor, chunk) in enumerate(zip(factors, chunks, strict=True)):
        # Sums in several parts stay in the tile: other threads write into the same lines of the result.
        own = LAST * (f == len(factors) - 1 and chunk >= factor.shape[1]) | IN_PLACE * factor.is_in_place
        for groups, adds in in_chunks(factor.groups, chunk):
            steps.append([groups.height, len(groups.rows), own | ADDS * adds, *ends])
            pointers.append(groups.pointers)
            indices += [groups.rows.ravel(), groups.columns]
            values.append(groups.values.ravel())
            sizes = groups.pointers.size, groups.rows.size + groups.columns.size, groups.values.size
            ends = [end + size for end, size in zip(ends, sizes, strict=True)]
        steps[-1][2] |= ENDS
    n_reads = sum(groups.columns.size for groups in factors[0].groups)
    steps[0][2] |= DIRECT * (n_reads <= _FEW_READS * factors[0].shape[1])
    for step in steps:
        step[3] += 1 + FIELDS * len(steps)
    return (
        np.concatenate([[len(steps)], *steps, *pointers]).astype(np.int64),
        np.concatenate(indices, dtype=np.uint32, casting="unsafe"),  # without a copy in between: it may be large
        np.concatenate(values, dtype=dtype),
    )


class Fused:
    """Packed factors, in the order of application, in one kernel."""

    def __init__(self, factors: "Sequence[PackedFactor]", dtype: np.dtype[Any]) -> None:
        self._factors, self._dtype = factors, dtype
        self._n_rows = factors[-1].shape[0]
        self._tile = _tile_for(factors)
        self._longest = max(factors[0].shape[1], *(factor.shape[0] for factor in factors))
        self._room = 2 * self._tile * self._longest + ALIGNMENT
        self._work = sum(groups.values.size for factor in factors for groups in factor.groups)
        self._is_long_for_vectors = self._work * dtype.itemsize >= _SHARED_VECTOR_BYTES

    @cached_property
    def _for_vectors(self) -> tuple[Array, Array, Array]:
        return _program(self._factors, self._dtype, [factor.shape[1] for factor in self._factors])

    @cached_property
    def _for_blocks(self) -> tuple[Array, Array, Array]:
        chunks = [_chunk_for(factor, self._tile) for factor in self._factors]
        if all(chunk >= factor.shape[1] for chunk, factor in zip(chunks, self._factors, strict=True)):
            return self._for_vectors
        return _program(self._factors, self._dtype, chunks)

    def vector(self, x: Array) -> Array:
        y, x = np.empty(self._n_rows, self._dtype), writeable(x if x.flags.c_contiguous else x.copy())
        if self._is_long_for_vectors and (threads := get_num_threads()) > 1:
            (buffers,) = scratch("vectors", ((2, self._longest), self._dtype))
            job = (*self._for_vectors, x, y, buffers, _PARTS * threads)
            if assistants.assistants.share(share_vector, job, self._dtype, threads, False):
                return y
        apply_vector(*self._for_vectors, x, y, self._longest)
        return y

    @property
    def values(self) -> Array:
        """The values for blocks, in the order of the kernel."""
        return self._for_blocks[2]

    def block(self, X: Array, values: Array | None = None, out: Array | None = None) -> Array:
        """The product with a block.

        It may have other ``values``, in the order of the kernel and of the dtype of X, and may be written into
        ``out``; both blocks are row-major then.
        """
        program, indices, own = self._for_blocks
        values = own if values is None else values
        flags, count, dtype = X.flags, X.shape[1], values.dtype
        by_rows = flags.c_contiguous or not flags.f_contiguous
        source = X if by_rows else X.T
        if not source.flags.c_contiguous:
            source = source.copy()
        Y = np.empty((self._n_rows, count) if by_rows else (count, self._n_rows), dtype) if out is None else out
        item, job = (
            dtype.itemsize,
            (program, indices, values, writeable(source), Y, by_rows, workspace(self._room)),
        )
        work = self._work * count * item
        if work < _SHARED_BYTES or not self._share(job, count, dtype, work >= _LONG_BYTES):
            apply_block(*job, count, self._tile // item)
        return Y if by_rows else Y.T

    def _share(self, job: tuple[Any, ...], count: int, dtype: np.dtype[Any], is_long: bool) -> bool:
        """A block with other threads; False if there are none, or if they are busy."""
        threads, item = get_num_threads(), dtype.itemsize
        lines = -(-count * item // _LINE)
        if min(threads, lines) == 1:
            return False
        # Equal parts of whole lines, which are neighbours in memory; each of several tiles, if there are enough.
        n_parts = threads * min(max(lines * _LINE // (2 * self._tile * threads), 1), _PARTS)
        length = -(-lines // n_parts) * _LINE // item
        per_tile = min(self._tile // item, length)
        whole = (*job, count, per_tile, length)
        return assistants.assistants.share(share_block, whole, dtype, n_parts, is_long)


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
