"""The search for the best product of a matrix in memory: structure first, then PALM and annealing."""

from dataclasses import replace
from math import inf, sqrt

from ..results import Factorization, Status
from ..solvers.hierarchical import factorize_by_splits
from ..solvers.palm import Limits
from .attempts import Search, error_of
from .candidates import allowed_candidates, best_candidate, best_side, even_schedule, expected_steps
from .structured import explore_structure
from .targets import least_entries
from .units import in_unit_of

_KNEES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)  # complexities at which the knee may be
_FEW_KNEES = (0.05, 0.1, 0.25, 0.5)  # for large matrices
_QUICK_STEPS = 50
_HALVINGS, _FEW_HALVINGS = 6, 2  # of the interval in which the fewest entries lie, for small and large matrices
_PROMISING = 1.5  # a quick fit within this many times the target is worth longer ones
_ANNEALED = 4  # the same where there is time for annealing
_LARGE = 128  # the short side above which less is tried
_REPEATS = 2  # of a search for a product that is fast enough


def searched(search: Search, unit: int) -> Factorization:
    """The best product that a search finds, in the unit of the matrix."""
    session, budget = search.session, search.target.budget
    with session.interruptible():
        _explore(search)
        if search.structure.pricing is not None and budget is not None:
            _make_sure(search, budget)
        fit = search.best or search.itself()
        session.tick(f"{fit.method.replace('_', ' ')}: end", 1, 1)
    status = Status.STOPPED if session.stopped else fit.status
    operator = in_unit_of("M", fit.operator, unit)
    return replace(fit, operator=operator, status=status, attempts=tuple(search.attempts))


def _explore(search: Search) -> None:
    """All methods, from the cheapest to the most expensive."""
    explore_structure(search)
    if search.matrix.any() and not (search.is_settled or search.is_won or search.session.stopped):
        _approximate(search)


def _make_sure(search: Search, budget: int) -> None:
    """Time the best product once more; if it was mistaken for a faster one, search again for a smaller one.

    A product that is dropped may have been slow for a moment only. So it is timed at the end, too.
    """
    dropped: list[Factorization] = []
    for _ in range(_REPEATS):
        if search.best is None or search.session.stopped:
            break
        cost = search.price_again(search.best.operator)
        if cost <= budget:
            break
        search.target = search.target._replace(budget=int(budget * budget / cost))
        dropped.append(search.best)
        search.best = None
        _explore(search)
    for fit in sorted(dropped, key=error_of):
        if search.best is not None and fit.error >= search.best.error:
            break
        if search.price_again(fit.operator) <= budget:
            search.best = fit
            break


# -- PALM and annealing, for each target ---------------------------------------------------------------


def _approximate(search: Search) -> None:
    """The hierarchical strategy and sparse low rank, where they may win."""
    if search.target.budget is not None:
        best_candidate(search, search.target.budget)
    elif search.target.limit is not None:
        _halve(search, search.target.limit)
    else:
        _look_for_knee(search)


def _halve(search: Search, limit: float) -> None:
    """The fewest entries with an error of at most ``limit``, by halving the interval in which they lie."""
    shape, is_large = search.matrix.shape, min(search.matrix.shape) > _LARGE
    low = least_entries(shape, search.n_factors or 2)
    high = search.matrix.size if search.best is None else search.best.operator.nnz
    halvings = _FEW_HALVINGS if is_large else _HALVINGS
    for _ in range(halvings):
        budget = int(sqrt(low * high))
        if low >= high or search.session.stopped:
            break
        with search.session.part(1 / halvings):
            with search.session.part(0.2, "looking for fewer entries: "):
                error = _quick_error(search, int(0.8 * high)) if search.allows("hierarchical") else 0.0
            if error > (_PROMISING if is_large else _ANNEALED) * limit:
                break
            with search.session.part(0.8):
                fit = best_candidate(search, budget, effort=0.5)
        if fit is not None and fit.error <= limit:
            high = min(budget, fit.operator.nnz)
        else:
            low = budget + 1


def _look_for_knee(search: Search) -> None:
    """The lowest sum of error and complexity: quick fits with some numbers of entries, then the best of these."""
    size, least = search.matrix.size, least_entries(search.matrix.shape, search.n_factors or 2)
    if least >= size:
        if search.n_factors is not None:
            best_candidate(search, least)
        return
    if not search.allows("hierarchical"):
        if search.best is not None:
            best_candidate(search, search.best.operator.nnz)
        return
    knees = _FEW_KNEES if min(search.matrix.shape) > _LARGE else _KNEES
    budgets = sorted({max(int(knee * size), least) for knee in knees})
    quick_steps = 2 * _QUICK_STEPS * len(budgets)
    share = quick_steps / (quick_steps + sum(expected_steps(allowed_candidates(search, size // 2))))
    sums: dict[int, float] = {}
    with search.session.part(share, "looking for the knee: "):
        for budget in budgets:
            # No error could make up for more entries than this.
            if budget / size >= search.best_rank or search.session.stopped:
                break
            with search.session.part(1 / len(budgets)):
                sums[budget] = _quick_error(search, budget) + budget / size
    if not sums or min(sums.values()) > _PROMISING * search.best_rank:
        return
    with search.session.part(1 - share):
        best_candidate(search, min(sums, key=lambda budget: sums[budget]))


def _quick_error(search: Search, budget: int) -> float:
    """The error that a few iterations of the hierarchical strategy reach with ``budget`` entries."""
    shape = search.matrix.shape
    if not search.allows("hierarchical") or budget < least_entries(shape, search.n_factors or 2):
        return inf
    schedule = even_schedule(shape, search.n_factors or 2, budget, best_side(shape))
    steps = min(_QUICK_STEPS, *(option.phase_steps for option in allowed_candidates(search, budget)))
    limits = Limits(max_iter=steps, inertia=True)
    return factorize_by_splits(search.session, search.matrix, schedule, limits, polish=steps == _QUICK_STEPS).error
