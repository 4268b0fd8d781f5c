"""Applying an operator: its factors packed for the kernels, once per operator and direction."""

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


class Form:
    """What the kernels see of one factor, or of two that are joined, and what it was joined with before."""

    def __init__(self, kind: int, rows: int, pointers: Array, indices: Array, values: Array) -> None:
        self.kind = kind
        self.rows = rows
        self.arrays = pointers, indices, values
        self.joins: WeakKeyDictionary[Form, Form | None] = WeakKeyDictionary()


class Application:
    """scale · S₁…S_M times vectors and blocks of the operator's own dtype.

    Parameters
    ----------
    factors : sequence of csr_array
        Sound ones, left to right: kernels do not check bounds.
    scale : float
    forms : sequence
        What `form_of` says of each factor.
    """

    def __init__(self, factors: Sequence[sp.csr_array], scale: float, forms: Sequence[Form]) -> None:
        applied = list(reversed(factors))
        seen = list(reversed(forms))
        self._dtype = applied[0].dtype
        self._rows = applied[-1].shape[0]
        self._entries = sum(factor.nnz for factor in applied)
        self._longest = max(applied[0].shape[1], *(factor.shape[0] for factor in applied))

        if scale != 1.0:
            last = applied[-1].astype(wide(self._dtype))
            seen[-1] = form_of((last * scale).astype(self._dtype))
        steps: list[tuple[int, ...]] = []
        pieces: tuple[list[Array], ...] = ([], [], [])  # pointers, indices, values
        for form in _joined(seen):
            steps.append((form.rows, form.kind, *(sum(map(len, piece)) for piece in pieces)))
            for piece, array in zip(pieces, form.arrays, strict=True):
                piece.append(array)
        pointers, indices, values = map(np.concatenate, pieces)
        self._tile = self._tile_of(in_place=all(kind in (PAIRS, QUADS) for _, kind, *_ in steps))
        self._packed = (
            np.array(steps, dtype=np.int64),
            pointers.astype(np.int64),
            indices.astype(np.uint32),
            values,
        )

    def _tile_of(self, in_place: bool) -> int:
        """How many vectors a tile holds, so that it stays in cache, or else within a few megabytes."""
        if self._longest <= (1024 if in_place else 256):
            return _TILE_BYTES // self._dtype.itemsize
        return max(64, min(_TILE_BYTES // 2, _ROOM // self._longest)) // self._dtype.itemsize

    def vector(self, x: Array) -> Array:
        """scale · S₁…S_M x."""
        y = np.empty(self._rows, self._dtype)
        apply_vector(*self._packed, x if x.flags.c_contiguous else x.copy(), y)
        return y

    def block(self, X: Array) -> Array:
        """scale · S₁…S_M X, row-major for row-major X and column-major for column-major X."""
        count = X.shape[1]
        by_rows = not X.flags.f_contiguous or X.flags.c_contiguous
        source = np.ascontiguousarray(X if by_rows else X.T)
        Y = np.empty((self._rows, count) if by_rows else (count, self._rows), self._dtype)

        def run(start: int, stop: int) -> None:
            tiles = -(-(stop - start) // self._tile)
            size = (2, self._longest, -(-(stop - start) // tiles))  # tiles of equal width
            room = workspace(self._dtype.itemsize * prod(size)).view(self._dtype).reshape(size)
            apply_block(*self._packed, source, Y, by_rows, room[0], room[1], start, stop)

        if count and self._entries * count < _THREAD_WORK:
            run(0, count)
        elif count:
            split_work(run, count, _LINE // self._dtype.itemsize)
        return Y if by_rows else Y.T


def form_of(factor: sp.csr_array) -> Form:
    """A factor as the kernels see it."""
    rows = factor.shape[0]
    counts = np.diff(factor.indptr)
    width = int(counts[0])
    none = factor.indptr[:0]
    if width > 3 or width == 0 or not (counts == width).all():
        return Form(ANY, rows, factor.indptr, factor.indices, factor.data)
    if width == 2 and factor.shape[0] == factor.shape[1]:
        columns = factor.indices.reshape(-1, 2)
        low = np.flatnonzero(columns[:, 0] == np.arange(len(columns)))  # the upper row of each pair
        high = columns[low, 1]
        if 2 * low.size == len(columns) and (columns[high] == columns[low]).all():
            values = factor.data.reshape(-1, 2)
            blocks = np.hstack([values[low], values[high]])
            return Form(PAIRS, rows, none, columns[low].ravel(), blocks.ravel())
    return Form(width, rows, none, factor.indices, factor.data)


def _joined(forms: list[Form]) -> list[Form]:
    """Neighbouring pairs of rows joined to squares wherever they close."""
    joined = forms[:1]
    for form in forms[1:]:
        before = joined[-1]
        quads = None
        if before.kind == form.kind == PAIRS:
            if form not in before.joins:  # neighbours meet again in each product that holds both
                before.joins[form] = _quads(before, form)
            quads = before.joins[form]
        if quads is None:
            joined.append(form)
        else:
            joined[-1] = quads
    return joined


def _quads(first: Form, second: Form) -> Form | None:
    """second @ first, if the pairs of both close to squares (i, j, k, m).

    (i, k) and (j, m) are pairs of the first, (i, j) and (k, m) of the second factor.
    """
    (none, rows, entries), (_, later_rows, later_entries) = first.arrays, second.arrays
    limit = 1e100 if entries.dtype in (np.float64, np.complex128) else 1e12
    if not all(1 / limit < np.abs(values).max() < limit for values in (entries, later_entries)):
        return None  # their product may leave the number range where one after the other would not
    pairs, later_pairs = rows.reshape(-1, 2), later_rows.reshape(-1, 2)
    values, later_values = entries.reshape(-1, 2, 2), later_entries.reshape(-1, 2, 2)
    places = np.empty((2, pairs.size), dtype=np.intp)  # of each row in the pairs of both, flat
    for place, flat in zip(places, (rows, later_rows), strict=True):
        place[flat] = np.arange(pairs.size)

    # Each square is found from that of its second pairs which holds the upper rows of its first pairs.
    upper = np.flatnonzero((places[0][later_pairs] % 2 == 0).all(axis=1))
    i, j = later_pairs[upper].T
    k, m = pairs[places[0][i] // 2, 1], pairs[places[0][j] // 2, 1]
    lower = places[1][k] // 2
    if 4 * upper.size != pairs.size or (later_pairs[lower] != np.stack([k, m], axis=1)).any():
        return None
    blocks = np.zeros((2, upper.size, 4, 4), dtype=values.dtype)  # of both factors, rows i, j, k, m
    blocks[0, :, 0::2, 0::2] = values[places[0][i] // 2]
    blocks[0, :, 1::2, 1::2] = values[places[0][j] // 2]
    blocks[1, :, :2, :2] = later_values[upper]
    blocks[1, :, 2:, 2:] = later_values[lower]
    squares = np.stack([i, j, k, m], axis=1)
    return Form(QUADS, second.rows, none, squares.ravel(), (blocks[1] @ blocks[0]).ravel())


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
    return factor.nnz * (0.5 if form_of(factor).kind == PAIRS else 1.0) + 0.25 * factor.shape[0]
