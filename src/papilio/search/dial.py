"""The whole dial between speed and fit, in one call."""

from collections.abc import Sequence
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np

from ..dictionary.atoms import as_sparsity
from ..dictionary.tradeoff import DictionarySweep
from ..results import Status, Tradeoff, TradeoffPoint
from ..solvers.palm import Callback
from ..solvers.schedule import Schedule
from ..typing import RandomState
from ..validation import as_integer, as_matrix, as_random, as_real
from .candidates import Watch, least_entries
from .factorize import METHODS, Search, in_units
from .tradeoff import swept

_POINTS = 12
_LOWEST, _HIGHEST = 0.05, 0.8  # of the complexities by default, where the matrix is large enough


def tradeoff(
    target: Any,
    complexities: int | Sequence[float] | None = None,
    *,
    n_components: int | None = None,
    n_nonzero_coefs: int | None = None,
    n_factors: int | None = None,
    random_state: RandomState = 0,
    callback: Callback | None = None,
) -> Tradeoff:
    """Errors at many complexities: a matrix as sparse products, or samples in fast dictionaries.

    A matrix is factorized, as by `factorize`. With ``n_components`` or ``n_nonzero_coefs``, ``target`` holds
    samples, one a row, and dictionaries are learned from them, as by `FastDictionaryLearning`. Either way the
    points share their work, and the whole sweep takes less than half the time of separate fits: structure is
    looked for once, the dense dictionary is learned once, and each point starts from its neighbour. The error
    never rises with the complexity.

    Parameters
    ----------
    target : (m, n) matrix, or (n_samples, n_features) array
    complexities : int or sequence of float, optional
        The largest relative complexities (entries of all factors over those of the dense matrix), each above 0
        and at most 1; or how many of them, in equal ratios from 0.05 (or what is possible) to 0.8. By default 12.
    n_components : int, optional
        Atoms of the dictionaries; as many as features by default. Says that ``target`` holds samples.
    n_nonzero_coefs : int, optional
        Atoms a sample; a tenth of the features by default, at least one. Says that ``target`` holds samples.
    n_factors : int, optional
        Factors of each product. By default as many as give the lowest error for a matrix, two for samples.
    random_state : int, RandomState or None
        None is a fixed seed for a matrix, as in `factorize`.
    callback : callable, optional
        Called with a `Step`, whose ``done`` is the share of all work; a true result ends the sweep, which returns
        the points so far.

    Returns
    -------
    Tradeoff
        Its ``points``, their ``front``, the recommended ``knee``, and ``plot()``.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> M = np.random.default_rng(0).standard_normal((16, 16))
    >>> dial = pp.tradeoff(M, [0.3, 0.5, 0.9])
    >>> [point.complexity for point in dial.points]
    [0.3, 0.5, 0.9]
    >>> bool(dial.at(0.5).error < dial.at(0.3).error)
    True
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    if n_factors is not None:
        n_factors = as_integer("n_factors", n_factors, 2)
    begin = perf_counter()
    if n_components is None and n_nonzero_coefs is None:
        points, dense_error, stopped = _of_matrix(target, complexities, n_factors, random_state, callback)
        name = "relative error"
    else:
        sizes = n_components, n_nonzero_coefs
        points, dense_error, stopped, name = _of_samples(
            target, complexities, sizes, n_factors, random_state, callback
        )
    status = Status.STOPPED if stopped else Status.CONVERGED
    return Tradeoff(tuple(points), dense_error, status, perf_counter() - begin, name)


def _of_matrix(
    target: Any, complexities: Any, n_factors: int | None, random_state: Any, callback: Callback | None
) -> tuple[list[TradeoffPoint], float, bool]:
    matrix, unit = in_units(as_matrix("target", target))
    dial = _as_dial(complexities, matrix.shape, n_factors)
    random = as_random(random_state)
    watch = Watch(callback, None)
    search = Search(matrix, n_factors, METHODS[1:], random, watch)
    fits = swept(search, [_entries(complexity, matrix.shape) for complexity in dial])
    points: list[TradeoffPoint] = []
    before = None
    for complexity, fit in zip(dial, fits, strict=False):
        # An operator that stays the best is one object, as it is one point of the front.
        operator = points[-1].operator if fit is before else fit.operator * unit
        points.append(TradeoffPoint(complexity, fit.error, operator))
        before = fit
    return points, 0.0, watch.stopped


def _of_samples(
    target: Any,
    complexities: Any,
    sizes: tuple[int | None, int | None],
    n_factors: int | None,
    random_state: Any,
    callback: Callback | None,
) -> tuple[list[TradeoffPoint], float, bool, str]:
    samples = as_matrix("target", target)
    n_features = samples.shape[1]
    n_components = n_features if sizes[0] is None else as_integer("n_components", sizes[0], 2)
    if sizes[1] is not None:
        as_integer("n_nonzero_coefs", sizes[1], 1, min(n_features, n_components))
    n_nonzero_coefs = as_sparsity(sizes[1], n_features, n_components)
    shape = n_features, n_components
    dial = _as_dial(complexities, shape, n_factors or 2)
    schedules = [Schedule.with_complexity(shape, complexity, n_factors) for complexity in dial]
    sweep = DictionarySweep(samples.T, n_components, n_nonzero_coefs, as_random(random_state), callback)
    found = [
        TradeoffPoint(c, error, op)
        for c, (op, error) in zip(dial[::-1], sweep.points(schedules[::-1]), strict=False)
    ]
    points = found[-1:]
    for point in found[-2::-1]:
        tighter = points[-1]  # lies in the looser sets, too: where it is better, it takes the place
        points.append(point if point.error < tighter.error else tighter._replace(complexity=point.complexity))
    name = f"relative error, {n_nonzero_coefs} atom{'s' * (n_nonzero_coefs > 1)} a sample"
    return points, sweep.dense_error, sweep.stopped, name


def _as_dial(complexities: Any, shape: tuple[int, int], n_factors: int | None) -> list[float]:
    """The complexities, growing; those by default where only their number is given."""
    size = shape[0] * shape[1]
    # Without a wish for the number of factors, the dense matrix is a product, too.
    least = least_entries(shape, n_factors or 2) / size
    if n_factors is None:
        least = min(least, 1.0)
    lines = f"one entry a line in {n_factors or 2} factors of a {shape[0]}×{shape[1]} matrix"
    if least > 1:
        wanted = f"n_factors must be less than {n_factors}" if (n_factors or 2) > 2 else "target must be larger"
        raise ValueError(f"{wanted}: {lines} is more than that has")
    if complexities is None or isinstance(complexities, int | np.integer):
        count = as_integer("complexities", _POINTS if complexities is None else complexities, 1)
        lowest = max(_LOWEST, ceil(1e3 * least) / 1e3)
        given = [float(value) for value in np.geomspace(min(lowest, 1.0), max(lowest, _HIGHEST), count)]
        return sorted(set(given))
    if isinstance(complexities, str) or not isinstance(complexities, Sequence | np.ndarray):
        raise TypeError(f"complexities must be a number of points or a sequence of numbers, got {complexities!r}")
    if not len(complexities):
        raise ValueError("complexities must hold at least one number, got none")
    given = [as_real(f"complexities[{i}]", value, 0.0, 1.0) for i, value in enumerate(complexities)]
    for i, value in enumerate(given):
        if value * size + 1e-9 < least * size:
            raise ValueError(
                f"complexities[{i}] must be at least {least:.4g}, {lines}, and at most 1, got {value:g}"
            )
    return sorted(set(given))


def _entries(complexity: float, shape: tuple[int, int]) -> int:
    return int(complexity * shape[0] * shape[1] + 1e-9)
