"""HSS and H² matrices, matrix-free: from products with random vectors (black-box compression).

Let Y = MΩ and Z = MᴴΨ with random Ω and Ψ. Lines are clustered. Row cluster i sees

    Y_i = Σ_j M_ij Ω_j,

of which the near clusters j are few. Let Ω_N be their rows of Ω. What remains of Y_i without the row space of
Ω_N is a random sample of the far blocks: its leading left singular vectors are a basis U_i of them. The part
within the row space gives the near blocks up to what lies in the bases: with X_i = Y_i Ω_N⁺, and W_j = Z_j Ψ_N⁺
from the columns,

    D_ij = (I − U_iU_iᴴ)X_ij + U_iU_iᴴ((I − V_jV_jᴴ)W_ji)ᴴ,    M = D + U M′ Vᴴ.

The sketches of M′ are Y′ = Uᴴ(Y − DΩ) with Ω′ = VᴴΩ, and Z′ = Vᴴ(Z − DᴴΨ) with Ψ′ = UᴴΨ. It is treated likewise,
on clusters twice as large, until it is small. (Levitt and Martinsson, "Linear-complexity black-box randomized
compression of rank-structured matrices", 2022, in which each cluster is near itself only.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial import cKDTree

from ...operators import SparseProduct
from ...runtime.session import Session
from ...runtime.threads import one_blas_thread
from ...typing import Array
from .cluster_trees import Clusters, clusters_in_order, clusters_of_points
from .nested_bases import Bases, Blocks, nested_product

_FEATURES = 12  # dimensions in which lines are compared
_LINKS = 4  # Links of a line to the nearest lines of the other side.
_WIDEST = 0.75  # Largest number of lines in near clusters, relative to the number of vectors.
_PROBED = 16  # Clusters that are sampled to compare orders.
_LEAF = 0.5  # the same in the leaves, for most of the clusters


class Neighbourhood(NamedTuple):
    """Clusters of rows and of columns, and pairs of lines that are near each other."""

    name: str
    rows: Clusters
    columns: Clusters
    links: tuple[Array, Array]  # rows and columns

    def near(self, level: int, most: int) -> list[Array]:
        """For each cluster of rows, the clusters of columns near it: those with most links, at most ``most``.

        A cluster of columns is near at most as many clusters of rows.
        """
        shape = (self.rows.sizes(level).size, self.columns.sizes(level).size)
        labels = _labels(self.rows, level)[self.links[0]], _labels(self.columns, level)[self.links[1]]
        counts = sp.coo_array((np.ones(labels[0].size), labels), shape=shape).tocsr()
        if self.is_shared:
            counts = counts + counts.T + sp.eye_array(shape[0]) * counts.sum()  # itself first
        kept = _largest_of_rows(counts.tocsr(), most).multiply(_largest_of_rows(counts.T.tocsr(), most).T).tocsr()
        kept.sort_indices()
        return np.split(kept.indices, kept.indptr[1:-1])

    @property
    def is_shared(self) -> bool:
        """Whether rows and columns have the same clusters."""
        return self.rows is self.columns


def in_given_order(shape: tuple[int, int], depth: int) -> Neighbourhood:
    """Lines are near each other if they have about the same place in their order."""
    rows, columns = ((np.arange(size)[:, None] + 0.5) / size for size in shape)
    if shape[0] == shape[1]:
        clusters = clusters_in_order(shape[0], depth)
        return Neighbourhood("given order", clusters, clusters, _links(rows, columns))
    trees = clusters_in_order(shape[0], depth), clusters_in_order(shape[1], depth)
    return Neighbourhood("given order", *trees, _links(rows, columns))


def by_points(name: str, rows: Array, columns: Array, depth: int) -> Neighbourhood:
    """Lines are near each other if their points are."""
    if rows.shape == columns.shape and np.array_equal(rows, columns):
        clusters = clusters_of_points(rows, depth)
        return Neighbourhood(name, clusters, clusters, _links(rows, rows))
    trees = clusters_of_points(rows, depth), clusters_of_points(columns, depth)
    return Neighbourhood(name, *trees, _links(rows, columns))


def features_of(samples: Array) -> Array:
    """Points, one per line, that are near each other if the lines of a matrix M point into similar directions.

    ``samples`` are MΩ with a random Ω: a random projection of the lines, which keeps their angles approximately.
    """
    parts = np.hstack([samples.real, samples.imag]) if np.iscomplexobj(samples) else samples
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    directions = parts / np.where(norms > 0, norms, 1.0)
    directions -= directions.mean(axis=0)
    vectors = np.linalg.eigh(directions.T @ directions)[1]
    return np.asarray(directions @ vectors[:, ::-1][:, :_FEATURES])


def _links(rows: Array, columns: Array) -> tuple[Array, Array]:
    """Each row with the nearest columns, and each column with the nearest rows."""
    there, back = (_nearest(of, to) for of, to in ((rows, columns), (columns, rows)))
    return (
        np.concatenate([np.repeat(np.arange(len(rows)), there.shape[1]), back.ravel()]),
        np.concatenate([there.ravel(), np.repeat(np.arange(len(columns)), back.shape[1])]),
    )


def _nearest(points: Array, others: Array) -> Array:
    count = min(_LINKS + 1, len(others))
    return np.asarray(cKDTree(others).query(points, k=count)[1]).reshape(len(points), count)


def _labels(clusters: Clusters, level: int) -> Array:
    labels = np.empty(clusters.order.size, np.int64)
    labels[clusters.order] = np.repeat(np.arange(clusters.sizes(level).size), clusters.sizes(level))
    return labels


def _largest_of_rows(counts: sp.csr_array, most: int) -> sp.csr_array:
    """Ones at the largest entries of each row, at most ``most`` of them."""
    lines = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    order = np.lexsort((counts.indices, -counts.data, lines))
    place = np.arange(order.size) - counts.indptr[lines[order]]
    chosen = order[place < most]
    ones = np.ones(chosen.size)
    return sp.csr_array((ones, (lines[chosen], counts.indices[chosen])), shape=counts.shape)


class Sketch(NamedTuple):
    """Y = MΩ and Z = MᴴΨ; of a self-adjoint M, only one is needed."""

    tests: Array
    samples: Array
    adjoint_tests: Array
    adjoint_samples: Array
    mirror: str = ""


@dataclass
class _Side:
    """The clusters of rows, or columns: sketches of their lines, and random vectors for the other side."""

    samples: list[Array]
    tests: list[Array]

    @property
    def sizes(self) -> Array:
        return np.array([len(each) for each in self.samples])


class _Seen(NamedTuple):
    """What a cluster sees: its near blocks, side by side, and the singular vectors and values of the far ones."""

    near: Array
    vectors: Array
    values: Array


def nested_from_sketches(
    session: Session, sketch: Sketch, neighbourhood: Neighbourhood, most: int, tolerance: float
) -> SparseProduct | None:
    """A nested product for a matrix of which only products are known; None if too few of them are known.

    Parameters
    ----------
    session : Session
    sketch : Sketch
    neighbourhood : Neighbourhood
    most : int
        The number of clusters near another one, at most; 1 for itself only.
    tolerance : float
        The Frobenius norm of what may be left out, in all.
    """
    level = _leaf_level(sketch, neighbourhood, most)
    if level is None:
        return None
    with one_blas_thread:
        return _Compression(session, sketch, neighbourhood, most, tolerance, level).product()


def low_rank_from_sketches(sketch: Sketch, tolerance: float) -> SparseProduct | None:
    """M ≈ Q((ΨᴴQ)⁺Zᴴ) with a basis Q of the range of Y; None if more than ``tolerance`` of M is outside of it.

    Q has two thirds as many columns as there are vectors, at most, so that ΨᴴQ is well conditioned; and so many if
    the tolerance is infinite.
    """
    with one_blas_thread:
        basis, triangle = np.linalg.qr(sketch.samples)
        vectors, values, _ = np.linalg.svd(triangle)
        tails = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1] / sketch.samples.shape[1])
        most = 2 * min(sketch.tests.shape[1], sketch.adjoint_tests.shape[1]) // 3
        rank = most if np.isinf(tolerance) else max(int(np.count_nonzero(tails > tolerance)), 1)
        if not 0 < rank <= most:
            return None
        left = basis @ vectors[:, :rank]
        right = np.linalg.lstsq(sketch.adjoint_tests.conj().T @ left, sketch.adjoint_samples.conj().T, rcond=None)[
            0
        ]
        return SparseProduct([left, right])


def far_energy(sketch: Sketch, neighbourhood: Neighbourhood) -> float:
    """How much of the far blocks of some clusters low rank leaves: the lower, the better the clusters.

    The clusters have a third as many lines as there are vectors, and the rank is a sixth of these.
    """
    sides = [(neighbourhood.rows, neighbourhood.columns, sketch.samples, sketch.tests)]
    if not sketch.mirror:
        sides.append((neighbourhood.columns, neighbourhood.rows, sketch.adjoint_samples, sketch.adjoint_tests))
    energy = 0.0
    for own, other, samples, tests in sides:
        vectors = tests.shape[1]
        fitting = [level for level in range(own.depth + 1) if own.sizes(level).max() <= vectors / 3]
        level = fitting[0] if fitting else own.depth
        near, size = neighbourhood.near(level, 1), own.sizes(level).size
        near = near if own is neighbourhood.rows else _transposed(near, size)
        for i in np.unique(np.linspace(0, size - 1, _PROBED).astype(int)):
            seen = _seen(samples[own.lines(level, i)], [tests[other.lines(level, j)] for j in near[i]])
            energy += float(np.sum(seen.values[vectors // 6 :] ** 2))
    return energy


def _leaf_level(sketch: Sketch, neighbourhood: Neighbourhood, most: int) -> int | None:
    """The first level at which near clusters have few enough lines."""
    limit = min(sketch.tests.shape[1], sketch.adjoint_tests.shape[1])
    for level in range(min(neighbourhood.rows.depth, neighbourhood.columns.depth) + 1):
        tallest, widest = (tree.sizes(level).max() for tree in (neighbourhood.rows, neighbourhood.columns))
        if max(tallest, widest) > _WIDEST * limit:
            continue
        near = neighbourhood.near(level, most)
        counts = np.array([each.size for each in near])
        widths = np.concatenate(
            [widest * counts, tallest * np.bincount(np.concatenate(near), minlength=counts.size)]
        )
        if np.quantile(widths, 0.75) <= _LEAF * limit and np.max(widths) <= _WIDEST * limit:
            return level
    return None


class _Compression:
    """Level by level, from the leaves upwards."""

    def __init__(
        self,
        session: Session,
        sketch: Sketch,
        neighbourhood: Neighbourhood,
        most: int,
        tolerance: float,
        level: int,
    ) -> None:
        self.session, self.mirror = session, sketch.mirror
        self.neighbourhood, self.most, self.leaves = neighbourhood, most, level
        self.vectors = min(sketch.tests.shape[1], sketch.adjoint_tests.shape[1])
        self.loss = tolerance**2 / (2 * max(level, 1))  # squared, of one side of one level
        rows, columns = neighbourhood.rows, neighbourhood.columns
        self.rows = _Side(_split(sketch.samples, rows, level), _split(sketch.adjoint_tests, rows, level))
        self.columns = _Side(_split(sketch.adjoint_samples, columns, level), _split(sketch.tests, columns, level))
        self.levels: list[int] = []
        self.bases: tuple[list[list[Array]], list[list[Array]]] = [], []
        self.near: list[Blocks] = []

    def product(self) -> SparseProduct:
        level, near = self.leaves, self.neighbourhood.near(self.leaves, self.most)
        while max(self.rows.sizes.sum(), self.columns.sizes.sum()) > _WIDEST * self.vectors and level > 0:
            above = self.neighbourhood.near(level - 1, self.most)
            self._compress(level, near, above)
            level, near = level - 1, above
        return self._assembled()

    def _compress(self, level: int, near: Sequence[Array], above: Sequence[Array]) -> None:
        """Bases of the clusters of a level, their near blocks, and the sketches of what remains.

        ``near`` and ``above`` are the clusters near to each one of this level and of the next one.
        """
        back = _transposed(near, self.columns.sizes.size)
        seen_rows = self._look(self.rows, self.columns, near)
        if self.mirror:
            seen_columns = seen_rows if self.mirror == "self-adjoint" else [_conjugate(each) for each in seen_rows]
        else:
            seen_columns = self._look(self.columns, self.rows, back)
        room = int(_WIDEST * self.vectors)
        left = _bases(seen_rows, self.loss, _transposed(above, self.columns.sizes.size // 2), room)
        if self.mirror:
            right = left if self.mirror == "self-adjoint" else _conjugates(left)
        else:
            right = _bases(seen_columns, self.loss, above, room)
        outside = [_without(basis, each.near) for basis, each in zip(left, seen_rows, strict=True)]
        beside = [_without(basis, each.near) for basis, each in zip(right, seen_columns, strict=True)]
        of_rows = _blocks(outside, near, self.columns.sizes)  # (I − UUᴴ)X, by (i, j)
        of_columns = _blocks(beside, back, self.rows.sizes)  # (I − VVᴴ)W, by (j, i)
        inner = {(i, j): left[i].conj().T @ of_columns[j, i].conj().T for i, j in of_rows}
        self.near.append({(i, j): block + left[i] @ inner[i, j] for (i, j), block in of_rows.items()})
        self.levels.append(level)
        self.bases[0].append(left)
        self.bases[1].append(right)
        rows = _raised(self.rows, left, inner, near, self.columns.tests)
        if self.mirror:
            columns = (
                rows if self.mirror == "self-adjoint" else _Side(*map(_conjugates, (rows.samples, rows.tests)))
            )
        else:
            other = {(j, i): right[j].conj().T @ block.conj().T for (i, j), block in of_rows.items()}
            columns = _raised(self.columns, right, other, back, self.rows.tests)
        self.rows, self.columns = rows, columns

    def _look(self, side: _Side, other: _Side, near: Sequence[Array]) -> list[_Seen]:
        found = []
        for i, sample in enumerate(side.samples):
            self.session.check()
            found.append(_seen(sample, [other.tests[j] for j in near[i]]))
        return found

    def _assembled(self) -> SparseProduct:
        top = _seen(np.concatenate(self.rows.samples), [np.concatenate(self.columns.tests)]).near
        if self.mirror:
            top = (top + (top.conj().T if self.mirror == "self-adjoint" else top.T)) / 2
        if not self.levels:
            return SparseProduct([_in_own_order(top, self.neighbourhood)])
        rows = Bases(self.neighbourhood.rows.until(self.leaves), self.levels, self.bases[0])
        columns = Bases(self.neighbourhood.columns.until(self.leaves), self.levels, self.bases[1])
        near, *above = self.near
        couplings = [_halved(blocks, rows, columns, step) for step, blocks in enumerate(above)]
        couplings.append(_dense(top, rows.ranks(len(above)), columns.ranks(len(above))))
        return nested_product(rows, columns, near, couplings)


# -- one cluster ---------------------------------------------------------------------------------------


def _seen(sample: Array, tests: Sequence[Array]) -> _Seen:
    """Split a sample into what comes from the near clusters, with these tests, and the rest."""
    if not tests:
        vectors, values, _ = np.linalg.svd(sample, full_matrices=False)
        return _Seen(np.empty((len(sample), 0), sample.dtype), vectors, values / np.sqrt(sample.shape[1]))
    near = np.concatenate(tests)
    adjoint = near.conj().T
    factor = scipy.linalg.cho_factor(near @ adjoint, lower=True, check_finite=False)
    blocks, rest = np.zeros((len(sample), len(near)), sample.dtype), sample
    for _ in range(2):  # the second time for rounding
        more = scipy.linalg.cho_solve(factor, (rest @ adjoint).conj().T, check_finite=False).conj().T
        blocks = blocks + more
        rest = rest - more @ near
    vectors, values, _ = np.linalg.svd(rest, full_matrices=False)
    return _Seen(blocks, vectors, values / np.sqrt(max(sample.shape[1] - len(near), 1)))


def _bases(seen: Sequence[_Seen], loss: float, groups: Sequence[Array], room: int) -> list[Array]:
    """The leading singular vectors of each cluster: together, the others have no more energy than ``loss``.

    Those of the halves of the clusters of a group, which are near to one cluster of the next level, have only so
    much room.
    """
    values = np.sort(np.concatenate([each.values for each in seen]))
    place = int(np.searchsorted(np.cumsum(values**2), loss, side="right"))
    least = values[place - 1] if place > 0 else 0.0
    ranks = np.array([np.count_nonzero(each.values > least) for each in seen])
    for group in groups:
        members = np.concatenate([2 * group, 2 * group + 1])
        if ranks[members].sum() > room:
            kept = np.concatenate([seen[i].values[: ranks[i]] for i in members])
            least = np.partition(kept, -room - 1)[-room - 1]
            ranks[members] = [np.count_nonzero(seen[i].values[: ranks[i]] > least) for i in members]
    return [each.vectors[:, :rank] for each, rank in zip(seen, ranks, strict=True)]


def _without(basis: Array, blocks: Array) -> Array:
    return np.asarray(blocks - basis @ (basis.conj().T @ blocks))


def _raised(
    side: _Side, bases: Sequence[Array], inner: Blocks, near: Sequence[Array], tests: Sequence[Array]
) -> _Side:
    """The sketches of M′ on clusters twice as large."""
    samples = []
    for i, basis in enumerate(bases):
        sample = basis.conj().T @ side.samples[i]
        for j in near[i]:
            sample = sample - inner[i, j] @ tests[j]
        samples.append(sample)
    return _Side(_paired(samples), _paired([b.conj().T @ t for b, t in zip(bases, side.tests, strict=True)]))


# -- lists of blocks -----------------------------------------------------------------------------------


def _split(sketch: Array, clusters: Clusters, level: int) -> list[Array]:
    return np.split(sketch[clusters.order], clusters.bounds[level][1:-1])


def _paired(parts: Sequence[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]


def _conjugates(parts: Sequence[Array]) -> list[Array]:
    return [part.conj() for part in parts]


def _conjugate(seen: _Seen) -> _Seen:
    return _Seen(seen.near.conj(), seen.vectors.conj(), seen.values)


def _transposed(near: Sequence[Array], count: int) -> list[Array]:
    """For each cluster of columns, the clusters of rows that it is near to."""
    found: list[list[int]] = [[] for _ in range(count)]
    for i, others in enumerate(near):
        for j in others:
            found[j].append(i)
    return [np.array(each, dtype=np.int64) for each in found]


def _blocks(wide: Sequence[Array], near: Sequence[Array], sizes: Array) -> dict[tuple[int, int], Array]:
    """Blocks that stand side by side, by the clusters of their rows and columns."""
    found = {}
    for i, others in enumerate(near):
        parts = np.split(wide[i], np.cumsum(sizes[others])[:-1], axis=1) if others.size else []
        found.update({(i, int(j)): part for j, part in zip(others, parts, strict=True)})
    return found


def _halved(blocks: Blocks, rows: Bases, columns: Bases, step: int) -> Blocks:
    """Blocks of clusters as blocks of their halves, of the level of ``step``."""
    heights, widths = rows.ranks(step), columns.ranks(step)
    found = {}
    for (i, j), block in blocks.items():
        top, left = heights[2 * i], widths[2 * j]
        found[2 * i, 2 * j], found[2 * i, 2 * j + 1] = block[:top, :left], block[:top, left:]
        found[2 * i + 1, 2 * j], found[2 * i + 1, 2 * j + 1] = block[top:, :left], block[top:, left:]
    return found


def _dense(block: Array, heights: Array, widths: Array) -> Blocks:
    """One block as blocks of all pairs of clusters."""
    found = {}
    for i, row in enumerate(np.split(block, np.cumsum(heights)[:-1])):
        for j, part in enumerate(np.split(row, np.cumsum(widths)[:-1], axis=1)):
            found[i, j] = part
    return found


def _in_own_order(matrix: Array, neighbourhood: Neighbourhood) -> Array:
    result = np.empty_like(matrix)
    result[np.ix_(neighbourhood.rows.order, neighbourhood.columns.order)] = matrix
    return result
