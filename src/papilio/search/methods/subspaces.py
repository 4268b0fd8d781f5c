"""Clusters of columns, each near a subspace of its own: M ≈ [U₁ … U_p]·diag(V₁, …, V_p), up to their order.

A wide matrix has many columns, and often each is like some others: gain matrices, dictionaries, features of many
samples. A cluster whose columns lie near a subspace of rank r takes m·r entries for the basis U_i of the subspace,
and r more per column. Low rank of the whole matrix would need one basis for all clusters at once. The clusters are
found by k-subspaces (Bradley and Mangasarian 2000): the best subspace of each cluster, and the nearest subspace
for each column, in turns.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...linalg import column_norms, frobenius, inner
from ...runtime.session import Session
from ...typing import Array
from ..curves import Curve
from ..problems import Block, leading_subspace
from ..search import Method, two_factors
from .low_rank import low_rank

# Of the entries, for the columns; with 0.5 and 0.7, errors of a gain matrix were up to a tenth higher.
_COLUMNS_SHARE = 0.6
_LEAST_CLUSTERS = 4  # With fewer clusters, low rank alone is nearly as good.
_RANKS = (2, 4, 8, 16, 32, 64)  # Ranks of the subspaces if the number of entries is not given.
_ROUNDS = 20
_STALLED = 3e-3  # the relative change of the error over a round at which it ends
_FIRST, _LAST = 3, 3  # subspace iterations from a random start, and for the bases that are kept
_SPARE = 1.5  # times the rank: at the end, clusters may have different ranks
_CHUNK = 1 << 22  # coordinates at a time


def n_clusters(shape: tuple[int, int]) -> int:
    """The power of two for which bases and columns have nearly their shares of the entries.

    Subspaces of rank r take r entries per column and p·r·m for their bases: the shares do not depend on r.
    """
    ratio = max(shape) / min(shape) * (1 - _COLUMNS_SHARE) / _COLUMNS_SHARE
    return 2 ** max(round(np.log2(ratio)), 0)


def subspaces(session: Session, matrix: Array, budget: int | None) -> Iterator[Curve]:
    """Low rank in clusters of the columns of a wide matrix, or of the rows of a tall one; nothing for others.

    The rank in which clusters are looked for is that of the budget; without one, there is a curve for each of
    several. At the end, clusters may have different ranks, those that save most per entry.
    """
    count = n_clusters(matrix.shape)
    if count < _LEAST_CLUSTERS:
        return
    is_wide = matrix.shape[0] < matrix.shape[1]
    lines = np.ascontiguousarray(matrix.T) if is_wide else matrix
    ranks = _RANKS if budget is None else (max(round(budget / (len(lines) + count * lines.shape[1])), 1),)
    for rank in ranks:
        if rank <= lines.shape[1] // 2:
            clusters, bases = _clustered(session, lines, rank, count)
            blocks = [_block(session, lines, *each, is_wide) for each in zip(clusters, bases, strict=True)]
            yield _as_curve(blocks, matrix, "columns" if is_wide else "rows")


def _as_curve(blocks: Sequence[Block], matrix: Array, name: str) -> Curve:
    curve = low_rank(blocks, matrix.shape, frobenius(matrix) ** 2)

    def detail(place: int) -> str:
        return f"rank {(place + 1) / len(blocks):.3g} in {len(blocks)} clusters of {name}"

    return curve._replace(method="subspaces", detail=detail)


def _block(session: Session, lines: Array, cluster: Array, basis: Array, is_wide: bool) -> Block:
    """A cluster with the leading singular vectors of its lines, some more of them than ``basis`` (d, r) has."""
    session.check()
    part, dimension = lines[cluster], lines.shape[1]
    rank = min(int(_SPARE * basis.shape[1]) + 1, *part.shape)
    more = _random(dimension, max(rank - basis.shape[1], 0), lines)
    guess = np.hstack([basis.conj(), more])[:, :rank].astype(lines.dtype)
    left, right = leading_subspace(part, guess, _LAST)
    U, values, V = np.linalg.svd(right, full_matrices=False)
    vectors, everything = left @ U, np.arange(dimension)
    if is_wide:
        return Block(everything, cluster, V.T, values, vectors.T)
    return Block(cluster, everything, vectors, values, V)


def _clustered(session: Session, lines: Array, rank: int, count: int) -> tuple[list[Array], list[Array]]:
    """The lines of each cluster, and its subspace as orthonormal columns, by k-subspaces in single precision."""
    is_used = lines.any(axis=1)  # zeros need no entries
    lines = lines.astype(np.complex64 if np.iscomplexobj(lines) else np.float32)
    bases, missed = _started(session, lines, rank, count), np.inf
    for _ in range(_ROUNDS):
        nearest, energy = _nearest(session, lines, bases)
        clusters = [np.flatnonzero((nearest == j) & is_used) for j in range(len(bases))]
        used = [j for j, cluster in enumerate(clusters) if cluster.size]
        clusters, bases = [clusters[j] for j in used], [bases[j] for j in used]
        before, missed = missed, np.sqrt(max(inner(lines, lines) - energy, 0.0))
        if before - missed <= _STALLED * missed:
            break
        bases = [_basis(session, lines[each], basis, 1) for each, basis in zip(clusters, bases, strict=True)]
    return clusters, bases


def _started(session: Session, lines: Array, rank: int, count: int) -> list[Array]:
    """Subspaces of lines that are neighbours of one of them, up to their signs.

    As in k-means++, that one is drawn with a probability by what the subspaces before leave of it.
    """
    random, size = np.random.default_rng(0), max(len(lines) // count, 1)
    norms = column_norms(lines.T)
    unit = lines / np.where(norms > 0, norms, 1).astype(np.float32)[:, None]
    left, bases = norms**2, []
    for _ in range(count):
        chosen = random.choice(len(lines), p=left / left.sum()) if left.sum() > 0 else random.integers(len(lines))
        cosines = np.abs(unit @ unit[chosen].conj())
        near = np.argpartition(-cosines, size - 1)[:size]
        bases.append(_basis(session, lines[near], _random(lines.shape[1], rank, lines), _FIRST))
        energies = (np.abs(lines @ bases[-1].conj()) ** 2).sum(axis=1)
        left = np.minimum(left, np.maximum(norms**2 - energies, 0.0))
    return bases


def _basis(session: Session, part: Array, basis: Array, n_iter: int) -> Array:
    """Orthonormal columns that nearly span the leading right singular vectors, conjugated."""
    for _ in range(n_iter):
        session.check()
        basis = np.linalg.qr(part.T @ (part.conj() @ basis))[0]
    return basis


def _nearest(session: Session, lines: Array, bases: Sequence[Array]) -> tuple[Array, float]:
    """The subspace in which each line has most of its energy, and this energy, of all lines together."""
    together = np.hstack(bases).conj()
    begins = np.cumsum([0, *(basis.shape[1] for basis in bases[:-1])])
    nearest, energy = np.empty(len(lines), int), 0.0
    step = max(_CHUNK // together.shape[1], 1)
    for begin in range(0, len(lines), step):
        session.check()
        coordinates = lines[begin : begin + step] @ together
        energies = np.add.reduceat((coordinates * coordinates.conj()).real, begins, axis=1)
        nearest[begin : begin + step] = energies.argmax(axis=1)
        energy += float(energies.max(axis=1).sum(dtype=np.float64))
    return nearest, energy


def _random(rows: int, columns: int, like: Array) -> Array:
    """A start for subspace iteration: always the same one."""
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(like.dtype)


METHOD = Method(
    "subspaces",
    "clusters of the columns of a wide matrix, or rows of a tall one, each near a subspace of its own",
    lambda search: subspaces(search.session, search.problem.matrix, search.target.budget),
    n_factors=two_factors,
)
