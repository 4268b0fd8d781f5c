"""Sparse matrices as products of sparse factors without further structure, layer by layer.

Let Y = U T with sparse U and T. Two columns of Y that read the same unit, a column u of U, are proportional on the
places of u where no other unit of theirs has an entry. So equal ratios in two columns show a unit, up to its size,
or a part of it. Columns are then coded by the units, largest gains first; the residual shows places that
units still lack, and more units. What no two columns share stays as units that are read once. The same on U gives
the next layer, and on the transpose the layers from the other side.

Ratios are equal by chance where entries have few different values, such as ±1: there nothing is found.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...operators import SparseProduct
from ...runtime.session import Session
from ...typing import Array
from ..curves import Curve, relative_error, single
from ..search import Method, Search

_LARGEST_SIDE = 128  # pairs of columns, and sorted ratios for each
_DENSEST = 0.75  # share of entries: in denser products no ratios are equal
_DISTINCT = 0.5  # share of different absolute values
_EQUAL = 1e-7  # relative difference of equal ratios
_ZERO = 1e-9  # Relative to the largest entry; smaller entries are zero.
_LEAST = 2  # places of a unit
_MOST_LAYERS, _ROUNDS, _PATIENCE, _MOST_READ = 8, 12, 2, 32


class Layer(NamedTuple):
    """Y = units @ codes."""

    units: Array
    codes: Array

    @property
    def nnz(self) -> int:
        return int(np.count_nonzero(self.units) + np.count_nonzero(self.codes))


def layers(session: Session, matrix: Array, n_factors: int | None) -> Iterator[Curve]:
    """Exact products of a sparse real matrix, with two factors and more, from either side."""
    if not may_have_layers(matrix):
        return
    most = _MOST_LAYERS if n_factors is None else n_factors
    for side in ("right", "left"):
        Y = np.ascontiguousarray(matrix if side == "right" else matrix.T, dtype=np.float64)
        factors: list[Array] = []
        while len(factors) + 1 < most:
            layer = peeled(session, Y)
            if layer is None:
                break
            Y, factors = layer.units, [layer.codes, *factors]
            if n_factors in (None, len(factors) + 1):
                chain = [sp.csr_array(factor) for factor in [Y, *factors]]
                if side == "left":
                    chain = [sp.csr_array(factor.T) for factor in reversed(chain)]
                operator = SparseProduct(chain).astype(matrix.dtype)
                error = relative_error(matrix, operator)
                yield single("layers", f"{len(chain)} factors from the {side}", operator, error)


def may_have_layers(matrix: Array) -> bool:
    """Whether a matrix is real, small, sparse, and has entries of many different sizes."""
    if matrix.dtype.kind == "c" or max(matrix.shape) > _LARGEST_SIDE:
        return False
    entries = np.abs(matrix[matrix != 0])
    is_sparse = 0 < entries.size <= _DENSEST * matrix.size
    return is_sparse and np.unique(entries).size >= _DISTINCT * entries.size


def peeled(session: Session, Y: Array) -> Layer | None:
    """Y as a product of two sparse matrices with fewer entries than it has; None if none is found."""
    units = merged(shared_pieces(session, Y), len(Y))
    best, failures = None, 0
    for _ in range(_ROUNDS):
        if not units.shape[1]:
            break
        codes, rest = coded(session, Y, units)
        layer = assembled(Y, units, codes, rest)
        failures = 0 if best is None or layer.nnz < best.nnz else failures + 1
        best = layer if failures == 0 else best
        if failures > _PATIENCE or not rest.any():
            break
        is_read = np.count_nonzero(codes, axis=1) > 1
        units, codes = units[:, is_read], codes[is_read]
        units, is_changed = completed(units, codes, _without_rounding(Y - units @ codes, Y))
        _, rest = coded(session, Y, units)
        more = merged(shared_pieces(session, rest), len(Y))
        if not (more.shape[1] or is_changed):
            break
        units = np.hstack([units, more])
    return best if best is not None and best.nnz < np.count_nonzero(Y) else None


def shared_pieces(session: Session, Y: Array) -> list[tuple[Array, Array]]:
    """Places and values that two columns have in common, up to their size: parts of units."""
    found = []
    for c in range(Y.shape[1] - 1):
        session.check()
        rows = np.flatnonzero(Y[:, c])
        if rows.size < _LEAST:
            continue
        others = Y[rows, c + 1 :]
        ratios, order = _sorted_ratios(others, Y[rows, c])
        same = _equal_neighbours(ratios)
        for q in np.flatnonzero(same.any(axis=0)):
            edges = np.flatnonzero(np.diff(np.concatenate([[False], same[:, q], [False]]).astype(np.int8)))
            for begin, end in zip(edges[::2], edges[1::2], strict=True):
                at = np.sort(rows[order[begin : end + 1, q]])
                found.append((at, Y[at, c]))
    return found


def _sorted_ratios(columns: Array, of: Array) -> tuple[Array, Array]:
    """Ratios of each column to another one, ascending, infinite for zeros, and their places."""
    ratios = np.where(columns != 0, columns / of[:, None], np.inf)
    order = np.argsort(ratios, axis=0, kind="stable")
    return np.take_along_axis(ratios, order, axis=0), order


def _equal_neighbours(ratios: Array) -> Array:
    """Whether a sorted ratio equals the next one."""
    finite = np.where(np.isfinite(ratios), ratios, 0)
    return (np.abs(np.diff(finite, axis=0)) <= _EQUAL * np.abs(finite[:-1])) & np.isfinite(ratios[1:])


def merged(pieces: list[tuple[Array, Array]], size: int) -> Array:
    """Units as columns: pieces that are proportional on most of what they share are parts of one."""
    units = np.zeros((size, 0))
    seen = set()
    for at, piece in sorted(pieces, key=lambda piece: -piece[0].size):
        values = piece / piece[np.argmax(np.abs(piece))]
        key = at.tobytes(), np.round(values, 6).tobytes()
        if key in seen:
            continue
        seen.add(key)
        part = units[at]
        overlap = np.count_nonzero(part, axis=0)
        smaller = np.minimum(at.size, np.count_nonzero(units, axis=0))
        for j in np.flatnonzero((overlap >= _LEAST) & (2 * overlap > smaller)):
            on = part[:, j] != 0
            ratio = part[on, j] / values[on]
            if np.ptp(ratio) <= 10 * _EQUAL * abs(ratio[0]):
                units[at, j] = np.where(on, part[:, j], values * ratio[0])
                break
        else:
            new = np.zeros((size, 1))
            new[at, 0] = values
            units = np.hstack([units, new])
    return units


def coded(session: Session, Y: Array, units: Array) -> tuple[Array, Array]:
    """Codes of the columns of Y, and what they leave; each unit must remove more entries than it costs."""
    codes, rest = np.zeros((units.shape[1], Y.shape[1])), Y.copy()
    sizes = np.count_nonzero(units, axis=0)
    for c in range(Y.shape[1]):
        session.check()
        for _ in range(_MOST_READ if sizes.size else 0):
            column = rest[:, c]
            weights, removed = _best_weights(column, units)
            filled = np.count_nonzero(units[column == 0], axis=0)
            gains = np.where(codes[:, c] == 0, removed - filled, -1)
            j = int(np.lexsort((sizes, gains))[-1])
            if gains[j] < _LEAST:
                break
            codes[j, c] = weights[j]
            rest[:, c] = _without_rounding(column - weights[j] * units[:, j], Y)
    return codes, rest


def _best_weights(column: Array, units: Array) -> tuple[Array, Array]:
    """For each unit the weight with which most of its places vanish from a column, and how many do."""
    valid = (units != 0) & (column != 0)[:, None]
    ratios = np.sort(np.where(valid, column[:, None] / np.where(units != 0, units, 1), np.inf), axis=0)
    same = _equal_neighbours(ratios)
    count, longest, place = (np.zeros(units.shape[1], np.int64) for _ in range(3))
    for i in range(len(same)):  # the longest runs of equal neighbours
        count = np.where(same[i], count + 1, 0)
        place = np.where(count > longest, i, place)
        longest = np.maximum(longest, count)
    return ratios[place, np.arange(units.shape[1])], np.where(longest > 0, longest + 1, 0)


def completed(units: Array, codes: Array, rest: Array) -> tuple[Array, bool]:
    """Units with the entries that two of their readers lack, in proportion to what they read; any?"""
    units, is_changed = units.copy(), False
    for j in range(units.shape[1]):
        readers = np.flatnonzero(codes[j])
        lacking = np.sort(np.where(rest[:, readers] != 0, rest[:, readers] / codes[j, readers], np.inf).T, axis=0)
        same = _equal_neighbours(lacking)
        for i in np.flatnonzero(same.any(axis=0)):
            value = lacking[np.argmax(same[:, i]), i]
            units[i, j] += value
            if abs(units[i, j]) <= _ZERO:
                units[i, j] = 0
            rest[i, readers] -= codes[j, readers] * value
            is_changed = True
    return units, is_changed


def assembled(Y: Array, units: Array, codes: Array, rest: Array) -> Layer:
    """Shared units as they are; all that only one column reads is one unit of its own."""
    is_shared = np.count_nonzero(codes, axis=1) > 1
    own = _without_rounding(rest + units[:, ~is_shared] @ codes[~is_shared], Y)
    alone = np.flatnonzero(own.any(axis=0))
    identity = np.eye(Y.shape[1])[alone]
    return Layer(np.hstack([units[:, is_shared], own[:, alone]]), np.vstack([codes[is_shared], identity]))


def _without_rounding(rest: Array, Y: Array) -> Array:
    return np.where(np.abs(rest) <= _ZERO * np.abs(Y).max(), 0, rest)


def _of(search: Search) -> Iterator[Curve]:
    return layers(search.session, search.problem.matrix, search.target.n_factors)


METHOD = Method(
    "layers",
    "small sparse matrices that are products of sparser ones, without further structure",
    _of,
    lambda search: not (search.problem.is_zero or search.is_exact),
)
