"""Splits of a permuted butterfly: which rows belong together, and which columns.

A square matrix of size m is the first level of a butterfly of radix r, up to permutations, if its rows fall into
groups of r and its columns into r parts of equal size such that each block of a group and a part has rank one. The
cost of a group on a part is the squared error of the best rank-one approximation there. For pairs of rows it is
the smaller eigenvalue of their Gram matrix; larger groups are judged by their pairs.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackError, eigsh

from ..kernels.grouping import all_equal_parts, equal_parts, group_up, share_out
from ..linalg import probe
from ..typing import Array

_ROUNDS = 12  # of alternation, at most
_ALL = 8  # the size up to which all splits into pairs and halves are tried
_STARTS, _MORE_STARTS = 4, 32  # rows to start from; more if noise does not explain the cost of a small matrix
_SMALL = 64
_EXACT = 1e-14  # a cost, relative to the energy, that is rounding


class Split(NamedTuple):
    """Groups of rows (m/r, r), parts of columns (r, m/r), and the squared error of rank one over all blocks."""

    groups: Array
    parts: Array
    cost: float


_cost = attrgetter("cost")


def best_split(
    matrix: Array,
    radix: int,
    random: np.random.RandomState,
    noise: float | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Split:
    """The cheapest split found from several starting rows, each with its best partners.

    With ``noise``, the mean energy of white noise per entry, the search ends when the noise explains the cost, and
    tries more rows when it does not. Once ``should_stop()``, the best split so far is returned.
    """
    m = len(matrix)
    if radix == 2 and m <= _ALL:
        return _cheapest_of_all(matrix)
    enough = _EXACT * float(np.vdot(matrix, matrix).real)
    starts = _STARTS
    if noise is not None:
        # Rank one misses all but one of r dimensions; the spread of a sum of m²(1 − 1/r) squares is about 2/m.
        enough = max(enough, noise * m**2 * (1 - 1 / radix) * (1 + 4 / m))
        starts = _MORE_STARTS if m <= _SMALL else _STARTS
    best: Split | None = None
    sizes = (np.abs(matrix) ** 2).sum(axis=1)
    rows = random.permutation(m)
    rows = rows[np.argsort(sizes[rows] <= 1e-3 * sizes.mean(), kind="stable")][:starts]  # empty rows last
    for row in rows:
        for parts in _candidate_parts(matrix, int(row), radix):
            split = _alternate(matrix, parts)
            if best is None or split.cost < best.cost:
                best = split
            if best.cost <= enough or should_stop():
                return best
    assert best is not None
    return best


def leading_vectors(matrix: Array, groups: Array, columns: Array) -> tuple[Array, Array]:
    """The leading left singular vectors u (groups, r) of the blocks of groups and columns, and uᴴ·matrix."""
    slices = matrix[groups]  # (groups, r, m)
    block = slices[:, :, columns]
    u = np.linalg.eigh(block @ block.conj().transpose(0, 2, 1))[1][:, :, -1]
    return u, (u.conj()[:, None, :] @ slices)[:, 0, :]


def _cheapest_of_all(matrix: Array) -> Split:
    """The cheapest of all splits into pairs and halves, for a small matrix."""
    m = len(matrix)
    matchings = _matchings(tuple(range(m)))  # (count, m/2, 2)

    def cheapest(others: tuple[int, ...]) -> Split:
        halves = _as_parts(~np.isin(np.arange(m), (0, *others)), 2)
        sums = _pair_costs(matrix, halves)[matchings[..., 0], matchings[..., 1]].sum(axis=1)
        least = int(np.argmin(sums))
        return Split(matchings[least], halves, float(sums[least]))

    return min(map(cheapest, combinations(range(1, m), m // 2 - 1)), key=_cost)


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


def _candidate_parts(matrix: Array, row: int, radix: int, count: int = 2) -> list[Array]:
    """Parts of the columns by their directions in the plane of ``row`` and a partner, for the best partners.

    If the partner belongs to the row's group, the columns of one part all have the same direction there.
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


