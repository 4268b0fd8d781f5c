"""Splits of a permuted butterfly: which rows belong together, and which columns.

A square matrix of size m is the first level of a butterfly of radix r, up to permutations, if its rows fall into
groups of r and its columns into r parts of equal size such that each block of a group and a part has rank one. The
cost of a group on a part is the squared error of the best rank-one approximation there. For pairs of rows it is
the smaller eigenvalue of their Gram matrix; larger groups are judged by their pairs.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ..kernels.grouping import all_equal_parts, equal_parts, group_up, share_out
from ..linalg import probe
from ..runtime.session import Session
from ..typing import Array

STARTS = 4  # rows to start from
_ROUNDS = 12  # Largest number of alternations.
_ALL = 8  # the size up to which all splits into pairs and halves are tried
_SMALL = 64  # Up to this size, eigenvectors are computed directly.
ROUNDING = 1e-14  # a cost, relative to the energy, that is rounding
_FAR = 2.0  # times the cost that is hopeless: farther, no alternation comes down from there
_LEAST_GAIN = 0.01  # relative, of a round of alternation; any gain for a small matrix, which takes no time
_MORE_GAINS = 3  # like the last one are all that is to be expected: they shrink
_WORSE = 0.8  # the cost of the best groups over that of those formed greedily, at least
_SWEEPS = 20  # Largest number of sweeps of exchanges between groups.
_CHUNK = 1 << 18  # entries of a matrix of pairs and columns that are worked on at a time


class Split(NamedTuple):
    """Groups of rows (m/r, r), parts of columns (r, m/r), and the squared error of rank one over all blocks."""

    groups: Array
    parts: Array
    cost: float


def best_split(
    session: Session,
    matrix: Array,
    radix: int,
    *,
    enough: float | None = None,
    hopeless: float = inf,
    starts: int = STARTS,
) -> Split | None:
    """The cheapest split found from several starting rows, each with its best partners.

    The search ends at a cost of ``enough``; if that is None, when two rows lead to the same cost, up to what noise
    makes of it. It gives up where the cost will not fall below ``hopeless``, and returns None if it found nothing.
    """
    m = len(matrix)
    if radix == 2 and m <= _ALL:
        return _cheapest_of_all(matrix)
    least = max(enough or 0.0, ROUNDING * float(np.vdot(matrix, matrix).real))
    best: Split | None = None
    costs: list[float] = []
    for row in _starting_rows(session.random, matrix)[:starts]:
        costs.append(inf)
        for parts in _candidate_parts(session, matrix, int(row), radix):
            split = _alternate(session, matrix, parts, hopeless)
            if split is None:
                continue
            costs[-1] = min(costs[-1], split.cost)
            if best is None or split.cost < best.cost:
                best = split
            if best.cost <= least:
                return best
        # Small matrices are worth another row. The spread of a sum of about m² squares of noise is about 2/m.
        lowest = min(costs) * (1 + 4 / m) if enough is None else -inf
        if m > _SMALL and sum(cost <= lowest or cost > hopeless for cost in costs) > 1:
            break
    return best


def leading_vectors(matrix: Array, groups: Array, columns: Array) -> tuple[Array, Array]:
    """The leading left singular vectors u (groups, r) of the blocks of groups and columns, and uᴴ·matrix."""
    slices = matrix[groups]  # (groups, r, m)
    block = slices[:, :, columns]
    u = np.linalg.eigh(block @ block.conj().transpose(0, 2, 1))[1][:, :, -1]
    return u, (u.conj()[:, None, :] @ slices)[:, 0, :]


def _starting_rows(random: np.random.RandomState, matrix: Array) -> Array:
    """All rows in random order, those that are nearly empty last."""
    sizes = (np.abs(matrix) ** 2).sum(axis=1)
    rows = random.permutation(len(matrix))
    return rows[np.argsort(sizes[rows] <= 1e-3 * sizes.mean(), kind="stable")]


# -- all splits of a small matrix ----------------------------------------------------------------------


def _cheapest_of_all(matrix: Array) -> Split:
    """The cheapest of all splits into pairs and halves, for a small matrix."""
    matchings, halves = _matchings(tuple(range(len(matrix)))), _halvings(len(matrix))
    masks = np.zeros((*halves.shape[:2], len(matrix)))
    np.put_along_axis(masks, halves, 1.0, axis=2)
    products = matrix[:, None, :] * matrix[None].conj()
    grams = np.tensordot(products, masks, axes=(2, 2))  # rows, rows, ways to halve, halves
    sizes = np.einsum("iiwh->iwh", grams).real
    costs = _smaller_eigenvalue(sizes[:, None], sizes[None], np.abs(grams) ** 2).sum(axis=3)
    sums = costs[matchings[..., 0], matchings[..., 1]].sum(axis=1)
    least, way = np.unravel_index(np.argmin(sums), sums.shape)
    return Split(matchings[least], halves[way], float(sums[least, way]))


@cache
def _matchings(points: tuple[int, ...]) -> Array:
    """All ways to pair up an even number of points."""
    if len(points) == 2:
        return np.array([[points]])
    first, *rest = points
    found = []
    for partner in rest:
        others = _matchings(tuple(point for point in rest if point != partner))
        pair = np.broadcast_to([[[first, partner]]], (len(others), 1, 2))
        found.append(np.concatenate([pair, others], axis=1))
    return np.concatenate(found)


@cache
def _halvings(m: int) -> Array:
    """All ways to halve m points: (ways, 2, m/2)."""
    firsts = [(0, *others) for others in combinations(range(1, m), m // 2 - 1)]
    return np.array([[first, sorted(set(range(m)).difference(first))] for first in firsts])


# -- parts of the columns to start from ----------------------------------------------------------------


def _candidate_parts(session: Session, matrix: Array, row: int, radix: int, count: int = 2) -> list[Array]:
    """Parts of the columns by their directions in the plane of ``row`` and a partner, for the best partners.

    If the partner belongs to the row's group, the columns of one part all have the same direction there.
    """
    options: list[tuple[float, Array]] = []
    others = np.delete(np.arange(len(matrix)), row)
    for partners in np.array_split(others, -(-matrix.size // _CHUNK)):
        session.check()
        lifts = lifted(np.stack([np.broadcast_to(matrix[row], matrix[partners].shape), matrix[partners]], axis=1))
        energies = lifts[:, :2].sum(axis=1)
        for weighted in (lifts, _divided(lifts, np.sqrt(energies))):
            labels = _labels_by_direction(session, weighted, radix)
            costs = np.sum([_pair_cost_on(labels == p, lifts) for p in range(radix)], axis=0)
            for i in np.argsort(costs, kind="stable")[:count]:
                options.append((costs[i], labels[i]))
    options.sort(key=lambda option: option[0])
    found: list[Array] = []
    for _, labels in options[:count]:
        parts = _as_parts(labels, radix)
        if not any((parts == other).all() for other in found):
            found.append(parts)
    return found


def _labels_by_direction(session: Session, weighted: Array, radix: int) -> Array:
    """Labels (pairs, m) of the columns in equal parts, by their directions (pairs, c, m) in the pair's plane."""
    centred = weighted - weighted.mean(axis=2, keepdims=True)
    axes = np.linalg.eigh(centred @ centred.transpose(0, 2, 1))[1][:, :, 1 - radix :]
    points = axes.transpose(0, 2, 1) @ centred
    if radix > 2:
        points = np.ascontiguousarray(points.transpose(0, 2, 1), float)
        return session.wait(lambda: all_equal_parts(points, radix), _SWEEPS * radix * points.size)
    return _upper_half(points[:, 0])


