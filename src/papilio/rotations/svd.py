"""`fast_svd`: singular vectors as two products of rotations."""

from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..kernels.angles import sweep_polar
from ..kernels.rotations import SINGULAR
from ..linalg import frobenius, in_units, shifted, wide
from ..operators import SparseProduct
from ..results import Callback, History, Status
from ..runtime.session import Interrupted, Session
from ..typing import Array, MatrixLike
from ..validation import as_integer, as_matrix, as_real
from .chain import Chain
from .eigenbasis import Goal
from .greedy import Growth, grow
from .hermitian import beside_diagonal

_SWEEPS = 10
_WORTH = 0.002  # by which a sweep must lower the error for another one
_AHEAD = 1.3  # times the largest error, from which sweeps are tried
_SLICE = 1 << 23  # entries that rotations change before the session is asked whether to stop
_ASSIGNED = 2048  # the long side up to which columns are first put into the order of the largest diagonal


@dataclass(frozen=True)
class SingularBases:
    """Approximate singular vectors and values, A ≈ U diag(σ) Vᴴ, where U and V are fast transforms.

    Attributes
    ----------
    U : SparseProduct
        (m, m), orthogonal, or unitary if complex: a product of layers of rotations.
    singular_values : (min(m, n),) ndarray
        σ, descending, not negative: the diagonal of UᴴAV.
    V : SparseProduct
        (n, n), like U.
    error : float
        ‖A − U diag(σ) Vᴴ‖ / ‖A‖, in the Frobenius norm.
    n_rotations : int
        Rotations in the larger of the two bases.
    status : Status
        "converged" if the target was reached, or UᴴAV is diagonal up to rounding; "max_iter" if an error was asked
        for that was not reached; "stopped" by the callback, the time budget or Ctrl-C.
    history : History
        The error after each layer and each sweep.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> fit = pp.fast_svd(np.tril(np.ones((8, 8))), max_error=1e-9)
    >>> bool(np.allclose(fit.toarray(), np.tril(np.ones((8, 8)))))
    True
    """

    U: SparseProduct
    singular_values: Array = field(repr=False)
    V: SparseProduct
    error: float
    n_rotations: int
    status: Status
    history: History = field(repr=False, compare=False)

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
    n_sweeps: int = _SWEEPS,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> SingularBases:
    """Singular vectors as two fast transforms: A ≈ U diag(σ) Vᴴ, where U and V are products of rotations.

    Pairs of rows and columns are chosen greedily, as in Kogbetliantz's method: the pair whose |a_ij|² + |a_ji|² is
    largest, by rotations from both sides that make both entries zero. Columns beyond the rows of a wide matrix are
    rotated on their own; a tall matrix is treated by its adjoint. The rotations of disjoint pairs form a layer,
    which is one sparse factor with two entries per row. Then sweeps choose the angles of U and of V anew, one
    after the other, so that the trace of ΣUᴴAV grows. The error never rises.

    Parameters
    ----------
    A : (m, n) matrix
        Real or complex, dense or sparse.
    n_rotations : int, optional
        The largest number of rotations in each of the two bases. By default k·log₂k with k = max(m, n), if there
        is no other target.
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
    papilio.fast_eigenbasis : One fast basis for a symmetric or Hermitian matrix.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> A = np.exp(-np.subtract.outer(np.linspace(0, 4, 24), np.linspace(0, 4, 32)) ** 2)
    >>> fit = pp.fast_svd(A, max_error=0.1)
    >>> fit.error <= 0.1, bool(np.all(np.diff(fit.singular_values) <= 0))
    (True, True)
    """
    given = as_matrix("A", A)
    if not given.size:
        raise ValueError(f"A must have rows and columns, got a {given.shape[0]}×{given.shape[1]} matrix")
    goal = as_goal(given.shape, n_rotations, complexity, max_error)
    sweeps = as_integer("n_sweeps", n_sweeps, 0)
    matrix, exponent = in_units(given.astype(wide(given.dtype)))
    is_tall = matrix.shape[0] > matrix.shape[1]
    session = Session(callback, time_budget=time_budget, progress=progress, title="fast_svd")
    with session.interruptible():
        found = _Run(session, np.ascontiguousarray(matrix.conj().T if is_tall else matrix), goal, sweeps)
        found.run()
    left, values, right = found.bases(given.dtype)
    U, V = (right, left) if is_tall else (left, right)
    values = shifted(values, exponent).astype(np.empty(0, given.dtype).real.dtype)
    return SingularBases(U, values, V, found.error, found.count, found.status, session.history)


