"""Splits of a permuted butterfly: which rows belong together, and which columns.

A square matrix of size m is the first level of a butterfly of radix r, up to permutations, if its rows fall into
groups of r and its columns into r parts of equal size so that each block of a group and a part has rank one. The
cost of a group on a part is what the best matrix of rank one misses there; for pairs of rows it is the smaller
eigenvalue of their Gram matrix, and groups of more are judged by their pairs.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackError, eigsh

from ..kernels.grouping import all_equal_parts, equal_parts, group_up, share_out
from ..linalg import probe
from ..typing import Array

_ROUNDS = 12  # of alternation at most
_ALL = 8  # the size up to which all splits into pairs and halves are tried
_STARTS, _MORE_STARTS = 4, 32  # rows to start from; more where noise does not explain the cost of a small matrix
_SMALL = 64
_EXACT = 1e-14  # a cost over the energy that is rounding


class Split(NamedTuple):
    """Groups of rows (m/r, r), parts of columns (r, m/r), and the squared error of rank one on all blocks."""

    groups: Array
    parts: Array
    cost: float


def best_split(
    matrix: Array,
    radix: int,
    random: np.random.RandomState,
    noise: float | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Split:
    """The cheapest split that is found from several rows, each with the partners that suit it best.

    With ``noise``, the mean energy of white noise in an entry, the search ends when the cost is explained by it,
    and goes on for longer when it is not. When ``is_over``, the best so far has to do.
    """
    m = len(matrix)
    if radix == 2 and m <= _ALL:
        return _best_of_all(matrix)
    enough = _EXACT * float(np.vdot(matrix, matrix).real)
    starts = _STARTS
    if noise is not None:
        # Rank one misses all but one of r dimensions; the spread of a sum of m²(1 − 1/r) squares is about 2/m.
        enough = max(enough, noise * m**2 * (1 - 1 / radix) * (1 + 4 / m))
        starts = _MORE_STARTS if m <= _SMALL else _STARTS
    best: Split | None = None
    sizes = (np.abs(matrix) ** 2).sum(axis=1)
    rows = random.permutation(m)
    rows = rows[np.argsort(sizes[rows] <= 1e-3 * sizes.mean(), kind="stable")][:starts]  # no empty ones first
    for row in rows:
        for parts in _parts_from(matrix, int(row), radix):
            split = _alternated(matrix, parts)
            if best is None or split.cost < best.cost:
                best = split
            if best.cost <= enough or is_over():
                return best
    assert best is not None
    return best


def leading(matrix: Array, groups: Array, columns: Array) -> tuple[Array, Array]:
    """The leading left singular vectors u (groups, r) of the blocks of groups and columns, and uᴴ·matrix."""
    slices = matrix[groups]  # (groups, r, m)
    block = slices[:, :, columns]
    u = np.linalg.eigh(block @ block.conj().transpose(0, 2, 1))[1][:, :, -1]
    return u, (u.conj()[:, None, :] @ slices)[:, 0, :]


def _best_of_all(matrix: Array) -> Split:
    """The cheapest of all splits into pairs and halves, for a small matrix."""
    m = len(matrix)
    matchings = _matchings(tuple(range(m)))  # (count, m/2, 2)
    best: Split | None = None
    for others in combinations(range(1, m), m // 2 - 1):
        halves = _as_parts(~np.isin(np.arange(m), (0, *others)), 2)
        sums = _pair_costs(matrix, halves)[matchings[..., 0], matchings[..., 1]].sum(axis=1)
        least = int(np.argmin(sums))
        if best is None or sums[least] < best.cost:
            best = Split(matchings[least], halves, float(sums[least]))
    assert best is not None
    return best


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


def _parts_from(matrix: Array, row: int, radix: int, count: int = 2) -> list[Array]:
    """Parts of the columns by their direction in the plane of ``row`` and a partner, for the best partners.

    Columns of one part have one direction there if the partner is of the row's group.
    """
    pairs = np.stack([np.full(len(matrix), row), np.arange(len(matrix))], axis=1)
    coordinates, weights = _directions(matrix, pairs)
    first, second = np.abs(matrix[row]) ** 2, np.abs(matrix) ** 2
    mixed = matrix[row].conj() * matrix
    options = []
    for weight in (weights, np.sqrt(weights)):
        weighted = coordinates * weight[..., None]
        centred = weighted - weighted.mean(axis=1, keepdims=True)
        axes = np.linalg.eigh(centred.transpose(0, 2, 1) @ centred)[1][:, :, 1 - radix :]
        labels = all_equal_parts(centred @ axes, radix)
        cost = np.zeros(len(matrix))
        for p in range(radix):
            mask = labels == p
            squares = np.abs((mask * mixed).sum(axis=1)) ** 2
            cost += _smaller_eigenvalue((mask * first).sum(axis=1), (mask * second).sum(axis=1), squares)
        cost[row] = np.inf
        for partner in np.argsort(cost, kind="stable")[:count]:
            options.append((cost[partner], labels[partner]))
    options.sort(key=lambda option: option[0])
    return [_as_parts(labels, radix) for _, labels in options[:count]]


def _alternated(matrix: Array, parts: Array) -> Split:
    """Groups for the parts, parts for the groups, and so on while the cost falls."""
    best = _grouped(matrix, parts)
    for _ in range(_ROUNDS):
        options = [_grouped(matrix, found) for found in _parted(matrix, best.groups)]
        split = min(options, key=lambda option: option.cost)
        if not split.cost < best.cost * (1 - 1e-9):
            return min(best, split, key=lambda option: option.cost)
        best = split
    return best


def _grouped(matrix: Array, parts: Array) -> Split:
    """Cheap groups for given parts."""
    m, radix = len(matrix), len(parts)
    costs = _pair_costs(matrix, parts)
    groups = _as_parts(group_up(costs, likely_first(costs), radix), m // radix)
    members = np.array(list(combinations(range(radix), 2)))
    pairs = groups[:, members]
    return Split(groups, parts, float(costs[pairs[..., 0], pairs[..., 1]].sum()))


def likely_first(costs: Array) -> Array:
    """Flat places of pairs, those first that are likely to be in the best groups, then the cheaper ones.

    The cheapest permutation without fixed points is nearly made of exchanges, which are then the best pairs.
    """
    m = len(costs)
    given = np.where(np.isfinite(costs), costs, 2 * costs[np.isfinite(costs)].sum() + 1)
    likely = np.zeros((m, m), bool)
    likely[linear_sum_assignment(given)] = True
    first, second = np.triu_indices(m, 1)
    both = (likely | likely.T)[first, second]
    return (first * m + second)[np.lexsort((costs[first, second], ~both))]


def _pair_costs(matrix: Array, parts: Array) -> Array:
    """What rank one misses on all parts, for each pair of rows."""
    costs = np.zeros((len(matrix), len(matrix)))
    for part in parts:
        block = matrix[:, part]
        gram = block @ block.conj().T
        sizes = gram.diagonal().real
        costs += _smaller_eigenvalue(sizes[:, None], sizes[None, :], np.abs(gram) ** 2)
    np.fill_diagonal(costs, np.inf)
    return costs


def _parted(matrix: Array, groups: Array) -> list[Array]:
    """Parts for given groups: by the leading directions of the columns' slices, weighted in three ways."""
    m, radix = len(matrix), groups.shape[1]
    coordinates, weights = _directions(matrix, groups)
    found = []
    for weight in (np.sqrt(weights), weights, (weights > 0).astype(float)):
        features = (coordinates * weight[..., None]).transpose(1, 0, 2).reshape(m, -1)
        features = features - features.mean(axis=0)
        points = _leading_components(features @ features.T, radix - 1)
        found.append(_reassigned(matrix, groups, _as_parts(equal_parts(points, radix), radix)))
    return found


