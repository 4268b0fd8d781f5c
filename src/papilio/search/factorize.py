"""`factorize`: a matrix as a product of sparse factors, with at most one target for the product."""

import warnings
from dataclasses import replace
from math import inf, sqrt
from typing import Any

from scipy.sparse.linalg import LinearOperator

from ..constraints.blocks import as_block
from ..linalg import in_units
from ..operators.cost import BLOCK
from ..results import Callback, Factorization, Status, warn_if_slower
from ..runtime.session import Session
from ..solvers.hierarchical import factorize_by_splits
from ..solvers.palm import Limits
from ..typing import ArrayLike, MatrixLike, RandomState
from ..validation import as_choice, as_factor_count, as_flag, as_integer, as_matrix, as_real
from .attempts import BY_ENTRIES, METHODS, Search, Structure, error_of
from .candidates import allowed_candidates, best_candidate, best_side, even_schedule, expected_steps
from .clusters import as_coordinates
from .from_products import DEFAULT_ERROR, FEW, factorize_products
from .pricing import Pricing
from .products import Products, is_known_by_products
from .structured import explore_structure
from .targets import Target, as_complexity, as_speedup, least_entries
from .units import in_unit_of

_KNEES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)  # complexities at which the knee may be
_FEW_KNEES = (0.05, 0.1, 0.25, 0.5)  # for large matrices
_QUICK_STEPS = 50
_HALVINGS, _FEW_HALVINGS = 6, 2  # of the interval in which the fewest entries lie, for small and large matrices
_PROMISING = 1.5  # a quick fit within this many times the target is worth longer ones
_ANNEALED = 4  # the same where there is time for annealing
_LARGE = 128  # the short side above which less is tried
_REPEATS = 2  # of a search for a product that is fast enough
_BLOCK = 4  # rows and columns of blocks where a speed-up is the target


