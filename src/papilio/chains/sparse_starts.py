"""Supports of sparse non-negative chains.

The chain is cut at its lowest rank, where the product of the factors on either side is determined best, and both
sides are treated in the same way, until two factors are left. In the end all factors adapt together.
"""

from collections.abc import Sequence

import numpy as np

from ..constraints import Constraint, SparseColumns
from ..runtime.session import Session
from ..typing import Array
from .annealing import EXACT, STAGES, Sets, Shape, annealed, settled, shares_from
from .exchange import exchanged
from .losses import error_of
from .units import two_factors

_USES = 3  # more attempts that an exact first cut serves for


def sparse_start(
    session: Session, V: Array, sets: Sets, shapes: Sequence[Shape], given: list[Array] | None, n_starts: int
) -> list[Array]:
    """Factors in the sets, the best of some starts; an exact one is the last."""
    best: list[Array] = []
    lowest = np.inf
    cuts = Cuts(session)
    for i in range(n_starts):
        if session.stopped and best:
            break
        with session.part(1 / n_starts, f"supports {i + 1}: "):
            if given is None:
                factors = cuts.factors(V, sets, shapes, i)
                factors = _best(V, factors, annealed(session, V, factors, sets, [0.2, 0.1, 0.0]))
            else:
                factors = annealed(session, V, given, sets, shares_from(1.0, STAGES))
            factors = settled(session, V, exchanged(session, V, factors, sets))
        error = error_of(V, factors)
        if error < lowest:
            best, lowest = factors, error
        if lowest < EXACT:
            break
    return best


class Cuts:
    """Factors by cuts at the lowest rank. A first cut that is exact serves for a few more attempts, too."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._exact: dict[int, tuple[list[Array], int]] = {}  # by place: factors, and how often they may serve

    def factors(self, V: Array, sets: Sets, shapes: Sequence[Shape], attempt: int) -> list[Array]:
        """Factors in the sets; cuts at equal ranks take turns."""
        ranks = [shape[1] for shape in shapes[:-1]]
        lowest = [j for j, rank in enumerate(ranks, start=1) if rank == min(ranks)]
        cut = lowest[attempt % len(lowest)]
        pair, uses = self._exact.pop(cut, ([], 0))
        if not pair:
            pair = self._cut(V, sets, shapes, cut)
            uses = _USES if error_of(V, pair) < EXACT else 0
        if uses > 0:
            self._exact[cut] = pair, uses - 1
        # Units of equal size: in whatever is small, errors would not count.
        norms = np.linalg.norm(pair[0], axis=0), np.linalg.norm(pair[1], axis=1)
        left = pair[0] / np.where(norms[0] > 0, norms[0], 1)
        right = pair[1] / np.where(norms[1] > 0, norms[1], 1)[:, None]
        lefts = self._side(left, sets[:cut], shapes[:cut], attempt)
        return [
            *lefts[:-1],
            lefts[-1] * (norms[0] * norms[1]),
            *self._side(right, sets[cut:], shapes[cut:], attempt),
        ]

    def _side(self, V: Array, sets: Sets, shapes: Sequence[Shape], attempt: int) -> list[Array]:
        return [V] if len(sets) == 1 else Cuts(self._session).factors(V, sets, shapes, attempt)

    def _cut(self, V: Array, sets: Sets, shapes: Sequence[Shape], cut: int) -> list[Array]:
        halves = (sets[:cut], shapes[:cut]), (sets[cut:], shapes[cut:])
        limits = [_product_set(*half) for half in halves]
        rank = shapes[cut][0]
        return two_factors(self._session, V, limits, [(len(V), rank), (rank, V.shape[1])])


def _product_set(sets: Sets, shapes: Sequence[Shape]) -> Constraint | None:
    """A set that contains all products of members, as far as one is known."""
    if len(sets) == 1:
        return sets[0]
    rows, columns = shapes[0][0], shapes[-1][1]
    entries = 1
    for each, (height, _) in zip(sets, shapes, strict=True):
        entries *= each.k if isinstance(each, SparseColumns) else height
    return SparseColumns((rows, columns), entries) if entries < rows else None


def _best(V: Array, *options: list[Array]) -> list[Array]:
    return min(options, key=lambda factors: error_of(V, factors))