def as_goal(
    shape: tuple[int, int], n_rotations: int | None, complexity: float | None, max_error: float | None
) -> Goal:
    """The one target that was given; k·log₂k rotations if none was."""
    given = {"n_rotations": n_rotations, "complexity": complexity, "max_error": max_error}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(
            f"at most one of n_rotations, complexity and max_error can be given, got {' and '.join(names)}"
        )
    if max_error is not None:
        return Goal(error=as_real("max_error", max_error, 0.0))
    if complexity is not None:
        share, size = as_real("complexity", complexity, 0.0, 1.0), shape[0] ** 2 + shape[1] ** 2
        if share * size < sum(shape) - 1e-9:
            raise ValueError(
                f"complexity must be at least {sum(shape) / size:.3g}, one entry per row of both bases, "
                f"got {share:g}"
            )
        return Goal(entries=int(share * size + 1e-9))
    if n_rotations is not None:
        return Goal(rotations=as_integer("n_rotations", n_rotations, 0))
    longest = max(shape)
    return Goal(rotations=ceil(longest * log2(longest)) if longest > 1 else 0)


class _Run:
    """One run for a matrix with no more rows than columns."""

    def __init__(self, session: Session, matrix: Array, goal: Goal, n_sweeps: int) -> None:
        self._session, self._goal, self._n_sweeps = session, goal, n_sweeps
        self._order = _with_large_diagonal(session, matrix)
        self._matrix = np.ascontiguousarray(matrix[:, self._order])
        self._norm = frobenius(matrix)
        self._growth = Growth(SINGULAR, self._matrix.copy())
        self.status = Status.CONVERGED
        self._take(self._growth.matrix)

    @property
    def count(self) -> int:
        return len(self._right.pairs)

    def run(self) -> None:
        """Grow and sweep; what was found so far stays if the session is stopped."""
        try:
            if self._goal.error is None:
                self._grow(self._goal)
                self._sweep()
            else:
                self._reach(self._goal.error)
        except Interrupted:
            self._take(self._growth.matrix)
            self.status = Status.STOPPED

    def bases(self, dtype: np.dtype[np.generic]) -> tuple[SparseProduct, Array, SparseProduct]:
        """U, σ and V, of which the phases of σ belong to U."""
        m, n = self._matrix.shape
        sizes = np.abs(self._values)
        phases = np.where(sizes > 0, self._values / np.where(sizes > 0, sizes, 1), 1)
        order = np.argsort(-sizes, kind="stable")
        left = self._left_only(self._left).as_product(dtype, order, phases.astype(self._matrix.dtype))
        # The columns of A were permuted first: the rotations are of other pairs, and the permutation comes last.
        right = Chain(n, self._order[self._right.pairs], self._right.blocks)
        columns = self._order[np.concatenate([order, np.arange(m, n)])]
        return left, sizes[order], right.as_product(dtype, columns)

    def _reach(self, limit: float) -> None:
        """Rotations until the error, after sweeps, is at most ``limit``."""
        ahead = _AHEAD if self._n_sweeps else 1.0
        while self.error > limit:
            goal = Goal(error=max(limit, min(ahead * limit, 0.9 * self.error)))
            is_over = not self._grow(goal)
            self._sweep()
            if is_over:
                break
        self.status = Status.CONVERGED if self.error <= limit else Status.MAX_ITER

    def _grow(self, goal: Goal) -> bool:
        def room() -> int:
            self._session.check()
            error = self._relative(self._growth.matrix)
            if self._growth.count:
                self._session.report("layers", error, fraction=self._progress(goal))
            if goal.entries is not None:
                sides = sum(self._matrix.shape)
                return (goal.entries - sides * (self._growth.depth + 1)) // 4 - self._growth.count
            return goal.room(self._growth, error)

        is_reached = grow(self._growth, room)
        self._take(self._growth.matrix)
        return is_reached

    def _progress(self, goal: Goal) -> float:
        if goal.rotations:
            return 0.5 * self._growth.count / goal.rotations
        return self._growth.entries / goal.entries if goal.entries else 0.0

    def _sweep(self) -> None:
        """All angles anew, those of U and then those of V, again and again."""
        m, n = self._matrix.shape
        if not len(self._right.pairs):
            return
        is_left = self._left.pairs[:, 1] < m
        for sweep in range(self._n_sweeps):
            left, right, values = self._left.blocks.copy(), self._right.blocks.copy(), self._values
            # U for M = AVΣᴴ, and then V for M = AᴴUΣ, with columns of zeros for those beyond the rows of A.
            target = (self._matrix @ self._right.apply(_unit(n, m))) * values.conj()
            left[is_left] = self._better(target, self._left_only(self._left))
            chain = self._left._replace(blocks=left)
            target = np.zeros((n, n), self._matrix.dtype)
            target[:, :m] = (self._matrix.conj().T @ self._left_only(chain).apply(_unit(m, m))) * values
            right = self._better(target, self._right)
            turned = self._left_only(chain).apply(self._matrix, inverse=True)
            turned = Chain(n, self._right.pairs, right).apply(turned.conj().T, inverse=True).conj().T
            before = self.error
            if self._relative(turned) >= before:
                break
            self._growth.continue_from(chain, np.ascontiguousarray(turned), self._right._replace(blocks=right))
            self._take(self._growth.matrix)
            self._session.report("sweeps", self.error, fraction=0.5 + 0.5 * (sweep + 1) / self._n_sweeps)
            if self.error > (1 - _WORTH) * before:
                break

    def _better(self, target: Array, chain: Chain) -> Array:
        """The angles of a chain after a sweep by which Re tr UᴴM grows."""
        blocks = chain.blocks.copy()
        work = np.ascontiguousarray(chain.apply(target.conj().T).conj().T)
        step = max(_SLICE // (4 * chain.size), 1)
        for begin in range(0, len(blocks), step):
            self._session.check()
            sweep_polar(work, chain.pairs[begin : begin + step], blocks[begin : begin + step])
        return blocks

    def _left_only(self, chain: Chain) -> Chain:
        """The rotations of rows; a column beyond the rows has none."""
        m = self._matrix.shape[0]
        is_left = chain.pairs[:, 1] < m
        return Chain(m, chain.pairs[is_left], chain.blocks[is_left])

    def _take(self, turned: Array) -> None:
        """Keep the chains so far, with their UᴴAV."""
        self._left, self._right = self._growth.chain(1), self._growth.chain(2)
        self._values, self.error = turned.diagonal().copy(), self._relative(turned)

    def _relative(self, turned: Array) -> float:
        return beside_diagonal(turned) / self._norm if self._norm else 0.0


def _unit(size: int, count: int) -> Array:
    return np.eye(size, count)


def _with_large_diagonal(session: Session, matrix: Array) -> Array:
    """An order of the columns with a large diagonal: rotations begin where they have least to do."""
    n = matrix.shape[1]
    if n > _ASSIGNED or not matrix.any():
        return np.arange(n)
    try:
        chosen = session.wait(lambda: linear_sum_assignment(-(np.abs(matrix) ** 2))[1], float(n) ** 3)
    except Interrupted:
        return np.arange(n)
    return np.concatenate([chosen, np.setdiff1d(np.arange(n), chosen)])
