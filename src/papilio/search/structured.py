"""Fits by structure, which need no budget: sparse matrices, exact low rank, known transforms and butterflies."""

from time import perf_counter

import numpy as np

from ..results import Factorization, Status
from .attempts import EXACT, Search
from .butterfly import butterfly_entries, find_butterfly
from .known_transforms import recognise


def structured_fits(search: Search, enough: int) -> list[Factorization]:
    """All fits by structure that were found.

    The search for butterflies, which takes longest, is skipped if something else is exact with at most ``enough``
    entries, or with no more entries than a butterfly.
    """
    nonzero = int(np.count_nonzero(search.matrix))
    fits = [*_sparse(search, nonzero), *_exact_low_rank(search), *_transforms(search)]
    fewest = min((fit.operator.nnz for fit in fits if fit.error <= EXACT), default=search.matrix.size + 1)
    if fewest > enough and butterfly_entries(search.matrix.shape) < min(fewest, nonzero):
        fits += _butterflies(search)
    return fits


def _sparse(search: Search, nonzero: int) -> list[Factorization]:
    if nonzero > search.matrix.size // 2 or search.n_factors is not None:
        return []
    return [search.add("itself", "sparse as it is", search.itself(), perf_counter())]


def _exact_low_rank(search: Search) -> list[Factorization]:
    errors = search.low_rank_errors
    fit = search.low_rank(search.rank_within(errors.size * np.finfo(errors.dtype).eps)) if errors.size else None
    return [] if fit is None else [fit]


def _transforms(search: Search) -> list[Factorization]:
    if not search.allows("transform"):
        return []
    begin = perf_counter()
    known = recognise(search.matrix)
    if known is None:
        search.add_failure("transform", "no known transform", begin)
        return []
    name, fit = known
    return [search.add("transform", name, fit, begin)] if _has_right_count(search, fit) else []


def _butterflies(search: Search) -> list[Factorization]:
    if not search.allows("butterfly"):
        return []
    begin = perf_counter()
    fit = find_butterfly(search.matrix, search.session.random, lambda: search.session.stopped)
    if fit.status is Status.NO_STRUCTURE:
        search.add_failure("butterfly", "no structure", begin)
        return []
    detail = f"{len(fit.operator.factors)} factors"
    return [search.add("butterfly", detail, fit, begin)] if _has_right_count(search, fit) else []


def _has_right_count(search: Search, fit: Factorization) -> bool:
    return search.n_factors in (None, len(fit.operator.factors))
