"""The front door: a matrix and one wish."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..constraints import Constraint, Sparse, SparseColumns, SparseRows
from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Factorization, History, Status, Step
from ..validation import Array, as_choice, as_integer, as_matrix, as_real
from .hierarchical import hierarchical
from .schedule import Schedule

METHODS = ("auto", "hierarchical")
_DEFAULT_COMPLEXITY = 0.5
_LADDER = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# How much denser the last factor is than the others. A rule of thumb: read off the best of a few numbers of
# entries per row, on one Gaussian, orthogonal, DCT, sparse-product, kernel and tall matrix each; not tuned.
_LAST_DENSITY = 3


def factorize(
    M: Any,
    *,
    n_factors: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    method: str = "auto",
    random_state: Any = None,
) -> Factorization:
    """Approximate a matrix by a product of sparse factors, with at most one wish to state.

    Parameters
    ----------
    M : (m, n) matrix
    n_factors : int, optional
        The number of factors. By default two, which did best on Gaussian and orthogonal matrices (smooth kernels
        and the DCT gain from three or more), or log₂n where M has the structure of the Hadamard matrix.
    complexity : float, optional
        The largest relative complexity: entries of all factors over m·n, above 0 and at most 1. By default 0.5,
        more for small matrices where one entry a line, or the Hadamard structure, takes more.
    max_error : float, optional
        Take the smallest complexity, of some ten that are tried, whose relative error is not above this; if none
        reaches it, M itself is returned as one factor. Excludes ``complexity``.
    method : {"auto", "hierarchical"}
        How to factorize; so far the hierarchical strategy is the only one.
    random_state : optional
        Accepted for methods that draw random numbers; the hierarchical strategy draws none.

    Returns
    -------
    Factorization

    Examples
    --------
    >>> import papilio as pp
    >>> pp.factorize(pp.transforms.hadamard(16).toarray()).operator
    <SparseProduct 16×16 float64: 4 factors (16×16×16×16×16), 128 entries, relative complexity 0.5>
    """
    given = as_matrix("M", M)
    # The solvers start at scale 1: in units of the root mean square, the result does not depend on M's own unit.
    rms = frobenius(given) / np.sqrt(given.size)
    unit = 2.0 ** round(np.log2(rms)) if rms > 0 else 1.0
    matrix = given / given.real.dtype.type(unit)
    as_choice("method", method, METHODS)
    if n_factors is not None:
        n_factors = as_integer("n_factors", n_factors, 2)
    if complexity is not None:
        complexity = _as_complexity(complexity, matrix.shape, n_factors or 2)
    if max_error is None:
        return _in_units(_within(matrix, n_factors, complexity), unit)
    if complexity is not None:
        raise ValueError("complexity and max_error exclude each other: give one of them")
    limit = as_real("max_error", max_error, 0.0)
    smallest = _least_entries(matrix.shape, n_factors or 2) / matrix.size
    result = _like_hadamard(matrix, n_factors, None) if matrix.any() else None
    if result is not None:
        return _in_units(result, unit)
    for step in _LADDER:
        if step >= smallest:
            result = _approximate(matrix, n_factors, step)
            if result.error <= limit:
                return _in_units(result, unit)
    return _in_units(_unfactorized(matrix), unit)


def _in_units(result: Factorization, unit: float) -> Factorization:
    return replace(result, operator=result.operator * unit)


def _within(matrix: Array, n_factors: int | None, complexity: float | None) -> Factorization:
    """The best factorization within a complexity."""
    exact = _like_hadamard(matrix, n_factors, complexity) if matrix.any() else None
    return _approximate(matrix, n_factors, complexity) if exact is None else exact


def _approximate(matrix: Array, n_factors: int | None, complexity: float | None) -> Factorization:
    """The hierarchy with sets that hold as many entries as the complexity allows."""
    least = _least_entries(matrix.shape, n_factors or 2)
    if not matrix.any() or (n_factors is None and least >= matrix.size):
        return _unfactorized(matrix)  # nothing to fit, or too small for any product to save entries
    budget = int((complexity or _DEFAULT_COMPLEXITY) * matrix.size + 1e-9)
    return hierarchical(matrix, _schedule(matrix.shape, n_factors or 2, max(budget, least)), inertia=True)


def _like_hadamard(matrix: Array, n_factors: int | None, complexity: float | None) -> Factorization | None:
    """The factorization into log₂n factors with two entries a line, if the matrix has one that is found."""
    n = matrix.shape[0]
    levels = n.bit_length() - 1
    if matrix.shape != (n, n) or n != 1 << levels or levels < 2 or n_factors not in (None, levels):
        return None
    if complexity is not None and 2 * levels > complexity * n:
        return None

    def hopeless(step: Step) -> bool:
        return step.phase == "global 1" and step.error > 1e-3

    result = hierarchical(matrix, Schedule.hadamard(n), max_iter=30, callback=hopeless)
    return result if result.status is not Status.STOPPED and result.error < 1e-6 else None


def _schedule(shape: tuple[int, int], n_factors: int, budget: int) -> Schedule:
    """Sets with ``budget`` entries in all: one factor of the matrix's shape, the others square.

    With a density of k/short in all factors but the last, and `_LAST_DENSITY` times that in the last,

        k·long + (n_factors − 2)·k·short + _LAST_DENSITY·k·short = budget;

    what rounding k down leaves goes to the last factor, and what does not fit there back to the others.
    """
    long, short = max(shape), min(shape)
    line = long + (n_factors - 2) * short  # entries of all factors but the last, per unit of k
    k = max(budget // (line + _LAST_DENSITY * short), (budget - short * short) // line, 1)
    k = min(k, short)
    last = min(budget - k * line, short * short)
    wide = shape[0] < shape[1]
    outer: Constraint = SparseColumns(shape, k) if wide else SparseRows(shape, k)
    if long == short:
        outer = Sparse(shape, k * short)
    full = short * short
    residuals = [max(int(full * (last / full) ** (j / (n_factors - 1))), last) for j in range(1, n_factors)]
    return Schedule(
        [outer] + [Sparse(short, k * short)] * (n_factors - 2),
        [Sparse(short, entries) for entries in residuals],
        side="right" if wide else "left",
    )


def _least_entries(shape: tuple[int, int], n_factors: int) -> int:
    """One entry a line in each factor: with fewer, rows or columns would vanish."""
    return max(shape) + (n_factors - 1) * min(shape)


def _as_complexity(value: Any, shape: tuple[int, int], n_factors: int) -> float:
    complexity = as_real("complexity", value, 0.0, 1.0)
    least = min(_least_entries(shape, n_factors), shape[0] * shape[1])
    if complexity * shape[0] * shape[1] < least:
        raise ValueError(
            f"complexity must be at least {least / (shape[0] * shape[1]):.3g}, one entry a line in {n_factors} "
            f"factors of a {shape[0]}×{shape[1]} matrix, and at most 1, got {complexity:g}"
        )
    return complexity


def _unfactorized(matrix: Array) -> Factorization:
    return Factorization(SparseProduct([matrix]), 0.0, 0, Status.CONVERGED, History())
