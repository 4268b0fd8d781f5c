"""`fast_eigenbasis` and `fast_svd`: eigenvectors and singular vectors as products of rotations.

Both make a working matrix W = UᴴSU or UᴴAV diagonal: rotations are added layer by layer, and then sweeps optimise
all angles again.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log2
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ..kernels.givens import EIGEN, SINGULAR, rotate_hermitian, sweep_eigen
from ..linalg import frobenius, in_units, shifted, wide
from ..operators import SparseProduct
from ..operators.speed import Speedup, speedup_of
from ..results import Callback, Result, Status
from ..runtime.session import Interrupted, Session
from ..typing import Array, MatrixLike
from ..validation import as_integer, as_matrix, as_real, as_sparse, require_finite
from .chain import Chain
from .growth import LARGEST, Growth, better_angles, grow

_AHEAD = 1.3  # Sweeps are tried as soon as the error is below ``max_error`` times this.
_ENTRIES_PER_CALL = 1 << 25  # Entries that sweeps change between two checks whether to stop.
_LONGEST_ASSIGNED = 2048  # long side up to which columns are ordered by an assignment problem
_ASYMMETRY = 1e3  # relative to the rounding error of the largest entry


@dataclass(frozen=True)
class Eigenbasis(Result):
    """Approximate eigenvectors and eigenvalues, S ≈ U diag(λ) Uᴴ, where U is a fast transform.

    Attributes
    ----------
    operator : SparseProduct
        U, which is orthogonal, or unitary if complex: a product of layers of rotations. ``operator.T @ x``, or
        ``operator.H @ x``, are the coefficients of x.
    eigenvalues : (n,) ndarray
        λ, ascending, real: the diagonal of UᴴSU.
    error : float
        ‖S − U diag(λ) Uᴴ‖ / ‖S‖, in the Frobenius norm.
    n_rotations : int
        Rotations in U.
    status : Status
        "converged" if the target was reached, or UᴴSU is diagonal up to rounding; "max_iter" if ``max_error`` was
        not reached; "stopped" by the callback, the time budget or Ctrl-C.
    history : History
        The error after each layer and each sweep.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> fit = pp.rotations.fast_eigenbasis(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> fit.n_rotations, fit.eigenvalues.round(6).tolist()
    (1, [1.0, 3.0])
    """

    operator: SparseProduct
    eigenvalues: Array = field(repr=False)
    n_rotations: int

    @cached_property
    def speedup(self) -> Speedup:
        """The speed-up of U over the dense matrix, as in `Factorization`."""
        return speedup_of(self.operator)

    def toarray(self) -> Array:
        """U diag(λ) Uᴴ as a dense matrix."""
        basis = self.operator.toarray()
        return (basis * self.eigenvalues) @ basis.conj().T


def fast_eigenbasis(
    S: MatrixLike,
    *,
    n_rotations: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    n_sweeps: int = 10,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Eigenbasis:
    """Eigenvectors as a fast transform: S ≈ U diag(λ) Uᴴ, where U is a product of rotations.

    Rotations of two coordinates are chosen greedily, as in Jacobi's method: the pair with the largest |s_ij|, and
    the angle that makes this entry zero. Rotations of disjoint pairs form a layer, which is one sparse factor with
    two entries per row; a layer ends where the next pair would gain less than 0.3 of the mean. Then sweeps
    optimise each angle again, all others fixed. The error never rises.

    Parameters
    ----------
    S : (n, n) matrix
        Symmetric or Hermitian, dense or sparse. A sparse matrix, such as a graph Laplacian, stays sparse until an
        eighth of its entries is filled; with n above 16,384 it stays sparse for good, and there are no sweeps.
    n_rotations : int, optional
        The largest number of rotations. By default n·log₂n, without another target.
    complexity : float, optional
        The largest relative complexity of U: entries of all factors over n², from 1/n to 1.
    max_error : float, optional
        The largest relative error; rotations are added until it is reached.
    n_sweeps : int, default=10
        The largest number of sweeps. They end earlier if the error falls by less than half a per cent.
    time_budget : float, optional
        Seconds after which the best result so far is returned.
    progress : bool, default=False
        Show the share of work done on the standard error.
    callback : callable, optional
        Called with a `papilio.results.Step` after each layer and each sweep; a true result ends the computation.

    Returns
    -------
    Eigenbasis

    See Also
    --------
    papilio.rotations.graph_fourier : The same for the Laplacian of a graph.
    papilio.rotations.fast_svd : Two fast bases for a rectangular matrix.

    Notes
    -----
    A rotation takes O(n) operations, a layer O(n²), and a sweep O(n) per rotation: there is no step of n³, as in a
    dense eigendecomposition.

    A matrix without structure needs about as many rotations as it has entries, and then U is slower than a dense
    matrix: ``speedup`` of the result measures it. Eigenvectors of eigenvalues far from zero are found first, and
    those of nearly equal eigenvalues are mixed: on a graph, high frequencies are more accurate than low ones.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> path = np.diag(np.r_[1.0, np.full(62, 2.0), 1.0]) - np.eye(64, k=1) - np.eye(64, k=-1)
    >>> fit = pp.rotations.fast_eigenbasis(path, max_error=0.1)
    >>> fit.error <= 0.1, fit.operator.relative_complexity < 0.5
    (True, True)
    """
    matrix, dtype, exponent = as_hermitian("S", S)
    n = matrix.shape[0]
    goal = _as_goal((n,), n_rotations, complexity, max_error)
    sweeps = as_integer("n_sweeps", n_sweeps, 0)
    session = Session(callback, time_budget=time_budget, progress=progress, title="fast_eigenbasis")
    with session.interruptible():
        search = _OneBasis(session, matrix, goal, sweeps)
        search.run()
    if search.is_filled:
        warnings.warn(
            f"S has too many entries to stay sparse after {search.n_rotations} rotations, and is too large to be "
            "dense: the result is what was found so far",
            UserWarning,
            stacklevel=2,
        )
    order = np.argsort(search.values, kind="stable")
    return Eigenbasis(
        search.left.as_product(dtype, order),
        shifted(search.values[order], exponent).astype(np.empty(0, dtype).real.dtype),
        search.n_rotations,
        error=search.error,
        status=search.status,
        history=session.history,
    )


@dataclass(frozen=True)
class SingularBases(Result):
    """Approximate singular vectors and values, A ≈ U diag(σ) Vᴴ, where U and V are fast transforms.

    Attributes
    ----------
    U : SparseProduct
        (m, m), orthogonal, or unitary if complex: a product of layers of rotations.
    singular_values : (min(m, n),) ndarray
        σ, descending and non-negative: the diagonal of UᴴAV.
    V : SparseProduct
        (n, n), like U.
    error : float
        ‖A − U diag(σ) Vᴴ‖ / ‖A‖, in the Frobenius norm.
    n_rotations : int
        Rotations in the larger of the two bases.
    status : Status
        "converged" if the target was reached, or UᴴAV is diagonal up to rounding; "max_iter" if ``max_error``
        was not reached; "stopped" by the callback, the time budget or Ctrl-C.
    history : History
        The error after each layer and each sweep.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> fit = pp.rotations.fast_svd(np.tril(np.ones((8, 8))), max_error=1e-9)
    >>> bool(np.allclose(fit.toarray(), np.tril(np.ones((8, 8)))))
    True
    """

    U: SparseProduct
    singular_values: Array = field(repr=False)
    V: SparseProduct
    n_rotations: int

    def toarray(self) -> Array:
        """U diag(σ) Vᴴ as a dense matrix."""
        count = len(self.singular_values)
        left, right = (basis.toarray()[:, :count] for basis in (self.U, self.V))
        return (left * self.singular_values) @ right.conj().T


def fast_svd(
    A: MatrixLike,
    *,
    n_rotations: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    n_sweeps: int = 10,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> SingularBases:
    """Singular vectors as two fast transforms: A ≈ U diag(σ) Vᴴ, where U and V are products of rotations.

    Pairs of rows and columns are chosen greedily, as in Kogbetliantz's method: the pair whose |a_ij|² + |a_ji|² is
    largest, and rotations from both sides that make both entries zero. A wide matrix also has rotations of its
    columns beyond the square part; a tall matrix is treated by its adjoint. Rotations of disjoint pairs form a
    layer, which is one sparse factor with two entries per row. Then sweeps optimise the angles of U and of V
    again, one after the other, so that the trace of ΣUᴴAV grows. The error never rises.

    Parameters
    ----------
    A : (m, n) matrix
        Real or complex, dense or sparse.
    n_rotations : int, optional
        The largest number of rotations in each of the two bases. By default k·log₂k with k = max(m, n),
        without another target.
    complexity : float, optional
        The largest relative complexity: entries of all factors of U and V over m² + n², from (m + n)/(m² + n²)
        to 1.
    max_error : float, optional
        The largest relative error; rotations are added until it is reached.
    n_sweeps : int, default=10
        The largest number of sweeps. They end earlier if the error falls by less than 0.2 per cent.
    time_budget : float, optional
        Seconds after which the best result so far is returned.
    progress : bool, default=False
        Show the share of work done on the standard error.
    callback : callable, optional
        Called with a `papilio.results.Step` after each layer and each sweep; a true result ends the computation.

    Returns
    -------
    SingularBases

    See Also
    --------
    papilio.rotations.fast_eigenbasis : One fast basis for a symmetric or Hermitian matrix.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> A = np.exp(-np.subtract.outer(np.linspace(0, 4, 24), np.linspace(0, 4, 32)) ** 2)
    >>> fit = pp.rotations.fast_svd(A, max_error=0.1)
    >>> fit.error <= 0.1, bool(np.all(np.diff(fit.singular_values) <= 0))
    (True, True)
    """
    given = as_matrix("A", A)
    if not given.size:
        raise ValueError(f"A must have rows and columns, got a {given.shape[0]}×{given.shape[1]} matrix")
    goal = _as_goal(given.shape, n_rotations, complexity, max_error)
    sweeps = as_integer("n_sweeps", n_sweeps, 0)
    matrix, exponent = in_units(given.astype(wide(given.dtype)))
    is_tall = matrix.shape[0] > matrix.shape[1]
    session = Session(callback, time_budget=time_budget, progress=progress, title="fast_svd")
    with session.interruptible():
        search = _TwoBases(session, np.ascontiguousarray(matrix.conj().T if is_tall else matrix), goal, sweeps)
        search.run()
    left, values, right = search.bases(given.dtype)
    U, V = (right, left) if is_tall else (left, right)
    values = shifted(values, exponent).astype(np.empty(0, given.dtype).real.dtype)
    return SingularBases(
        U, values, V, search.n_rotations, error=search.error, status=search.status, history=session.history
    )


# -- the common loop -------------------------------------------------------------------------------------


class _Goal(NamedTuple):
    """The target: a number of rotations, of entries, or an error."""

    rotations: int | None = None
    entries: int | None = None
    error: float | None = None


def _as_goal(
    sides: tuple[int, ...], n_rotations: int | None, complexity: float | None, max_error: float | None
) -> _Goal:
    """Check the target; without one, k·log₂k rotations for the longest side k."""
    given = {"n_rotations": n_rotations, "complexity": complexity, "max_error": max_error}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(
            f"at most one of n_rotations, complexity and max_error can be given, got {' and '.join(names)}"
        )
    if max_error is not None:
        return _Goal(error=as_real("max_error", max_error, 0.0))
    if complexity is not None:
        share, size = as_real("complexity", complexity, 0.0, 1.0), sum(side**2 for side in sides)
        if share * size < sum(sides) - 1e-9:
            raise ValueError(
                f"complexity must be at least {sum(sides) / size:.3g}, one entry per row of each basis, "
                f"got {share:g}"
            )
        return _Goal(entries=int(share * size + 1e-9))
    if n_rotations is not None:
        return _Goal(rotations=as_integer("n_rotations", n_rotations, 0))
    longest = max(sides)
    return _Goal(rotations=ceil(longest * log2(longest)) if longest > 1 else 0)


class _Diagonalisation(ABC):
    """The rotations so far, the diagonal of W, and the error: what is off the diagonal."""

    least_fall: ClassVar[float]  # Smallest relative fall of the error for which another sweep follows.

    def __init__(
        self, session: Session, growth: Growth, norm: float, goal: _Goal, n_sweeps: int, sides: Sequence[int]
    ) -> None:
        self._session, self._growth, self._norm = session, growth, norm
        self._goal, self._n_sweeps, self._sides = goal, n_sweeps, sides
        self.status, self.is_filled = Status.CONVERGED, False
        self._take()

    @abstractmethod
    def _swept(self) -> tuple[Chain, Chain, Array]:
        """The rotations of rows and of columns with better angles, in the order of the sweep, and W with them."""

    @property
    def n_rotations(self) -> int:
        return self._growth.count

    def run(self) -> None:
        """Grow and sweep; if the session is stopped, the result so far stays."""
        try:
            if self._goal.error is None:
                self._grow(self._goal)
                self._sweep()
            else:
                self._reach(self._goal.error)
        except Interrupted:
            self._take()
            self.status = Status.STOPPED

    def _reach(self, limit: float) -> None:
        """Add rotations until the error, after sweeps, is at most ``limit``."""
        ahead = _AHEAD if self._n_sweeps else 1.0
        while self.error > limit:
            # Layers stop somewhat above the limit, as sweeps may do the rest; then a tenth further each time.
            is_reached = self._grow(_Goal(error=max(limit, min(ahead * limit, 0.9 * self.error))))
            self._sweep()
            if not is_reached:
                break
        if self.error <= limit:
            self.status = Status.CONVERGED
        elif not self.is_filled:
            self.status = Status.MAX_ITER

    def _grow(self, goal: _Goal) -> bool:
        """Add layers up to the goal; False if it is not reached."""

        def room() -> int:
            self._session.check()
            error = self._relative(self._growth.matrix)
            if self._growth.count:
                self._session.report("layers", error, fraction=self._progress(goal))
            return self._room(goal, error)

        is_reached = grow(self._growth, room)
        self._take()
        if not is_reached and self._growth.is_full:
            self.status, self.is_filled = Status.STOPPED, True
        return is_reached

    def _room(self, goal: _Goal, error: float) -> int:
        """The number of rotations that the next layer may have."""
        if goal.rotations is not None:
            return goal.rotations - self._growth.count
        if goal.entries is not None:
            left = goal.entries - sum(self._sides) * (self._growth.depth + 1)
            return left // (2 * len(self._sides)) - self._growth.count
        return self._growth.size if error > (goal.error or 0.0) else 0

    def _progress(self, goal: _Goal) -> float:
        if goal.rotations:
            return 0.5 * self._growth.count / goal.rotations
        entries = sum(self._sides) * self._growth.depth + 2 * len(self._sides) * self._growth.count
        return 0.5 * entries / goal.entries if goal.entries else 0.0

    def _sweep(self) -> None:
        """Sweep over all angles until the error settles."""
        for sweep in range(self._n_sweeps if self._growth.count else 0):
            left, right, turned = self._swept()
            before = self.error
            if self._relative(turned) >= before:
                break
            self._growth.continue_from(left, turned, right)
            self._take()
            self._session.report("sweeps", self.error, fraction=0.5 + 0.5 * (sweep + 1) / self._n_sweeps)
            if self.error > (1 - self.least_fall) * before:
                break

    def _take(self) -> None:
        """Keep the rotations so far, with the diagonal of W."""
        turned = self._growth.matrix
        self.left, self.right = self._growth.chain(1), self._growth.chain(2)
        self.values, self.error = np.array(turned.diagonal()), self._relative(turned)

    def _relative(self, turned: Any) -> float:
        return off_diagonal_norm(turned) / self._norm if self._norm else 0.0


class _OneBasis(_Diagonalisation):
    """W = UᴴSU for a Hermitian S, which may be sparse."""

    least_fall = 0.005

    def __init__(self, session: Session, matrix: Any, goal: _Goal, n_sweeps: int) -> None:
        self._matrix = matrix
        n, norm = matrix.shape[0], frobenius(matrix.data if sp.issparse(matrix) else matrix)
        sweeps = n_sweeps if n**2 <= LARGEST else 0  # sweeps need a dense matrix
        super().__init__(session, Growth(EIGEN, matrix.copy()), norm, goal, sweeps, (n,))

    def _take(self) -> None:
        super()._take()
        self.values = np.array(self.values.real, np.float64)

    def _swept(self) -> tuple[Chain, Chain, Array]:
        size = self._growth.size
        near = self._matrix.toarray() if sp.issparse(self._matrix) else self._matrix.copy()
        far = np.diag(self.values).astype(near.dtype)
        units = np.array([1.0, 1j] if near.dtype.kind == "c" else [1.0], near.dtype)
        (_, pairs, blocks), starts = self.left.by_layers()
        step = max(_ENTRIES_PER_CALL // size**2, 1)  # layers at a time
        slices = [starts[first : first + step + 1] for first in range(0, len(starts) - 1, step)]
        for part in reversed(slices):
            self._session.check()
            rotate_hermitian(far, pairs, blocks, part)
        for part in slices:
            self._session.check()
            sweep_eigen(near, far, pairs, blocks, part, units)
        chain = Chain(size, pairs, blocks)
        return chain, chain, near


class _TwoBases(_Diagonalisation):
    """W = UᴴAV for an A with no more rows than columns, which are ordered for a large diagonal first."""

    least_fall = 0.002

    def __init__(self, session: Session, matrix: Array, goal: _Goal, n_sweeps: int) -> None:
        self._order = _with_large_diagonal(session, matrix)
        self._matrix = np.ascontiguousarray(matrix[:, self._order])
        growth = Growth(SINGULAR, self._matrix.copy())
        super().__init__(session, growth, frobenius(matrix), goal, n_sweeps, matrix.shape)

    def bases(self, dtype: np.dtype[np.generic]) -> tuple[SparseProduct, Array, SparseProduct]:
        """U, σ and V; the phases of σ belong to U."""
        m, n = self._matrix.shape
        sizes = np.abs(self.values)
        phases = np.where(sizes > 0, self.values / np.where(sizes > 0, sizes, 1), 1)
        order = np.argsort(-sizes, kind="stable")
        left = self._of_rows(self.left).as_product(dtype, order, phases.astype(self._matrix.dtype))
        # The columns of A were permuted first: the rotations are of other pairs, and the permutation comes last.
        right = Chain(n, self._order[self.right.pairs], self.right.blocks)
        columns = self._order[np.concatenate([order, np.arange(m, n)])]
        return left, sizes[order], right.as_product(dtype, columns)

    def _swept(self) -> tuple[Chain, Chain, Array]:
        m, n = self._matrix.shape
        blocks = self.left.blocks.copy()
        # U for M = AVΣᴴ, and then V for M = AᴴUΣ, padded by zero columns beyond the rows of A.
        target = (self._matrix @ self.right.apply(np.eye(n, m))) * self.values.conj()
        blocks[self.left.pairs[:, 1] < m], _ = better_angles(self._session, target, self._of_rows(self.left))
        left = self.left._replace(blocks=blocks)
        target = np.zeros((n, n), self._matrix.dtype)
        target[:, :m] = (self._matrix.conj().T @ self._of_rows(left).apply(np.eye(m))) * self.values
        right = self.right._replace(blocks=better_angles(self._session, target, self.right)[0])
        turned = self._of_rows(left).apply(self._matrix, inverse=True)
        turned = right.apply(turned.conj().T, inverse=True).conj().T
        return left, right, np.ascontiguousarray(turned)

    def _of_rows(self, chain: Chain) -> Chain:
        """The rotations of rows only: columns beyond the rows have none."""
        m = self._matrix.shape[0]
        is_left = chain.pairs[:, 1] < m
        return Chain(m, chain.pairs[is_left], chain.blocks[is_left])


def _with_large_diagonal(session: Session, matrix: Array) -> Array:
    """Order the columns for a large diagonal, so that fewer rotations are needed."""
    n = matrix.shape[1]
    if n > _LONGEST_ASSIGNED or not matrix.any():
        return np.arange(n)
    try:
        chosen = session.wait(lambda: linear_sum_assignment(-(np.abs(matrix) ** 2))[1], float(n) ** 3)
    except Interrupted:
        return np.arange(n)
    return np.concatenate([chosen, np.setdiff1d(np.arange(n), chosen)])


# -- Hermitian matrices ----------------------------------------------------------------------------------


def as_hermitian(name: str, value: Any) -> tuple[Any, np.dtype[Any], int]:
    """A Hermitian matrix in double precision and in units of 2^e, a copy; its working dtype; and e.

    A sparse matrix stays sparse.
    """
    if sp.issparse(value):
        matrix = sp.csr_array(as_sparse(name, value))
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be a matrix, got an array with {matrix.ndim} dimensions")
        require_finite(name, matrix.data)
    else:
        matrix = as_matrix(name, value)
    if matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"{name} must be square, got a {matrix.shape[0]}×{matrix.shape[1]} matrix")
    dtype = matrix.dtype
    matrix = matrix.astype(wide(dtype))
    if sp.issparse(matrix):
        values, exponent = in_units(matrix.data) if matrix.nnz else (matrix.data, 0)
        matrix = sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        matrix, exponent = in_units(matrix)
    adjoint = matrix.conj().T
    gap = abs(matrix - adjoint).max()
    if gap > _ASYMMETRY * np.finfo(dtype).eps * abs(matrix).max():
        kind = "Hermitian" if dtype.kind == "c" else "symmetric"
        raise ValueError(f"{name} must be {kind}, as (S + S.conj().T) / 2 is, got a matrix that is not")
    matrix = (matrix + adjoint) / 2
    return (sp.csr_array(matrix) if sp.issparse(matrix) else np.ascontiguousarray(matrix)), dtype, exponent


def off_diagonal_norm(matrix: Any) -> float:
    """The Frobenius norm of the off-diagonal entries."""
    if sp.issparse(matrix):
        rest = matrix - sp.dia_array((matrix.diagonal()[None], [0]), shape=matrix.shape)
        return frobenius(rest.data)
    diagonal = matrix.diagonal().copy()
    np.fill_diagonal(matrix, 0)
    size = frobenius(matrix)
    np.fill_diagonal(matrix, diagonal)
    return size
