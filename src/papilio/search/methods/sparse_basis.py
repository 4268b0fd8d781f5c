"""A dense factor times a sparse one: sparse vectors in the row space of a matrix.

If M = DS with D of full column rank, the rows of S are a basis of the row space of M, and the sparsest one if S
is sparse enough (Spielman, Wang and Wright 2012). With V an orthonormal basis of that space, a sparse vector aᴴV
is found by reweighted least squares among those that are 1 at one column. Starting from many columns, all rows
of S are found.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from ...operators import SparseProduct
from ...runtime.session import Session
from ...typing import Array
from ..curves import Curve, exact_error, relative_error, single
from ..search import Method, Search, two_factors

NAME = "sparse_basis"
_WORK = 4e10  # multiplications at most
_PROBES = 6  # columns to start from, of which one must find a sparse vector
_STEPS = 30  # Steps of reweighting.
_LEAST_WEIGHT = 1e-7  # Relative to the root mean square; keeps squares away from zero in the last step.
_SPARSE = 0.7  # times the entries of vectors that vanish at as many columns as any basis can make zero


def sparse_basis(session: Session, matrix: Array) -> Iterator[Curve]:
    """M = DS with sparse S, and from the other side with sparse D; exact products only."""
    for is_mirrored in (False, True):
        M = matrix.T if is_mirrored else matrix
        if min(M.shape) ** 2 * M.shape[1] ** 2 * _STEPS > _WORK or min(M.shape) < 2:
            continue
        basis = _row_space(M)
        if 2 * len(basis) > M.shape[1]:
            continue
        rows = _sparse_rows(session, basis)
        if rows is None:
            continue
        left = np.linalg.lstsq(rows.T, M.T, rcond=None)[0].T
        factors = [_clean(left), _clean(rows)]
        if is_mirrored:
            factors = [factor.T for factor in reversed(factors)]
        operator = SparseProduct([sp.csr_array(factor) for factor in factors]).astype(matrix.dtype)
        error = relative_error(matrix, operator)
        if error <= exact_error(matrix.dtype):
            name = "dense × sparse" if not is_mirrored else "sparse × dense"
            yield single(NAME, f"{name}, {len(rows)} inside", operator, error)


def _row_space(M: Array) -> Array:
    """An orthonormal basis as rows, in double precision."""
    wide = M.astype(np.complex128 if M.dtype.kind == "c" else np.float64)
    _, values, V = np.linalg.svd(wide, full_matrices=False)
    return V[values > exact_error(M.dtype) * values[0]] if values.any() else V[:0]


def _sparse_rows(session: Session, V: Array) -> Array | None:
    """A sparse basis of the space that the rows of V span; None if its vectors are not sparse."""
    rank = len(V)
    sizes = np.linalg.norm(V, axis=0)
    used = np.flatnonzero(sizes > 1e-9 * sizes.max(initial=0.0))
    most = _SPARSE * (used.size - rank + 1)
    found: list[tuple[int, Array]] = []
    for i, start in enumerate(np.random.default_rng(0).permutation(used)):
        session.check()
        row = _sparse_vector(V, V[:, start] / sizes[start])
        count = int(np.count_nonzero(row))
        if count <= most:
            found.append((count, row))
        if i + 1 == _PROBES and not found:
            return None
    return _independent([row for _, row in sorted(found, key=lambda each: each[0])], rank)


def _sparse_vector(V: Array, at: Array) -> Array:
    """The vector aᴴV with aᴴat = 1 whose logarithmic size is small, by reweighted least squares."""
    weights, floor = np.ones(V.shape[1]), 1.0
    vector = np.zeros(V.shape[1], V.dtype)
    for _ in range(_STEPS):
        gram = (V * weights) @ V.conj().T
        ridge = 1e-14 * float(np.trace(gram).real) / len(gram)
        solved = np.linalg.solve(gram + ridge * np.eye(len(gram)), at)
        vector = (solved / np.vdot(at, solved)).conj() @ V
        squares = np.abs(vector) ** 2
        floor = max(0.5 * floor, _LEAST_WEIGHT)
        weights = 1 / (squares / squares.mean() + floor**2)
        weights /= weights.max()
    return _clean(vector / np.abs(vector).max())


def _clean(values: Array) -> Array:
    """Zeros in place of rounding errors."""
    sizes = np.abs(values)
    return np.where(sizes > 1e-9 * sizes.max(initial=0.0), values, 0)


def _independent(rows: list[Array], rank: int) -> Array | None:
    """The first ``rank`` rows that are linearly independent; None if there are fewer."""
    chosen: list[Array] = []
    directions: list[Array] = []
    for row in rows:
        rest = row / np.linalg.norm(row)
        for _ in range(2):
            for direction in directions:
                rest = rest - np.vdot(direction, rest) * direction
        size = np.linalg.norm(rest)
        if size > 1e-6:
            chosen.append(row)
            directions.append(rest / size)
            if len(chosen) == rank:
                return np.array(chosen)
    return None


def _curves(search: Search) -> Iterator[Curve]:
    return sparse_basis(search.session, search.problem.matrix)


def _may_win(search: Search) -> bool:
    """Whether a product of the fewest entries would be better than the best so far."""
    return not (search.problem.is_zero or search.is_settled) and search.may_win(sum(search.problem.shape))


METHOD = Method(
    NAME,
    "a dense matrix times a sparse one, or a sparse one times a dense one, exactly",
    _curves,
    _may_win,
    n_factors=two_factors,
)
