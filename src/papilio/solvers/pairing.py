"""Splits of a permuted butterfly: which rows belong together, and which columns.

A square matrix of even size m is the first level of a butterfly, up to permutations, if its rows pair up and its
columns split into halves so that each block of a pair and a half has rank one. The cost of a pair (i, j) on a half
is what the best matrix of rank one misses: the smaller eigenvalue of the pair's Gram matrix there.
"""

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..kernels.pairing import pair_up
from ..validation import Array

_ROUNDS = 12  # of alternation at most
_ALL = 8  # the size up to which all splits are tried


class Split(NamedTuple):
    """Pairs of rows (m/2, 2), halves of columns (2, m/2), and the squared error of rank one on all blocks."""

    pairs: Array
    halves: Array
    cost: float


def best_split(matrix: Array, random: np.random.RandomState, starts: int = 4) -> Split:
    """The cheapest split that is found from several rows, each with the partners that suit it best."""
    m = len(matrix)
    if m <= _ALL:
        return _best_of_all(matrix)
    energy = float(np.vdot(matrix, matrix).real)
    best: Split | None = None
    sizes = np.einsum("ij,ij->i", matrix, matrix.conj()).real
    rows = random.permutation(m)
    rows = rows[np.argsort(sizes[rows] <= 1e-3 * sizes.mean(), kind="stable")][:starts]  # no empty ones first
    for row in rows:
        for halves in _halves_from(matrix, int(row)):
            split = _alternated(matrix, halves)
            if best is None or split.cost < best.cost:
                best = split
            if best.cost <= 1e-14 * energy:
                return best
    assert best is not None
    return best