def _upper_half(points: Array) -> Array:
    """Labels of points on a line, along the last axis: 1 for the larger half, which lies together."""
    half = points.shape[-1] // 2
    labels = np.zeros(points.shape, np.int64)
    np.put_along_axis(labels, np.argpartition(points, half, axis=-1)[..., half:], 1, axis=-1)
    return labels


def _pair_cost_on(mask: Array, lifts: Array) -> Array:
    """The squared error of rank one of each pair of rows on its part of the columns."""
    sums = (lifts @ mask[:, :, None])[:, :, 0]
    return _smaller_eigenvalue(sums[:, 0], sums[:, 1], (sums[:, 2:] ** 2).sum(axis=1) / 2)


# -- groups for parts, and parts for groups ------------------------------------------------------------


def _alternate(session: Session, matrix: Array, parts: Array, hopeless: float) -> Split | None:
    """Groups for the parts and parts for the groups in turn, while the cost falls."""
    best = _group_rows(session, matrix, parts, _FAR * hopeless, hopeless)
    least_gain = _LEAST_GAIN if len(matrix) > _SMALL else 1e-9
    for _ in range(_ROUNDS):
        if best is None:
            return None
        split = best
        for found in _part_columns(session, matrix, best.groups):
            if not (found == best.parts).all():
                split = _group_rows(session, matrix, found, split.cost * (1 - least_gain), hopeless) or split
        gain = best.cost - split.cost
        best = split
        if gain <= 0 or best.cost - _MORE_GAINS * gain > hopeless:
            break
    return best


