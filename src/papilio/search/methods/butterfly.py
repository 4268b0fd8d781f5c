"""Butterfly factorizations: on known supports, on supports found under unknown permutations, and of rank r."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf, sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...linalg import frobenius, in_units
from ...operators import SparseProduct
from ...operators.factors import as_csr
from ...results import Factorization, Status
from ...runtime.session import Interrupted, Session
from ...runtime.threads import blas_threads
from ...transforms.chains import Pattern, as_pattern
from ...typing import Array, MatrixLike, RandomState
from ...validation import as_choice, as_flag, as_matrix, is_series
from ..butterfly_supports import HOPELESS, RADICES, Effort, find_supports
from ..curves import Curve, failed, found, relative_error, single
from ..implicit import Entries
from ..known_supports import Arranged, arranged, fit_supports
from ..nested.cluster_trees import clusters_in_order
from ..nested.rank_butterfly import Plan, Precision, butterfly_of_rank, deepest, planned
from ..problems import in_unit_of
from ..search import Method, Search
from ..targets import Target

_WAYS = ((False, False), (False, True), (True, False), (True, True))  # balanced, transposed
_SHARES = (0.4, 0.2, 0.2, 0.2)  # Estimated shares of the time.
_EVEN = 1.25  # the largest ratio of norms of lines that scaling them would hardly change
_ORDERS = "auto", "left_to_right", "right_to_left", "balanced"
_SAFE = 1e-9, 1e9  # Root mean squares of entries whose squares neither overflow nor underflow.
_EXACT = 1e-12

NAME = "butterfly"
_SHORTEST = 128  # sides of matrices for rank r: smaller ones have too few levels
_TOLERANCES = (0.2, 0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3, 3e-4, 1e-4, *(10.0**-k for k in range(5, 13)))
_SMALL = 1 << 16  # entries of a matrix of which all products are built: each takes milliseconds there
_BUILT = 5  # products for a limit on the entries, as plans may be wrong
_GROWTH = 2.5  # Growth of the error from the tolerance of one step to the product.
_MORE = 1.15  # entries than a few blocks tell, or as many less
_FAR = 1.5  # times the entries that are allowed: such plans are not followed
_PROMISING = 0.7  # Relative to the entries of the matrix; a first plan with more is not continued.


def butterfly(
    M: MatrixLike,
    supports: Sequence[MatrixLike] | Sequence[tuple[int, int, int, int]] | None = None,
    random_state: RandomState = 0,
    *,
    order: str = "auto",
    polish: bool = True,
) -> Factorization:
    """Factorize a matrix into butterfly factors, M ≈ S₁S₂…S_L.

    The search splits the matrix level by level. For radix r, its rows are put into groups of r and its columns
    into r parts such that each block of a group and a part has nearly rank one. A block gives r entries of the
    left factor and a row of the residual, which separates into r problems of 1/r of the size.

    Parameters
    ----------
    M : (m, n) matrix
        Without ``supports``, structure is found only in square matrices of a size n > r that is divisible by
        r = 2, 3, 5 or 7.
    supports : sequence of (a, b, c, d) or of boolean matrices, optional
        Where the factors may have entries, left to right: patterns I_a ⊗ 1_{b×c} ⊗ I_d, as
        `papilio.transforms.butterfly_chain` gives them, or matrices. By default they are searched for: M may be
        a product of butterfly factors with its rows and columns permuted in any way.
    random_state : int, RandomState, Generator or None, default=0
        The source of random numbers: it chooses the rows from which the search starts.
    order : {"auto", "left_to_right", "right_to_left", "balanced"}
        The order in which a chain of known ``supports`` is split: from one end, "auto" from the one with the
        smaller blocks, which is fastest; or in the middle, recursively. The bound below holds for all of them.
    polish : bool, default=True
        With known ``supports``, let each factor in turn become the best one for all others, after the splits. The
        error falls, on average by half a percent where noise is half as large as the matrix. Only where noise is
        the larger part, the splits alone are often nearer to the matrix without noise.

    Returns
    -------
    Factorization
        If supports were found, the factors of an n×n matrix have r entries in each row and column, where r runs
        over the prime factors of n: n·Σr entries in all, 2n·log₂n for powers of two. A matrix without such
        structure is returned as one factor, with ``status`` "no_structure".

        ``least_error`` is a bound: no factors on these supports have a smaller error. For L chainable factors,

            error ≤ √(L − 1) · least_error.

        They are chainable if they are patterns, up to permutations of rows, inner indices and columns, for which
        aᵢ divides aᵢ₊₁, dᵢ₊₁ divides dᵢ, and aᵢcᵢ/aᵢ₊₁ = bᵢ₊₁dᵢ₊₁/dᵢ is an integer. Other supports are fitted by
        cuts and least squares, after a warning, and ``least_error`` is 0.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> H = pp.transforms.hadamard(16).toarray()
    >>> shuffled = H[np.random.default_rng(0).permutation(16)]
    >>> fit = pp.butterfly(shuffled, random_state=0)
    >>> fit.operator.nnz, bool(fit.error < 1e-12)
    (128, True)

    On known supports, with noise:

    >>> noisy = pp.transforms.dct(16).toarray() + 0.01 * np.random.default_rng(0).standard_normal((16, 16))
    >>> fit = pp.butterfly(noisy, pp.transforms.butterfly_chain((16, 16), n_factors=2, rank=2))
    >>> bool(fit.least_error <= fit.error <= fit.least_error * (1 + 1e-12))
    True
    """
    matrix = as_matrix("M", M)
    order, polish = as_choice("order", order, _ORDERS), as_flag("polish", polish)
    if supports is None and (order != "auto" or not polish):
        raise ValueError("order and polish are for known supports: give supports, too")
    if supports is not None:
        known = as_supports(supports, matrix.shape)
        if (chain := arranged(known)) is None:
            warnings.warn(
                "supports are no chainable patterns (a, b, c, d), in any order of their lines: the factors are "
                "fitted by cuts and least squares, without a bound on the error",
                stacklevel=2,
            )
        matrix, unit = _in_safe_units(matrix)
        fit = _fit_on(matrix, known, chain, order, polish)
        return replace(fit, operator=in_unit_of("M", fit.operator, unit)) if unit else fit
    session = Session(random_state=random_state)
    matrix, unit = in_units(matrix)
    try:
        fit, _ = find_butterfly(session, matrix)
    except Interrupted:  # Ctrl-C also stops the call that this is a part of.
        fit = replace(_itself(matrix), status=Status.STOPPED)
    return replace(fit, operator=in_unit_of("M", fit.operator, unit))


def butterfly_entries(shape: tuple[int, int]) -> float:
    """n·Σr for the prime factors r of n: the entries of an n×n butterfly; infinity for other shapes and primes."""
    n, left, total = shape[0], shape[0], 0
    for radix in RADICES:
        while left % radix == 0 and left > radix:
            left, total = left // radix, total + radix
    return float(n * (total + left)) if shape == (n, n) and total else inf


def find_butterfly(session: Session, matrix: Array) -> tuple[Factorization, float]:
    """The best fit on supports found in up to four ways, until one cannot be far from the best, and the noise.

    For white noise of energy e, the first split into r parts misses e·(1 − 1/r), and all levels together miss less
    than e. If a fit misses more, another way is tried: neither transposing the matrix nor scaling its rows and
    columns changes the structure, and with lines of equal norm, small entries count as much as large ones. Once
    the session is stopped, the best fit so far is returned; without one, `Interrupted` is raised. The second
    number is the relative error that such noise explains, as the first split shows it.
    """
    best: Factorization | None = None
    noise, is_even, is_quick = inf, _is_balanced(matrix), False
    try:
        for (balanced, transposed), share in zip(_WAYS, _SHARES, strict=True):
            # Without structure in its rows, a matrix has none in its columns. Scaling does nothing for lines of
            # the same norm, is for structure with noise, and helps little where splits miss far too much.
            if (best is None and transposed) or (balanced and (is_even or is_quick)):
                continue
            with session.part(share):
                effort = Effort(balanced)
                masks = find_supports(session, matrix.T if transposed else matrix, effort)
                if masks is not None:
                    masks = [sp.csr_array(mask.T) for mask in reversed(masks)] if transposed else masks
                    fit = session.wait(partial(_fit_on, matrix, masks), len(masks) * matrix.size)
                    best = fit if best is None or fit.error < best.error else best
                    noise = noise if balanced else min(noise, effort.share)
                is_quick |= effort.is_quick
            if best is not None and (best.error <= _EXACT or best.error**2 <= noise):
                break
    except Interrupted:
        if best is None:
            raise
    if best is None or best.error**2 > HOPELESS:
        return _itself(matrix), 0.0
    return best, sqrt(noise) if noise < inf else 0.0


def _itself(matrix: Array) -> Factorization:
    return Factorization(SparseProduct([matrix]), error=0.0, status=Status.NO_STRUCTURE)


def _is_balanced(matrix: Array) -> bool:
    """Whether all rows, and all columns, have nearly the same norm."""
    norms = [np.linalg.norm(matrix, axis=axis) for axis in (0, 1)]
    return all(size.max() <= _EVEN * size.min() for size in norms)


def _fit_on(
    matrix: Array,
    supports: Sequence[Pattern | sp.csr_array],
    chain: Arranged | None = None,
    order: str = "auto",
    polish: bool = True,
) -> Factorization:
    with blas_threads(0):  # All products are of small blocks.
        fit = fit_supports(matrix, supports, chain or arranged(supports), order, polish)
    operator = SparseProduct._trusted(fit.factors, 1.0)
    return Factorization(operator, error=fit.error, least_error=fit.least_error)


def _in_safe_units(matrix: Array) -> tuple[Array, int]:
    """`in_units` where squares of entries might overflow or underflow, which spares two copies in most cases."""
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(matrix)) / np.sqrt(matrix.size)
    return (matrix, 0) if _SAFE[0] < size < _SAFE[1] else in_units(matrix)


def as_supports(supports: Any, shape: tuple[int, int]) -> list[Pattern | sp.csr_array]:
    """Patterns and masks whose shapes chain to this one."""
    if not is_series(supports):
        raise TypeError(
            f"supports must be a sequence of boolean matrices or of patterns (a, b, c, d), got {supports!r}"
        )
    given = [_as_support(f"supports[{i}]", support) for i, support in enumerate(supports)]
    for i, (left, right) in enumerate(pairwise(given)):
        if left.shape[1] != right.shape[0]:
            raise ValueError(
                f"supports must chain: supports[{i}] has {left.shape[1]} columns but supports[{i + 1}] has "
                f"{right.shape[0]} rows"
            )
    if not given or (given[0].shape[0], given[-1].shape[1]) != shape:
        raise ValueError(f"supports must chain to the shape {shape} of M")
    return given


def _as_support(name: str, support: Any) -> Pattern | sp.csr_array:
    if (pattern := as_pattern(name, support)) is not None:
        return pattern
    mask = as_csr(name, support).astype(bool)  # Sparse ones are not filled in.
    if not mask.nnz:
        raise ValueError(f"{name} must allow at least one entry, got none")
    return mask


# -- butterflies of rank r, in the order of the lines ---------------------------------------------------


def butterfly_curves(session: Session, matrix: Array, target: Target) -> Iterator[Curve]:
    """Products at tolerances near that of the target: the rows and columns are taken in their order.

    Tolerances lie on one grid for all targets. Of small matrices, all products of the grid are built, whatever the
    target, so that what one target finds, another one finds, too.
    """
    products = _OfRank(session, matrix)
    places = [k for k in range(len(_TOLERANCES)) if _TOLERANCES[k] >= (1e-6 if target.is_single else 1e-14)]
    if products.plan(0) is None:
        return
    if matrix.size <= _SMALL:
        promising = [place for place in places if products.entries(place) <= _PROMISING * matrix.size]
        yield from filter(None, map(products.curve, promising))
        return
    most = min(_PROMISING * matrix.size, target.budget or np.inf)
    if target.limit is not None:
        yield from _within_error(products, places, target.limit, most)
        return
    # The entries of plans need not grow with the precision.
    within = [place for place in places if products.entries(place) <= _FAR * most]
    if target.budget is not None:
        yield from _within_budget(products, within, most)
    elif within:
        yield products.planned_curve(within)


def _within_budget(products: "_OfRank", places: Sequence[int], budget: float) -> Iterator[Curve]:
    """Products up to the finest tolerance whose product has at most so many entries.

    Each product that is built tells by how much the plans are wrong.
    """
    low, high, ratio = -1, len(places), 1.0  # the product of `low` is within the budget, that of `high` is not
    for _ in range(_BUILT):
        fitting = [k for k in range(low + 1, high) if ratio * products.entries(places[k]) <= budget]
        if high - low < 2 or (low >= 0 and not fitting):
            break
        k = fitting[-1] if fitting else (high - 1) // 2
        curve = products.curve(places[k])
        if curve is None:
            high = k
            continue
        yield curve
        entries = float(curve.entries[0])
        ratio = entries / products.entries(places[k])
        low, high = (k, high) if entries <= budget else (low, k)


def _within_error(products: "_OfRank", places: Sequence[int], limit: float, most: float) -> Iterator[Curve]:
    """Products from the tolerance on at which the error should be small enough, those with fewer entries, too."""
    first = next((k for k in places if _GROWTH * _TOLERANCES[k] <= limit), places[-1])
    fewest, n_built = inf, 0
    for place in places[first:]:
        if products.entries(place) > _FAR * most or n_built == _BUILT:
            break
        if products.entries(place) >= min(fewest, _MORE * most):
            continue
        curve, n_built = products.curve(place), n_built + 1
        if curve is not None:
            yield curve
            fewest = min(fewest, float(curve.entries[0]) if curve.errors[0] <= limit else inf)
    for place in reversed(places[:first]):
        curve = products.curve(place) if products.entries(place) <= most else None
        if curve is None:
            break
        yield curve
        if curve.errors[0] > limit:
            break


class _OfRank:
    """Butterflies of rank r of a matrix in memory, planned and built at the tolerances of the grid."""

    def __init__(self, session: Session, matrix: Array) -> None:
        self._session, self._matrix = session, matrix
        self._entries = Entries(
            lambda rows, columns: matrix[np.ix_(rows, columns)], matrix.shape, session, is_in_units=True
        )
        self._typical = frobenius(matrix) / np.sqrt(matrix.size)
        m, n = matrix.shape
        self._clusters = clusters_in_order(m, deepest(m)), clusters_in_order(n, deepest(n))
        self._plans: dict[int, Plan | None] = {}

    def _precision(self, place: int) -> Precision:
        return Precision(_TOLERANCES[place], self._typical)

    def plan(self, place: int) -> Plan | None:
        if place not in self._plans:
            self._plans[place] = planned(self._entries, self._clusters, self._precision(place))
        return self._plans[place]

    def entries(self, place: int) -> float:
        """About the entries of the product; infinite if there is none."""
        plan = self.plan(place)
        return inf if plan is None else plan.entries

    def product(self, place: int) -> SparseProduct | None:
        plan = self.plan(place)
        if plan is None:
            return None
        arguments = self._clusters, plan.shape, self._precision(place)
        return butterfly_of_rank(self._session, self._entries, *arguments)

    def detail(self, place: int) -> str:
        plan = self.plan(place)
        return "" if plan is None else f"rank {plan.shape.rank}, {len(plan.shape.row_levels) + 1} factors"

    def curve(self, place: int) -> Curve | None:
        """The product, with its error."""
        product = self.product(place)
        if product is None:
            return None
        return single(NAME, self.detail(place), product, relative_error(self._matrix, product))

    def planned_curve(self, places: Sequence[int]) -> Curve:
        """All products, with entries and errors that are roughly known."""

        def build(k: int) -> SparseProduct:
            return self.product(places[k]) or SparseProduct([np.zeros_like(self._matrix)])

        counts = np.maximum.accumulate([_MORE * self.entries(place) for place in places]).astype(np.int64)
        errors = np.array([_GROWTH * _TOLERANCES[place] for place in places])
        return Curve(NAME, counts, errors, build, lambda k: self.detail(places[k]))


# -- as a method of `factorize` ------------------------------------------------------------------------


def _may_have_rank(search: Search) -> bool:
    """Whether butterflies of rank r are worth a look: they choose the number of their factors themselves."""
    target = search.target
    is_free = target.n_factors is None and target.pricing is None
    return is_free and min(search.problem.shape) >= _SHORTEST and not search.is_settled


def _may_win(search: Search) -> bool:
    """Whether an exact butterfly under unknown permutations would be better than the best product so far."""
    entries = butterfly_entries(search.problem.shape)
    return not search.is_settled and entries < search.problem.nnz and search.may_win(entries)


def _curves(search: Search) -> Iterator[Curve]:
    problem, target = search.problem, search.target
    if _may_have_rank(search):
        with search.session.part(0.1):
            yield from butterfly_curves(search.session, problem.matrix, target)
    if _may_win(search):
        with search.session.part(0.9):
            fit, noise = find_butterfly(search.session, problem.matrix)
        count = len(fit.operator.factors)
        if fit.status is Status.NO_STRUCTURE:
            yield failed(NAME, "no structure")
        elif target.n_factors in (None, count):
            yield found(NAME, f"{count} factors", fit)._replace(noise=noise)


def _sweep(search: Search, budgets: Sequence[int]) -> Any:
    """The butterfly under unknown permutations, which has one number of entries."""
    curves: list[Curve] = []
    if butterfly_entries(search.problem.shape) < search.problem.nnz:
        with suppress(Interrupted):
            fit, _ = find_butterfly(search.session, search.problem.matrix)
            if fit.status is not Status.NO_STRUCTURE:
                curves.append(single(NAME, f"{len(fit.operator.factors)} factors", fit.operator, fit.error))
    return lambda place: curves


METHOD = Method(
    NAME,
    "butterfly factors under unknown permutations, with noise; and butterflies of rank r in the given order",
    _curves,
    lambda search: not search.problem.is_zero and (_may_have_rank(search) or _may_win(search)),
    share=4.0,
    sweep=_sweep,
)
