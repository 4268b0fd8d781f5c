"""Equal groups at least cost: rows that belong together, points that lie together.

Arrays are copied in loops: an assignment of one to another, whose shapes numba checks, compiles for seconds.
"""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True)


@compiled
def group_up(costs: Array, order: Array, size: int) -> Array:
    """Cheap groups of ``size`` points each: group numbers by point, where a group costs the sum of its pairs.

    Filled greedily along ``order`` (flat places of ``costs``, cheapest first), then improved by exchanging points
    of two groups while that lowers the sum.
    """
    m = costs.shape[0]
    count = m // size
    members = np.full((count, size), -1, np.int64)
    filled = np.zeros(count, np.int64)
    group = np.full(m, -1, np.int64)
    opened = 0
    for place in order:
        i, j = place // m, place % m
        if group[i] < 0 and group[j] < 0:
            if opened < count:
                members[opened, 0], members[opened, 1] = i, j
                filled[opened] = 2
                group[i] = group[j] = opened
                opened += 1
        elif group[i] < 0 or group[j] < 0:
            free, home = (i, group[j]) if group[i] < 0 else (j, group[i])
            if filled[home] < size:
                members[home, filled[home]] = free
                filled[home] += 1
                group[free] = home
    for _ in range(100):
        improved = False
        for i in range(m):
            for k in range(i + 1, m):
                g, h = group[i], group[k]
                if g == h:
                    continue
                now, then = 0.0, 0.0
                for t in range(size):
                    if members[g, t] != i:
                        now += costs[i, members[g, t]]
                        then += costs[k, members[g, t]]
                    if members[h, t] != k:
                        now += costs[k, members[h, t]]
                        then += costs[i, members[h, t]]
                if then < now - 1e-12 * abs(now):
                    for t in range(size):
                        if members[g, t] == i:
                            members[g, t] = k
                        if members[h, t] == k:
                            members[h, t] = i
                    group[i], group[k] = h, g
                    improved = True
        if not improved:
            break
    return group


@compiled
def exchange_labels(costs: Array, labels: Array, sweeps: int) -> None:
    """Let two points exchange their labels while that lowers the sum of ``costs[point, label]``.

    There are at most so many sweeps over all pairs.
    """
    m = costs.shape[0]
    for _ in range(sweeps):
        improved = False
        for i in range(m):
            for k in range(i + 1, m):
                a, b = labels[i], labels[k]
                now = costs[i, a] + costs[k, b]
                if a != b and costs[i, b] + costs[k, a] < now - 1e-12 * abs(now):
                    labels[i], labels[k] = b, a
                    improved = True
        if not improved:
            break


@compiled
def share_out(costs: Array, sweeps: int) -> Array:
    """Labels of m points among r equal parts at a small sum of ``costs[point, label]``; the least for r = 2.

    Those with most to lose choose first; then, in at most so many sweeps over all pairs of points, two exchange
    their parts while that lowers the sum.
    """
    m, r = costs.shape
    room = np.full(r, m // r, np.int64)
    regret = np.empty(m)
    for i in range(m):
        least, second = np.inf, np.inf
        for p in range(r):
            if costs[i, p] < least:
                least, second = costs[i, p], least
            elif costs[i, p] < second:
                second = costs[i, p]
        regret[i] = least - second
    labels = np.empty(m, np.int64)
    for i in np.argsort(regret, kind="mergesort"):
        best = -1
        for p in range(r):
            if room[p] > 0 and (best < 0 or costs[i, p] < costs[i, best]):
                best = p
        labels[i] = best
        room[best] -= 1
    if r > 2:
        exchange_labels(costs, labels, sweeps)
    return labels


@compiled
def _mean(points: Array) -> Array:
    total = np.zeros(points.shape[1])
    for i in range(len(points)):
        for t in range(len(total)):
            total[t] += points[i, t]
    return total / len(points)


@compiled
def _distances(points: Array, centre: Array) -> Array:
    """Squared."""
    found = np.zeros(len(points))
    for i in range(len(points)):
        for t in range(len(centre)):
            found[i] += (points[i, t] - centre[t]) ** 2
    return found


@compiled
def equal_parts(points: Array, r: int, sweeps: int) -> Array:
    """Labels of (m, d) points in r equal parts that lie together, as in k-means, from points far apart."""
    m, d = points.shape
    centres = np.empty((r, d))
    nearest = _distances(points, _mean(points))  # the first centre is the point farthest from the mean
    for p in range(r):
        farthest = np.argmax(nearest)
        for t in range(d):
            centres[p, t] = points[farthest, t]
        distances = _distances(points, centres[p])
        for i in range(m):
            nearest[i] = distances[i] if p == 0 else min(nearest[i], distances[i])
    labels = np.full(m, -1, np.int64)
    for _ in range(10):
        costs = np.empty((m, r))
        for p in range(r):
            distances = _distances(points, centres[p])
            for i in range(m):
                costs[i, p] = distances[i]
        new = share_out(costs, sweeps)
        same = True
        for i in range(m):
            same = same and new[i] == labels[i]
        if same:
            break
        labels = new
        centres[:] = 0.0
        for i in range(m):
            for t in range(d):
                centres[labels[i], t] += points[i, t] / (m // r)
    return labels


@compiled
def all_equal_parts(points: Array, r: int) -> Array:
    """`equal_parts` of each (m, d) set of points in (s, m, d), without exchanges, which take m times longer."""
    labels = np.empty(points.shape[:2], np.int64)
    for s in range(len(points)):
        found = equal_parts(points[s], r, 0)
        for i in range(len(found)):
            labels[s, i] = found[i]
    return labels
