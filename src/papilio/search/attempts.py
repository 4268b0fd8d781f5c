"""The state of a search: the matrix, what is looked for, what was tried so far, and the best of it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..results import Attempt, Factorization, History, Status
from ..runtime.forks import cached_property
from ..runtime.session import Interrupted, Session
from ..runtime.threads import blas_threads
from ..typing import Array
from .curves import Block, Curve, assembled, blocks_of, largest, leading_subspace, relative_error
from .nested.coordinates import Coordinates
from .pricing import TOLERANCE, Pricing
from .targets import EXACT, Target

OF_TWO_FACTORS = ("low_rank", "subspaces", "sparse_plus_low_rank")
METHODS = (
    "thresholding",
    "low_rank",
    "subspaces",
    "transform",
    "convolution",
    "kronecker",
    "layers",
    "rotations",
    "nested",
    "sparse_plus_low_rank",
    "butterfly",
    "hierarchical",
)
_SVD_SIDE = 2048  # the short side up to which all singular values are computed
_MOST_RANK = 256  # singular values of larger matrices, unless the target allows fewer
_BUILDS, _SPARE_SHARE = 3, 0.01  # how often a product is built larger, if so much of the budget is not used
_FASTEST = 1.7  # entries of a product that may take as long as one of the dense matrix
_MOST_CURVES = 4  # of a method, where times are measured
_AHEAD, _AHEAD_IF_LARGE = 0.2, 0.4  # the rank of a best product that others will not reach, over theirs
_LARGE = 512  # the short side from which iterations take minutes
_SPARE = 10  # more columns than singular vectors in subspace iteration


class Structure(NamedTuple):
    """What products are made of, and what they cost."""

    blocks: tuple[tuple[int, int] | None, ...] = (None,)  # sizes of blocks for PALM; None for single entries
    pricing: Pricing | None = None  # costs in time; None for costs in entries


BY_ENTRIES = Structure()


class Search:
    """The attempts to factorize a matrix, in units, into ``n_factors``, or any number, by some methods."""

    def __init__(
        self,
        session: Session,
        matrix: Array,
        target: Target,
        n_factors: int | None = None,
        methods: Sequence[str] = METHODS,
        structure: Structure = BY_ENTRIES,
        coordinates: Coordinates | None = None,
    ) -> None:
        self.session, self.matrix, self.target = session, matrix, target
        self.n_factors, self.methods, self.structure = n_factors, tuple(methods), structure
        self.coordinates = coordinates
        self.attempts: list[Attempt] = []
        self.best: Factorization | None = None
        self._costs: WeakKeyDictionary[SparseProduct, float] = WeakKeyDictionary()

    def allows(self, method: str) -> bool:
        """Whether a method may be tried; some have two factors, and nested low rank has an odd number of them."""
        has_two = method in OF_TWO_FACTORS
        if method == "nested" and self.n_factors is not None and self.n_factors % 2 == 0:
            return False
        return method in self.methods and (not has_two or self.n_factors in (None, 2))

    @property
    def best_rank(self) -> float:
        """The rank of the best product so far by the target; infinite if there is none."""
        return inf if self.best is None else self.target.rank(self.cost_of(self.best.operator), self.best.error)

    def cost_of(self, operator: SparseProduct) -> float:
        """What the target limits: entries, or the measured time, less what measurements vary by."""
        if self.structure.pricing is None:
            return operator.nnz
        if operator not in self._costs:
            limit = TOLERANCE * (self.target.budget or 0)
            self._costs[operator] = self.structure.pricing.fairly_measured(operator, limit) / TOLERANCE
        return self._costs[operator]

    def price_again(self, operator: SparseProduct) -> float:
        """The cost of a product, measured again, three times."""
        if self.structure.pricing is not None:
            self._costs[operator] = self.structure.pricing.fairly_measured(operator) / TOLERANCE
        return self.cost_of(operator)

    def least_cost(self, entries: float) -> float:
        """What a product with so many entries costs at least."""
        return entries if self.structure.pricing is None else entries / _FASTEST

    @property
    def is_settled(self) -> bool:
        """Whether PALM can hardly improve on the best product: it is exact."""
        return self.best is not None and self.best.error <= EXACT and self.target.limit is None

    @property
    def is_won(self) -> bool:
        """Whether nested low rank is so far ahead of all other methods that iterations will not catch up."""
        if self.best is None or self.best.method != "nested":
            return False
        others = [attempt for attempt in self.attempts if attempt.method != "nested" and attempt.nnz > 0]
        if self.structure.pricing is not None:
            lowest = min((attempt.error for attempt in others), default=inf)
        else:
            lowest = min((self.target.rank(attempt.nnz, attempt.error) for attempt in others), default=inf)
        return self.best_rank < (_AHEAD if min(self.matrix.shape) <= _LARGE else _AHEAD_IF_LARGE) * lowest

    # -- what is known of the matrix -------------------------------------------------------------------

    @cached_property
    def blocks(self) -> list[Block]:
        """The leading singular vectors and values of each block of the matrix; none for zeros."""
        return [self._decomposed(*lines) for lines in blocks_of(self.matrix)] if self.matrix.any() else []

    def _decomposed(self, rows: Array, columns: Array) -> Block:
        block = (
            self.matrix if (rows.size, columns.size) == self.matrix.shape else self.matrix[np.ix_(rows, columns)]
        )
        short = min(block.shape)

        def decompose() -> tuple[Array, Array, Array]:
            with blas_threads(block.size * short):
                if short <= _SVD_SIDE:
                    U, values, V = np.linalg.svd(block, full_matrices=False)
                    return U, values, V
                rank = _MOST_RANK if self.target.budget is None else 2 * self.target.budget // sum(block.shape)
                rank = min(rank + _SPARE, short)
                basis = np.random.default_rng(0).standard_normal((block.shape[1], rank)).astype(block.dtype)
                left, right = leading_subspace(block, basis, 4)
                U, values, V = np.linalg.svd(right, full_matrices=False)
                return left @ U[:, :-_SPARE], values[:-_SPARE], V[:-_SPARE]

        U, values, V = self.session.wait(decompose, block.size * short, "singular values")
        return Block(rows, columns, U, values, V)

    def of_rank(self, rank: int) -> SparseProduct:
        """The best approximation of a rank, as two factors."""
        values = np.concatenate([block.values for block in self.blocks])
        owners = np.concatenate([np.full(block.values.size, b) for b, block in enumerate(self.blocks)])
        counts = np.bincount(owners[np.argsort(-values, kind="stable")[:rank]], minlength=len(self.blocks))
        return assembled(self.blocks, counts, self.matrix.shape)

    # -- what was tried --------------------------------------------------------------------------------

    def explore(self, method: str, curves: Iterable[Curve], begin: float) -> None:
        """Record the best product of some curves by the target, and keep it if it is the best so far."""
        found: tuple[float, Curve, int] | None = None
        with suppress(Interrupted):
            for curve in self._by_promise(curves):
                rank, place = self._best_of(curve, min(self.best_rank, inf if found is None else found[0]))
                if rank < inf and (found is None or rank < found[0]):
                    found = rank, curve, place
        if found is None:
            self.add_failure(method, "nothing found", begin)
            return
        rank, curve, place = found
        error, entries, detail = float(curve.errors[place]), int(curve.entries[place]), curve.detail(place)
        if rank < self.best_rank:
            operator = self._built(curve, place)
            if self.n_factors not in (None, len(operator.factors)):
                return
            error = relative_error(self.matrix, operator)
            fit = Factorization(operator, error, 0, Status.CONVERGED, History())
            self.add(curve.method, detail, fit, begin)
        else:
            self.attempts.append(Attempt(curve.method, detail, error, entries, perf_counter() - begin))

    def _by_promise(self, curves: Iterable[Curve]) -> Iterable[Curve]:
        """Where times are measured, the curves that promise most, the best first: each takes some measurements."""
        return curves if self.structure.pricing is None else sorted(curves, key=self._lowest_error)[:_MOST_CURVES]

    def _lowest_error(self, curve: Curve) -> float:
        """The error of a curve's last product that may be fast enough: of the fastest entries."""
        place = curve.place_of(int(_FASTEST * (self.target.budget or 0)))
        return inf if place < 0 else float(self.target.estimated(curve.errors[place]))

    def _best_of(self, curve: Curve, lowest: float) -> tuple[float, int]:
        """The lowest rank of the products of a curve by the target, if below ``lowest``, and its place."""
        pricing, budget = self.structure.pricing, self.target.budget
        if pricing is None or budget is None:
            return curve.best(self.target)
        if self._lowest_error(curve) >= lowest:
            return inf, 0
        self.session.check()
        least = int(curve.entries[0])
        most = int(curve.entries[curve.place_of(int(_FASTEST * budget))])
        entries = pricing.most_entries(lambda count: curve.build(curve.place_of(count)), least, most, budget)
        if entries is None:
            return inf, 0
        place = curve.place_of(entries)
        return float(self.target.estimated(curve.errors[place])), place

    def _built(self, curve: Curve, place: int) -> SparseProduct:
        """The product at a place, or at a later one if it has fewer entries than were expected."""
        operator, budget = curve.build(place), self.target.budget
        if budget is None or self.structure.pricing is not None:
            return operator
        for _ in range(_BUILDS):
            spare = budget - operator.nnz
            later = int(np.searchsorted(curve.entries, curve.entries[place] + spare, side="right")) - 1
            if spare < _SPARE_SHARE * budget or later <= place or curve.errors[later] >= curve.errors[place]:
                break
            larger = curve.build(later)
            if larger.nnz > budget:
                break
            operator, place = larger, later
        return operator

    def add(self, method: str, detail: str, fit: Factorization, begin: float) -> Factorization:
        """Record a fit that was started at ``begin``, keep it if it is the best, and return it with its method."""
        self.attempts.append(Attempt(method, detail, fit.error, fit.operator.nnz, perf_counter() - begin))
        fit = replace(fit, method=method)
        rank = self.target.rank(self.cost_of(fit.operator), fit.error)
        if rank < self.best_rank or (
            self.best is not None and rank == self.best_rank < inf and fit.operator.nnz < self.best.operator.nnz
        ):
            self.best = fit
        return fit

    def add_failure(self, method: str, detail: str, begin: float) -> None:
        """Record an attempt that found nothing."""
        self.attempts.append(Attempt(method, detail, inf, 0, perf_counter() - begin))

    def beside_identities(self, matrix: Array | sp.csr_array) -> SparseProduct:
        """A matrix as one of ``n_factors``, of which the others are identities; as the only one without them."""
        others = [sp.eye_array(min(matrix.shape))] * ((self.n_factors or 1) - 1)
        is_wide = matrix.shape[0] < matrix.shape[1]
        return SparseProduct([*others, matrix] if is_wide else [matrix, *others]).astype(self.matrix.dtype)

    def itself(self) -> Factorization:
        """What remains if no product was found: the matrix, or its largest entries if their number is limited."""
        matrix, method = self.matrix, "itself"
        if self.target.budget is not None and self.structure.pricing is None:
            count = self.target.budget - ((self.n_factors or 1) - 1) * min(matrix.shape)
            if count < np.count_nonzero(matrix):
                matrix, method = largest(matrix, np.abs(matrix).ravel(), count), "thresholding"
        operator = self.beside_identities(matrix)
        error = relative_error(self.matrix, operator)
        return Factorization(operator, error, 0, Status.NO_STRUCTURE, History(), method)


error_of = attrgetter("error")
