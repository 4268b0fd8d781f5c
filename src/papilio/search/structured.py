"""Products by structure, cheapest to find first: each method gives curves, and needs no iterations."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..results import Status
from ..runtime.session import Interrupted
from .attempts import Search
from .butterfly import butterfly_entries, find_butterfly
from .butterfly_curves import SHORTEST, butterfly_curves
from .convolutions import convolutions
from .curves import Curve, low_rank, single, thresholding
from .domains import domains
from .known_supports import polished
from .known_transforms import recognise
from .kronecker import kronecker
from .layers import layers
from .nested.prices import Goal, Point, nested
from .nested.trees import may_be_nested, trees_of
from .rotations import rotations
from .sparse_low_rank import least_sum, random_sum, sums
from .subspaces import subspaces


def explore_structure(search: Search) -> None:
    """Try all methods that find structure, until the session is stopped."""
    if search.allows("thresholding"):  # also without any time: there is always a result
        search.explore("thresholding", _thresholding(search), perf_counter())
    for method, curves in _QUICK.items():
        if search.allows(method) and search.matrix.any():
            with search.session.part(0.02, f"{method.replace('_', ' ')}: "):
                _explore(search, method, curves)
    if search.allows("nested") and search.matrix.any() and not search.is_settled:
        with search.session.part(0.1, "nested: "):
            _explore(search, "nested", _nested)
            _polish(search, "nested")
    if search.allows("butterfly") and _may_have_rank(search):
        with search.session.part(0.02, "butterfly: "):
            _explore(search, "butterfly", _butterflies_of_rank)
    if search.is_won:
        return
    if search.allows("sparse_plus_low_rank") and search.matrix.any() and not search.is_settled:
        with search.session.part(0.1, "sparse plus low rank: "):
            _explore(search, "sparse_plus_low_rank", _sums)
    if search.allows("butterfly") and _may_win(search, butterfly_entries(search.matrix.shape)):
        with search.session.part(0.2, "butterfly: "):
            _explore_butterflies(search)


def _explore(search: Search, method: str, curves: Callable[[Search], Iterator[Curve]]) -> None:
    begin = perf_counter()
    if not search.session.tick("", 0, 1):
        search.explore(method, curves(search), begin)


def _polish(search: Search, method: str) -> None:
    """Least squares on the supports of the best product, if it is of this method and small."""
    fit = search.best
    if fit is None or fit.method != method or search.matrix.size > _POLISHED or search.is_settled:
        return
    begin, detail = perf_counter(), search.attempts[-1].detail
    with suppress(Interrupted):
        operator, error = polished(search.session, search.matrix, fit.operator)
        if error < fit.error:
            search.add(method, f"{detail}, polished", replace(fit, operator=operator, error=error), begin)


def all_curves(search: Search, budgets: Sequence[int]) -> list[Curve]:
    """The curves of all methods but sums, for many budgets; those so far if the session is stopped."""
    curves: list[Curve] = []
    with suppress(Interrupted):
        curves += _thresholding(search)
        for method, make in _QUICK.items():
            if search.allows(method) and search.matrix.any():
                curves += make(search)
        if search.allows("nested") and search.matrix.any():
            curves += _nested_beside(search, budgets, curves)
        if search.allows("butterfly") and butterfly_entries(search.matrix.shape) < np.count_nonzero(search.matrix):
            fit = find_butterfly(search.session, search.matrix)
            if fit.status is not Status.NO_STRUCTURE:
                curves.append(single("butterfly", f"{len(fit.operator.factors)} factors", fit.operator, fit.error))
    return curves


def _may_win(search: Search, entries: float) -> bool:
    """Whether an exact product with so many entries would be better than the best so far."""
    if (search.is_settled and search.target.budget is not None) or entries >= np.count_nonzero(search.matrix):
        return False
    return search.target.rank(search.least_cost(entries), 0.0) < search.best_rank


def _may_have_rank(search: Search) -> bool:
    """Whether butterflies of rank r are worth a look: they choose the number of their factors themselves."""
    is_free = search.n_factors is None and search.structure.pricing is None
    return (
        is_free
        and min(search.matrix.shape) >= SHORTEST
        and bool(search.matrix.any())
        and not search.is_settled
        and not search.session.stopped
    )


def _largest_error(search: Search) -> float:
    """The error above which a butterfly is worse than the best product so far."""
    target = search.target
    if target.budget is not None:
        return 1.0 if search.best is None else search.best.error
    if target.limit is not None:
        return target.limit
    complexity = butterfly_entries(search.matrix.shape) / search.matrix.size
    return max(min(search.best_rank, 1.0) - complexity, target.exact)


def _explore_butterflies(search: Search) -> None:
    begin = perf_counter()
    with suppress(Interrupted):
        search.session.check()
        fit = find_butterfly(search.session, search.matrix, _largest_error(search))
        count = len(fit.operator.factors)
        if fit.status is Status.NO_STRUCTURE:
            search.add_failure("butterfly", "no structure", begin)
        elif search.n_factors in (None, count):
            search.add("butterfly", f"{count} factors", fit, begin)


# -- the curves of each method -------------------------------------------------------------------------


def _thresholding(search: Search) -> Iterator[Curve]:
    """The matrix itself, if it has zeros, and its largest entries; beside identities for more factors."""
    matrix = search.matrix
    around, fixed = search.beside_identities, ((search.n_factors or 1) - 1) * min(matrix.shape)
    if not matrix.all():
        yield single("itself", "sparse as it is", around(sp.csr_array(matrix)), 0.0)
    if matrix.any():
        yield thresholding(matrix, search.target, around, fixed, "thresholding", "")


def _low_rank(search: Search) -> Iterator[Curve]:
    if search.blocks:
        yield low_rank(search.blocks, search.matrix.shape, frobenius(search.matrix) ** 2)


def _subspaces(search: Search) -> Iterator[Curve]:
    return subspaces(search.session, search.matrix, search.target.budget)


def _transform(search: Search) -> Iterator[Curve]:
    known = recognise(search.matrix)
    if known is not None:
        name, fit = known
        yield single("transform", name, fit.operator, fit.error)
    for curve in domains(search.matrix, search.target):
        search.session.check()
        yield curve


def _rotations(search: Search) -> Iterator[Curve]:
    if search.is_settled:
        return iter(())
    return rotations(search.session, search.matrix, search.target, search.n_factors, search.best_rank)


def _convolution(search: Search) -> Iterator[Curve]:
    yield from search.session.wait(lambda: convolutions(search.matrix))


def _kronecker(search: Search) -> Iterator[Curve]:
    yield from search.session.wait(lambda: kronecker(search.matrix))


def _layers(search: Search) -> Iterator[Curve]:
    if search.is_settled:
        return iter(())
    return layers(search.session, search.matrix, search.n_factors)


def _butterflies_of_rank(search: Search) -> Iterator[Curve]:
    return butterfly_curves(search.session, search.matrix, search.target)


def _sums(search: Search) -> Iterator[Curve]:
    """With no more entries than the best product so far has, or than any error could make up for."""
    size, target, pricing = search.matrix.size, search.target, search.structure.pricing
    most = search.best_rank if target.limit is not None else search.best_rank * size
    if pricing is not None and target.budget is not None:
        least = least_sum(search.matrix.shape)
        if least >= size:
            return iter(())
        entries = pricing.most_entries(partial(random_sum, search.matrix), least, size, target.budget)
        if entries is None:
            return iter(())
        target = target._replace(budget=entries)
    return sums(search.session, search.matrix, target, int(min(most, size)))


_BEHIND = 2.0  # times the best rank so far: with more, nested low rank is given up after its first tries
_POLISHED = 1 << 16  # entries of a matrix up to which nested products are polished: it gains a hundredth at best
_LONG = 16  # times the short side: clusters of longer ones have too few lines of the other side to be found with
_BUDGETS = (1.0, 0.6, 1.5)  # of nested products, over that of a target in time


def _nested(search: Search) -> Iterator[Curve]:
    target = search.target
    if search.best is not None and not _looks_nested(search):
        return

    def is_hopeless(points: Sequence[Point]) -> bool:
        return min(target.rank(point.entries, point.error) for point in points) > _BEHIND * search.best_rank

    goals = [Goal(target, target.budget)]
    if search.structure.pricing is not None and target.budget is not None:
        goals = [Goal(target, share * target.budget) for share in _BUDGETS]
    yield from _nested_curve(search, goals, is_hopeless)


def _nested_beside(search: Search, budgets: Sequence[int], others: Sequence[Curve]) -> Iterator[Curve]:
    """A curve near all budgets, unless other curves are far below it near the middle one."""
    if not _looks_nested(search):
        return

    def error_beside(entries: int) -> float:
        places = ((curve, curve.place_of(entries)) for curve in others)
        return min((float(curve.errors[place]) for curve, place in places if place >= 0), default=np.inf)

    def is_hopeless(points: Sequence[Point]) -> bool:
        return all(point.error > _BEHIND * error_beside(point.entries) for point in points)

    middle = len(budgets) // 2
    ordered = [budgets[middle], *budgets[:middle], *budgets[middle + 1 :]]
    goals = [Goal(search.target._replace(budget=budget), budget) for budget in ordered]
    yield from _nested_curve(search, goals, is_hopeless)


def _looks_nested(search: Search) -> bool:
    """Whether nested low rank is worth a try: coordinates say so, or a quick look at the matrix."""
    long, short = max(search.matrix.shape), min(search.matrix.shape)
    return search.coordinates is not None or (long <= _LONG * short and may_be_nested(search.matrix))


def _nested_curve(
    search: Search, goals: Sequence[Goal], is_hopeless: Callable[[Sequence[Point]], bool]
) -> Iterator[Curve]:
    trees = partial(trees_of, search.session, search.matrix, search.coordinates)
    curve = nested(search.session, search.matrix, trees, goals, search.n_factors, is_hopeless)
    if curve is not None:
        yield curve


_QUICK: dict[str, Callable[[Search], Iterator[Curve]]] = {
    "convolution": _convolution,
    "kronecker": _kronecker,
    "transform": _transform,
    "layers": _layers,
    "rotations": _rotations,
    "low_rank": _low_rank,  # late: all singular values of a large matrix take longest
    "subspaces": _subspaces,
}
