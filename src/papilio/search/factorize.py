"""`factorize`: a matrix as a product of sparse factors, with at most one target for the product."""

from dataclasses import replace
from math import inf, sqrt

from ..results import Callback, Factorization, Status
from ..runtime.session import Session
from ..solvers.hierarchical import factorize_by_splits
from ..solvers.palm import Limits
from ..typing import MatrixLike, RandomState
from ..validation import as_choice, as_integer, as_matrix, as_real
from .attempts import EXACT, METHODS, Search, as_complexity, error_of, in_units, least_entries, n_entries
from .candidates import allowed_candidates, best_candidate, best_side, even_schedule, expected_steps
from .structured import structured_fits

_KNEES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)  # complexities at which the knee may be
_QUICK_STEPS = 50
_HALVINGS = 6  # of the interval in which the fewest entries lie


def factorize(
    M: MatrixLike,
    *,
    n_factors: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    method: str = "auto",
    time_budget: float | None = None,
    callback: Callback | None = None,
    random_state: RandomState = 0,
) -> Factorization:
    """Approximate a matrix by a product of sparse factors, with at most one target: complexity or error.

    Several methods are tried, and the best result is returned: cosine and Haar transforms, whose rows and columns
    may be permuted and scaled; butterfly factors under unknown permutations; low rank, dense or sparse; and the
    hierarchical strategy, from either side, with two and three factors. Sparse low rank and the hierarchical
    strategy end with annealing, which loosens and tightens the sets of the factors to escape from local minima.

    Parameters
    ----------
    M : (m, n) matrix
        Real or complex, dense or sparse.
    n_factors : int, optional
        The number of factors, at least 2. By default the number that gives the best result.
    complexity : float, optional
        The largest relative complexity: entries of all factors over m·n, above 0 and at most 1. The result has the
        lowest error that was found within it.
    max_error : float, optional
        The largest relative error. The result has the fewest entries that were found to reach it; if no product
        does, M itself is returned as one factor. Cannot be combined with ``complexity``.
    method : {"auto", "transform", "butterfly", "low_rank", "hierarchical"}, default="auto"
        The only method to try; "auto" tries all. If nothing is found, M itself is returned, with ``status``
        "no_structure".
    time_budget : float, optional
        Seconds after which the best result so far is returned. Results then depend on the machine's speed.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration of PALM; a true result ends the search, and the
        best result so far is returned.
    random_state : int, RandomState, Generator or None, default=0
        The source of the random numbers of butterfly search and annealing. Results are reproducible by default;
        None stands for NumPy's global state.

    Returns
    -------
    Factorization
        ``method`` is the method that found it; ``attempts`` lists all that was tried. Without ``complexity`` and
        ``max_error`` it is the knee, where error + relative complexity is lowest: one percent more entries would
        save less than one percent of error.

    Examples
    --------
    >>> import papilio as pp
    >>> fit = pp.factorize(pp.transforms.hadamard(16).toarray())
    >>> fit.operator
    <SparseProduct 16×16 float64: 4 factors (16×16×16×16×16), 128 entries, relative complexity 0.5>
    >>> fit.method, fit.error < 1e-12
    ('butterfly', True)
    """
    matrix, unit = in_units(as_matrix("M", M))
    methods = METHODS if as_choice("method", method, ("auto", *METHODS)) == "auto" else (method,)
    if n_factors is not None:
        n_factors = as_integer("n_factors", n_factors, 2)
        if method == "low_rank" and n_factors != 2:
            raise ValueError(f"n_factors must be 2 for low rank, got {n_factors}")
    if complexity is not None and max_error is not None:
        raise ValueError("complexity and max_error cannot be combined: give one of them")
    if complexity is not None:
        complexity = as_complexity("complexity", complexity, matrix.shape, n_factors)
    if max_error is not None:
        max_error = as_real("max_error", max_error, 0.0)
    session = Session(callback, random_state=random_state, time_budget=time_budget)
    search = Search(session, matrix, n_factors, methods)
    if max_error is not None:
        fit = _reaching(search, max_error)
    elif complexity is not None:
        fit = _within(search, int(complexity * matrix.size + 1e-9))
    else:
        fit = _at_knee(search)
    status = Status.STOPPED if session.stopped else fit.status
    return replace(fit, operator=fit.operator * unit, status=status, attempts=tuple(search.attempts))


