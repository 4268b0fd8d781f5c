"""Factorize an operator of which only products are known, its own and those of its adjoint."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from math import ceil, inf, log2
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ...linalg import in_units
from ...operators import SparseProduct
from ...operators.factors import to_csr
from ...results import Attempt, Factorization, History, Status, warn_if_slower
from ...runtime.session import Interrupted, Session
from ...typing import Array
from ...validation import as_choice, as_real
from ..attempts import Search
from ..nested.coordinates import as_coordinates, in_one_space
from ..stored import searched
from ..targets import Target
from ..units import in_unit_of
from .neighbourhoods import Neighbourhood, by_points, features_of, in_given_order
from .products import Products
from .sketched import Sketch, far_energy, low_rank_from_sketches, nested_from_sketches

_FEW = 96  # rows or columns up to which an operator is read as a whole
_DEFAULT_ERROR = 1e-3
_FIRST, _GROWTH = 32, 1.5  # vectors each way at first; how their number grows
_LEAPS = 2  # rounds at first whose number of vectors grows by the square of that
_FINEST = 2  # levels that the clusters of a square matrix do without: they would have one line or two
_MOST = 1000  # products in all
_CHECKED = 16  # fresh vectors on which the error is measured
_VECTORS_PER_NEIGHBOUR = 24
_SHARE = 0.7  # of the error that is allowed: what is left out on purpose
_FAR_BEHIND = 2.0  # times the lowest error: what is not followed any longer
_STALLED = 0.9  # of the error of two rounds before: nothing is gained by more products
_NOTHING = 0.99  # an error that is hardly below that of zeros
_CLEARLY = 0.9  # of what the given order leaves: another order is better
_WORTHWHILE = 0.99  # of the dense matrix's entries: a product with more is none
_LOOSE, _TRIMS = 0.6, 2  # an error so far below the target allows fewer entries; how often they are looked for


class _Rounds:
    """Ever more products, and the nested low rank that they tell."""

    def __init__(
        self,
        session: Session,
        products: Products,
        max_error: float,
        coordinates: tuple[Array, Array] | None,
    ) -> None:
        self.session, self.products, self.coordinates = session, products, coordinates
        self.limit = max(max_error, 1e-6 if products.dtype.char in "fF" else 1e-13)
        self.attempts: list[Attempt] = []
        self.best: tuple[SparseProduct, float] | None = None
        self.method = "nested"
        self._errors: list[float] = []  # the lowest of each round
        self._is_tried = {True: True, False: True}  # with and without neighbours
        self._checked: tuple[Array, Array] | None = None

    @property
    def is_met(self) -> bool:
        """Whether the best product meets the target, and is smaller than the matrix."""
        m, n = self.products.shape
        return self.best is not None and self.best[1] <= self.limit and self.best[0].nnz <= _WORTHWHILE * m * n

    @property
    def is_stalled(self) -> bool:
        """Whether more products have hardly lowered the error, or it is as large as that of zeros."""
        return len(self._errors) > 2 and self._errors[-1] > min(_STALLED * self._errors[-3], _NOTHING)

    def run(self) -> None:
        """Rounds with more and more vectors, until the error is met or nothing is gained."""
        sizes = self._sizes()
        for size in sizes:
            with self.session.part(size / sum(sizes)):
                with self.session.part(0.5):
                    self._gather(size)
                with self.session.part(0.5):
                    self._round(_SHARE * self.limit)
            if self.is_met or self.is_stalled:
                break
        if self.best is None or not self.best[1] < 1:
            self._attempt("low_rank", "low rank", lambda: low_rank_from_sketches(self._all(), inf))
        tolerance = _SHARE * self.limit
        for _ in range(_TRIMS):
            if not self.is_met or self.best is None or self.best[1] > _LOOSE * self.limit:
                break
            tolerance *= 0.9 * min(self.limit / max(self.best[1], 1e-300), 100.0)
            self._round(tolerance)

    def _sizes(self) -> list[int]:
        """Numbers of vectors of the rounds: as the limit of products allows, and no more than lines."""
        ways = 1 if self.products.mirror else 2
        most = min((_MOST - _CHECKED) // ways, min(self.products.shape))
        sizes = [_FIRST]
        while sizes[-1] <= most:
            sizes.append(ceil(sizes[-1] * _GROWTH ** (2 if len(sizes) <= _LEAPS else 1)))
        sizes.pop()
        return [*sizes, most] if not sizes or 1.2 * sizes[-1] < most == min(self.products.shape) else sizes

    def _gather(self, size: int) -> None:
        """Products with ``size`` vectors each way, and with fresh ones; those that were fresh are used now."""
        if self._checked is not None:
            self.products.absorb(*self._checked)
        self._checked = self.products.fresh(_CHECKED)
        self.products.extend(size)

    def _round(self, tolerance: float) -> None:
        """Low rank, nested with neighbours, and without; of the latter, what is far behind is not tried again."""
        loss = tolerance * self.products.norm
        self._attempt("low_rank", "low rank", lambda: low_rank_from_sketches(self._all(), loss))
        places = self._neighbourhood()
        found: dict[bool, float] = {}
        most = self.products.known // _VECTORS_PER_NEIGHBOUR
        for has_neighbours in (True, False):
            if not self._is_tried[has_neighbours] or (has_neighbours and most < 2):
                continue
            name = f"{places.name}, {'with' if has_neighbours else 'without'} neighbours"
            count = most if has_neighbours else 1
            build = partial(nested_from_sketches, self.session, self._sketch(places), places, count, loss)
            with self.session.part(0.5, f"{name}: "):
                found[has_neighbours] = self._attempt("nested", name, build)
        lowest = min(found.values())
        if lowest < inf:
            self._errors.append(lowest)
            for has_neighbours, error in found.items():
                self._is_tried[has_neighbours] = error <= _FAR_BEHIND * lowest

    # -- one product -----------------------------------------------------------------------------------

    def _neighbourhood(self) -> Neighbourhood:
        """Clusters by coordinates; else in the given order, or in that which products tell if it is better."""
        known, shape = self.products, self.products.shape
        depth = max(int(log2(min(shape))) - (_FINEST if shape[0] == shape[1] else 0), 0)
        if self.coordinates is not None:
            return by_points("coordinates", *self.coordinates, depth)
        given = in_given_order(shape, depth)
        if shape[0] != shape[1]:
            return given
        self.session.check()
        points = features_of(known.samples if known.mirror else np.hstack([known.samples, known.adjoint_samples]))
        other = by_points("order by products", points, points, depth)
        self.session.check()
        is_better = far_energy(self._sketch(other), other) < _CLEARLY * far_energy(self._sketch(given), given)
        return other if is_better else given

    def _all(self) -> Sketch:
        known = self.products
        return Sketch(known.tests, known.samples, known.adjoint_tests, known.adjoint_samples, known.mirror)

    def _sketch(self, places: Neighbourhood) -> Sketch:
        return self._all() if places.is_shared else self._all()._replace(mirror="")

    def _attempt(self, method: str, detail: str, build: Callable[[], SparseProduct | None]) -> float:
        """The error of a product, which is kept if it is the best so far; infinite if there is none."""
        begin = perf_counter()
        operator = build()
        if operator is None:
            return inf
        error = self._error_of(operator)
        detail = f"{detail}, {self.products.count} products"
        self.attempts.append(Attempt(method, detail, error, operator.nnz, perf_counter() - begin))
        if self.best is None or self._rank(operator, error) < self._rank(*self.best):
            self.best, self.method = (operator, error), method
        return error

    def _error_of(self, operator: SparseProduct) -> float:
        """The relative error on fresh vectors."""
        assert self._checked is not None
        tests, samples = self._checked
        # Without `operator @ tests`, which would pack the product for many more vectors.
        images = reduce(lambda right, factor: to_csr(factor) @ right, reversed(operator.factors), tests)
        difference = np.linalg.norm(images * operator.scale - samples) / np.sqrt(tests.shape[1])
        norm = self.products.norm
        return float(difference / norm) if norm > 0 else 0.0

    def _rank(self, operator: SparseProduct, error: float) -> tuple[float, float]:
        """The lower the better: the fewest entries within the error that is allowed, else the lowest error."""
        return (0.0, operator.nnz) if error <= self.limit else (1.0, error)


def factorize_operator(
    session: Session, operator: LinearOperator, max_error: float | None, method: str, coordinates: Any
) -> Factorization:
    """`factorize` of an operator, from its products; of one that has only a few rows or columns, as a matrix."""
    as_choice("method", method, ("auto", "nested"))
    limit = _DEFAULT_ERROR if max_error is None else as_real("max_error", max_error, 0.0)
    points = in_one_space("coordinates", as_coordinates("coordinates", coordinates, operator.shape))
    products = Products(operator, session)
    if min(operator.shape) > _FEW or method != "auto":
        return factorize_products(session, products, limit, points)
    matrix, unit = in_units(products.whole())
    search = Search(session, matrix, Target(matrix.size, None, limit, matrix.dtype.char in "fF"))
    fit = replace(searched(search, unit), n_products=products.count)
    warn_if_slower(fit)
    return fit


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
        if products.samples.any():
            rounds.run()
        session.tick("end", 1, 1)
    operator, error = rounds.best or (None, inf)
    if operator is None or not error < 1:  # zeros are better
        zeros = sp.csr_array(products.shape, dtype=products.dtype)
        operator, error = SparseProduct([zeros]), float(products.samples.any())
    status = Status.CONVERGED if rounds.is_met or error == 0.0 else Status.NO_STRUCTURE
    return Factorization(
        in_unit_of("M", operator, products.unit).astype(products.dtype),
        error,
        0,
        Status.STOPPED if session.stopped else status,
        History(),
        rounds.method,
        tuple(rounds.attempts),
        error_is_estimate=True,
        n_products=products.count,
    )
