"""Fits by structure, which need no budget: sparse matrices, exact low rank, known transforms and butterflies."""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from ..results import Factorization, Status
from ..runtime.session import Interrupted
from .attempts import EXACT, Search
from .butterfly import butterfly_entries, find_butterfly
from .known_transforms import recognise

_BUTTERFLY_SHARE = 0.05  # of the whole search, by estimate


def structured_fits(search: Search, enough: int) -> list[Factorization]:
    """All fits by structure that were found.

    The search for butterflies, which takes longest, is skipped if something else is exact with at most ``enough``
    entries, or with no more entries than a butterfly.
    """
    nonzero, errors = int(np.count_nonzero(search.matrix)), search.low_rank_errors
    fits = []
    if nonzero <= search.matrix.size // 2 and search.n_factors is None:
        fits.append(search.add("itself", "sparse as it is", search.itself(), perf_counter()))
    fits += search.low_rank(search.rank_within(errors.size * np.finfo(errors.dtype).eps))
    fits += _found(search, "transform", _transform)
    fewest = min((fit.operator.nnz for fit in fits if fit.error <= EXACT), default=search.matrix.size + 1)
    if fewest > enough and butterfly_entries(search.matrix.shape) < min(fewest, nonzero):
        fits += _found(search, "butterfly", _butterfly)
    return fits


def _found(
    search: Search, method: str, find: Callable[[Search], tuple[str, Factorization | None]]
) -> list[Factorization]:
    """The fit of a method, recorded, unless it has another number of factors than the search allows."""
    if not search.allows(method):
        return []
    begin = perf_counter()
    detail, fit = find(search)
    if fit is None:
        search.add_failure(method, detail, begin)
    elif search.n_factors in (None, len(fit.operator.factors)):
        return [search.add(method, detail, fit, begin)]
    return []


def _transform(search: Search) -> tuple[str, Factorization | None]:
    return recognise(search.matrix) or ("no known transform", None)


def _butterfly(search: Search) -> tuple[str, Factorization | None]:
    try:
        with search.session.part(_BUTTERFLY_SHARE, "butterfly: "):
            fit = find_butterfly(search.session, search.matrix)
    except Interrupted:
        return "stopped", None
    if fit.status is Status.NO_STRUCTURE:
        return "no structure", None
    return f"{len(fit.operator.factors)} factors", fit