def _leading_components(gram: Array, count: int) -> Array:
    """The leading ``count`` eigenvectors of a positive matrix, each times the root of its eigenvalue."""
    m = len(gram)
    if m > _SMALL and gram.any():
        with suppress(ArpackError):  # a matrix with ties at the top may not converge
            values, vectors = eigsh(gram, count, v0=probe(m), tol=1e-6)
            return vectors * np.sqrt(np.maximum(values, 0))
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, m - count :] * np.sqrt(np.maximum(values[m - count :], 0))


def _reassigned(matrix: Array, groups: Array, parts: Array) -> Array:
    """Columns moved between the parts to where they fit better, as in k-means, while the parts stay equal."""
    for _ in range(5):
        missed = [-(np.abs(leading(matrix, groups, part)[1]) ** 2).sum(axis=0) for part in parts]
        new = _as_parts(share_out(np.stack(missed, axis=1)), len(parts))
        if (new == parts).all():
            break
        parts = new
    return parts


def _as_parts(labels: Array, count: int) -> Array:
    """The members of each of ``count`` equal parts, ascending."""
    return np.argsort(labels, kind="stable").reshape(count, -1)


def _directions(matrix: Array, groups: Array) -> tuple[Array, Array]:
    """Coordinates (groups, m, c) of the lifted unit vectors uuᴴ of the columns' slices, and their energies."""
    slices = matrix[groups]  # (groups, r, m)
    squares = np.abs(slices) ** 2
    sizes = squares.sum(axis=1)
    parts = [squares[:, i] for i in range(groups.shape[1])]
    for i, j in combinations(range(groups.shape[1]), 2):
        mixed = np.sqrt(2) * slices[:, i] * slices[:, j].conj()
        parts += [mixed.real, mixed.imag] if np.iscomplexobj(matrix) else [mixed]
    coordinates = np.stack(parts, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sizes[..., None] > 0, coordinates / sizes[..., None], 0.0), sizes


def _smaller_eigenvalue(a: Array, b: Array, g_squared: Array) -> Array:
    """Of [[a, g], [ḡ, b]] ≥ 0, as determinant over larger eigenvalue: right to rounding of ab/λ_max."""
    larger = (a + b) / 2 + np.sqrt(((a - b) / 2) ** 2 + g_squared)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(larger > 0, np.maximum(a * b - g_squared, 0) / larger, 0.0)