# -- one search per target -----------------------------------------------------------------------------


def _within(search: Search, budget: int) -> Factorization:
    """The lowest error with at most ``budget`` entries."""
    structured = [fit for fit in structured_fits(search, budget) if fit.operator.nnz <= budget]
    structured += search.itself_within(budget)
    exact = [fit for fit in structured if fit.error <= EXACT]
    if exact:
        return min(exact, key=n_entries)
    fits = [*structured, *_approximations(search, budget)]
    return min(fits, key=error_of, default=search.itself(Status.NO_STRUCTURE))


def _reaching(search: Search, limit: float) -> Factorization:
    """The fewest entries with an error of at most ``limit``, by halving the interval in which they lie."""
    options = [search.itself(), *structured_fits(search, 0), *search.low_rank(search.rank_within(limit))]
    fewest = min((fit for fit in options if fit.error <= limit), key=n_entries)
    low, high = least_entries(search.matrix.shape, search.n_factors or 2), fewest.operator.nnz
    for _ in range(_HALVINGS):
        if low >= high or search.session.stopped:
            break
        budget = int(sqrt(low * high))
        with search.session.part(1 / _HALVINGS):
            fit = best_candidate(search, budget, effort=0.5)
        if fit is not None and fit.error <= limit:
            fewest = min(fewest, fit, key=n_entries)
            high = min(budget, fit.operator.nnz)
        else:
            low = budget + 1
    return fewest


def _at_knee(search: Search) -> Factorization:
    """The lowest sum of error and relative complexity."""
    size = search.matrix.size
    structured = structured_fits(search, size)
    exact = [fit for fit in structured if fit.error <= EXACT and fit.operator.nnz <= size]
    if exact:
        return min(exact, key=n_entries)
    structured = [fit for fit in structured if fit.operator.nnz < size]
    quick_steps = 2 * _QUICK_STEPS * len(_KNEES)
    share = quick_steps / (quick_steps + sum(expected_steps(allowed_candidates(search, size // 2))))
    with search.session.part(share, "looking for the knee: "):
        budget = _budget_at_knee(search)
    if budget is None:
        return min(structured, key=_cost, default=search.itself())
    with search.session.part(1 - share):
        fits = [*structured, *_approximations(search, budget)]
    return min(fits, key=_cost, default=search.itself(Status.NO_STRUCTURE))


def _budget_at_knee(search: Search) -> int | None:
    """Entries with the lowest sum of error and complexity, by quick fits; None if no product saves any."""
    size, least = search.matrix.size, least_entries(search.matrix.shape, search.n_factors or 2)
    if not search.matrix.any():
        return None
    if least >= size:
        return None if search.n_factors is None else least
    budgets = sorted({max(int(knee * size), least) for knee in _KNEES})
    costs: dict[int, float] = {}
    for budget in budgets:
        with search.session.part(1 / len(budgets)):
            costs[budget] = _quick_error(search, budget) + budget / size
        if search.session.stopped:
            break
    return min(costs, key=lambda budget: costs[budget])


def _quick_error(search: Search, budget: int) -> float:
    """The error that a few iterations, or singular values, reach with ``budget`` entries."""
    shape, errors = search.matrix.shape, search.low_rank_errors
    rank = budget // sum(shape)
    error = float(errors[min(rank, len(errors)) - 1]) if errors.size and rank > 0 else inf
    if search.allows("hierarchical"):
        schedule = even_schedule(shape, search.n_factors or 2, budget, best_side(shape))
        limits = Limits(max_iter=_QUICK_STEPS, inertia=True)
        error = min(error, factorize_by_splits(search.session, search.matrix, schedule, limits).error)
    return error


def _approximations(search: Search, budget: int) -> list[Factorization]:
    """Low rank, and the best candidate, with at most ``budget`` entries."""
    fits, best = search.low_rank(budget // sum(search.matrix.shape)), best_candidate(search, budget)
    return fits if best is None else [*fits, best]


def _cost(fit: Factorization) -> float:
    return fit.error + fit.operator.relative_complexity
