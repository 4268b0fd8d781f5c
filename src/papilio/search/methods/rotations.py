"""Orthogonal and nearly orthogonal matrices as products of rotations, in few sparse factors.

Neighbouring layers of rotations are multiplied out wherever that takes no more entries: two full layers have two
entries per row each, and their product has four.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...linalg import column_norms, frobenius, wide
from ...operators import SparseProduct
from ...rotations.chain import Chain, Turned, layer
from ...rotations.growth import SparseGrowth, TraceGrowth, growths_for, swept
from ...runtime.session import Interrupted, Session
from ...typing import Array
from ..curves import Curve, relative_error, single
from ..known_supports import polished
from ..search import Method, Search
from ..targets import Target

TOLERANCE = 0.3  # Largest ‖MMᴴ − cI‖ / ‖cI‖ of a nearly orthogonal matrix.
_PROBES = 4  # random vectors with which that is estimated
_NEAR = 1.3  # times the best rank so far, up to which sweeps may make up for the difference
_TRIES = 6  # products that are swept and polished, where an error is to be reached
_GAINED = 0.7  # Smallest share of a chain's error that sweeps and polishing may leave.
_POLISHED = 1 << 21  # rows times rows times factors: larger products are not polished


def is_nearly_orthogonal(matrix: Array) -> bool:
    """Whether MMᴴ ≈ cI, in O(n²): by the norms of the rows, and by products with some random vectors."""
    n = len(matrix)
    if matrix.shape[1] != n or n < 2:
        return False
    squares = column_norms(matrix.T) ** 2
    c = float(squares.mean())
    if c <= 0 or frobenius(squares - c) > TOLERANCE * c * np.sqrt(n):
        return False
    vectors = np.random.default_rng(0).standard_normal((n, _PROBES)).astype(matrix.dtype)
    off = matrix @ (matrix.conj().T @ vectors) - vectors.real.dtype.type(c) * vectors
    return frobenius(off) <= TOLERANCE * c * frobenius(vectors)


def rotations(
    session: Session, matrix: Array, target: Target, n_factors: int | None, best_rank: float
) -> Iterator[Curve]:
    """Products with one layer of rotations, with two, and so on; nothing if the matrix is far from orthogonal.

    The errors of a curve are those before sweeps. If its best product is near the best rank so far, it is improved
    by sweeps, and polished without the constraint that factors are orthogonal, and comes as a curve of its own.
    """
    if not is_nearly_orthogonal(matrix):
        return
    work = np.ascontiguousarray(matrix, wide(matrix.dtype))
    for begin in growths_for(work):
        points = _grown(session, work, begin(work), target)
        if n_factors is not None:
            points = [point for point in points if len(point.factors(work.dtype)) == n_factors]
        if not points:
            continue
        build = partial(_built, session, matrix, work, points)
        entries, errors = (np.array([point[k] for point in points]) for k in (0, 1))
        curve = Curve("rotations", entries, errors, build, partial(_detail, points))
        if target.rounding < best_rank:
            for place in _promising(curve, target, best_rank):
                operator, error = _improved(session, matrix, work, points[place])
                yield single("rotations", f"{_detail(points, place)}, polished", operator, error)
                if target.limit is not None and error <= target.limit:
                    break
        yield curve


class _Point(NamedTuple):
    """A product of some layers: its entries, its relative error, the rotations, and where each layer begins."""

    entries: int
    error: float
    turned: Turned
    starts: tuple[int, ...]

    def factors(self, dtype: np.dtype[np.generic]) -> list[sp.csr_array]:
        """The factors of U, of which the last has its columns in order."""
        chain, found = self.turned.chain, _Condensed(self.turned.chain.size)
        for begin, end in pairwise(self.starts):
            found.add(Chain(chain.size, chain.pairs[begin:end], chain.blocks[begin:end]))
        *others, last = found.factors
        last = sp.csr_array((last * self.turned.signs[None]).tocsc()[:, self.turned.columns])
        return [sp.csr_array(factor).astype(dtype) for factor in (*others, last)]


class _Condensed:
    """Layers of rotations, multiplied out with the one before wherever that takes no more entries."""

    def __init__(self, size: int) -> None:
        self.factors = [sp.csr_array(sp.eye_array(size))]

    @property
    def entries(self) -> int:
        return sum(factor.nnz for factor in self.factors)

    def add(self, turn: Chain) -> None:
        self.factors.append(layer(turn.size, turn.pairs, turn.blocks))
        while len(self.factors) > 1:
            product = sp.csr_array(self.factors[-2] @ self.factors[-1])
            if product.nnz > self.factors[-2].nnz + self.factors[-1].nnz:
                break
            self.factors[-2:] = [product]


def _grown(session: Session, work: Array, way: TraceGrowth | SparseGrowth, target: Target) -> list[_Point]:
    """A product for each number of layers, as far as the target allows entries."""
    n, norm, condensed, growth = len(work), frobenius(work), _Condensed(len(work)), way.growth
    most = target.budget if target.budget is not None else work.size - 1
    points: list[_Point] = []
    starts = [0]
    while condensed.entries <= most:
        turned = way.result()
        error = _error(turned.trace / (np.sqrt(n) * norm))
        points.append(_Point(condensed.entries, error, turned, tuple(starts)))
        session.check()
        is_enough = target.limit is not None and error <= target.limit
        if is_enough or error <= target.rounding or not growth.add(n):
            break
        starts.append(growth.count)
        chain = growth.chain()
        condensed.add(Chain(n, chain.pairs[starts[-2] :], chain.blocks[starts[-2] :]))
    return points


def _error(cosine: float) -> float:
    """‖M − cU‖/‖M‖ for the best c."""
    return float(np.sqrt(max((1 - cosine) * (1 + cosine), 0.0)))


def _promising(curve: Curve, target: Target, best_rank: float) -> Sequence[int]:
    """The places whose products are worth sweeps: the best one by the target, if it is near the best so far."""
    if target.limit is None:
        rank, place = curve.best(target)
        return [place] if rank < _NEAR * best_rank else []
    places = np.flatnonzero((_GAINED * curve.errors <= target.limit) & (curve.entries < best_rank))
    return places[:_TRIES].tolist()


def _improved(session: Session, matrix: Array, work: Array, point: _Point) -> tuple[SparseProduct, float]:
    """The product of a point after sweeps and polishing, and its relative error."""
    operator = _swept(session, work, point).astype(matrix.dtype)
    if matrix.size * len(operator.factors) <= _POLISHED and point.error > 0:
        return polished(session, matrix, operator)
    return operator, relative_error(matrix, operator)


def _swept(session: Session, work: Array, point: _Point) -> SparseProduct:
    """The product of a point after sweeps, or without them once the session is stopped: it may be chosen."""
    turned = point.turned
    with suppress(Interrupted):
        turned = swept(session, work, turned)
    better = point._replace(turned=turned)
    return SparseProduct(better.factors(work.dtype), turned.trace / len(work))


def _built(session: Session, matrix: Array, work: Array, points: Sequence[_Point], place: int) -> SparseProduct:
    return _swept(session, work, points[place]).astype(matrix.dtype)


def _detail(points: Sequence[_Point], place: int) -> str:
    count, layers = len(points[place].turned.chain.pairs), len(points[place].starts) - 1
    return f"{count:,} rotation{'s' if count != 1 else ''} in {layers:,} layer{'s' if layers != 1 else ''}"


def _of(search: Search) -> Iterator[Curve]:
    target = search.target
    return rotations(search.session, search.problem.matrix, target, target.n_factors, search.best_rank)


METHOD = Method(
    "rotations",
    "orthogonal and nearly orthogonal matrices: layers of rotations of two coordinates",
    _of,
    lambda search: not (search.problem.is_zero or search.is_exact),
)