def _alternate(matrix: Array, parts: Array) -> Split:
    """Groups for the parts and parts for the groups in turn, while the cost falls."""
    best = _group_rows(matrix, parts)
    for _ in range(_ROUNDS):
        options = [_group_rows(matrix, found) for found in _part_columns(matrix, best.groups)]
        split = min(options, key=_cost)
        if not split.cost < best.cost * (1 - 1e-9):
            return min(best, split, key=_cost)
        best = split
    return best


def _group_rows(matrix: Array, parts: Array) -> Split:
    """Groups of low cost for given parts."""
    m, radix = len(matrix), len(parts)
    costs = _pair_costs(matrix, parts)
    groups = _as_parts(group_up(costs, likely_first(costs), radix), m // radix)
    members = np.array(list(combinations(range(radix), 2)))
    pairs = groups[:, members]
    return Split(groups, parts, float(costs[pairs[..., 0], pairs[..., 1]].sum()))


def likely_first(costs: Array) -> Array:
    """Flat indices of pairs: first those that are likely to be in the best groups, then by cost.

    The cheapest permutation without fixed points consists almost only of exchanges, which are then the best pairs.
    """
    m = len(costs)
    given = np.where(np.isfinite(costs), costs, 2 * costs[np.isfinite(costs)].sum() + 1)
    likely = np.zeros((m, m), bool)
    likely[linear_sum_assignment(given)] = True
    first, second = np.triu_indices(m, 1)
    both = (likely | likely.T)[first, second]
    return (first * m + second)[np.lexsort((costs[first, second], ~both))]


def _pair_costs(matrix: Array, parts: Array) -> Array:
    """The squared error of rank one over all parts, for each pair of rows."""
    costs = np.zeros((len(matrix), len(matrix)))
    for part in parts:
        block = matrix[:, part]
        gram = block @ block.conj().T
        sizes = gram.diagonal().real
        costs += _smaller_eigenvalue(sizes[:, None], sizes[None, :], np.abs(gram) ** 2)
    np.fill_diagonal(costs, np.inf)
    return costs


def _part_columns(matrix: Array, groups: Array) -> list[Array]:
    """Parts for given groups, by the leading directions of the columns' slices, weighted in three ways."""
    m, radix = len(matrix), groups.shape[1]
    coordinates, weights = _directions(matrix, groups)
    found = []
    for weight in (np.sqrt(weights), weights, (weights > 0).astype(float)):
        features = (coordinates * weight[..., None]).transpose(1, 0, 2).reshape(m, -1)
        features = features - features.mean(axis=0)
        points = _leading_components(features @ features.T, radix - 1)
        found.append(_reassign_columns(matrix, groups, _as_parts(equal_parts(points, radix), radix)))
    return found


def _leading_components(gram: Array, count: int) -> Array:
    """The leading ``count`` eigenvectors of a semidefinite matrix, each times the root of its eigenvalue."""
    m = len(gram)
    if m > _SMALL and gram.any():
        with suppress(ArpackError):  # with equal leading eigenvalues it may not converge
            values, vectors = eigsh(gram, count, v0=probe(m), tol=1e-6)
            return vectors * np.sqrt(np.maximum(values, 0))
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, m - count :] * np.sqrt(np.maximum(values[m - count :], 0))


def _reassign_columns(matrix: Array, groups: Array, parts: Array) -> Array:
    """Move columns to the parts that they fit best, as in k-means, but with parts of equal size."""
    for _ in range(5):
        missed = [-(np.abs(leading_vectors(matrix, groups, part)[1]) ** 2).sum(axis=0) for part in parts]
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
    """That of [[a, g], [ḡ, b]] ≥ 0, as determinant over larger eigenvalue: exact up to rounding of ab/λ_max."""
    larger = (a + b) / 2 + np.sqrt(((a - b) / 2) ** 2 + g_squared)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(larger > 0, np.maximum(a * b - g_squared, 0) / larger, 0.0)
