"""Nested low rank, for kernels, integral operators and covariances: trees, levels and ranks for a target.

All choices follow one price λ, the energy that an entry has to save. A singular vector is kept if it saves more
than the entries that it costs, and so is a block as it is, and a level of the tree. The price is found for the
target: the lower, the more entries and the lower the error. The entries and the error of a product are known
before it is built.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from math import exp, inf, log
from typing import NamedTuple

import numpy as np

from ...linalg import frobenius
from ...operators import SparseProduct
from ...runtime.session import Interrupted, Session
from ...runtime.threads import one_blas_thread
from ...typing import Array
from ..curves import Curve
from ..nested.cluster_trees import Tree, may_be_nested, trees_of
from ..nested.nested_bases import Grid, Step, assembled, compressed, entries_of, gridded, merged
from ..roots import crossing
from ..search import Method, Search
from ..targets import Target

NAME = "nested"
_BEHIND = 2.0  # times the best rank so far: with more, it is given up after its first tries
_LONG = 16  # times the short side: clusters of longer ones have too few lines of the other side to be found with
_LEAST = 4  # entries for each line, at the very least
_BUDGETS = (1.0, 0.6, 1.5)  # Budgets of entries relative to that of a target in seconds.
_LEAVES = 8, 128  # lines of the smallest and largest leaves: the geometric mean of rows and columns
_FIRST_LEAF = 32  # Leaf size of the first trials.
# Expected ranks of far blocks, relative to the leaves; near blocks exceed them.
_EXPECTED = 1 / 4, 1 / 8, 1 / 2
_PRICES = 1e-20, 1e2  # relative to the mean energy of an entry
_GRID = 0.1  # the step of the logarithm of prices: entries change by about a hundredth
_TRIES = 16  # prices in one search, at most
_SMALL = 1 << 18  # entries of a matrix for which all sizes of leaves and all expected ranks are tried
_VECTOR = 2.0  # Cost of a basis vector relative to its entries; it has couplings, too.
_ROUNDS = 2  # Rounds of choosing near blocks.
_GAPS, _WIDE_GAPS = (1, 2, 3), (2, 3)  # levels between two steps, and those that mostly pay, for large matrices
_PRECISE = 2e-7  # the error below which Gram matrices are not precise enough
_START = 1e-4  # the price to begin with, likewise
_STRIDE = 6  # steps of the grid that come first, and those of a coarse grid
_BEFORE = 5  # coarse steps before a goal, where walks over the grid begin
_BEYOND = 1.5  # times the entries, or the error, of a goal: walks end there, as points may be better again
_NEAR = 0.5  # above the lowest score at the goal, up to which finer prices are tried
_MARGIN = 0.97  # Intended error relative to the largest that is allowed.
_RATE = 4.0  # the power of the number of entries with which errors fall, about
_BETTER = 0.02  # Relative amount by which the score of another tree must be lower.
_TINY = 1e-300


class Point(NamedTuple):
    """A nested representation: its steps, from a level of the tree, and their levels."""

    entries: int
    error: float
    price: float
    steps: Sequence[Step]
    levels: Sequence[int]

    @property
    def cost(self) -> float:
        """Entries, and what the error would cost at the price."""
        return self.entries + self.error**2 / self.price


class Family:
    """The representations of a matrix over one tree, from one level up, for all prices.

    Prices are relative to the energy of the matrix.
    """

    def __init__(self, session: Session, matrix: Array, tree: Tree, level: int, n_factors: int | None) -> None:
        self._session, self.tree, self.level = session, tree, level
        self._n_steps = None if n_factors is None else n_factors // 2  # any number without
        self._is_small = matrix.size <= _SMALL
        grid: Grid = session.wait(lambda: gridded(matrix, tree.rows, tree.columns, level), matrix.size)
        self._grid, self._energy = grid, float(frobenius(matrix)) ** 2
        self._leaf = int(min(grid.rows.shape[1], grid.columns.shape[1]))
        self._work = matrix.size * max(grid.rows.shape[1], grid.columns.shape[1])

    def point(self, price: float, expected: float) -> Point:
        """The representation at a price; ``expected`` ranks, relative to the leaves, tell near blocks at first."""

        self._session.check()

        def work() -> Point:
            with one_blas_thread:
                point = self._point(price, expected, is_precise=False)
                return self._point(price, expected, is_precise=True) if point.error < _PRECISE else point

        return self._session.wait(work, self._work)

    def _point(self, price: float, expected: float, is_precise: bool) -> Point:
        grid = self._grid
        rank = min(max(int(expected * self._leaf), 1), self._leaf - 1)
        is_near = grid.tails[:, :, rank] > price * self._energy * (grid.sizes - rank**2)
        step = self._compressed(grid, is_near, price, is_precise)
        return self._climbed(Point(*self._figures([step], price), [step], [self.level]), is_precise)

    def _compressed(self, grid: Grid, is_near: Array, price: float, is_precise: bool) -> Step:
        """Bases at a price, and then the near blocks that these miss most, and the bases of all others."""
        price = price * self._energy
        heights, widths = (price * _VECTOR * side.sum(axis=1).mean() for side in (grid.rows, grid.columns))
        tolerances = heights, widths
        step = compressed(grid, is_near | grid.is_kept, tolerances, is_precise)
        for _ in range(_ROUNDS - 1):
            couplings = np.multiply.outer(step.rows.sum(axis=1), step.columns.sum(axis=1))
            is_near = (step.missed > price * (grid.sizes - couplings)) & (couplings < grid.sizes)
            is_near |= grid.is_kept
            if (is_near == step.is_near).all() or is_near.all():
                break
            step = compressed(grid, is_near, tolerances, is_precise)
        return step

    def _climbed(self, point: Point, is_precise: bool) -> Point:
        """With further steps, as long as they pay, or as many as there must be."""
        while self._n_steps is None or len(point.steps) < self._n_steps:
            options = list(self._steps_above(point, is_precise))
            best = min(options, key=lambda option: option.cost, default=None)
            if best is None or (self._n_steps is None and best.cost >= point.cost):
                break
            point = best
        return point

    def _steps_above(self, point: Point, is_precise: bool) -> Iterator[Point]:
        below = point.steps[-1]
        top = point.levels[-1]
        for gap in _GAPS if self._is_small or top < 3 else _WIDE_GAPS:
            if top - gap < 1:
                break
            grid = merged(below, 2**gap)
            if grid.is_kept.all():
                break
            step = self._compressed(grid, grid.is_kept, point.price, is_precise)
            steps, levels = [*point.steps, step], [*point.levels, top - gap]
            yield Point(*self._figures(steps, point.price), steps, levels)

    def _figures(self, steps: Sequence[Step], price: float) -> tuple[int, float, float]:
        lost = sum(step.lost for step in steps)
        return entries_of(self._grid, steps), float(np.sqrt(lost / self._energy)), price


def levels_of(shape: tuple[int, int]) -> list[int]:
    """The levels of a tree that may be the lowest, that with leaves of a medium size first."""
    smallest, largest = _LEAVES
    mean = np.sqrt(shape[0] * shape[1])
    depth = int(np.log2(max(min(mean / smallest, min(shape) / 2), 1)))
    levels = [level for level in range(1, depth + 1) if mean / 2**level <= largest or level == depth]
    return sorted(levels, key=lambda level: abs(log(mean / 2**level / _FIRST_LEAF)))


# -- the price for a target ----------------------------------------------------------------------------


class Goal(NamedTuple):
    """What a price is sought for: all entries of a budget, an error, or the lowest sum of error and complexity."""

    target: Target
    budget: float | None

    def excess(self, point: Point) -> float:
        """Above zero if the price should rise."""
        if self.target.limit is not None:
            return log(max(_MARGIN * self.target.limit, _TINY) / max(point.error, _TINY))
        if self.budget is not None:
            return log(max(point.entries, 1) / max(self.budget, 1))
        return log(2 * max(point.error, _TINY) / (self.target.size * point.price))

    def score(self, point: Point) -> float:
        """How good points near the goal are, the lower the better: as if errors fell with entries at one rate."""
        error = log(max(point.error, _TINY))
        if self.target.limit is not None:
            return _RATE * log(max(point.entries, 1)) + error - log(max(self.target.limit, _TINY))
        if self.budget is not None:
            return _RATE * log(max(point.entries, 1) / max(self.budget, 1)) + error
        return point.error + point.entries / self.target.size

    def is_behind(self, point: Point) -> bool:
        """Whether points with more entries and lower errors than this one are of no use for the goal."""
        if self.target.limit is not None:
            return point.error < self.target.limit / _BEYOND
        most = _BEYOND * self.budget if self.budget is not None else self.target.size / 2
        return point.entries > most or point.error <= self.target.rounding

    def is_perfect(self, point: Point) -> bool:
        """Whether a lower error is not worth the time that it takes to find."""
        return self.budget is not None and point.entries <= self.budget and point.error < _PRECISE


def priced(family: Family, expected: float, goal: Goal, start: float) -> list[Point]:
    """Points of a family at prices that approach the goal's, of which the last are neighbours on a grid of prices.

    So the points near a goal do not depend on the price to start from.
    """
    least, most = (_place_of(price / goal.target.size) for price in _PRICES)
    points: list[Point] = []

    def excess(place: int) -> float:
        points.append(family.point(exp(_GRID * place), expected))
        return goal.excess(points[-1])

    crossing(excess, _place_of(start), _STRIDE, least, most, _TRIES)
    return points


def _place_of(price: float) -> int:
    return round(log(price) / _GRID)


class Found(NamedTuple):
    """A point, and the family and the expected rank that it is from."""

    point: Point
    family: Family
    expected: float


def nested(
    session: Session,
    matrix: Array,
    trees: Callable[[int], Sequence[Callable[[], Tree]]],
    goals: Sequence[Goal],
    n_factors: int | None = None,
    is_hopeless: Callable[[Sequence[Point]], bool] = lambda points: False,
) -> Curve | None:
    """Representations near some goals, over the best of some trees of a depth; None if there are none.

    With leaves of a medium size, the best tree for the first goal is found; ``is_hopeless`` may end it there. Then
    leaves become larger, and smaller, as long as that is better. At last other expected ranks are tried. A small
    matrix is tried with all trees, sizes of leaves and expected ranks.
    """
    levels = levels_of(matrix.shape)
    if not levels or not (n_factors is None or (n_factors > 1 and n_factors % 2)):
        return None
    if matrix.size <= _SMALL:
        families = [
            Family(session, matrix, make(), level, n_factors) for make in trees(max(levels)) for level in levels
        ]
        return curve_of(matrix, [each for goal in goals for each in _everywhere(families, goal)])
    found: list[Found] = []
    (usual, *others), goal = _EXPECTED, goals[0]

    def tried(tree: Tree, level: int, price: float) -> Found:
        """The best point for the first goal from a level up."""
        family = Family(session, matrix, tree, level, n_factors)
        points = [Found(point, family, usual) for point in priced(family, usual, goal, price)]
        found.extend(points)
        return min(points, key=score)

    def score(each: Found) -> float:
        return goal.score(each.point)

    first, *rest = trees(max(levels))
    best = tried(first(), levels[0], _START / matrix.size)
    for make in rest:
        if not goal.is_perfect(best.point):
            other = tried(make(), levels[0], best.point.price)
            best = other if score(other) < score(best) - _BETTER else best
    if is_hopeless([each.point for each in found]):
        return None
    for direction in (-1, 1):
        level = levels[0] + direction
        while level in levels and not goal.is_perfect(best.point):
            other, level = tried(best.family.tree, level, best.point.price), level + direction
            if score(other) >= score(best):
                break
            best = other
    for expected in others:
        found.append(Found(best.family.point(best.point.price, expected), best.family, expected))
        best = min(best, found[-1], key=score)
    for each in goals if best.expected != usual else goals[1:]:
        points = priced(best.family, best.expected, each, best.point.price)
        found.extend(Found(point, best.family, best.expected) for point in points)
    return curve_of(matrix, found)


def _everywhere(families: Sequence[Family], goal: Goal) -> list[Found]:
    """Points of all families at prices from before the goal to where it lies behind.

    Entries and errors are not quite monotone in the price. So prices are those of one coarse grid for all goals,
    and mostly the same for goals that are near. Where a family has a point near the best one, there are finer
    prices around the goal.
    """
    least, most = (_place_of(price / goal.target.size) // _STRIDE for price in _PRICES)
    near = priced(families[0], _EXPECTED[0], goal, _START / goal.target.size)[-1]
    found: list[Found] = []
    crossed: list[tuple[float, int, Found]] = []  # the score at the goal, and the coarse price there

    def at(place: int, family: Family, expected: float) -> Point:
        found.append(Found(family.point(exp(_GRID * place), expected), family, expected))
        return found[-1].point

    for family, expected in product(families, _EXPECTED):
        start, last = _place_of(near.price) // _STRIDE + _BEFORE, None
        while start < most and goal.excess(at(start * _STRIDE, family, expected)) > 0:
            start += _BEFORE
        for place in range(min(start, most), least, -1):
            point = at(place * _STRIDE, family, expected)
            if last is not None and goal.excess(last) <= 0 < goal.excess(point):
                crossed.append((min(goal.score(last), goal.score(point)), place * _STRIDE, found[-1]))
            if goal.is_behind(point):
                break
            last = point
    lowest = min((score for score, *_ in crossed), default=inf)
    for score, place, (_, family, expected) in crossed:
        if score < lowest + _NEAR:
            for each in range(place - _STRIDE, place + 2 * _STRIDE):
                if each % _STRIDE:
                    at(each, family, expected)
    return found


def curve_of(matrix: Array, found: Sequence[Found]) -> Curve | None:
    """A curve of those points that no other one is better than; one without any entries is no product."""
    front: list[Found] = []
    for each in sorted(found, key=lambda each: (each.point.entries, each.point.error)):
        if each.point.entries == 0:
            continue
        if not front or each.point.error < front[-1].point.error:
            front.append(each)
    if not front:
        return None

    def build(place: int) -> SparseProduct:
        point, family, _ = front[place]
        grid = gridded(matrix, family.tree.rows, family.tree.columns, family.level)
        return assembled(grid, point.steps, family.tree.rows, family.tree.columns, point.levels, matrix.dtype)

    def detail(place: int) -> str:
        point, family, _ = front[place]
        ranks = np.concatenate([point.steps[0].rows.sum(axis=1), point.steps[0].columns.sum(axis=1)])
        count = f"{len(point.steps)} {'level' if len(point.steps) == 1 else 'levels'}"
        return f"{2**family.level} clusters {family.tree.name}, {count}, mean rank {ranks.mean():.1f}"

    entries, errors = (np.array([getattr(each.point, name) for each in front]) for name in ("entries", "error"))
    return Curve(NAME, entries, errors, build, detail)


# -- as a method of `factorize` ------------------------------------------------------------------------


def _curves(search: Search) -> Iterator[Curve]:
    target = search.target
    if search.best is not None and not _looks_nested(search):
        return

    def is_hopeless(points: Sequence[Point]) -> bool:
        return min(target.rank(point.entries, point.error) for point in points) > _BEHIND * search.best_rank

    goals = [Goal(target, target.budget)]
    if target.pricing is not None and target.budget is not None:
        goals = [Goal(target, share * target.budget) for share in _BUDGETS]
    yield from _found(search, goals, is_hopeless)


def _sweep(search: Search, budgets: Sequence[int]) -> Callable[[int], Iterable[Curve]]:
    """Points near all budgets, unless those near the middle one are far above the best product there.

    For small matrices, each budget has a search of its own, as with a single target.
    """
    curves: list[Curve] = []
    if not _looks_nested(search):
        return lambda place: curves
    if search.problem.matrix.size <= _SMALL:
        goals = [Goal(search.target._replace(budget=budget), budget) for budget in budgets]
        return lambda place: _found(search, goals[place : place + 1], lambda points: False)
    middle = len(budgets) // 2
    ordered = [budgets[middle], *budgets[:middle], *budgets[middle + 1 :]]
    goals = [Goal(search.target._replace(budget=budget), budget) for budget in ordered]

    def is_hopeless(points: Sequence[Point]) -> bool:
        return search.best is not None and min(point.error for point in points) > _BEHIND * search.best.error

    with suppress(Interrupted):
        curves += _found(search, goals, is_hopeless)
    return lambda place: curves


def _looks_nested(search: Search) -> bool:
    """Whether it is worth a try: coordinates say so, or a quick look at the matrix."""
    problem = search.problem
    long, short = max(problem.shape), min(problem.shape)
    return problem.coordinates is not None or (long <= _LONG * short and may_be_nested(problem.matrix))


def _found(
    search: Search, goals: Sequence[Goal], is_hopeless: Callable[[Sequence[Point]], bool]
) -> Iterator[Curve]:
    problem = search.problem
    trees = partial(trees_of, search.session, problem.matrix, problem.coordinates)
    curve = nested(search.session, problem.matrix, trees, goals, search.target.n_factors, is_hopeless)
    if curve is not None:
        yield curve


METHOD = Method(
    NAME,
    "kernels, integral operators, covariances, by clusters of rows and columns: in the given order, by "
    "`coordinates=`, or found from M",
    _curves,
    lambda search: not search.is_settled and search.may_win(_LEAST * min(search.problem.shape)),
    share=4.0,
    n_factors=lambda count: count % 2 == 1,
    is_polished=True,
    outruns=True,
    sweep=_sweep,
)
