"""Factorize an operator of which only products are known, its own and those of its adjoint."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count, takewhile
from math import ceil, log2
from time import perf_counter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..results import Attempt, Factorization, History, Status
from ..runtime.session import Interrupted, Session
from ..typing import Array
from .neighbourhoods import Neighbourhood, by_points, features_of, in_given_order
from .products import Products
from .sketched import Sketch, nested_from_sketches
from .units import in_unit_of

FEW = 32  # rows or columns up to which an operator is read as a whole
DEFAULT_ERROR = 1e-3
_FIRST, _GROWTH = 32, 1.5  # vectors each way, at first and from round to round
_MOST = 1000  # products in all
_CHECKED = 16  # fresh vectors on which the error is measured
_LINES_PER_NEIGHBOUR = 24  # vectors for each near cluster
_SHARE = 0.7  # of the error that is allowed: what is left out on purpose
_FAR_BEHIND = 3.0  # times the lowest error: a way that is not followed any longer
_STALLED = 0.9  # of the error of two rounds before: nothing is gained by more products
_WORTHWHILE = 0.99  # of the dense matrix's entries: a product with more is none
_LOOSE, _TRIMS = 0.6, 2  # an error so far below the target allows fewer entries; how often they are looked for


class _Way(NamedTuple):
    """How lines are clustered, and whether clusters have neighbours."""

    order: str
    has_neighbours: bool

    def __str__(self) -> str:
        return f"{self.order}, {'with' if self.has_neighbours else 'without'} neighbours"


class _Fit(NamedTuple):
    operator: SparseProduct
    error: float


class _Rounds:
    """Ever more products, and the nested low rank that they tell."""

    def __init__(
        self,
        session: Session,
        products: Products,
        limit: float,
        coordinates: tuple[Array, Array] | None,
    ) -> None:
        self.session, self.products, self.coordinates = session, products, coordinates
        self.limit = max(limit, 1e-6 if products.dtype.char in "fF" else 1e-13)
        self.goal = limit
        self.attempts: list[Attempt] = []
        self.best: _Fit | None = None
        is_square = products.shape[0] == products.shape[1]
        orders = ("coordinates",) if coordinates else ("given order", "order by products")[: 1 + is_square]
        self.ways = [_Way(order, flag) for order in orders for flag in (True, False)]
        self.errors: list[float] = []  # the lowest of each round
        self._scale = 1.0

    @property
    def is_met(self) -> bool:
        """Whether the best product meets the target, and is smaller than the matrix."""
        m, n = self.products.shape
        return (
            self.best is not None
            and self.best.error <= self.limit
            and self.best.operator.nnz <= _WORTHWHILE * m * n
        )

    @property
    def is_stalled(self) -> bool:
        """Whether more products have hardly lowered the error."""
        return len(self.errors) > 3 and self.errors[-1] > _STALLED * self.errors[-3]

    def run(self) -> None:
        """Rounds with more and more vectors, until the error is met or nothing is gained."""
        sizes = list(self._sizes())
        checked = self.products.fresh(_CHECKED)
        for place, size in enumerate(sizes):
            with self.session.part(size / sum(sizes)):
                with self.session.part(0.5):
                    if place > 0:
                        self.products.absorb(*checked)
                        checked = self.products.fresh(_CHECKED)
                    self.products.extend(size)
                with self.session.part(0.5):
                    self._round(checked)
            if self.is_met or self.is_stalled:
                break
        for _ in range(_TRIMS if self.is_met else 0):
            if not self._trimmed(checked):
                break

    def _sizes(self) -> Iterator[int]:
        """Numbers of vectors: what a product can gain from, and what the limit of products allows."""
        m, n = self.products.shape
        ways = 1 if self.products.mirror else 2
        most = min((_MOST - _CHECKED) // ways, min(m, n))
        sizes = (ceil(_FIRST * _GROWTH**k) for k in count())
        yield from takewhile(lambda size: size <= most, sizes)

    def _round(self, checked: tuple[Array, Array]) -> None:
        """One product for each way; those that are far behind are left."""
        found: dict[_Way, float] = {}
        orders: dict[str, Neighbourhood] = {}
        for way in self.ways:
            if way.order not in orders:
                orders[way.order] = self._neighbourhood(way.order)
            with self.session.part(1 / len(self.ways), f"{way}: "):
                fit = self._built(way, orders[way.order], _SHARE * self.limit, checked)
            if fit is not None:
                found[way] = fit.error
        if not found:
            return
        lowest = min(found.values())
        self.errors.append(lowest)
        self.ways = [way for way in self.ways if found.get(way, 0.0) <= _FAR_BEHIND * lowest]

    def _trimmed(self, checked: tuple[Array, Array]) -> bool:
        """Whether there is a product with fewer entries, as the error is far below what is allowed."""
        assert self.best is not None
        before = self.best
        if before.error > _LOOSE * self.limit:
            return False
        self._scale *= 0.9 * min(self.limit / max(before.error, 1e-300), 100.0)
        for way in self.ways:
            self._built(way, self._neighbourhood(way.order), _SHARE * self._scale * self.limit, checked)
        return self.best is not before

    # -- one product -----------------------------------------------------------------------------------

    def _neighbourhood(self, order: str) -> Neighbourhood:
        self.session.check()
        shape = self.products.shape
        depth = max(int(log2(min(shape) / 2)), 0)
        if self.coordinates:
            return by_points(order, *self.coordinates, depth)
        if order == "given order":
            return in_given_order(shape, depth)
        sides = [self.products.samples] + ([] if self.products.mirror else [self.products.adjoint_samples])
        points = features_of(np.hstack(sides))
        return by_points(order, points, points, depth)

    def _built(
        self, way: _Way, neighbourhood: Neighbourhood, tolerance: float, checked: tuple[Array, Array]
    ) -> _Fit | None:
        """A product, its error on fresh vectors, and whether it is the best so far."""
        begin, known = perf_counter(), self.products
        vectors = known.known
        sketch = Sketch(
            known.tests,
            known.samples,
            known.adjoint_tests,
            known.adjoint_samples,
            known.mirror if neighbourhood.rows is neighbourhood.columns else "",
        )
        most = max(vectors // _LINES_PER_NEIGHBOUR, 1) if way.has_neighbours else 1
        operator = nested_from_sketches(self.session, sketch, neighbourhood, most, tolerance * known.norm)
        if operator is None:
            self.attempts.append(Attempt("nested", f"{way}: too few products", np.inf, 0, perf_counter() - begin))
            return None
        error = float(
            np.linalg.norm(operator @ checked[0] - checked[1]) / np.sqrt(checked[0].shape[1]) / known.norm
        )
        fit = _Fit(operator, error)
        detail = f"{way}, {known.count} products"
        self.attempts.append(Attempt("nested", detail, error, operator.nnz, perf_counter() - begin))
        if self.best is None or self._rank(fit) < self._rank(self.best):
            self.best = fit
        return fit

    def _rank(self, fit: _Fit) -> tuple[float, float]:
        """The lower the better: the fewest entries within the error that is allowed, else the lowest error."""
        return (0.0, fit.operator.nnz) if fit.error <= self.limit else (1.0, fit.error)


def factorize_products(
    session: Session,
    products: Products,
    max_error: float,
    coordinates: tuple[Array, Array] | None = None,
) -> Factorization:
    """The result of `factorize` for an operator that is known by its products.

    The number of products grows until the error, on fresh random vectors, is at most ``max_error``.
    """
    rounds = _Rounds(session, products, max_error, coordinates)
    with session.interruptible(), suppress(Interrupted):
        rounds.run()
        session.tick("end", 1, 1)
    best = rounds.best or _coarse(products)
    status = Status.CONVERGED if rounds.is_met else Status.NO_STRUCTURE
    operator = in_unit_of("M", best.operator, products.unit).astype(products.dtype)
    return Factorization(
        operator,
        best.error,
        0,
        Status.STOPPED if session.stopped else status,
        History(),
        "nested" if rounds.best else "low_rank",
        tuple(rounds.attempts),
        error_is_estimate=True,
    )


def _coarse(products: Products) -> _Fit:
    """What the first products tell, if there was no time for more: low rank through them."""
    left, right = products.samples, products.adjoint_samples
    middle = np.linalg.pinv(products.adjoint_tests.T @ left)
    if not left.any():
        return _Fit(SparseProduct([sp.csr_array(products.shape, dtype=left.dtype)]), 0.0)
    return _Fit(SparseProduct([left, middle, right.conj().T]), 1.0)
