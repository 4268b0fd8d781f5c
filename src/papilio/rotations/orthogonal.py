"""Orthogonal matrices near a given one, as products of rotations: U = G₁G₂…G_g P with the largest Re tr UᴴM.

P is a permutation with signs, or phases, which costs nothing: it orders and signs the columns of the last factor.
For a matrix M with orthogonal rows of equal norm, the largest trace is the least ‖M − cU‖, whatever c is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import maximum_bipartite_matching

from ..kernels.angles import sweep_polar
from ..kernels.rotations import POLAR
from ..linalg import frobenius, wide
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..runtime.session import Session
from ..typing import Array
from .chain import Chain
from .greedy import Growth, grow
from .peaks import LARGEST_SIDE, PeakGrowth

SWEEPS = 30
_WORTH = 1e-3  # of what the trace lacks of its bound: a sweep that gains less is the last
_SLICE = 1 << 23  # entries that rotations change before the session is asked whether to stop


@dataclass(frozen=True)
class Turned:
    """U = G₁G₂…G_g P: rotations, and the order and signs of the columns of their product."""

    chain: Chain
    columns: Array  # column q of U is column columns[q] of the chain's product, times the sign of that
    signs: Array
    trace: float  # Re tr UᴴM

    def as_product(self, dtype: np.dtype[Any]) -> SparseProduct:
        """U with one factor per layer."""
        return self.chain.as_product(dtype, self.columns, self.signs)

    def toarray(self) -> Array:
        """U as a dense matrix."""
        return (self.chain.apply(np.eye(self.chain.size)) * self.signs)[:, self.columns]

    @classmethod
    def from_product(cls, product: SparseProduct, trace: float = nan) -> "Turned":
        """The rotations of what `as_product` returned; those of pairs in different layers are other ones.

        A permutation is taken out of the last factor, in which the diagonal then has no zero.
        """
        n, pairs, blocks, order = product.shape[0], [], [], np.arange(product.shape[0])
        for k, factor in enumerate(product.factors):
            turn = to_dense(factor)
            if k == len(product.factors) - 1:
                order = maximum_bipartite_matching(sp.csr_array(turn != 0), perm_type="column")
                if (order < 0).any():
                    raise ValueError("product must have orthogonal factors, got a singular one")
                turn = turn[:, order]
            rows, columns = np.nonzero(np.triu((turn != 0) | (turn != 0).T, 1))
            if np.unique([rows, columns]).size < 2 * rows.size:
                raise ValueError("product must have layers of rotations, got a row with more than two entries")
            alone = np.setdiff1d(np.arange(n), [rows, columns])
            pairs.append(np.stack([rows, columns], axis=1))
            ends = pairs[-1]
            blocks.append(turn[ends[:, :, None], ends[:, None, :]])
            signs = np.ones(n, turn.dtype)
            signs[alone] = turn[alone, alone]
        kind = wide(product.dtype)
        chain = Chain(n, np.concatenate(pairs), np.concatenate(blocks).astype(kind))
        return cls(chain, np.argsort(order), signs.astype(kind), trace)

    def times_inverse(self, matrix: Array) -> Array:
        """MPᴴ: the columns of a matrix in the order, and with the signs, in which the chain has them."""
        ordered = np.empty_like(matrix)
        ordered[:, self.columns] = matrix
        return np.ascontiguousarray(ordered * self.signs.conj())


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
    """Layers of rotations for a matrix M that make UᴴM sparse, by Σ|w|⁴; in the end it is permuted."""

    def __init__(self, matrix: Array) -> None:
        self.growth = PeakGrowth(np.array(matrix, order="C"))

    def result(self) -> Turned:
        """The rotations so far, with the best permutation after them."""
        return Turned(self.growth.chain(), *nearest_permutation(self.growth.matrix))


def growths_for(matrix: Array) -> list[Callable[[Array], TraceGrowth | SparseGrowth]]:
    """The ways to add rotations: which one does better depends on the matrix."""
    return [SparseGrowth, TraceGrowth] if len(matrix) <= LARGEST_SIDE else [TraceGrowth]


def approached(session: Session, matrix: Array, room: Callable[[Growth], int], n_sweeps: int = SWEEPS) -> Turned:
    """U for a square matrix in double precision: the best of all growths, after sweeps.

    ``room(growth)`` is how many rotations the next layer may have; with 0, no more layers are added.
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
    """The same rotations by better angles, one after the other, again and again; the trace never falls.

    After each sweep the permutation is chosen anew, too.
    """
    chain = turned.chain
    if not len(chain.pairs):
        return turned
    step = max(_SLICE // (4 * chain.size), 1)
    parts = [slice(begin, begin + step) for begin in range(0, len(chain.pairs), step)]
    bound = float(np.sqrt(chain.size)) * frobenius(matrix)  # of the trace, by Cauchy and Schwarz
    for _ in range(n_sweeps):
        blocks = turned.chain.blocks.copy()
        # MPᴴ(G₁…G_g)ᴴ is the adjoint of G₁…G_g times that of MPᴴ.
        work = np.ascontiguousarray(turned.chain.apply(turned.times_inverse(matrix).conj().T).conj().T)
        for part in parts:
            session.check()
            sweep_polar(work, chain.pairs[part], blocks[part])
        work = (work * turned.signs)[:, turned.columns]
        again = Turned(Chain(chain.size, chain.pairs, blocks), *nearest_permutation(work))
        gained = again.trace - turned.trace
        if gained > 0:
            turned = again
        if gained <= _WORTH * (bound - turned.trace):
            break
    return turned