def factorize(
    M: MatrixLike | LinearOperator,
    *,
    n_factors: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    speedup: float | None = None,
    vectors: int = BLOCK,
    block: int | tuple[int, int] | None = None,
    method: str = "auto",
    coordinates: tuple[ArrayLike, ArrayLike] | None = None,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
    random_state: RandomState = 0,
) -> Factorization:
    """Approximate a matrix by a product of sparse factors, with at most one target: complexity, error or speed.

    Methods are tried from the cheapest to the most expensive, and the best product by the target is returned:

    - thresholding: the largest entries of M;
    - low rank: the leading singular vectors, in each block if M is block-diagonal up to the order of its lines;
    - convolution: circulant, Toeplitz and Hankel matrices, also of two levels, by fast transforms;
    - Kronecker products of small matrices, and short sums of them;
    - transforms: cosine and Haar transforms with permuted and scaled lines, and matrices that are nearly sparse in
      the domain of a fast transform;
    - butterfly factors under unknown permutations;
    - sums of a sparse matrix and one of low rank;
    - the hierarchical strategy, from either side, with two and three factors, and sparse factors of low rank; they
      end with annealing, which loosens and tightens the sets of the factors to escape from local minima.

    By the target, the product is never worse than thresholding and low rank, where ``n_factors`` and ``method``
    allow these. Methods that cannot win, or whose first steps are far behind, are not continued.

    Of a SciPy ``LinearOperator``, only products with random vectors are taken, with it and with its adjoint: the
    inverse of a sparse matrix, a covariance, a Schur complement. Nested low rank is found from them: distant
    clusters of rows and columns interact through a few numbers. Lines are clustered in their order, or by what
    their products have in common if M is square and that is better, or by ``coordinates``. The number of products,
    at most 1,000 in all, grows until the error is small enough, or nothing is gained any longer; if the operator
    is self-adjoint or symmetric, its adjoint is used only once. First of all, the adjoint is checked.

    Parameters
    ----------
    M : (m, n) matrix or LinearOperator
        Real or complex, dense or sparse. An operator of at most 96 rows or columns is read as a whole, and treated
        as a matrix. What an operator raises comes through, with a note.
    n_factors : int, optional
        The number of factors, at least 2. By default the number that gives the best result.
    complexity : float, optional
        The largest relative complexity: entries of all factors over m·n, above 0 and at most 1. The result has the
        lowest error that was found within it.
    max_error : float, optional
        The largest relative error. The result has the fewest entries that were found to reach it. For a
        LinearOperator, it is the only target, and the default is 1e-3.
    speedup : float, optional
        How many times faster than the dense matrix the product should be on this machine, above 1. The result has
        the lowest error that was found for products as fast as that: of single entries, of blocks, of low rank,
        and of all other methods. A model of the kernels, calibrated on this machine in some tenths of a second,
        says how large they may be, and each that may be returned is timed. Results depend on the machine, and on
        what else runs on it; ``complexity`` is the way to repeat them.
    vectors : int, default=256
        How many vectors are applied at a time, where ``speedup`` is given: 1 for ``op @ x``, else the columns of a
        block.
    block : int or (int, int), optional
        Rows and columns of the blocks that the hierarchical strategy makes its factors of, such as 4 or (4, 4).
        Blocks run two to three times faster per entry than single entries, and at equal numbers of entries their
        errors are higher. By default single entries, and both with ``speedup``.
    method : str, default="auto"
        The only method to try: "thresholding", "low_rank", "transform", "convolution", "kronecker", "butterfly",
        "sparse_plus_low_rank" or "hierarchical"; "auto" tries all. For a LinearOperator, "nested" or "auto".
    coordinates : (rows, columns), optional
        For a LinearOperator: where its rows and its columns are, as arrays of shapes (m, d) and (n, d), or (m,)
        and (n,). Lines are then clustered by their places.
    time_budget : float, optional
        Seconds after which the best result so far is returned. Results then depend on the machine's speed.
    progress : bool, default=False
        Show the method and the share of work done on the standard error.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration of PALM, and now and then in between; a true
        result ends the search, and the best result so far is returned.
    random_state : int, RandomState, Generator or None, default=0
        The source of the random numbers of butterfly search and annealing. Results are reproducible by default;
        None stands for NumPy's global state.

    Returns
    -------
    Factorization
        ``method`` is the method that found it; ``attempts`` lists all that was tried, and ``speedup`` measures how
        much faster than the dense matrix it is. ``status`` is "converged" if the target was met; "stopped" if the
        search ended early, by the time budget, the callback or Ctrl-C (in the main thread; a second one raises
        KeyboardInterrupt); and "no_structure" if no product with fewer entries than M meets the target. Then M
        itself is returned: as one factor, or beside identities if ``n_factors`` is given; within ``complexity``,
        its largest entries; and with a warning if no product is as fast as ``speedup`` says.

        For a LinearOperator, ``error`` is an estimate on 16 random vectors that were not used otherwise, and
        ``error_is_estimate`` says so; ``n_products`` counts the products, those with the adjoint included. The
        status "no_structure" then comes with the product of the lowest error that was found, or with zeros if all
        errors are above 1. So does "stopped", if there was no time for a product.

        Without ``complexity`` and ``max_error``, the result has the lowest sum of error and relative complexity of
        all attempts: one percent more entries would save less than one percent of error. The sum of a product that
        is exact (an error of at most 1e-9, or 1e-5 in single precision) and has at most half of M's entries counts
        half.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> H = pp.transforms.hadamard(16).toarray()
    >>> rows, columns = np.random.default_rng(0).permuted([np.arange(16)] * 2, axis=1)
    >>> fit = pp.factorize(H[rows][:, columns])
    >>> fit.operator
    <SparseProduct 16×16 float64: 4 factors (16×16×16×16×16), 128 entries, relative complexity 0.5>
    >>> fit.method, fit.error < 1e-12
    ('butterfly', True)

    From products only, here with the inverse of a sparse matrix:

    >>> import scipy.sparse as sp
    >>> from scipy.sparse.linalg import LinearOperator, splu
    >>> A = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(1000, 1000))
    >>> solve = splu(A.tocsc()).solve
    >>> inverse = LinearOperator(A.shape, matvec=solve, matmat=solve, rmatvec=solve, rmatmat=solve, dtype=float)
    >>> fit = pp.factorize(inverse, max_error=1e-6)
    >>> fit.error <= 1e-6, fit.error_is_estimate, fit.n_products < 100, fit.operator.relative_complexity < 0.1
    (True, True, True, True)
    """
    if is_known_by_products(M):
        only_for_matrices = {"n_factors": n_factors, "complexity": complexity, "speedup": speedup, "block": block}
        for name, value in only_for_matrices.items():
            if value is not None:
                raise ValueError(f"{name} is for matrices: for a LinearOperator, give max_error")
        limit = DEFAULT_ERROR if max_error is None else as_real("max_error", max_error, 0.0)
        session = Session(
            callback,
            random_state=random_state,
            time_budget=time_budget,
            progress=as_flag("progress", progress),
            title="factorize",
        )
        return _factorize_operator(session, M, limit, method, coordinates)
    if coordinates is not None:
        raise ValueError("coordinates are for a LinearOperator: they cannot be combined with a matrix")
    matrix, unit = in_units(as_matrix("M", M))
    methods = METHODS if as_choice("method", method, ("auto", *METHODS)) == "auto" else (method,)
    if n_factors is not None:
        n_factors = as_factor_count("n_factors", n_factors)
        if method in ("low_rank", "sparse_plus_low_rank") and n_factors != 2:
            raise ValueError(f"n_factors must be 2 for {method}, got {n_factors}")
    given = {"complexity": complexity, "max_error": max_error, "speedup": speedup}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} cannot be combined: give one of them")
    structure = BY_ENTRIES if block is None else Structure((as_block(block, (min(matrix.shape),) * 2),))
    budget, vectors, progress = None, as_integer("vectors", vectors, 1), as_flag("progress", progress)
    if speedup is not None:
        speedup = as_speedup("speedup", speedup)
        budget = int(matrix.size / speedup)
    if complexity is not None:
        complexity = as_complexity("complexity", complexity, matrix.shape, n_factors)
        budget = int(complexity * matrix.size + 1e-9)
    if max_error is not None:
        max_error = as_real("max_error", max_error, 0.0)
    session = Session(
        callback, random_state=random_state, time_budget=time_budget, progress=progress, title="factorize"
    )
    target = Target(matrix.size, budget, max_error, matrix.dtype.char in "fF")
    has_target = budget is not None or max_error is not None or n_factors is not None
    is_tiny = least_entries(matrix.shape, 2) >= matrix.size  # no product could gain anything
    if speedup is not None:
        blocks = structure.blocks if block is not None or min(matrix.shape) < _BLOCK else (None, (_BLOCK, _BLOCK))
        structure = Structure(blocks, Pricing(matrix.shape, matrix.dtype, vectors))
    search = Search(session, matrix, target, n_factors, () if is_tiny and not has_target else methods, structure)
    fit = _searched(search, unit)
    if speedup is not None and search.best is None:
        warnings.warn(
            f"no product with an error below 1 is {speedup:g} times faster than the dense matrix on this machine: "
            "the result is the matrix itself",
            stacklevel=2,
        )
    else:
        warn_if_slower(fit)
    return fit