def _group_rows(session: Session, matrix: Array, parts: Array, below: float, hopeless: float) -> Split | None:
    """Groups of low cost for given parts; None if none were found that cost less than ``below``.

    The best order to form them in takes long to find: not for what looks hopeless without it.
    """
    costs = _pair_costs(session, matrix, parts)
    radix = len(parts)
    # No row costs less than with those that suit it best; each pair counts for both of its rows.
    lowest = costs.min(axis=1) if radix == 2 else np.partition(costs, radix - 2, axis=1)[:, : radix - 1]
    if lowest.sum() / 2 >= below:
        return None
    split: Split | None = None
    if hopeless < inf:
        split = _grouped(session, costs, session.wait(lambda: _by_cost(costs), 20 * costs.size), parts)
    if split is None or _WORSE * split.cost <= hopeless:
        split = _grouped(session, costs, likely_first(session, costs, radix), parts)
    return split if split.cost < below else None


def _grouped(session: Session, costs: Array, order: Array, parts: Array) -> Split:
    """The groups that are formed in an order of pairs of rows."""
    m, radix = len(costs), len(parts)
    groups = _as_parts(session.wait(lambda: group_up(costs, order, radix), _SWEEPS * radix * m**2), m // radix)
    members = np.array(list(combinations(range(radix), 2)))
    pairs = groups[:, members]
    return Split(groups, parts, float(costs[pairs[..., 0], pairs[..., 1]].sum()))


def _by_cost(costs: Array) -> Array:
    """Flat indices of pairs by cost."""
    first, second = np.triu_indices(len(costs), 1)
    return (first * len(costs) + second)[np.argsort(costs[first, second], kind="stable")]


def likely_first(session: Session, costs: Array, size: int) -> Array:
    """Flat indices of pairs: first those that are likely to be in the best groups of a size, then by cost.

    The cheapest permutation without fixed points consists almost only of exchanges, which are then the best pairs.
    """
    m = len(costs)
    given = np.where(np.isfinite(costs), costs, 2 * costs[np.isfinite(costs)].sum() + 1)
    target = session.wait(lambda: linear_sum_assignment(given)[1], m**3)
    rows = np.arange(m)
    exchanged = target[target] == rows
    pairs = rows[exchanged & (rows < target)]
    # What is in a pair is in no other group: no need to sort the others' costs with it.
    first, second = np.triu_indices(m, 1) if size > 2 else _pairs_of(rows[~exchanged])
    likely = (target[first] == second) | (target[second] == first)
    order = (first * m + second)[np.lexsort((costs[first, second], ~likely))]
    return order if size > 2 else np.concatenate([pairs * m + target[pairs], order])


def _pairs_of(points: Array) -> tuple[Array, Array]:
    first, second = np.triu_indices(len(points), 1)
    return points[first], points[second]


def _pair_costs(session: Session, matrix: Array, parts: Array) -> Array:
    """The squared error of rank one over all parts, for each pair of rows."""
    m = len(matrix)
    costs = np.empty((m, m))
    blocks = [matrix[:, part] for part in parts]
    sizes = [(np.abs(block) ** 2).sum(axis=1) for block in blocks]
    step = max(_CHUNK // m, 1)
    for rows in (slice(start, start + step) for start in range(0, m, step)):
        session.check()
        costs[rows] = 0
        for block, size in zip(blocks, sizes, strict=True):
            gram = block[rows] @ block.conj().T
            costs[rows] += _smaller_eigenvalue(size[rows, None], size, np.abs(gram) ** 2)
    np.fill_diagonal(costs, np.inf)
    return costs


def _part_columns(session: Session, matrix: Array, groups: Array) -> Iterator[Array]:
    """Different parts for given groups, by leading directions of the columns' slices, weighted in three ways."""
    radix, work = groups.shape[1], 8 * matrix.size
    lifts = session.wait(lambda: lifted(matrix[groups]), work)
    energies = lifts[:, :radix].sum(axis=1)
    before: list[Array] = []
    for weight in (np.sqrt(energies), None, energies):
        features = session.wait(partial(_centred, lifts, weight), work)
        points = _leading_components(session, features, radix - 1)
        labels = _labels_of(session, points, radix)
        parts = _reassign_columns(session, lifts, _as_parts(labels, radix))
        if not any((parts == other).all() for other in before):
            before.append(parts)
            yield parts


def _labels_of(session: Session, points: Array, radix: int) -> Array:
    """Labels of (m, radix − 1) points in equal parts that lie together."""
    if radix == 2:
        return _upper_half(points[:, 0])
    given = np.ascontiguousarray(points, float)
    return session.wait(lambda: equal_parts(given, radix, _SWEEPS), _SWEEPS * len(points) ** 2)


def _centred(lifts: Array, weight: Array | None) -> Array:
    """Lifted vectors over their ``weight``, as a matrix with a row per coordinate and group, of mean zero."""
    features = (lifts if weight is None else _divided(lifts, weight)).reshape(-1, lifts.shape[2])
    return features - features.mean(axis=1, keepdims=True)


def _leading_components(session: Session, features: Array, count: int) -> Array:
    """The leading ``count`` eigenvectors of featuresᵀ·features, each times the root of its eigenvalue."""
    m = features.shape[1]
    if m > _SMALL and features.any():

        def gram(vector: Array) -> Array:
            session.check()
            return features.T @ (features @ vector)

        with suppress(ArpackError):  # It may not converge if leading eigenvalues are equal.
            operator = LinearOperator((m, m), matvec=gram, dtype=features.dtype)
            values, vectors = eigsh(operator, count, v0=probe(m).astype(features.dtype), tol=1e-6)
            return vectors * np.sqrt(np.maximum(values, 0))
    values, vectors = session.wait(lambda: np.linalg.eigh(features.T @ features), m**3)
    return vectors[:, m - count :] * np.sqrt(np.maximum(values[m - count :], 0))


def _reassign_columns(session: Session, lifts: Array, parts: Array) -> Array:
    """Move columns to the parts that they fit best, as in k-means, but with parts of equal size."""
    groups, coordinates, m = lifts.shape
    flat, radix = lifts.reshape(-1, m), len(parts)
    for _ in range(5):
        session.check()
        members = np.zeros((m, radix), lifts.dtype)
        members[parts, np.arange(radix)[:, None]] = 1
        directions = leading_directions((flat @ members).reshape(groups, coordinates, radix), radix)
        captured = directions.reshape(-1, radix).T @ flat
        if radix == 2:
            labels = _upper_half(captured[1] - captured[0])
        else:
            costs = np.ascontiguousarray(-captured.T, float)
            labels = session.wait(partial(share_out, costs, _SWEEPS), _SWEEPS * m**2)
        new = _as_parts(labels, radix)
        if (new == parts).all():
            break
        parts = new
    return parts


def _as_parts(labels: Array, count: int) -> Array:
    """The members of each of ``count`` equal parts, ascending; the part of the first one first."""
    parts = np.argsort(labels, kind="stable").reshape(count, -1)
    return parts[np.argsort(parts[:, 0])]


def _divided(lifts: Array, sizes: Array) -> Array:
    """Lifted vectors (groups, c, m) divided by (groups, m) sizes; zero where these are."""
    return lifts / np.where(sizes > 0, sizes, np.inf)[:, None, :].astype(lifts.dtype)


def _smaller_eigenvalue(a: Array, b: Array, g_squared: Array) -> Array:
    """That of [[a, g], [ḡ, b]] ≥ 0, as determinant over larger eigenvalue: exact up to rounding of ab/λ_max."""
    larger = (a + b) / 2 + np.sqrt(((a - b) / 2) ** 2 + g_squared)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(larger > 0, np.maximum(a * b - g_squared, 0) / larger, 0.0)


# -- vectors x as matrices xxᴴ, where |uᴴx|² is a scalar product ----------------------------------------
#
# The coordinates of xxᴴ are |xᵢ|² for each i, then √2·Re(xᵢx̄ⱼ) for each i < j, followed for complex x by
# √2·Im(xᵢx̄ⱼ). Sums over vectors are thus products of matrices, and so is the energy that a direction u captures.


def lifted(vectors: Array) -> Array:
    """The coordinates (k, c, m) of m vectors in each of k sets (k, r, m)."""
    k, r, m = vectors.shape
    is_complex = np.iscomplexobj(vectors)
    root = vectors.real.dtype.type(np.sqrt(2))
    lifts = np.empty((k, r * r if is_complex else r * (r + 1) // 2, m), vectors.real.dtype)
    lifts[:, :r] = vectors.real**2 + vectors.imag**2 if is_complex else vectors**2
    place = r
    for i, j in combinations(range(r), 2):
        mixed = root * vectors[:, i] * vectors[:, j].conj()
        lifts[:, place] = mixed.real
        if is_complex:
            lifts[:, place + 1] = mixed.imag
        place += 2 if is_complex else 1
    return lifts


def leading_directions(sums: Array, r: int) -> Array:
    """Of sums (k, c, p) of lifted vectors of size r: the lifted unit vectors that capture most of them."""
    k, c, p = sums.shape
    is_complex = c == r * r and r > 1
    grams = np.zeros((k, p, r, r), np.result_type(sums, 1j) if is_complex else sums.dtype)
    for i in range(r):
        grams[..., i, i] = sums[:, i]
    place = r
    for i, j in combinations(range(r), 2):
        mixed = sums[:, place] + 1j * sums[:, place + 1] if is_complex else sums[:, place]
        grams[..., i, j] = mixed / np.sqrt(2)
        grams[..., j, i] = mixed.conj() / np.sqrt(2)
        place += 2 if is_complex else 1
    leading = np.linalg.eigh(grams)[1][..., -1]  # (k, p, r)
    return lifted(leading.transpose(0, 2, 1))
