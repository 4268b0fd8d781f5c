"""`factorize`: a matrix as a product of sparse factors, with at most one target for the product."""

import warnings
from dataclasses import replace
from math import prod
from typing import Any

import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..constraints.sparsity import as_block
from ..linalg import in_units
from ..operators.cost import BLOCK
from ..operators.factors import as_csr
from ..results import Callback, Factorization, Status, warn_if_slower
from ..runtime.session import Session
from ..typing import Array, ArrayLike, MatrixLike, RandomState
from ..validation import as_choice, as_factor_count, as_flag, as_integer, as_matrix, as_real, as_shape
from .curves import relative_error
from .implicit import EntriesFunction, Products, is_function, known_by_products
from .matrix_free import factorize_entries, factorize_operator
from .methods import METHODS, NAMES
from .methods.thresholding import itself
from .nested.cluster_trees import as_coordinates, in_one_space
from .pricing import Pricing
from .problems import in_unit_of
from .search import Search
from .targets import Target, as_complexity, as_speedup, least_entries
from .weighted import Inputs, stored

_BLOCK = 4  # rows and columns of blocks where a speed-up is the target
_FEW, _SMALL = 96, 1 << 22  # rows or columns, and entries, up to which an operator is read as a whole
_LARGE, _SPARSEST = 1 << 25, 0.01  # entries, and the share that is not zero, of what is never filled in
_OPERATOR_ERROR = 1e-3  # the largest of a LinearOperator, by default


