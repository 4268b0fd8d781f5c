"""`fast_eigenbasis`: eigenvectors as a product of rotations."""

import warnings
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..kernels.angles import sweep_eigen
from ..kernels.rotations import EIGEN, rotate_hermitian
from ..linalg import shifted
from ..operators import SparseProduct
from ..operators.speed import Speedup, speedup_of
from ..results import Callback, History, Status
from ..runtime.forks import cached_property
from ..runtime.session import Interrupted, Session
from ..typing import Array, MatrixLike
from ..validation import as_integer, as_real
from .chain import Chain
from .greedy import LARGEST, Growth, grow
from .hermitian import as_hermitian, beside_diagonal, norm_of, real_diagonal

_SWEEPS = 10
_WORTH = 0.005  # by which a sweep must lower the error for another one
_SLICE = 1 << 24  # entries that rotations change before the session is asked whether to stop
_AHEAD = 1.3  # times the largest error, from which sweeps are tried


@dataclass(frozen=True)
class Eigenbasis:
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
        "converged" if the target was reached, or S is diagonal up to rounding; "max_iter" if an error was asked
        for that was not reached; "stopped" by the callback, the time budget or Ctrl-C.
    history : History
        The error after each layer and each sweep.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> fit = pp.fast_eigenbasis(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> fit.n_rotations, fit.eigenvalues.round(6).tolist()
    (1, [1.0, 3.0])
    """

    operator: SparseProduct
    eigenvalues: Array = field(repr=False)  # one per row would fill the screen
    error: float
    n_rotations: int
    status: Status
    history: History = field(repr=False, compare=False)

    @cached_property
    def speedup(self) -> Speedup:
        """How many times faster than the dense matrix U is, as of a `Factorization`."""
        return speedup_of(self.operator)

    def toarray(self) -> Array:
        """U diag(λ) Uᴴ as a dense matrix."""
        basis = self.operator.toarray()
        return (basis * self.eigenvalues) @ basis.conj().T


class Goal(NamedTuple):
    """What a chain of rotations is to reach: a number of rotations, of entries, or an error."""

    rotations: int | None = None
    entries: int | None = None
    error: float | None = None

    def room(self, growth: Growth, error: float) -> int:
        """How many rotations the next layer may have."""
        if self.rotations is not None:
            return self.rotations - growth.count
        if self.entries is not None:
            return (self.entries - growth.size * (growth.depth + 1)) // 2 - growth.count
        return growth.size if error > (self.error or 0.0) else 0


def as_goal(size: int, n_rotations: int | None, complexity: float | None, max_error: float | None) -> Goal:
    """The one target that was given; n·log₂n rotations if none was."""
    given = {"n_rotations": n_rotations, "complexity": complexity, "max_error": max_error}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(
            f"at most one of n_rotations, complexity and max_error can be given, got {' and '.join(names)}"
        )
    if max_error is not None:
        return Goal(error=as_real("max_error", max_error, 0.0))
    if complexity is not None:
        share = as_real("complexity", complexity, 0.0, 1.0)
        if share * size < 1:
            raise ValueError(
                f"complexity must be at least {1 / size:.3g}, one entry per row of a {size}×{size} matrix, "
                f"got {share:g}"
            )
        return Goal(entries=int(share * size**2))
    if n_rotations is not None:
        return Goal(rotations=as_integer("n_rotations", n_rotations, 0))
    return Goal(rotations=ceil(size * log2(size)) if size > 1 else 0)


def fast_eigenbasis(
    S: MatrixLike,
    *,
    n_rotations: int | None = None,
    complexity: float | None = None,
    max_error: float | None = None,
    n_sweeps: int = _SWEEPS,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Eigenbasis:
    """Eigenvectors as a fast transform: S ≈ U diag(λ) Uᴴ, where U is a product of rotations.

    Rotations of two coordinates are chosen greedily, as in Jacobi's method: the pair with the largest |s_ij|, by
    the angle that makes it zero. Those of disjoint pairs form a layer, which is one sparse factor with two entries
    per row; a layer ends where the next pair would gain less than 0.3 of the mean. Then sweeps choose each angle
    anew, while all others stay. The error never rises.

    Parameters
    ----------
    S : (n, n) matrix
        Symmetric or Hermitian, dense or sparse. A sparse matrix, such as a graph Laplacian, stays sparse until an
        eighth of its entries is filled; with n above 16,384 it stays sparse for good, and there are no sweeps.
    n_rotations : int, optional
        The largest number of rotations. By default n·log₂n, if there is no other target.
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
    papilio.graphs.fourier : The same for the Laplacian of a graph.
    papilio.fast_svd : Two fast bases for a rectangular matrix.

    Notes
    -----
    A rotation takes O(n) operations, a layer O(n²), and a sweep O(n) per rotation: there is no step of n³, as in a
    dense eigendecomposition.

    A matrix without structure needs about as many rotations as it has entries, and then U is slower than a dense
    matrix: ``speedup`` of the result measures it. Eigenvectors of eigenvalues far from zero are found first, and
    those of nearly equal ones are mixed: of a graph, high frequencies are more exact than the lowest ones.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> path = np.diag(np.r_[1.0, np.full(62, 2.0), 1.0]) - np.eye(64, k=1) - np.eye(64, k=-1)
    >>> fit = pp.fast_eigenbasis(path, max_error=0.1)
    >>> fit.error <= 0.1, fit.operator.relative_complexity < 0.5
    (True, True)
    """
    matrix, dtype, exponent = as_hermitian("S", S)
    goal = as_goal(matrix.shape[0], n_rotations, complexity, max_error)
    sweeps = as_integer("n_sweeps", n_sweeps, 0)
    session = Session(callback, time_budget=time_budget, progress=progress, title="fast_eigenbasis")
    with session.interruptible():
        found = _Run(session, matrix, goal, sweeps)
        found.run()
    order = np.argsort(found.values, kind="stable")
    kind = np.empty(0, dtype).real.dtype
    return Eigenbasis(
        found.chain.as_product(dtype, order),
        shifted(found.values[order], exponent).astype(kind),
        found.error,
        len(found.chain.pairs),
        found.status,
        session.history,
    )


class _Run:
    """One run: the chain, the eigenvalues and the error so far."""

    def __init__(self, session: Session, matrix: Any, goal: Goal, n_sweeps: int) -> None:
        self._session, self._matrix, self._goal, self._n_sweeps = session, matrix, goal, n_sweeps
        self._norm = norm_of(matrix)
        self._growth = Growth(EIGEN, matrix.copy())
        self.status = Status.CONVERGED
        self._take(self._growth.chain(), matrix)

    def run(self) -> None:
        """Grow and sweep; what was found so far stays if the session is stopped."""
        try:
            if self._goal.error is None:
                self._grow(self._goal)
                self._sweep()
            else:
                self._reach(self._goal.error)
        except Interrupted:
            self._take(self._growth.chain(), self._growth.matrix)
            self.status = Status.STOPPED

    def _reach(self, limit: float) -> None:
        """Rotations until the error, after sweeps, is at most ``limit``."""
        ahead = _AHEAD if self._n_sweeps else 1.0
        while self.error > limit:
            # Layers to somewhat above the limit, for sweeps may do the rest; then a tenth further each time.
            is_reached = self._grow(Goal(error=max(limit, min(ahead * limit, 0.9 * self.error))))
            self._sweep()
            if not is_reached:
                if self.status is Status.CONVERGED:
                    self.status = Status.MAX_ITER
                break
        if self.error <= limit:
            self.status = Status.CONVERGED

    def _grow(self, goal: Goal) -> bool:
        def room() -> int:
            self._session.check()
            self.error = self._relative(self._growth.matrix)
            if self._growth.count:
                self._session.report("layers", self.error, fraction=self._progress(goal))
            return goal.room(self._growth, self.error)

        is_reached = grow(self._growth, room)
        self._take(self._growth.chain(), self._growth.matrix)
        if not is_reached and self._growth.is_full:
            self.status = Status.STOPPED
            warnings.warn(
                f"S is filled after {self._growth.count} rotations, with {self._growth.matrix.nnz} entries, and "
                "too large to be dense: the result is what was found so far",
                UserWarning,
                stacklevel=5,
            )
        return is_reached

    def _progress(self, goal: Goal) -> float:
        if goal.rotations:
            return 0.5 * self._growth.count / goal.rotations
        return 0.5 * self._growth.entries / goal.entries if goal.entries else 0.0

    def _sweep(self) -> None:
        """All angles anew, one after the other, again and again."""
        size = self._growth.size
        if size**2 > LARGEST or not len(self.chain.pairs):
            return
        matrix = self._matrix.toarray() if sp.issparse(self._matrix) else self._matrix
        units = np.array([1.0, 1j] if matrix.dtype.kind == "c" else [1.0], matrix.dtype)
        chain, starts = self.chain.by_layers()
        pairs = chain.pairs
        step = max(2 * _SLICE // size**2, 1)  # layers at a time
        slices = [starts[first : first + step + 1] for first in range(0, len(starts) - 1, step)]
        for sweep in range(self._n_sweeps):
            blocks = chain.blocks.copy()
            near, far = matrix.copy(), np.diag(self.values).astype(matrix.dtype)
            for part in reversed(slices):
                self._session.check()
                rotate_hermitian(far, pairs, blocks, part)
            for part in slices:
                self._session.check()
                sweep_eigen(near, far, pairs, blocks, part, units)
            before = self.error
            if self._relative(near) >= before:
                break
            chain = Chain(size, pairs, blocks)
            self._take(chain, near)
            self._growth.continue_from(chain, near)
            self._session.report("sweeps", self.error, fraction=0.5 + 0.5 * (sweep + 1) / self._n_sweeps)
            if self.error > (1 - _WORTH) * before:
                break

    def _take(self, chain: Chain, turned: Any) -> None:
        """Keep a chain with its UᴴSU."""
        self.chain, self.values, self.error = chain, real_diagonal(turned), self._relative(turned)

    def _relative(self, matrix: Any) -> float:
        return beside_diagonal(matrix) / self._norm if self._norm else 0.0
