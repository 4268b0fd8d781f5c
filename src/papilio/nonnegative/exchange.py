"""Two steps that lower the error where sweeps over the factors stall: exchanges of entries, and joint steps.

**Exchanges.** A column x of a factor X, all else fixed, contributes A x bᵀ to the product, with A the product of
the factors on the left, and b the row on the right that belongs to it. What it should be with at most k entries,

    min ½‖b‖² xᵀAᵀA x − cᵀx,  x ≥ 0,  ‖x‖₀ ≤ k,

has a finite number of candidates: the least-squares solution on each support, where it is positive. There are few
supports of a few entries, and all columns of a factor share AᵀA, so one batch of small inverses serves them all.

**Joint steps** are damped Gauss–Newton steps of all entries on their supports (Levenberg–Marquardt). They progress
where sweeps hardly do, because hidden units are nearly parallel. The derivative by the entry (p, q) of factor i is
a_p b_qᵀ, with A_i and B_i the products left and right of it, so that

    JᵀJ[(i, p, q), (j, r, s)] = (A_iᵀA_j)[p, r] · (B_iB_jᵀ)[q, s],   Jᵀr[(i, p, q)] = (A_iᵀ(V − V̂)B_iᵀ)[p, q].
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import combinations
from math import comb

import numpy as np
import scipy.linalg

from ..constraints import Constraint, SparseColumns
from ..runtime.session import Session
from ..typing import Array
from .losses import LeastSquares, error_of, sweep_until

_MOST_ROUNDS = 15
_SWEEPS = 4  # Sweeps on the supports after each round of exchanges.
_LEAST_GAIN = 1e-3  # Relative fall of the error that is needed for another round.
_RIDGE = 1e-12  # relative to the largest diagonal entry, as some supports are linearly dependent
_MOST_NUMBERS = 1 << 21  # Numbers in the arrays of a batch.
_MOST_WORK = 5e6  # multiplications to try all supports of a factor

_MOST_ENTRIES, _LONGEST_SIDE = 1200, 2000  # Limits for the entries of all factors, and for the longer side of V.
_STALL_WINDOW, _STALL_FALL = 8, 0.9  # Within so many joint steps, the error must fall to this share.
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-14, 1e3  # relative to the diagonal


def exchanged(
    session: Session, V: Array, start: Sequence[Array], sets: Sequence[Constraint | None]
) -> list[Array]:
    """Rounds of exchanges in all factors with few entries per column; the error never rises."""
    factors = [np.ascontiguousarray(factor) for factor in start]
    error = error_of(V, factors)
    for _ in range(_MOST_ROUNDS):
        for j, each in reversed(list(enumerate(sets))):
            if isinstance(each, SparseColumns) and not session.stopped:
                _exchange(V, factors, j, each.k)
        loss = LeastSquares(V, factors, [factor != 0 for factor in factors])
        sweep_until(session, loss, _SWEEPS)
        factors = [np.ascontiguousarray(factor) for factor in loss.factors]
        previous, error = error, error_of(V, factors)
        if error > (1 - _LEAST_GAIN) * previous:
            break
    return factors


def _exchange(V: Array, factors: list[Array], j: int, k: int) -> None:
    """The best columns of one factor, one after the other; those of the last factor are independent."""
    X, seen = factors[j], V
    choice: Supports | Largest = Largest(k)
    if j > 0:
        if comb(len(X), k) * k**2 * (k + X.shape[1]) > _MOST_WORK:
            return
        A = reduce(np.matmul, factors[:j])
        choice, seen = Supports(A.T @ A, k), A.T @ V
    if j == len(factors) - 1:
        found = choice.best(seen)
        factors[j] = np.where(_values(choice, found, seen) < _values(choice, X, seen), found, X)
        return
    B = reduce(np.matmul, factors[j + 1 :])
    weights, seen = B @ B.T, seen @ B.T
    X = factors[j] = X.copy()
    for q in np.flatnonzero(weights.diagonal() > 0):
        own = weights[q, q]
        others = X @ weights[:, q] - own * X[:, q]
        wanted = ((seen[:, q] - choice.apply(others)) / own)[:, None]
        found = choice.best(wanted)
        if _values(choice, found, wanted)[0] < _values(choice, X[:, [q]], wanted)[0]:
            X[:, q] = found[:, 0]


class Largest:
    """The choice for AᵀA = I, in the first factor: the k largest positive entries."""

    def __init__(self, k: int) -> None:
        self._k = k

    def apply(self, X: Array) -> Array:
        return X

    def best(self, C: Array) -> Array:
        """The minimum of ½xᵀx − cᵀx, x ≥ 0, for each column c, with k entries."""
        found = np.maximum(C, 0)
        if self._k < len(found):
            np.put_along_axis(found, np.argpartition(found, -self._k, axis=0)[: -self._k], 0, axis=0)
        return found


class Supports:
    """All supports of one to k entries, with the inverses of their parts of a Gram matrix."""

    def __init__(self, gram: Array, k: int) -> None:
        self._gram = gram
        ridge = _RIDGE * float(gram.diagonal().max()) + np.finfo(float).tiny
        self._levels = []
        for count in range(1, k + 1):
            places = _combinations(len(gram), count)
            parts = gram[places[:, :, None], places[:, None, :]] + ridge * np.eye(count)
            self._levels.append((places, np.linalg.inv(parts)))

    def apply(self, X: Array) -> Array:
        return np.asarray(self._gram @ X)

    def best(self, C: Array) -> Array:
        """The minimum of ½xᵀGx − cᵀx, x ≥ 0, for each column c, over all these supports."""
        width = max(_MOST_NUMBERS // self._levels[-1][0].size, 1)
        return np.hstack([self._best(C[:, at : at + width]) for at in range(0, C.shape[1], width)])

    def _best(self, C: Array) -> Array:
        X, highest = np.zeros(C.shape), np.zeros(C.shape[1])
        for places, inverses in self._levels:
            parts = C[places]  # supports × entries × columns
            solved = inverses @ parts
            gains = np.einsum("skn,skn->sn", solved, parts)
            gains[(solved < 0).any(axis=1)] = -1
            which = gains.argmax(axis=0)
            columns = np.flatnonzero(gains[which, np.arange(len(which))] > highest)
            which = which[columns]
            highest[columns] = gains[which, columns]
            X[:, columns] = 0
            X[places[which].T, columns] = solved[which, :, columns].T
        return X


def _values(choice: Supports | Largest, X: Array, C: Array) -> Array:
    """½xᵀGx − cᵀx of each column."""
    return np.einsum("ij,ij->j", X, 0.5 * choice.apply(X) - C)


@lru_cache(maxsize=32)
def _combinations(n: int, k: int) -> Array:
    return np.array(list(combinations(range(n), k)))


def joint_steps(session: Session, V: Array, start: Sequence[Array], goal: float, steps: int) -> list[Array]:
    """Steps on the supports of the factors, until the relative error is below the goal; it never rises."""
    factors = [np.ascontiguousarray(factor) for factor in start]
    places = [np.nonzero(factor) for factor in factors]
    if not 0 < sum(rows.size for rows, _ in places) <= _MOST_ENTRIES or max(V.shape) > _LONGEST_SIDE:
        return factors
    ends = np.cumsum([rows.size for rows, _ in places])[:-1]
    error, damping = error_of(V, factors), _FIRST_DAMPING
    past: list[float] = []
    for _ in range(steps):
        is_slow = len(past) >= _STALL_WINDOW and error > _STALL_FALL * past[-_STALL_WINDOW]
        if error <= goal or is_slow or damping > _MOST_DAMPING or session.stopped:
            break
        past.append(error)
        gram, slope = _normal_equations(V, factors, places)
        values = np.concatenate([factor[at] for factor, at in zip(factors, places, strict=True)])
        free = (values > 0) | (slope > 0)
        gram, slope = gram[np.ix_(free, free)], slope[free]
        diagonal = gram.diagonal()
        lower = False
        while not lower and damping <= _MOST_DAMPING:
            damped = gram + np.diag(damping * (diagonal + 1e-3 * diagonal.mean()) + np.finfo(float).tiny)
            moved = values.copy()
            moved[free] += _solved(damped, slope)
            parts = np.split(np.maximum(moved, 0), ends)
            trial = [
                _filled(factor.shape, at, part) for factor, at, part in zip(factors, places, parts, strict=True)
            ]
            new = error_of(V, trial)
            lower = new < error  # False if the new error is NaN.
            damping = max(damping / 5, _LEAST_DAMPING) if lower else damping * 8
        if lower:
            factors, error = trial, new
    return factors


def _normal_equations(
    V: Array, factors: Sequence[Array], places: Sequence[tuple[Array, ...]]
) -> tuple[Array, Array]:
    """JᵀJ and Jᵀr on the supports."""
    lefts, rights = [np.eye(len(V))], [np.eye(V.shape[1])]
    for factor in factors[:-1]:
        lefts.append(lefts[-1] @ factor)
    for factor in reversed(factors[1:]):
        rights.append(factor @ rights[-1])
    rights.reverse()
    residual = V - lefts[-1] @ factors[-1]
    slopes = [
        (A.T @ residual @ B.T)[rows, columns] for A, B, (rows, columns) in zip(lefts, rights, places, strict=True)
    ]
    blocks = [
        [
            (A.T @ C)[np.ix_(rows, others)] * (B @ D.T)[np.ix_(columns, across)]
            for C, D, (others, across) in zip(lefts, rights, places, strict=True)
        ]
        for A, B, (rows, columns) in zip(lefts, rights, places, strict=True)
    ]
    return np.block(blocks), np.concatenate(slopes)


def _solved(gram: Array, slope: Array) -> Array:
    """The solution of a positive definite system; NaN where rounding leaves it indefinite."""
    try:
        return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), slope))
    except np.linalg.LinAlgError:
        return np.full_like(slope, np.nan)


def _filled(shape: tuple[int, ...], at: tuple[Array, ...], values: Array) -> Array:
    factor = np.zeros(shape)
    factor[at] = values
    return factor
