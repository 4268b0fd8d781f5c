"""Butterflies of rank r of a matrix in memory, as a curve: errors and entries are known, roughly, beforehand."""

from collections.abc import Iterator

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..runtime.session import Session
from ..typing import Array
from .curves import Curve
from .nested.clusters import clusters_in_order
from .targets import Target
from .unstored.butterfly_shapes import Plan, deepest, planned
from .unstored.rank_butterfly import Precision, butterfly_of_rank
from .unstored.sampled import Entries

SHORTEST = 128  # sides of matrices: smaller ones have too few levels
_TOLERANCES = (0.2, 0.05, 0.01, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
_GROWTH = 2.5  # of the tolerance of one step to the error of a product
_MORE = 1.1  # entries than a few blocks tell
_PROMISING = 0.7  # of the entries of the matrix: a first plan with more is not continued


def butterfly_curves(session: Session, matrix: Array, target: Target) -> Iterator[Curve]:
    """The curve, if there is one: the rows and columns are taken in their order."""
    entries = Entries(lambda rows, columns: matrix[np.ix_(rows, columns)], matrix.shape, session)
    typical = frobenius(matrix) / np.sqrt(matrix.size)
    clusters = tuple(clusters_in_order(size, deepest(size)) for size in matrix.shape)
    plans: list[tuple[Plan, Precision]] = []
    for tolerance in _tolerances(target):
        precision = Precision(tolerance, typical)
        plan = planned(entries, (clusters[0], clusters[1]), precision)
        if plan is None or plan.entries > min(_PROMISING * matrix.size, target.budget or np.inf):
            break
        plans.append((plan, precision))
    if not plans:
        return

    def build(place: int) -> SparseProduct:
        plan, precision = plans[place]
        product = butterfly_of_rank(session, entries, (clusters[0], clusters[1]), plan.shape, precision)
        return SparseProduct([np.zeros_like(matrix)]) if product is None else product

    def detail(place: int) -> str:
        shape = plans[place][0].shape
        return f"rank {shape.rank}, {len(shape.row_levels) + 1} factors"

    counts = np.maximum.accumulate([_MORE * plan.entries for plan, _ in plans]).astype(np.int64)
    errors = np.array([_GROWTH * precision.tolerance for _, precision in plans])
    yield Curve("butterfly", counts, errors, build, detail)


def _tolerances(target: Target) -> list[float]:
    """From large to small ones; the one that the target asks for is the last."""
    least = 1e-6 if target.is_single else 1e-14
    if target.limit is None:
        return [tolerance for tolerance in _TOLERANCES if tolerance >= least]
    last = max(0.99 * target.limit / _GROWTH, least)
    return [max(0.2, last), last]