def factorize(
    M: MatrixLike | EntriesFunction | LinearOperator,
    *,
    shape: tuple[int, int] | None = None,
    inputs: Inputs | None = None,
    n_factors: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    speedup: float | None = None,
    vectors: int = BLOCK,
    block: int | tuple[int, int] | None = None,
    coordinates: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    method: str = "auto",
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
    random_state: RandomState = 0,
) -> Factorization:
    """Approximate a matrix by a product of sparse factors, with at most one target: complexity, error or speed.

    Without a target, the result has the lowest sum of error and relative complexity that was found, where the sum
    of a product with at most half of M's entries counts half if it is exact, or a butterfly that misses no more
    than white noise in M explains. M itself has the sum 1.

    Methods run from the cheapest to the most expensive; the guide describes each. By the target, the
    product is never worse than thresholding and low rank, where ``n_factors`` and ``method`` allow these.

    Parameters
    ----------
    M : (m, n) matrix, callable or LinearOperator
        Real or complex, dense or sparse. A callable ``entries(rows, columns)`` takes two arrays of indices and
        returns the block ``M[np.ix_(rows, columns)]``; O(n log n) entries are evaluated. Of a SciPy
        ``LinearOperator``, at most 1,000 products with random vectors are taken, with it and with its adjoint; one
        of at most 96 rows or columns and 4 million entries is read as a whole.
    shape : (int, int), optional
        The shape of M, for a callable.
    inputs : (n, N) array, path, Samples or Moments, optional
        What M is applied to: the error is then ‖(M − M̂)X‖/‖MX‖, that of the outputs. An array has one sample per
        column: in memory, dense or sparse, memory-mapped, or a Dask array. A path (a .npy file, or a folder of
        them) and the result of `papilio.datasets.on_disk` have one per row, as everywhere. Of `Moments`, such as
        ``Moments.of(M @ X, X)``, only the ``gram`` XXᴴ counts. Samples need not be many: their second moments are
        shrunk towards white inputs, for which the error is that of M itself, by as much as their number demands.
    n_factors : int, optional
        The number of factors, at least 2. By default the number that gives the best result.
    complexity : float, optional
        Target: the largest relative complexity, entries of all factors over m·n, above 0 and at most 1. The result
        has the lowest error that was found within it.
    max_error : float, optional
        Target: the largest relative error. The result has the fewest entries that were found to reach it. The only
        target of a LinearOperator, by default 1e-3. A callable without a target has 1e-6, or 1e-4 in single
        precision.
    speedup : float, optional
        Target: how many times faster than the dense matrix the product should be on this machine, above 1. The
        result has the lowest error that was found for products as fast as that. Each product that may be returned
        is timed, so results depend on the machine and its load; with other targets they do not.
    vectors : int, default=256
        How many vectors are applied at a time, where ``speedup`` is given: 1 for ``op @ x``, else the columns of a
        block.
    block : int or (int, int), optional
        Rows and columns of the blocks that the hierarchical strategy makes its factors of, such as 4 or (4, 4).
        Blocks run two to three times faster per entry than single entries, with higher errors at equal numbers of
        entries. By default single entries, and both with ``speedup``.
    coordinates : pair of arrays, optional
        For nested low rank, where the rows and columns lie: arrays of shape (m, d) and (n, d), or (m,) and (n,).
        None clusters lines in their given order. By default clusters are found. A callable or an
        operator needs both, in one space.
    method : str, default="auto"
        The only method to try; "auto" tries all of {methods}.
        For a callable, "butterfly" or "nested"; for a LinearOperator, "nested".
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
        ``method`` is the method that found it; ``attempts`` lists all that was tried. ``status`` is "converged" if
        the target was met; "stopped" if the time budget, the callback or Ctrl-C ended the search (a second Ctrl-C
        raises KeyboardInterrupt); and "no_structure" if no product with fewer entries than M meets the target.
        Then M itself is returned, within ``complexity`` its largest entries, beside identities if ``n_factors`` is
        given.

        With ``inputs``, ``error`` is that of the outputs, by the shrunk second moments, ``error_of`` is "outputs",
        and ``matrix_error`` is that of M.

        For a callable or a LinearOperator, ``error`` is an estimate, on 50 rows drawn at random or on 16 fresh
        random vectors, and ``error_is_estimate`` says so; ``n_products`` counts the products. "stopped" and
        "no_structure" then come with the product of the lowest error, or with zeros if no error is below 1.

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

    From entries, here of a non-uniform Fourier transform:

    >>> times = np.sort(np.random.default_rng(0).random(2048))
    >>> def entries(rows, columns):
    ...     return np.exp(-2j * np.pi * np.outer(times[rows], columns))
    >>> fit = pp.factorize(entries, shape=(2048, 2048), max_error=1e-4)
    >>> fit.method, fit.error <= 1e-4, fit.error_is_estimate, fit.operator.relative_complexity < 0.15
    ('butterfly', True, True, True)

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
    _require_at_most_one(complexity=complexity, max_error=max_error, speedup=speedup)
    session = Session(
        callback,
        random_state=random_state,
        time_budget=time_budget,
        progress=as_flag("progress", progress),
        title="factorize",
    )
    if is_function(M):
        _refuse(
            "a callable, give max_error or complexity",
            inputs=inputs,
            n_factors=n_factors,
            speedup=speedup,
            block=block,
        )
        return factorize_entries(session, M, shape, complexity, max_error, method, coordinates)
    operator, n_products = known_by_products(M), 0
    if operator is not None:
        _refuse(
            "a LinearOperator, give max_error",
            inputs=inputs,
            n_factors=n_factors,
            complexity=complexity,
            speedup=speedup,
            block=block,
        )
        if shape is not None and as_shape("shape", shape) != operator.shape:
            raise ValueError(f"M must have shape {as_shape('shape', shape)}, got {operator.shape}")
        if max_error is None:
            max_error = _OPERATOR_ERROR
        is_few = min(operator.shape) <= _FEW and operator.shape[0] * operator.shape[1] <= _SMALL
        if method != "auto" or not is_few:
            return factorize_operator(session, operator, max_error, method, coordinates)
        as_real("max_error", max_error, 0.0)
        in_one_space("coordinates", as_coordinates("coordinates", coordinates, operator.shape))
        products = Products(operator, session)
        M, n_products, coordinates = products.whole(), products.count, None
    as_choice("method", method, ("auto", *NAMES))
    matrix, unit = _in_memory(
        M, None if shape is None else as_shape("shape", shape), method if inputs is None else ""
    )
    methods = [each for each in METHODS if method in ("auto", each.name)]
    if n_factors is not None:
        n_factors = as_factor_count("n_factors", n_factors)
        if n_factors > 2 and not any(map(methods[0].n_factors, range(3, n_factors + 1))):
            raise ValueError(f"n_factors must be 2 for {method}, got {n_factors}")
    points = as_coordinates("coordinates", coordinates, matrix.shape)
    target = _target_of(matrix, n_factors, complexity, max_error, speedup, vectors, block)
    is_open = target.budget is None and target.limit is None and n_factors is None
    is_tiny = least_entries(matrix.shape, 2) >= target.size  # No product could have fewer entries.
    search = Search(stored(session, matrix, points, inputs), target, () if is_tiny and is_open else methods)
    with session.interruptible():
        search.run()
        fit = search.best or itself(search.problem, search.target)
        session.tick(f"{fit.method.replace('_', ' ')}: end", 1, 1)
    if inputs is not None:
        fit = replace(fit, error_of="outputs", matrix_error=relative_error(matrix, fit.operator))
    status = Status.STOPPED if session.stopped else fit.status
    operator = in_unit_of("M", fit.operator, unit)
    fit = replace(fit, operator=operator, status=status, attempts=tuple(search.attempts), n_products=n_products)
    if speedup is not None and search.best is None:
        warnings.warn(
            f"no product with an error below 1 is {speedup:g} times faster than the dense matrix on this machine: "
            "the result is the matrix itself",
            stacklevel=2,
        )
    else:
        warn_if_slower(fit)
    return fit


if factorize.__doc__:
    factorize.__doc__ = factorize.__doc__.replace("{methods}", ", ".join(f'"{name}"' for name in NAMES))


def _in_memory(M: Any, shape: tuple[int, int] | None, method: str) -> tuple[Any, int]:
    """The matrix in units, and its unit; a large sparse one is filled in where a method, or inputs, need it."""
    takes_sparse = method == "auto" or any(each.takes_sparse for each in METHODS if each.name == method)
    if not sp.issparse(M) or prod(M.shape) < _LARGE or M.nnz > _SPARSEST * prod(M.shape) or not takes_sparse:
        return in_units(as_matrix("M", M, shape))
    matrix = as_csr("M", M)
    if shape not in (None, matrix.shape):
        raise ValueError(f"M must have shape {shape}, got {matrix.shape}")
    matrix.data, unit = in_units(matrix.data)
    return matrix, unit


def _target_of(
    matrix: Array | sp.csr_array,
    n_factors: int | None,
    complexity: float | None,
    max_error: float | None,
    speedup: float | None,
    vectors: int,
    block: int | tuple[int, int] | None,
) -> Target:
    """What is looked for, after checks."""
    shape, size, vectors = matrix.shape, prod(matrix.shape), as_integer("vectors", vectors, 1)
    blocks: tuple[tuple[int, int] | None, ...] = (None,)
    if block is not None:
        blocks = (as_block(block, (min(shape),) * 2),)
    budget = pricing = None
    if speedup is not None:
        budget = int(size / as_speedup("speedup", speedup))
        pricing = Pricing(shape, vectors)
        blocks = blocks if block is not None or min(shape) < _BLOCK else (None, (_BLOCK, _BLOCK))
    if complexity is not None:
        budget = int(as_complexity("complexity", complexity, shape, n_factors) * size + 1e-9)
    limit = None if max_error is None else as_real("max_error", max_error, 0.0)
    return Target(size, budget, limit, matrix.dtype.char in "fF", n_factors, blocks, pricing)


def _require_at_most_one(**targets: Any) -> None:
    names = [name for name, value in targets.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} cannot be combined: give one of them")


def _refuse(instead: str, **options: Any) -> None:
    """Refuse options that only matrices take; ``instead`` says for what, and what it takes."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is for matrices: for {instead}")
