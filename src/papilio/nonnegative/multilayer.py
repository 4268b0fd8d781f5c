"""`nonnegative_chain`: a non-negative matrix as a product of non-negative factors, which may be sparse."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..constraints import Constraint, NonNegative, SparseColumns
from ..linalg import frobenius, in_units, shifted
from ..operators import SparseProduct
from ..results import Callback, Factorization, History, Status
from ..runtime.session import Session
from ..typing import Array, MatrixLike, RandomState
from ..validation import as_choice, as_flag, as_integer, as_matrix, as_real, is_series
from .losses import LOSSES, Divergence, LeastSquares, Loss
from .supports import random_start, sparse_start

_SPARSE_STARTS = 8
_MOST_RANK = 2**31 - 1
_LIFTED = 1e-3  # relative to the mean of a factor: zeros on its support start here, as multiplications keep zeros


@dataclass(frozen=True)
class NonnegativeChain(Factorization):
    """A product of non-negative factors, V ≈ S₁…S_K, and how it was found.

    Attributes
    ----------
    operator : SparseProduct
        S₁…S_K. The columns of all factors but the last sum to one, or are zero.
    error : float
        The relative Frobenius error ‖V − S₁…S_K‖ / ‖V‖, whatever the loss.
    n_iter : int
        Sweeps over all factors.
    status : Status
        "converged", "max_iter" or "stopped".
    history : History
        The sweeps from the start that was best; for the divergence of a V with more than 16,384 entries, every
        tenth of them. ``history.error`` never rises. It is the relative error for the Frobenius loss, and
        D(V‖S₁…S_K)/ΣV for the divergence.
    method, attempts, error_is_estimate, n_products, least_error, error_of, matrix_error
        As in `Factorization`; not used here.
    objective : float
        The loss: ½‖V − S₁…S_K‖², or the divergence D(V‖S₁…S_K) = Σ v log(v/v̂) − v + v̂.
    loss : str
        "frobenius" or "kullback-leibler".

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> fit = pp.nonnegative.nonnegative_chain(np.outer([1, 2, 3], [1, 0, 2]), 1)
    >>> fit.loss, fit.objective < 1e-12, fit.operator.factors[0].sum(axis=0).round(6).tolist()
    ('frobenius', True, [1.0])
    """

    objective: float = np.nan
    loss: str = LOSSES[0]


def nonnegative_chain(
    V: MatrixLike,
    ranks: int | Sequence[int],
    *,
    sparsity: int | Constraint | Sequence[int | Constraint | None] | None = None,
    loss: str = "frobenius",
    init: Sequence[MatrixLike] | None = None,
    n_init: int | None = None,
    max_iter: int = 500,
    tol: float = 1e-6,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
    random_state: RandomState = 0,
) -> NonnegativeChain:
    """Approximate a non-negative matrix by a product of non-negative factors, V ≈ S₁S₂…S_K.

    Two factors are non-negative matrix factorization (NMF). More factors, if they are sparse, describe V by parts
    of parts (Lyu and Wang, 2013). One iteration updates each factor once, from the first to the last. With A and B
    the products left and right of a factor X:

    - "frobenius", ½‖V − AXB‖²: coordinate descent, each entry of X by its own minimum, max(0, x − g/h) with
      gradient g and curvature h;
    - "kullback-leibler", Σ v log(v/v̂) − v + v̂ with V̂ = AXB: X ← X ∘ (Aᵀ(V ⊘ AXB)Bᵀ) ⊘ (Aᵀ1 1ᵀBᵀ).

    Neither raises the objective. With ``sparsity``, the supports are found first, by least squares: from a dense
    start, more and more small entries are dropped while the others adapt; then each column gets its best support,
    all else fixed, if there are few enough to try them all. This is repeated from several starts, until one is
    exact. Units that an exact product does not need are left empty. Then the values on the supports are fitted.

    Parameters
    ----------
    V : (m, n) matrix
        Real and non-negative, dense or sparse (it is made dense).
    ranks : int or sequence of int
        The sizes r₁, …, r_{K−1} between the factors, which are m×r₁, r₁×r₂, …, r_{K−1}×n.
    sparsity : int, Constraint or sequence, optional
        The largest number of entries per column, of all factors or of each; or sets such as
        ``constraints.Sparse(shape, n_nonzero)``, ``SparseRows`` and ``Support``, which limit the supports only.
        None, also within a sequence, is no limit.
    loss : {"frobenius", "kullback-leibler"}
        The loss to minimise. In the divergence, 10⁻¹² of the root mean square of V is added to the product:
        otherwise it would be infinite where sparse factors leave a zero.
    init : sequence of matrices, optional
        The first factors, non-negative; with ``sparsity``, the search for the supports starts from them. By
        default random.
    n_init : int, optional
        The largest number of random starts; the best result is kept. By default 1, and 8 with ``sparsity``, where
        a relative error below 10⁻⁶ ends the search.
    max_iter : int, default=500
        The largest number of iterations.
    tol : float, default=1e-6
        Stop when the error, as in ``history``, changes by less from one iteration to the next; 0 stops only when
        rounding would raise it.
    time_budget : float, optional
        Seconds after which the best result so far is returned.
    progress : bool, default=False
        Show the share of work done on the standard error.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result ends the computation.
    random_state : int, RandomState, Generator or None, default=0
        The source of the random starts.

    Returns
    -------
    NonnegativeChain
        The product, its error and objective, and the history.

    See Also
    --------
    papilio.nonnegative.MultilayerNMF : The same as an estimator.
    papilio.palm : Factors of either sign, and any constraint sets.

    Notes
    -----
    Factors are unique at best up to the order of the hidden units between them. Three factors without sparsity
    are no better than two, and far from unique. Planted sparse factors are mostly found if their product
    determines them. It does not determine hidden units that no column of the next factor reads, and often not
    those that a single column reads: then the result is another product, exact and as sparse.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> rng = np.random.default_rng(0)
    >>> S1, S2 = (rng.random(shape) * (rng.random(shape) < 0.3) for shape in ((12, 4), (4, 30)))
    >>> fit = pp.nonnegative.nonnegative_chain(S1 @ S2, 4, n_init=5)
    >>> fit.operator.shape, fit.error < 0.01, all(factor.min() >= 0 for factor in fit.operator.factors)
    ((12, 30), True, True)
    """
    matrix = as_nonnegative("V", V)
    shapes = shapes_between(matrix.shape, as_ranks("ranks", ranks))
    sets = as_sets("sparsity", sparsity, shapes)
    kind = LeastSquares if as_choice("loss", loss, LOSSES) == LOSSES[0] else Divergence
    max_iter, tol = as_integer("max_iter", max_iter, 0), as_real("tol", tol, 0.0)
    is_sparse = any(each is not None for each in sets)
    n_starts = (_SPARSE_STARTS if is_sparse else 1) if n_init is None else as_integer("n_init", n_init, 1)
    units, exponent = in_units(matrix.astype(np.float64))
    given = None if init is None else as_start("init", init, shapes, exponent)
    session = Session(
        callback,
        random_state=random_state,
        time_budget=time_budget,
        progress=as_flag("progress", progress),
        title="nonnegative_chain",
    )
    with session.interruptible():
        masks: list[Array] | None = None
        if is_sparse:
            with session.part(0.5):
                first = sparse_start(session, units, sets, shapes, given, 1 if given else n_starts)
            masks = [factor != 0 for factor in first]
        else:
            first = given or random_start(units, shapes, session.random)
        best = _fitted(session, kind, units, (first, masks), max_iter, tol)
        for i in range(1, 1 if is_sparse or given else n_starts):
            if session.stopped:
                break
            start = random_start(units, shapes, session.random), None
            with session.part(1 / n_starts, f"start {i + 1}: "):
                best = min(best, _fitted(session, kind, units, start, max_iter, tol), key=lambda fit: fit.value)
    return _result(best, matrix, exponent, loss)


@dataclass
class _Fit:
    """The result of one descent."""

    loss: Loss
    value: float
    n_iter: int
    status: Status
    history: History


def _fitted(
    session: Session,
    kind: type[Loss],
    V: Array,
    start: tuple[list[Array], list[Array] | None],
    max_iter: int,
    tol: float,
) -> _Fit:
    """Sweep from a start; the objective never rises."""
    factors, masks = start
    if kind is Divergence and masks is not None:
        factors = [_lifted(factor, mask) for factor, mask in zip(factors, masks, strict=True)]
    loss, begin, status = kind(V, factors, masks), len(session.history), Status.MAX_ITER
    value, count = loss.objective(), 0
    error, kept = loss.relative(value), [factor.copy(order="K") for factor in loss.factors]
    while count < max_iter:
        if session.stopped:
            break
        n_sweeps = min(loss.every, max_iter - count)
        for _ in range(n_sweeps):
            loss.sweep()
        new = loss.objective()
        if new > value:
            # Only rounding raises the objective: there is nothing left to gain.
            loss.factors, status = kept, Status.CONVERGED
            break
        count += n_sweeps
        previous, value = error, new
        error, kept = loss.relative(value), [factor.copy(order="K") for factor in loss.factors]
        session.report("sweep", error, 1.0, loss.factors, count / max_iter)
        if tol > 0 and previous - error < tol * n_sweeps:
            status = Status.CONVERGED
            break
    if session.stopped:
        status = Status.STOPPED
    return _Fit(loss, value, count, status, History(session.history[begin:]))


def _lifted(factor: Array, mask: Array) -> Array:
    """A factor without zeros on its support."""
    mean = factor.sum() / max(int(mask.sum()), 1)
    return np.where(mask, np.maximum(factor, _LIFTED * mean), 0)


def _result(fit: _Fit, V: Array, exponent: int, loss: str) -> NonnegativeChain:
    """The product with normalised columns, in the unit and dtype of V."""
    factors = normalised(fit.loss.factors)
    factors[-1] = shifted(factors[-1], exponent)
    operator = SparseProduct([factor.astype(V.dtype) for factor in factors])
    power = exponent * (2 if loss == LOSSES[0] else 1)
    objective = float(shifted(np.array([fit.value]), power)[0])
    size = frobenius(V)
    with np.errstate(over="ignore"):
        error = frobenius(V - operator.toarray()) / size if size > 0 else 0.0
    return NonnegativeChain(
        operator,
        fit.n_iter,
        error=error,
        status=fit.status,
        history=fit.history,
        objective=objective,
        loss=loss,
    )


def normalised(factors: Sequence[Array]) -> list[Array]:
    """The same product, in which columns of all factors but the last sum to one, or are zero.

    Entries that the product does not depend on, those of units that no later factor reads, become zero.
    """
    found = [factor.copy() for factor in factors]
    for left, right in pairwise(reversed(found)):
        right[:, ~left.any(axis=1)] = 0
    for left, right in pairwise(found):
        sums = left.sum(axis=0)
        left /= np.where(sums > 0, sums, 1)
        right *= sums[:, None]
    return found


# -- arguments -------------------------------------------------------------------------------------------


def as_nonnegative(name: str, value: Any) -> Array:
    """``value`` as a real, finite matrix without negative entries."""
    matrix = as_matrix(name, value)
    if matrix.dtype.kind == "c":
        raise TypeError(f"{name} must hold real numbers, got dtype {matrix.dtype}")
    if matrix.min() < 0:
        raise ValueError(f"{name} must not have negative entries, got {matrix.min():g}")
    return matrix


def as_ranks(name: str, value: Any) -> list[int]:
    """``value``, one or more integers of at least 1, as a list."""
    if not is_series(value):
        return [as_integer(name, value, 1, _MOST_RANK)]
    ranks = [as_integer(f"{name}[{i}]", rank, 1, _MOST_RANK) for i, rank in enumerate(value)]
    if not ranks:
        raise ValueError(f"{name} must have at least one rank, for two factors, got none")
    return ranks


def shapes_between(shape: tuple[int, int], ranks: Sequence[int]) -> list[tuple[int, int]]:
    """The shapes of the factors of a matrix."""
    return list(pairwise([shape[0], *ranks, shape[1]]))


def as_sets(name: str, value: Any, shapes: Sequence[tuple[int, int]]) -> list[Constraint | None]:
    """The set of each factor, None for those without a limit."""
    if not is_series(value):
        return [_as_set(name, value, shape) for shape in shapes]
    given = list(value)
    if len(given) != len(shapes):
        raise ValueError(f"{name} must have one member for each of the {len(shapes)} factors, got {len(given)}")
    return [
        _as_set(f"{name}[{i}]", each, shape) for i, (each, shape) in enumerate(zip(given, shapes, strict=True))
    ]


def _as_set(name: str, value: Any, shape: tuple[int, int]) -> Constraint | None:
    if value is None:
        return None
    if not isinstance(value, Constraint):
        k = as_integer(name, value, 1)
        return SparseColumns(shape, k) if k < shape[0] else None
    limit = value.constraint if isinstance(value, NonNegative) else value
    if not limit.free_on_support:
        raise ValueError(f"{name} must be a set of supports, such as Sparse or SparseColumns, got {value!r}")
    if limit.shape != shape:
        raise ValueError(f"{name} must be a set of matrices of shape {shape}, got {limit.shape}")
    return limit


def as_start(name: str, value: Any, shapes: Sequence[tuple[int, int]], exponent: int) -> list[Array]:
    """The first factors, as copies, for a matrix that was divided by 2^exponent."""
    given = list(value) if is_series(value) else [value]
    if len(given) != len(shapes):
        raise ValueError(f"{name} must have {len(shapes)} factors, got {len(given)}")
    factors = []
    for i, (each, shape) in enumerate(zip(given, shapes, strict=True)):
        factor = as_nonnegative(f"{name}[{i}]", each)
        if factor.shape != shape:
            raise ValueError(f"{name}[{i}] must have shape {shape}, got {factor.shape}")
        factors.append(np.array(factor, dtype=np.float64))
    factors[-1] = np.array(shifted(factors[-1], -exponent))
    return factors
