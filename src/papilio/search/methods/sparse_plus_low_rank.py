"""Sums of a sparse matrix and one of low rank: M ≈ S + UV, as the product [S U]·[I; V] or [I U]·[S; V]."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...linalg import frobenius
from ...operators import SparseProduct
from ...typing import Array
from ..curves import Curve, largest, single, sizes_of, thresholding
from ..problems import Stored, leading_subspace
from ..search import Method, Search, two_factors
from ..targets import Target

NAME = "sparse_plus_low_rank"
_RANKS = (1, 2, 4, 8, 16, 32, 64)
_TYPICAL_RANK = 4
_QUICK, _LONG = 4, 60  # alternations for each rank, and for the best
_BEHIND = 1.5  # times the lowest error: with such a rank, the search for a better one ends
_FINE, _COARSE = 1.2, 1.6  # ratios of the numbers of entries that are tried
_STALLED = 1e-3  # the relative change of the error over an alternation at which it ends


class Sum(NamedTuple):
    """S, U, V and the relative error."""

    sparse: Array
    left: Array
    right: Array
    error: float


def _best_sums(problem: Stored, target: Target, budget: int) -> Curve | None:
    """The best sum with at most ``budget`` entries over several ranks; None if there is no room for one.

    S takes the largest entries of M − UV, and UV the leading singular vectors of M − S, in turns (Zhou and Tao's
    GoDec, 2011), for each rank; then the best one is improved. The curve leaves out the smallest entries of its S.
    """
    m, n = problem.shape
    best: Sum | None = None
    for rank in _RANKS:
        count = budget - min(m, n) - rank * (m + n)
        if count < 1 or rank >= min(m, n):
            break
        found = _started(problem, rank, count)
        if best is None or found.error < best.error:
            best = found
        elif found.error > _BEHIND * best.error:
            break  # higher ranks leave ever fewer entries
    if best is None:
        return None
    rank, count = best.left.shape[1], budget - min(m, n) - best.left.shape[1] * (m + n)
    best = _improved(problem, best, count)
    if problem.is_weighted or not best.sparse.any():
        detail = f"rank {rank}, {np.count_nonzero(best.sparse):,} entries"
        return single(NAME, detail, _as_product(best), best.error)
    fixed = min(m, n) + np.count_nonzero(best.left) + np.count_nonzero(best.right)
    curve = thresholding(
        best.sparse, target, lambda kept: _as_product(best._replace(sparse=kept)), fixed, NAME, f"rank {rank}, "
    )
    share = frobenius(best.sparse) / np.sqrt(problem.energy)
    return curve._replace(errors=np.hypot(best.error, share * curve.errors))


def sums(problem: Stored, target: Target, most: int) -> Iterator[Curve]:
    """The best sums with the budget of the target, or with ever fewer entries than ``most``."""
    if target.budget is not None:
        budgets = [target.budget]
    else:
        most, least = min(most, target.size // 2), 2 * min(problem.shape) + sum(problem.shape)
        ratio = _COARSE if target.limit is None else _FINE
        count = int(np.log(most / least) / np.log(ratio)) if most > least else 0
        budgets = [int(most / ratio**i) for i in range(count + 1)]
    for budget in budgets:
        curve = _best_sums(problem, target, budget)
        if curve is None:
            return
        yield curve
        if target.limit is not None and curve.errors.min() > target.limit:
            return


def least_sum(shape: tuple[int, int]) -> int:
    """The entries of the smallest sum that `random_sum` makes."""
    return min(shape) + _TYPICAL_RANK * sum(shape) + 1


def random_sum(matrix: Array, budget: int) -> SparseProduct:
    """A sum with ``budget`` entries at random places, which takes as long as another one."""
    (m, n), random = matrix.shape, np.random.default_rng(0)
    count = budget - least_sum(matrix.shape) + 1
    sparse = np.zeros(matrix.size, matrix.dtype)
    sparse[random.permutation(matrix.size)[:count]] = 1
    left, right = np.ones((m, _TYPICAL_RANK), matrix.dtype), np.ones((_TYPICAL_RANK, n), matrix.dtype)
    return _as_product(Sum(sparse.reshape(m, n), left, right, 0.0))


def _started(problem: Stored, rank: int, count: int) -> Sum:
    """A few alternations of singular vectors and largest entries, from nothing."""
    basis = np.random.default_rng(rank).standard_normal((problem.shape[1], rank)).astype(problem.dtype)
    found = _next(problem, np.zeros_like(problem.matrix), basis, 3, count)
    for _ in range(_QUICK - 1):
        found = _next(problem, found.sparse, problem.turned(found.right).conj().T, 1, count)
    return found


def _next(problem: Stored, sparse: Array, basis: Array, n_iter: int, count: int) -> Sum:
    """Singular vectors of M − S, in the norm of the errors, and the largest entries of what they leave."""
    problem.session.check()
    left, right = leading_subspace(problem.turned(problem.matrix - sparse), basis, n_iter)
    return _with_largest(problem, left, problem.turned_back(right), count)


def _improved(problem: Stored, found: Sum, count: int) -> Sum:
    """Least squares for V, for U, and the largest entries, in turns: each lowers the error as far as it can.

    The entries of S are free, so that U and V fit all others. Singular vectors of M − S would also fit those of
    the last UV in the places of S, and move slowly. They are taken where outputs count, which mix the entries:
    the values of S are fitted to all of them.
    """
    matrix = problem.matrix
    for _ in range(_LONG):
        problem.session.check()
        last = found
        if problem.is_weighted:
            found = _fitted(problem, _next(problem, last.sparse, problem.turned(last.right).conj().T, 1, count))
        else:
            free = (found.sparse == 0).astype(matrix.real.dtype)
            right = _least_squares(found.left, matrix, free)
            left = _least_squares(right.T, matrix.T, free.T).T
            found = _with_largest(problem, left, right, count)
        if last.error - found.error <= _STALLED * last.error:
            break
    return min(last, found, key=lambda each: each.error)


def _least_squares(left: Array, matrix: Array, weights: Array) -> Array:
    """The columns v_j that minimise Σ_i w_ij |M_ij − (Uv_j)_i|²."""
    m, rank = left.shape
    pairs = (left.conj()[:, :, None] * left[:, None, :]).reshape(m, rank * rank)
    grams = (weights.T @ pairs).reshape(-1, rank, rank)
    # A trace of the identity: U may have dependent columns, and a column of M no entries left.
    trace = np.trace(grams, axis1=1, axis2=2).real.max() or 1.0
    grams += max(1e-12, 10 * float(np.finfo(left.dtype).eps)) * trace * np.eye(rank, dtype=left.dtype)
    sides = left.conj().T @ (weights * matrix)
    return np.linalg.solve(grams, sides.T[:, :, None])[:, :, 0].T.astype(matrix.dtype)


def _with_largest(problem: Stored, left: Array, right: Array, count: int) -> Sum:
    """The sum of UV and the largest entries of M − UV."""
    rest = problem.matrix - left @ right
    return _of_parts(problem, largest(rest, sizes_of(rest, problem.weights), count), left, right)


def _fitted(problem: Stored, found: Sum) -> Sum:
    """The same sum with the values of S that are best for the errors."""
    _, left, right, _ = found
    kept = problem.fitted(problem.matrix - left @ right, sp.csr_array(found.sparse))
    return _of_parts(problem, kept.toarray(), left, right)


def _of_parts(problem: Stored, sparse: Array, left: Array, right: Array) -> Sum:
    missed = problem.turned(problem.matrix - left @ right - sparse)
    return Sum(sparse, left, right, frobenius(missed) / np.sqrt(problem.energy))


def _as_product(parts: Sum) -> SparseProduct:
    sparse, left, right, _ = parts
    m, n = sparse.shape
    eye = sp.eye_array(min(m, n), dtype=sparse.dtype)
    first, second = (sp.csr_array(sparse), eye) if n <= m else (eye, sp.csr_array(sparse))
    return SparseProduct([sp.hstack([first, left]), sp.vstack([second, right])])


def _curves(search: Search) -> Iterator[Curve]:
    """With no more entries than the best product so far has, or than any error could make up for."""
    matrix, target, pricing = search.problem.matrix, search.target, search.target.pricing
    most = search.best_rank if target.limit is not None else search.best_rank * matrix.size
    if pricing is not None and target.budget is not None:
        least = least_sum(matrix.shape)
        entries = None
        if least < matrix.size:
            entries = pricing.most_entries(partial(random_sum, matrix), least, matrix.size, target.budget)
        if entries is None:
            return
        target = target._replace(budget=entries)
    yield from sums(search.problem, target, int(min(most, matrix.size)))


METHOD = Method(
    NAME,
    "a sum of both, as one product",
    _curves,
    lambda search: not (search.problem.is_zero or search.is_exact or search.is_won),
    share=4.0,
    is_weighted=True,
    n_factors=two_factors,
    sweep=lambda search, budgets: lambda place: _curves(search),
)