def _factorize_operator(
    session: Session, operator: LinearOperator, limit: float, method: str, coordinates: Any
) -> Factorization:
    """An operator from its products; one that has only a few rows or columns as a matrix."""
    as_choice("method", method, ("auto", "nested"))
    shape = operator.shape
    points = None if coordinates is None else as_coordinates("coordinates", coordinates, shape)
    products = Products(operator, session)
    if min(shape) > FEW or method != "auto":
        return factorize_products(session, products, limit, points)
    matrix, unit = in_units(products.whole())
    search = Search(session, matrix, Target(matrix.size, None, limit, matrix.dtype.char in "fF"))
    fit = replace(_searched(search, unit), n_products=products.count)
    warn_if_slower(fit)
    return fit


def _searched(search: Search, unit: int) -> Factorization:
    """The best product that a search finds, in the unit of the matrix."""
    session, budget = search.session, search.target.budget
    with session.interruptible():
        _explore(search)
        if search.structure.pricing is not None and budget is not None:
            _make_sure(search, budget)
        fit = search.best or search.itself()
        session.tick(f"{fit.method.replace('_', ' ')}: end", 1, 1)
    status = Status.STOPPED if session.stopped else fit.status
    operator = in_unit_of("M", fit.operator, unit)
    return replace(fit, operator=operator, status=status, attempts=tuple(search.attempts))


