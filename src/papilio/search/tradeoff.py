"""A matrix at many complexities, in one call: each fit starts from the one before it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np

from ..linalg import in_units
from ..results import Callback, Factorization, Status, Tradeoff, TradeoffPoint
from ..runtime.session import Session
from ..typing import MatrixLike, RandomState
from ..validation import as_factor_count, as_integer, as_matrix, is_series
from .curves import Curve
from .methods import METHODS
from .methods.thresholding import itself
from .problems import in_unit_of
from .search import Method, Search
from .targets import Target, as_complexity, least_complexity
from .weighted import Inputs, stored

_POINTS = 12
_MOST_POINTS = 1000  # Each point takes as long as a fit.
_LOWEST, _HIGHEST = 0.05, 0.8  # Range of the default complexities, if the matrix is large enough.


def tradeoff(
    M: MatrixLike,
    complexities: int | Sequence[float] | None = None,
    *,
    n_factors: int | None = None,
    inputs: Inputs | None = None,
    random_state: RandomState = 0,
    callback: Callback | None = None,
) -> Tradeoff:
    """Factorize a matrix at many complexities, to choose between speed and error.

    Each point is what `factorize` looks for within a complexity, in less than half the time of separate calls:
    structure is looked for once, and each point starts from the one before. The error never rises with the
    complexity.

    Parameters
    ----------
    M : (m, n) matrix
        Real or complex, dense or sparse.
    complexities : int or sequence of float, optional
        The largest relative complexities (entries of all factors over m·n), each above 0 and at most 1; or their
        number, up to 1000, in equal ratios from 0.05 (or the least that is possible) to 0.8. By default 12.
    n_factors : int, optional
        The number of factors of each product, at least 2. By default the number that gives the lowest error.
    inputs : array, path, Samples or Moments, optional
        What M is applied to, as for `factorize`: errors are then those of the outputs.
    random_state : int, RandomState, Generator or None, default=0
        The source of the random numbers of butterfly search and annealing. Results are reproducible by default;
        None stands for NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step`, whose ``done`` is the share of all work, after each iteration of
        PALM; if it returns a true value, only the points so far are returned.

    Returns
    -------
    Tradeoff
        Its ``points``, their ``front``, the recommended ``knee``, and ``plot()``.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> M = np.random.default_rng(0).standard_normal((16, 16))
    >>> curve = pp.tradeoff(M, [0.3, 0.5, 0.9])
    >>> curve.at(0.5).error < curve.at(0.3).error
    True
    """
    begin = perf_counter()
    matrix, unit = in_units(as_matrix("M", M))
    if n_factors is not None:
        n_factors = as_factor_count("n_factors", n_factors)
    limits = as_complexities(complexities, matrix.shape, n_factors)
    session = Session(callback, random_state=random_state)
    budgets = [int(complexity * matrix.size + 1e-9) for complexity in limits]
    target = Target(matrix.size, is_single=matrix.dtype.char in "fF", n_factors=n_factors)
    search = Search(stored(session, matrix, None, inputs), target, METHODS)
    with session.interruptible():
        fits = _fits(search, budgets)
        points = never_rising(
            TradeoffPoint(complexity, fit.error, in_unit_of("M", fit.operator, unit))
            for complexity, fit in zip(limits, fits, strict=False)
        )
    status = Status.STOPPED if session.stopped else Status.CONVERGED
    name = "relative error" if inputs is None else "relative error of outputs"
    return Tradeoff(points, 0.0, status, perf_counter() - begin, name)


# -- also for dictionaries -----------------------------------------------------------------------------


def as_complexities(
    complexities: Any, shape: tuple[int, int], n_factors: int | None, name: str = "M"
) -> list[float]:
    """Complexities in growing order, in equal ratios if only their number is given; ``name`` has the shape."""
    least, reason = least_complexity(shape, n_factors)
    if least > 1:
        wanted = f"n_factors must be less than {n_factors}" if (n_factors or 2) > 2 else f"{name} must be larger"
        raise ValueError(f"{wanted}: {reason} are more entries than it has")
    if complexities is None or isinstance(complexities, int | np.integer):
        count = as_integer("complexities", _POINTS if complexities is None else complexities, 1, _MOST_POINTS)
        lowest = max(_LOWEST, ceil(1e3 * least) / 1e3)
        return sorted(set(np.geomspace(min(lowest, 1.0), max(lowest, _HIGHEST), count).tolist()))
    if not is_series(complexities) or not isinstance(complexities, Sequence | np.ndarray):
        raise TypeError(f"complexities must be a number of points or a sequence of numbers, got {complexities!r}")
    if not len(complexities):
        raise ValueError("complexities must hold at least one number, got none")
    given = enumerate(complexities)
    return sorted({as_complexity(f"complexities[{i}]", value, shape, n_factors) for i, value in given})


def never_rising(points: Iterable[TradeoffPoint]) -> tuple[TradeoffPoint, ...]:
    """Points by growing complexity, each replaced by the one before if that has no higher error."""
    chosen: list[TradeoffPoint] = []
    for point in points:
        if chosen and point.error >= chosen[-1].error:
            point = chosen[-1]._replace(complexity=point.complexity)
        chosen.append(point)
    return tuple(chosen)


def _fits(search: Search, budgets: Sequence[int]) -> Iterator[Factorization]:
    """The best fit within each budget, until the session is stopped; there is always one."""
    session, whole = search.session, search.target
    methods = [each for each in search.methods if search.allows(each.name) and each.applies(search)]
    # Methods see how good the others are near the middle.
    middle = len(budgets) // 2
    search.aim(whole._replace(budget=budgets[middle]))
    sweeps: list[tuple[Method, Callable[[int], Iterable[Curve]]]] = []
    for method in methods:
        sweeps.append((method, method.over(search, budgets)))
        if method.sweep is None:
            search.explore(method, sweeps[-1][1](middle))
    search.forget()
    for i, budget in enumerate(budgets):
        with session.part(1 / len(budgets), f"point {i + 1} of {len(budgets)}, "):
            search.aim(whole._replace(budget=budget))
            for method, curves in sweeps:
                search.explore(method, curves(i))
            search.finish()
            if session.stopped and i:
                return
        yield search.best or itself(search.problem, search.target)
        if session.stopped:
            return
