"""`factorize`: a matrix as a product of sparse factors, with at most one target for the product."""

import warnings
from collections.abc import Sequence
from typing import Any

from scipy.sparse.linalg import LinearOperator

from ..constraints.blocks import as_block
from ..linalg import in_units
from ..operators.cost import BLOCK
from ..results import Callback, Factorization, warn_if_slower
from ..runtime.session import Session
from ..typing import ArrayLike, MatrixLike, RandomState
from ..validation import as_choice, as_factor_count, as_flag, as_integer, as_matrix, as_real, as_shape
from .attempts import BY_ENTRIES, METHODS, OF_TWO_FACTORS, Search, Structure
from .nested.coordinates import as_coordinates
from .pricing import Pricing
from .stored import searched
from .targets import Target, as_complexity, as_speedup, least_entries
from .unstored.from_entries import factorize_entries
from .unstored.from_products import factorize_operator
from .unstored.products import known_by_products
from .unstored.sampled import EntriesFunction, is_function

_BLOCK = 4  # rows and columns of blocks where a speed-up is the target


def factorize(
    M: MatrixLike | EntriesFunction | LinearOperator,
    *,
    shape: tuple[int, int] | None = None,
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

    Methods are tried from the cheapest to the most expensive, and the best product by the target is returned:

    - thresholding: the largest entries of M;
    - low rank: the leading singular vectors, in each block if M is block-diagonal up to the order of its lines;
    - subspaces: low rank in clusters of the columns of a wide matrix, or of the rows of a tall one;
    - convolution: circulant, Toeplitz and Hankel matrices, also of two levels, by fast transforms;
    - Kronecker products of small matrices, and short sums of them;
    - transforms: cosine and Haar transforms with permuted and scaled lines, and matrices that are nearly sparse in
      the domain of a fast transform;
    - layers: small sparse matrices that are products of sparser ones, from columns that are proportional in part;
    - rotations of two coordinates at a time, in layers, for matrices that are orthogonal or nearly so: up to a
      ‖MMᴴ − cI‖ of 0.3 ‖cI‖;
    - butterfly factors under unknown permutations;
    - nested low rank, for kernels, integral operators and covariances: lines are clustered, blocks of neighbouring
      clusters are kept, and all others share orthonormal bases, level by level;
    - sums of a sparse matrix and one of low rank;
    - the hierarchical strategy, from either side, with two and three factors, and sparse factors of low rank; they
      end with annealing, which loosens and tightens the sets of the factors to escape from local minima.

    By the target, the product is never worse than thresholding and low rank, where ``n_factors`` and ``method``
    allow these. Methods that cannot win, or whose first steps are far behind, are not continued.

    A matrix that is too large to store may be given by a function that returns its blocks. Of it, O(n log n)
    entries are looked at, and the product takes as much memory. Two methods are made for such matrices:

    - butterflies of rank r, for matrices whose blocks have a low rank if they are narrow enough or flat enough:
      kernels that oscillate, Fourier integral operators, non-uniform Fourier transforms;
    - nested low rank, for kernels that are smooth away from the diagonal.

    Both rely on neighbouring rows, and columns, being similar: in the order that is given, or by ``coordinates``.

    Of a SciPy ``LinearOperator``, only products with random vectors are taken, with it and with its adjoint: the
    inverse of a sparse matrix, a covariance, a Schur complement. Nested low rank is found from them. Lines are
    clustered in their order, or by what their products have in common if M is square and that is better, or by
    ``coordinates``. The number of products, at most 1,000 in all, grows until the error is small enough, or
    nothing is gained any longer; if the operator is self-adjoint or symmetric, its adjoint is used only once.
    First of all, the adjoint is checked.

    Parameters
    ----------
    M : (m, n) matrix, callable or LinearOperator
        Real or complex, dense or sparse. A callable ``entries(rows, columns)`` takes two arrays of indices and
        returns the block ``M[np.ix_(rows, columns)]``; it is called often, so its entries should be computed all
        at once. An operator of at most 96 rows or columns is read as a whole, and treated as a matrix. What a
        callable or an operator raises comes through, with a note.
    shape : (int, int), optional
        The shape of M, for a callable. A matrix has one, with which this must agree if it is given.
    n_factors : int, optional
        The number of factors, at least 2. By default the number that gives the best result.
    complexity : float, optional
        The largest relative complexity: entries of all factors over m·n, above 0 and at most 1. The result has the
        lowest error that was found within it.
    max_error : float, optional
        The largest relative error. The result has the fewest entries that were found to reach it. For a callable,
        the default is 1e-6, and 1e-4 in single precision, if ``complexity`` is not given either. For a
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
    coordinates : pair of arrays, optional
        For nested low rank, where the rows and columns lie: arrays of shape (m, d) and (n, d), or (m,) and (n,).
        None stands for lines that are clustered as they stand. By default clusters are runs of lines, or are found
        from the entries of M, whichever is better. A callable or an operator needs both, in one space.
    method : str, default="auto"
        The only method to try: "thresholding", "low_rank", "subspaces", "transform", "convolution", "kronecker",
        "layers", "rotations", "butterfly", "nested", "sparse_plus_low_rank" or "hierarchical"; "auto" tries all.
        For a callable, "butterfly" or "nested"; "auto" takes the one that needs fewer entries, judging by some
        blocks, and the other one if it fails. For a LinearOperator, "nested" or "auto".
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

        For a callable, ``error`` is an estimate, on 50 rows drawn at random, and ``error_is_estimate`` says so.
        Stopped early, the result is the best product so far; the first one has rank 16 and comes from a few rows
        and columns, so that its error may be near 1. A status of "no_structure" says that no product with fewer
        entries than M met the target: the result is then the one of the lowest error, or a small M itself.

        For a LinearOperator, ``error`` is an estimate on 16 random vectors that were not used otherwise;
        ``n_products`` counts the products, those with the adjoint included. "no_structure" then comes with the
        product of the lowest error that was found, or with zeros if all errors are above 1. So does "stopped", if
        there was no time for a product.

        Without ``complexity`` and ``max_error``, the result of a matrix has the lowest sum of error and relative
        complexity of all attempts: one percent more entries would save less than one percent of error. The sum of
        a product that is exact (an error of at most 1e-9, or 1e-5 in single precision) and has at most half of M's
        entries counts half.

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
        _refuse("a callable, give max_error or complexity", n_factors=n_factors, speedup=speedup, block=block)
        return factorize_entries(session, M, shape, complexity, max_error, method, coordinates)
    operator = known_by_products(M)
    if operator is not None:
        _refuse(
            "a LinearOperator, give max_error",
            n_factors=n_factors,
            complexity=complexity,
            speedup=speedup,
            block=block,
        )
        if shape is not None and as_shape("shape", shape) != operator.shape:
            raise ValueError(f"M must have shape {as_shape('shape', shape)}, got {operator.shape}")
        return factorize_operator(session, operator, max_error, method, coordinates)
    matrix, unit = in_units(as_matrix("M", M, None if shape is None else as_shape("shape", shape)))
    methods = METHODS if as_choice("method", method, ("auto", *METHODS)) == "auto" else (method,)
    if n_factors is not None:
        n_factors = as_factor_count("n_factors", n_factors)
        if method in OF_TWO_FACTORS and n_factors != 2:
            raise ValueError(f"n_factors must be 2 for {method}, got {n_factors}")
    points = as_coordinates("coordinates", coordinates, matrix.shape)
    structure = BY_ENTRIES if block is None else Structure((as_block(block, (min(matrix.shape),) * 2),))
    budget, vectors = None, as_integer("vectors", vectors, 1)
    if speedup is not None:
        speedup = as_speedup("speedup", speedup)
        budget = int(matrix.size / speedup)
    if complexity is not None:
        complexity = as_complexity("complexity", complexity, matrix.shape, n_factors)
        budget = int(complexity * matrix.size + 1e-9)
    if max_error is not None:
        max_error = as_real("max_error", max_error, 0.0)
    target = Target(matrix.size, budget, max_error, matrix.dtype.char in "fF")
    has_target = budget is not None or max_error is not None or n_factors is not None
    is_tiny = least_entries(matrix.shape, 2) >= matrix.size  # no product could gain anything
    if speedup is not None:
        blocks = structure.blocks if block is not None or min(matrix.shape) < _BLOCK else (None, (_BLOCK, _BLOCK))
        structure = Structure(blocks, Pricing(matrix.shape, matrix.dtype, vectors))
    allowed: Sequence[str] = () if is_tiny and not has_target else methods
    search = Search(session, matrix, target, n_factors, allowed, structure, points)
    fit = searched(search, unit)
    if speedup is not None and search.best is None:
        warnings.warn(
            f"no product with an error below 1 is {speedup:g} times faster than the dense matrix on this machine: "
            "the result is the matrix itself",
            stacklevel=2,
        )
    else:
        warn_if_slower(fit)
    return fit


def _require_at_most_one(**targets: Any) -> None:
    names = [name for name, value in targets.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} cannot be combined: give one of them")


def _refuse(instead: str, **options: Any) -> None:
    """Refuse options that only matrices take; ``instead`` says for what, and what it takes."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is for matrices: for {instead}")
