"""Nested low rank, for kernels, integral operators and covariances."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from ...runtime.session import Interrupted
from ..curves import Curve
from ..nested.cluster_trees import may_be_nested, trees_of
from ..nested.levels import Goal, Point, nested
from ..search import Method, Search

NAME = "nested"
_BEHIND = 2.0  # times the best rank so far: with more, it is given up after its first tries
_LONG = 16  # times the short side: clusters of longer ones have too few lines of the other side to be found with
_BUDGETS = (1.0, 0.6, 1.5)  # of products, over that of a target in time


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
    """Points near all budgets, unless those near the middle one are far above the best product there."""
    curves: list[Curve] = []
    middle = len(budgets) // 2
    ordered = [budgets[middle], *budgets[:middle], *budgets[middle + 1 :]]
    goals = [Goal(search.target._replace(budget=budget), budget) for budget in ordered]

    def is_hopeless(points: Sequence[Point]) -> bool:
        return search.best is not None and min(point.error for point in points) > _BEHIND * search.best.error

    if _looks_nested(search):
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
    lambda search: not (search.problem.is_zero or search.is_settled),
    share=4.0,
    n_factors=lambda count: count % 2 == 1,
    is_polished=True,
    outruns=True,
    sweep=_sweep,
)