def _best_of_all(matrix: Array) -> Split:
    """The cheapest of all splits, for a small matrix."""
    m = len(matrix)
    matchings = _matchings(tuple(range(m)))  # (count, m/2, 2)
    best: Split | None = None
    for others in combinations(range(1, m), m // 2 - 1):
        inside = np.isin(np.arange(m), (0, *others))
        halves = np.stack([np.flatnonzero(inside), np.flatnonzero(~inside)])
        sums = _costs(matrix, halves)[matchings[..., 0], matchings[..., 1]].sum(axis=1)
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


def _halves_from(matrix: Array, row: int, count: int = 2) -> list[Array]:
    """Halves of the columns by their direction in the plane of ``row`` and a partner, for the best partners."""
    coordinates, weights = _directions(matrix[row][None, :], matrix)  # (m, m, 3), (m, m)
    options = []
    for weight in (weights, np.sqrt(weights)):
        weighted = coordinates * weight[..., None]
        centred = weighted - weighted.mean(axis=1, keepdims=True)
        axis = np.linalg.eigh(np.einsum("jci,jck->jik", centred, centred))[1][:, :, -1]
        along = np.einsum("jci,ji->jc", centred, axis)
        order = np.argsort(along, axis=1, kind="stable")
        half = order[:, : order.shape[1] // 2]
        inside = np.zeros(along.shape, bool)
        np.put_along_axis(inside, half, True, axis=1)
        first, second = matrix[row], matrix
        cost = np.zeros(len(matrix))
        for mask in (inside, ~inside):
            a = (mask * (np.abs(first) ** 2)[None, :]).sum(axis=1)
            b = (mask * np.abs(second) ** 2).sum(axis=1)
            g = (mask * (first.conj()[None, :] * second)).sum(axis=1)
            cost += _smaller_eigenvalue(a, b, np.abs(g) ** 2)
        cost[row] = np.inf
        for partner in np.argsort(cost, kind="stable")[:count]:
            options.append((cost[partner], inside[partner]))
    options.sort(key=lambda option: option[0])
    found = []
    for _, inside in options[:count]:
        found.append(np.stack([np.flatnonzero(inside), np.flatnonzero(~inside)]))
    return found


def _alternated(matrix: Array, halves: Array) -> Split:
    """Pairs for the halves, halves for the pairs, and so on while the cost falls."""
    best = _paired(matrix, halves)
    for _ in range(_ROUNDS):
        options = [_paired(matrix, found) for found in _halved(matrix, best.pairs)]
        split = min(options, key=lambda option: option.cost)
        if not split.cost < best.cost * (1 - 1e-9):
            return min(best, split, key=lambda option: option.cost)
        best = split
    return best


def _paired(matrix: Array, halves: Array) -> Split:
    """The cheapest pairs for given halves."""
    m = len(matrix)
    costs = _costs(matrix, halves)
    upper = np.triu_indices(m, 1)
    order = np.argsort(costs[upper], kind="stable")
    partner = pair_up(costs, (upper[0] * m + upper[1])[order])
    first = np.flatnonzero(np.arange(m) < partner)
    pairs = np.stack([first, partner[first]], axis=1)
    return Split(pairs, halves, float(costs[first, partner[first]].sum()))


def _costs(matrix: Array, halves: Array) -> Array:
    """What rank one misses on both halves, for each pair of rows."""
    costs = np.zeros((len(matrix), len(matrix)))
    for half in halves:
        block = matrix[:, half]
        gram = block @ block.conj().T
        sizes = gram.diagonal().real
        costs += _smaller_eigenvalue(sizes[:, None], sizes[None, :], np.abs(gram) ** 2)
    np.fill_diagonal(costs, np.inf)
    return costs


def _halved(matrix: Array, pairs: Array) -> list[Array]:
    """Halves for given pairs: by the leading direction of the columns' slices, weighted in three ways."""
    coordinates, weights = _directions(matrix[pairs[:, 0]], matrix[pairs[:, 1]])
    found = []
    for weight in (np.sqrt(weights), weights, (weights > 0).astype(float)):
        features = (coordinates * weight[..., None]).transpose(1, 0, 2).reshape(matrix.shape[1], -1)
        features = features - features.mean(axis=0)
        gram = features @ features.T
        along = np.linalg.eigh(gram)[1][:, -1]
        order = np.argsort(along, kind="stable")
        found.append(_reassigned(matrix, pairs, order.reshape(2, -1)))
    return found


def _reassigned(matrix: Array, pairs: Array, halves: Array) -> Array:
    """Columns moved between the halves to where they fit better, as in k-means, while the halves stay equal."""
    first, second = matrix[pairs[:, 0]], matrix[pairs[:, 1]]
    for _ in range(5):
        captured = []
        for half in halves:
            u = leading(first[:, half], second[:, half])
            image = u[0].conj()[:, None] * first + u[1].conj()[:, None] * second
            captured.append((np.abs(image) ** 2).sum(axis=0))
        order = np.argsort(captured[1] - captured[0], kind="stable").reshape(2, -1)
        new = np.sort(order, axis=1)
        if (new == np.sort(halves, axis=1)).all():
            break
        halves = new
    return np.sort(halves, axis=1)


def leading(first: Array, second: Array) -> Array:
    """The leading left singular vectors (2, pairs) of the blocks [first; second], one a row of each."""
    a = (np.abs(first) ** 2).sum(axis=1)
    b = (np.abs(second) ** 2).sum(axis=1)
    g = (first.conj() * second).sum(axis=1)  # of row vectors: ⟨first, second⟩
    grams = np.empty((len(a), 2, 2), np.result_type(g))
    grams[:, 0, 0], grams[:, 1, 1] = a, b
    grams[:, 1, 0], grams[:, 0, 1] = g, g.conj()
    return np.linalg.eigh(grams)[1][:, :, -1].T


def _directions(first: Array, second: Array) -> tuple[Array, Array]:
    """Coordinates of the lifted unit vectors uuᴴ of two-entry slices (x, y), and the slices' squared norms."""
    sizes = np.abs(first) ** 2 + np.abs(second) ** 2
    mixed = 2 * first * second.conj()
    parts = np.stack(
        np.broadcast_arrays(np.abs(first) ** 2 - np.abs(second) ** 2, mixed.real, mixed.imag), axis=-1
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        coordinates = np.where(sizes[..., None] > 0, parts / sizes[..., None], 0.0)
    return coordinates, sizes


def _smaller_eigenvalue(a: Array, b: Array, g_squared: Array) -> Array:
    """Of [[a, g], [ḡ, b]] ≥ 0, as determinant over larger eigenvalue: right to rounding of ab/λ_max."""
    larger = (a + b) / 2 + np.sqrt(((a - b) / 2) ** 2 + g_squared)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(larger > 0, np.maximum(a * b - g_squared, 0) / larger, 0.0)
