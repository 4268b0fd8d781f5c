"""The best entries of a column, by trying all its supports.

A column x of a factor X, all else fixed, contributes A x bᵀ to the product, with A the product of the factors on
the left, and b the row on the right that belongs to it. What it should be with at most k entries,

    min ½‖b‖² xᵀAᵀA x − cᵀx,  x ≥ 0,  ‖x‖₀ ≤ k,

has a finite number of candidates: the least-squares solution on each support, where it is positive. There are few
supports of a few entries, and all columns of a factor share AᵀA, so that these are solved in one go.
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import combinations
from math import comb

import numpy as np

from ..constraints import Constraint, SparseColumns
from ..runtime.session import Session
from ..typing import Array
from .losses import LeastSquares, error_of, sweep_until

_ROUNDS = 15  # of exchanges, at most
_SWEEPS = 4  # on the supports, after each round of exchanges
_LEAST_GAIN = 1e-3  # of the error, that is worth another round
_RIDGE = 1e-12  # of the largest diagonal entry: some supports are linearly dependent
_MOST_NUMBERS = 1 << 21  # in what is solved in one go
_MOST_WORK = 5e6  # multiplications to try all supports of a factor


def exchanged(
    session: Session, V: Array, start: Sequence[Array], sets: Sequence[Constraint | None], rounds: int = _ROUNDS
) -> list[Array]:
    """Rounds of exchanges in all factors with few entries per column; the error never rises."""
    factors = [np.ascontiguousarray(factor) for factor in start]
    error = error_of(V, factors)
    for _ in range(rounds):
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
    """The best columns of one factor, one after the other; those of the last do not depend on each other."""
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
    """For AᵀA = I, in the first factor: the k largest positive entries."""

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
    """All supports of one to k entries, with the inverse of their part of a Gram matrix."""

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
