"""Applying a product: its factors packed for the kernels, once per operator and direction."""

from collections.abc import Sequence
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from ..kernels.apply import ANY, PAIRS, QUADS, apply_block, apply_vector
from ..linalg import wide
from ..runtime.threads import split_work, workspace
from ..typing import Array

_TILE_BYTES = 1024  # of one row of a tile; half of it where the tile would leave a megabyte of cache
_LINE = 64  # bytes that go to and from memory together: no two threads should write into the same
_ROOM = 1 << 23  # for a tile, in bytes
_THREAD_WORK = 2_000_000  # entries × vectors from which a second thread pays, about 0.2 ms


class PackedFactor:
    """One factor, or two that were joined, as the arrays that the kernels read (`papilio.kernels.apply`).

    ``joined`` keeps what became of the attempts to join it with a later factor: neighbours meet again in each
    product that holds both.
    """

    def __init__(self, kind: int, n_rows: int, pointers: Array, indices: Array, values: Array) -> None:
        self.kind = kind
        self.n_rows = n_rows
        self.arrays = pointers, indices, values
        self.joined: WeakKeyDictionary[PackedFactor, PackedFactor | None] = WeakKeyDictionary()


class PackedProduct:
    """scale · S₁…S_M, of sound factors and the same ones packed; times vectors and blocks of its own dtype."""

    def __init__(self, factors: Sequence[sp.csr_array], scale: float, packed: Sequence[PackedFactor]) -> None:
        packed = list(reversed(packed))  # in the order of application
        self._dtype = factors[0].dtype
        self._n_rows = factors[0].shape[0]
        self._n_entries = sum(factor.nnz for factor in factors)
        self._longest = max(factors[-1].shape[1], *(factor.shape[0] for factor in factors))
        if scale != 1.0:
            first = factors[0].astype(wide(self._dtype))
            packed[-1] = pack_factor((first * scale).astype(self._dtype))
        steps: list[tuple[int, ...]] = []
        pieces: tuple[list[Array], ...] = ([], [], [])  # pointers, indices, values
        for factor in _join_neighbours(packed):
            steps.append((factor.n_rows, factor.kind, *(sum(map(len, piece)) for piece in pieces)))
            for piece, array in zip(pieces, factor.arrays, strict=True):
                piece.append(array)
        pointers, indices, values = map(np.concatenate, pieces)
        self._tile = self._tile_width(in_place=all(kind in (PAIRS, QUADS) for _, kind, *_ in steps))
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
        """scale · S₁…S_M x."""
        y = np.empty(self._n_rows, self._dtype)
        apply_vector(*self._arrays, x if x.flags.c_contiguous else x.copy(), y)
        return y

    def block(self, X: Array) -> Array:
        """scale · S₁…S_M X, row-major for row-major X and column-major for column-major X."""
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


def pack_factor(factor: sp.csr_array) -> PackedFactor:
    """A factor packed in the form that the kernels apply fastest."""
    n_rows = factor.shape[0]
    counts = np.diff(factor.indptr)
    width = int(counts[0])
    none = factor.indptr[:0]
    if width > 3 or width == 0 or not (counts == width).all():
        return PackedFactor(ANY, n_rows, factor.indptr, factor.indices, factor.data)
    if width == 2 and n_rows == factor.shape[1]:
        columns = factor.indices.reshape(-1, 2)
        upper = np.flatnonzero(columns[:, 0] == np.arange(n_rows))  # the upper row of each pair
        lower = columns[upper, 1]
        if 2 * upper.size == n_rows and (columns[lower] == columns[upper]).all():
            values = factor.data.reshape(-1, 2)
            blocks = np.hstack([values[upper], values[lower]])
            return PackedFactor(PAIRS, n_rows, none, columns[upper].ravel(), blocks.ravel())
    return PackedFactor(width, n_rows, none, factor.indices, factor.data)


def _join_neighbours(packed: Sequence[PackedFactor]) -> list[PackedFactor]:
    """Neighbouring `PAIRS` joined to `QUADS` wherever their pairs form squares."""
    joined = [packed[0]]
    for later in packed[1:]:
        earlier = joined[-1]
        quads = None
        if earlier.kind == later.kind == PAIRS:
            if later not in earlier.joined:
                earlier.joined[later] = _join(earlier, later)
            quads = earlier.joined[later]
        if quads is None:
            joined.append(later)
        else:
            joined[-1] = quads
    return joined


def _join(earlier: PackedFactor, later: PackedFactor) -> PackedFactor | None:
    """later @ earlier as `QUADS`, if the pairs of both form squares, else None.

    A square has the rows (i, j, k, m): (i, k) and (j, m) are pairs of the earlier factor, (i, j) and (k, m) of the
    later one.
    """
    (none, earlier_rows, earlier_values), (_, later_rows, later_values) = earlier.arrays, later.arrays
    if not (_is_moderate(earlier_values) and _is_moderate(later_values)):
        return None  # the product may leave the number range where one after the other would not
    earlier_pairs, later_pairs = earlier_rows.reshape(-1, 2), later_rows.reshape(-1, 2)
    earlier_blocks, later_blocks = earlier_values.reshape(-1, 2, 2), later_values.reshape(-1, 2, 2)
    in_earlier, in_later = np.argsort(earlier_rows), np.argsort(later_rows)  # where each row stands

    # The pair (i, j) of a square is a later pair whose rows both are the upper rows of earlier pairs.
    ij = np.flatnonzero((in_earlier[later_pairs] % 2 == 0).all(axis=1))
    i, j = later_pairs[ij].T
    ik, jm = in_earlier[i] // 2, in_earlier[j] // 2
    k, m = earlier_pairs[ik, 1], earlier_pairs[jm, 1]
    km = in_later[k] // 2
    if 4 * ij.size != earlier.n_rows or (later_pairs[km] != np.stack([k, m], axis=1)).any():
        return None
    first, second = np.zeros((2, ij.size, 4, 4), dtype=earlier_values.dtype)  # both factors on the rows i, j, k, m
    first[:, 0::2, 0::2] = earlier_blocks[ik]
    first[:, 1::2, 1::2] = earlier_blocks[jm]
    second[:, :2, :2] = later_blocks[ij]
    second[:, 2:, 2:] = later_blocks[km]
    squares = np.stack([i, j, k, m], axis=1)
    return PackedFactor(QUADS, later.n_rows, none, squares.ravel(), (second @ first).ravel())


def _is_moderate(values: Array) -> bool:
    limit = 1e100 if values.dtype in (np.float64, np.complex128) else 1e12
    return bool(1 / limit < np.abs(values).max() < limit)


def merged(factors: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """The cheapest way to multiply out neighbours, by dynamic programming over where groups end."""
    best: list[tuple[float, list[sp.csr_array]]] = [(0.0, [])]
    for end in range(1, len(factors) + 1):
        options = []
        product = None
        for begin in reversed(range(end)):
            product = factors[begin] if product is None else sp.csr_array(factors[begin] @ product)
            options.append((best[begin][0] + _cost(product), [*best[begin][1], product]))
            if _cost(product) > sum(map(_cost, factors[begin:end])):
                break  # products only fill up from here
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]


def _cost(factor: sp.csr_array) -> float:
    """The time for one vector, in units of one entry: a row costs about a quarter, a butterfly half."""
    return factor.nnz * (0.5 if pack_factor(factor).kind == PAIRS else 1.0) + 0.25 * factor.shape[0]
