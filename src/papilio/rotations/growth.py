"""Chains of rotations that grow layer by layer: the one greedy loop behind all methods, and sweeps of the angles.

For orthogonal matrices near a given M, U = G₁G₂…G_g P has the largest Re tr UᴴM. P is a signed permutation (with
phases, if complex) that costs nothing: it orders and signs the columns of the last factor. For an M with
orthogonal rows of equal norm, the largest trace is the least ‖M − cU‖, whatever c is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ..kernels.givens import (
    CORRELATION,
    POLAR,
    add_layer,
    add_sequence,
    best_partner,
    diagonalise_all,
    disjoint,
    find_partners,
    peak_gains,
    sweep_polar,
    turn_to_peaks,
)
from ..linalg import frobenius
from ..runtime.session import Session
from ..typing import Array
from .chain import Chain, Turned, layer

LARGEST = 1 << 28  # entries of the largest dense matrix
_LEAST_SHARE = 0.3  # Relative to the mean gain in the layer; pairs that gain less are left to the next layer.
_MOST_FILLED = 1 / 8  # share of non-zero entries, above which a sparse matrix becomes dense
_MOST_STORED = 1 << 27  # entries of the largest sparse matrix
_EPS = float(np.finfo(np.float64).eps)

LARGEST_PEAK_SIDE = 256  # a layer of `PeakGrowth` takes O(n³) operations
_AGREEING = 1e-9  # how far from 1 the agreement of two rows may be for their rotation to be exact
_LEAST_PEAK_GAIN = 1e-12  # relative to Σ|w|⁴ per row; smaller gains are rounding

SWEEPS = 30
# Relative to the distance of the trace from its bound; a sweep that gains less is the last.
_LEAST_SWEEP_GAIN = 1e-3
_ENTRIES_PER_CALL = 1 << 23  # Entries that sweeps change between two checks whether to stop.


class Growth:
    """Rotations that are added greedily to a chain, and the working matrix W that follows them.

    ``kind`` is one of `papilio.kernels.givens`: what W is, what a rotation gains, and what it does to W. A
    layer has disjoint pairs, up to ``width`` of them. Coordinates that are ``retired`` are not rotated again. W
    is changed in place. It may be sparse if the kind is EIGEN, and stays so until many entries are non-zero.
    """

    def __init__(self, kind: int, matrix: Any, width: int | None = None) -> None:
        self.kind, self.matrix = kind, matrix
        self.size = matrix.shape[1]
        self.width = max(self.size // 2, 1) if width is None else width
        self.retired = np.zeros(self.size, bool)
        self.count = 0
        self._found: list[tuple[Array, Array, Array]] = []
        self._depths = [0] * self.size  # the number of layers up to the last one that rotates each coordinate
        largest = float(abs(matrix).max())
        least = {CORRELATION: (8 * _EPS) ** 2, POLAR: 8 * _EPS * largest}
        self._least = least.get(kind, (_EPS * largest) ** 2)  # smaller gains are rounding
        self._gains, self._partners = np.empty(0), np.empty(0, np.int64)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return max(self._depths)

    @property
    def is_full(self) -> bool:
        """Whether W is too large to be stored, sparse or dense."""
        return self.size**2 > LARGEST and sp.issparse(self.matrix) and self.matrix.nnz > _MOST_STORED

    def add(self, most: int) -> int:
        """Add a layer of at most ``most`` rotations; returns their number, 0 if no pair gains anything."""
        if sp.issparse(self.matrix):
            if self.matrix.nnz <= _MOST_FILLED * self.size**2 or self.size**2 > LARGEST:
                return self._keep(*self._sparse_layer(min(self.width, most)))
            self.matrix = self.matrix.toarray()
        room = min(self.width, most)
        pairs, lefts, rights = self._empty(room)
        state = self.kind, self.matrix, self.retired, *self._known(), self._least
        found = add_layer(*state, _LEAST_SHARE, pairs, lefts, rights)
        return self._keep(pairs[:found], lefts[:found], rights[:found])

    def add_in_turn(self, most: int) -> int:
        """Add ``most`` rotations one by one to a dense matrix, as with a width of 1; returns their number."""
        pairs, lefts, rights = self._empty(most)
        state = self.kind, self.matrix, self.retired, *self._known(), self._least
        found = add_sequence(*state, pairs, lefts, rights)
        return self._keep(pairs[:found], lefts[:found], rights[:found])

    def _known(self) -> tuple[Array, Array]:
        """The best gain and partner of each row."""
        if not self._gains.size:
            rows = self.matrix.shape[0]
            self._gains, self._partners = np.empty(rows), np.empty(rows, np.int64)
            find_partners(self.kind, self.matrix, self.retired, self._gains, self._partners)
        return self._gains, self._partners

    def _empty(self, count: int) -> tuple[Array, Array, Array]:
        """Arrays for pairs and their blocks, of rows and of columns."""
        shape, dtype = (count, 2, 2), self.matrix.dtype
        return np.empty((count, 2), np.int64), np.empty(shape, dtype), np.empty(shape, dtype)

    def retire(self, coordinate: int) -> None:
        """Do not rotate a coordinate again."""
        self.retired[coordinate] = True
        for i in np.flatnonzero((self._partners == coordinate) | (np.arange(self._partners.size) == coordinate)):
            self._gains[i], self._partners[i] = best_partner(self.kind, self.matrix, i, self.retired)

    def last(self) -> tuple[Array, Array]:
        """The pair and the 2×2 block of the last rotation."""
        pairs, lefts, _ = self._found[-1]
        return pairs[-1], lefts[-1]

    def chain(self, side: int = 1) -> Chain:
        """The rotations of the rows, or with side 2 those of the columns."""
        if not self._found:
            return Chain(self.size, np.empty((0, 2), np.int64), np.empty((0, 2, 2), self.matrix.dtype))
        pairs, blocks = (np.concatenate([found[k] for found in self._found]) for k in (0, side))
        return Chain(self.size, pairs, blocks)

    def continue_from(self, chain: Chain, matrix: Array, right: Chain | None = None) -> None:
        """Replace the angles of all rotations, those of the columns by ``right``, and W accordingly."""
        self._found = [(chain.pairs, chain.blocks, (right or chain).blocks)]
        self.matrix, self._gains = matrix, np.empty(0)

    def _keep(self, pairs: Array, lefts: Array, rights: Array) -> int:
        if len(pairs):
            self._found.append((pairs, lefts, rights))
            self.count += len(pairs)
            for i, j in pairs.tolist():
                self._depths[i] = self._depths[j] = max(self._depths[i], self._depths[j]) + 1
        return len(pairs)

    def _sparse_layer(self, room: int) -> tuple[Array, Array, Array]:
        """The same as `add_layer` for a sparse matrix."""
        upper = sp.coo_array(sp.triu(self.matrix, 1))
        gains = np.abs(upper.data) ** 2
        order = np.argsort(-gains, kind="stable")
        rows, columns = (place[order].astype(np.int64) for place in upper.coords)
        chosen = np.empty(room, np.int64)
        chosen = chosen[: disjoint(rows, columns, gains[order], self.size, self._least, _LEAST_SHARE, chosen)]
        pairs = np.stack([rows[chosen], columns[chosen]], axis=1)
        blocks = np.empty((len(pairs), 2, 2), self.matrix.dtype)
        diagonalise_all(self.matrix.diagonal().real[pairs], upper.data[order][chosen], blocks)
        turn = layer(self.size, pairs, blocks)
        matrix = sp.csr_array(turn.conj().T @ self.matrix @ turn)
        matrix.data[np.abs(matrix.data) ** 2 <= self._least] = 0
        matrix.eliminate_zeros()
        self.matrix = matrix
        return pairs, blocks, blocks


def grow(growth: Growth, room: Callable[[], int]) -> bool:
    """Add layers of at most ``room()`` rotations until it is 0; False if no pair gains anything before."""
    while (most := room()) > 0:
        if growth.is_full or not growth.add(most):
            return False
    return True


class PeakGrowth(Growth):
    """Rotations that are added greedily to a chain, so that Σ|w|⁴ of W = UᴴM grows.

    Pairs whose rotation leaves one entry per column come first, whatever their gain: if M is a product of few
    rotations, these are its first ones, and undoing them makes it a signed permutation.
    """

    def __init__(self, matrix: Array) -> None:
        super().__init__(POLAR, matrix)
        n = self.size
        self._least = _LEAST_PEAK_GAIN * float((abs(matrix) ** 4).sum()) / n
        self._units = np.array([1.0, -1j] if matrix.dtype.kind == "c" else [1.0, 0.0], matrix.dtype)
        self._pair_gains, self._agreements = np.zeros((n, n)), np.zeros((n, n))
        self._changed = np.arange(n)

    def add(self, most: int) -> int:
        """Add a layer of at most ``most`` rotations; returns their number, 0 if no pair gains anything."""
        gains, agreements = self._pair_gains, self._agreements
        peak_gains(self.matrix, self._changed, gains, agreements)
        room = min(self.width, most)
        pairs = self._chosen(np.where(agreements >= 1 - _AGREEING, gains, 0.0), 0.0, room)
        if not len(pairs):
            pairs = self._chosen(gains, _LEAST_SHARE, room)
        blocks = np.empty((len(pairs), 2, 2), self.matrix.dtype)
        turn_to_peaks(self.matrix, pairs, self._units, blocks)
        self._changed = np.unique(pairs)
        return self._keep(pairs, blocks, blocks)

    def _chosen(self, gains: Array, share: float, room: int) -> Array:
        """Disjoint pairs by descending gain."""
        rows, columns = np.nonzero(np.triu(gains > self._least, 1))
        values = gains[rows, columns]
        order = np.argsort(-values, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
        chosen = np.empty(room, np.int64)
        count = disjoint(rows, columns, values, self.size, self._least, share, chosen)
        return np.stack([rows, columns], axis=1)[chosen[:count]]


# -- orthogonal matrices near a given one ----------------------------------------------------------------


def nearest_permutation(matrix: Array) -> tuple[Array, Array, float]:
    """P with the largest Re tr PᴴM, as the columns and signs of `Turned`, and this trace."""
    rows, places = linear_sum_assignment(-np.abs(matrix))
    values = matrix[rows, places]
    sizes = np.abs(values)
    signs = np.where(sizes > 0, values / np.where(sizes > 0, sizes, 1), 1).astype(matrix.dtype)
    return np.argsort(places), signs, float(sizes.sum())


def without_rotations(matrix: Array) -> Turned:
    """The nearest signed permutation."""
    n = len(matrix)
    empty = Chain(n, np.empty((0, 2), np.int64), np.empty((0, 2, 2), matrix.dtype))
    return Turned(empty, *nearest_permutation(matrix))


class TraceGrowth:
    """Layers of rotations for a matrix M, each by the largest gains in trace, from the nearest signed permutation.

    A pair gains ‖Z‖_* − Re tr Z, where Z is its 2×2 block of UᴴM, by the polar factor of Z (Rusu and Rosasco 2019,
    who start from the identity and take one pair at a time).
    """

    def __init__(self, matrix: Array) -> None:
        self._start = without_rotations(matrix)
        self.growth = Growth(POLAR, self._start.times_inverse(matrix))

    def result(self) -> Turned:
        """The rotations so far."""
        trace = float(np.trace(self.growth.matrix).real)
        return Turned(self.growth.chain(), self._start.columns, self._start.signs, trace)


class SparseGrowth:
    """Layers of rotations for a matrix M that make UᴴM sparse, by Σ|w|⁴, up to a signed permutation."""

    def __init__(self, matrix: Array) -> None:
        self.growth = PeakGrowth(np.array(matrix, order="C"))

    def result(self) -> Turned:
        """The rotations so far, with the best permutation after them."""
        return Turned(self.growth.chain(), *nearest_permutation(self.growth.matrix))


def growths_for(matrix: Array) -> list[Callable[[Array], TraceGrowth | SparseGrowth]]:
    """The ways to add rotations; which one is better depends on the matrix."""
    return [SparseGrowth, TraceGrowth] if len(matrix) <= LARGEST_PEAK_SIDE else [TraceGrowth]


def approached(session: Session, matrix: Array, room: Callable[[Growth], int], n_sweeps: int = SWEEPS) -> Turned:
    """U for a square matrix in double precision: the best of all growths, after sweeps.

    ``room(growth)`` is the number of rotations that the next layer may have; 0 ends the growth.
    """
    best = without_rotations(matrix)
    for begin in growths_for(matrix):
        way = begin(matrix)

        def left(growth: Growth = way.growth) -> int:
            session.check()
            return room(growth)

        grow(way.growth, left)
        found = swept(session, matrix, way.result(), n_sweeps)
        best = found if found.trace > best.trace else best
    return best


def swept(session: Session, matrix: Array, turned: Turned, n_sweeps: int = SWEEPS) -> Turned:
    """Improve the angles in sweeps, one after the other.

    After each sweep the permutation is chosen again, too. The trace never falls.
    """
    if not len(turned.chain.pairs):
        return turned
    bound = float(np.sqrt(turned.chain.size)) * frobenius(matrix)  # Cauchy–Schwarz bound for the trace.
    for _ in range(n_sweeps):
        blocks, work = better_angles(session, turned.times_inverse(matrix), turned.chain)
        work = (work * turned.signs)[:, turned.columns]
        again = Turned(turned.chain._replace(blocks=blocks), *nearest_permutation(work))
        gained = again.trace - turned.trace
        if gained > 0:
            turned = again
        if gained <= _LEAST_SWEEP_GAIN * (bound - turned.trace):
            break
    return turned


def better_angles(session: Session, matrix: Array, chain: Chain) -> tuple[Array, Array]:
    """The blocks of a chain U after a sweep in which Re tr UᴴM never falls, and UᴴM at its end."""
    blocks = chain.blocks.copy()
    # The sweep works on MUᴴ, the adjoint of UMᴴ.
    work = np.ascontiguousarray(chain.apply(matrix.conj().T).conj().T)
    step = max(_ENTRIES_PER_CALL // (4 * chain.size), 1)
    for begin in range(0, len(blocks), step):
        session.check()
        sweep_polar(work, chain.pairs[begin : begin + step], blocks[begin : begin + step])
    return blocks, work