def _explore(search: Search) -> None:
    """All methods, from the cheapest to the most expensive."""
    explore_structure(search)
    if search.matrix.any() and not search.is_settled and not search.session.stopped:
        _approximate(search)


def _make_sure(search: Search, budget: int) -> None:
    """Time the best product once more; if it was mistaken for a faster one, search again for a smaller one.

    A product that is dropped may have been slow for a moment only. So it is timed at the end, too.
    """
    dropped: list[Factorization] = []
    for _ in range(_REPEATS):
        if search.best is None or search.session.stopped:
            break
        cost = search.price_again(search.best.operator)
        if cost <= budget:
            break
        search.target = search.target._replace(budget=int(budget * budget / cost))
        dropped.append(search.best)
        search.best = None
        _explore(search)
    for fit in sorted(dropped, key=error_of):
        if search.best is not None and fit.error >= search.best.error:
            break
        if search.price_again(fit.operator) <= budget:
            search.best = fit
            break


# -- PALM and annealing, for each target ---------------------------------------------------------------


def _approximate(search: Search) -> None:
    """The hierarchical strategy and sparse low rank, where they may win."""
    if search.target.budget is not None:
        best_candidate(search, search.target.budget)
    elif search.target.limit is not None:
        _halve(search, search.target.limit)
    else:
        _look_for_knee(search)


def _halve(search: Search, limit: float) -> None:
    """The fewest entries with an error of at most ``limit``, by halving the interval in which they lie."""
    shape, is_large = search.matrix.shape, min(search.matrix.shape) > _LARGE
    low = least_entries(shape, search.n_factors or 2)
    high = search.matrix.size if search.best is None else search.best.operator.nnz
    halvings = _FEW_HALVINGS if is_large else _HALVINGS
    for _ in range(halvings):
        budget = int(sqrt(low * high))
        if low >= high or search.session.stopped:
            break
        with search.session.part(1 / halvings):
            with search.session.part(0.2, "looking for fewer entries: "):
                error = _quick_error(search, int(0.8 * high)) if search.allows("hierarchical") else 0.0
            if error > (_PROMISING if is_large else _ANNEALED) * limit:
                break
            with search.session.part(0.8):
                fit = best_candidate(search, budget, effort=0.5)
        if fit is not None and fit.error <= limit:
            high = min(budget, fit.operator.nnz)
        else:
            low = budget + 1


def _look_for_knee(search: Search) -> None:
    """The lowest sum of error and complexity: quick fits with some numbers of entries, then the best of these."""
    size, least = search.matrix.size, least_entries(search.matrix.shape, search.n_factors or 2)
    if least >= size:
        if search.n_factors is not None:
            best_candidate(search, least)
        return
    if not search.allows("hierarchical"):
        if search.best is not None:
            best_candidate(search, search.best.operator.nnz)
        return
    knees = _FEW_KNEES if min(search.matrix.shape) > _LARGE else _KNEES
    budgets = sorted({max(int(knee * size), least) for knee in knees})
    quick_steps = 2 * _QUICK_STEPS * len(budgets)
    share = quick_steps / (quick_steps + sum(expected_steps(allowed_candidates(search, size // 2))))
    sums: dict[int, float] = {}
    with search.session.part(share, "looking for the knee: "):
        for budget in budgets:
            # No error could make up for more entries than this.
            if budget / size >= search.best_rank or search.session.stopped:
                break
            with search.session.part(1 / len(budgets)):
                sums[budget] = _quick_error(search, budget) + budget / size
    if not sums or min(sums.values()) > _PROMISING * search.best_rank:
        return
    with search.session.part(1 - share):
        best_candidate(search, min(sums, key=lambda budget: sums[budget]))


def _quick_error(search: Search, budget: int) -> float:
    """The error that a few iterations of the hierarchical strategy reach with ``budget`` entries."""
    shape = search.matrix.shape
    if not search.allows("hierarchical") or budget < least_entries(shape, search.n_factors or 2):
        return inf
    schedule = even_schedule(shape, search.n_factors or 2, budget, best_side(shape))
    steps = min(_QUICK_STEPS, *(option.phase_steps for option in allowed_candidates(search, budget)))
    limits = Limits(max_iter=steps, inertia=True)
    return factorize_by_splits(search.session, search.matrix, schedule, limits, polish=steps == _QUICK_STEPS).error
