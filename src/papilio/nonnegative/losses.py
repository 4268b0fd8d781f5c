"""The two losses of non-negative factors: each improves all factors by a sweep, and knows the remaining error.

A sweep goes from the first factor to the last. With A and B the products left and right of a factor X:

- least squares, ½‖V − AXB‖²: coordinate descent, each entry of X minimised exactly, given AᵀA, BBᵀ and AᵀVBᵀ;
- Kullback–Leibler divergence, Σ v log(v/v̂) − v + v̂: the multiplicative step of Lyu and Wang (2013),
  X ← X ∘ (Aᵀ(V ⊘ AXB)Bᵀ) ⊘ (Aᵀ1 1ᵀBᵀ).

Neither raises its objective, and neither fills an entry that is not allowed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

import numpy as np
from scipy.special import xlogy

from ..kernels.coordinates import descend_columns, descend_entries
from ..linalg import frobenius
from ..runtime.session import Session
from ..typing import Array

LOSSES = ("frobenius", "kullback-leibler")
FLOOR = 1e-12  # added to the product in the divergence, relative to the root mean square of V
_INACCURATE = 1e-6  # relative to ‖V‖²: a smaller objective is not computed as a difference of large numbers
# The divergence of many entries is slow because of its logarithms.
_MANY_ENTRIES, _SWEEPS_PER_OBJECTIVE = 1 << 14, 10
_VANISHED = 1e-100  # smaller entries become zero: as denormal numbers they would slow down multiplications
_ROUNDING = 1e-60  # Relative to the largest entry. Other factors would balance smaller entries by huge ones.


def error_of(V: Array, factors: Sequence[Array]) -> float:
    """The relative error of a product."""
    return frobenius(V - reduce(np.matmul, factors)) / (frobenius(V) or 1.0)


def sweep_until(session: Session, loss: "Loss", count: int) -> None:
    """``count`` sweeps, or fewer if the session is stopped."""
    for _ in range(count):
        if session.stopped:
            return
        loss.sweep()


class Loss(ABC):
    """An objective of V and its non-negative factors, which are changed in place."""

    every = 1  # sweeps between two evaluations of the objective

    def __init__(self, V: Array, factors: Sequence[Array], masks: Sequence[Array] | None = None) -> None:
        self.V = V
        self.factors = [np.ascontiguousarray(factor) for factor in factors]  # changed in place
        self.masks = [np.ones(f.shape, np.bool_) for f in self.factors] if masks is None else list(masks)

    @abstractmethod
    def sweep(self) -> None:
        """Improve each factor once."""

    @abstractmethod
    def objective(self) -> float:
        """The objective of the current factors."""

    @abstractmethod
    def relative(self, objective: float) -> float:
        """The objective as the error that a history shows: ‖V − V̂‖/‖V‖, or D(V‖V̂)/ΣV."""

    def product(self) -> Array:
        """V̂ as a dense matrix."""
        return reduce(np.matmul, self.factors)

    def _rights(self) -> list[Array]:
        """The product of all factors right of each but the last."""
        products = [self.factors[-1]]
        for factor in reversed(self.factors[1:-1]):
            products.append(factor @ products[-1])
        return products[::-1]


class LeastSquares(Loss):
    """½‖V − S₁…S_K‖_F²."""

    def __init__(self, V: Array, factors: Sequence[Array], masks: Sequence[Array] | None = None) -> None:
        super().__init__(V, factors, masks)
        # Sweeps work on the transpose of the first factor.
        self.factors[0], self.masks[0] = np.asfortranarray(self.factors[0]), np.asfortranarray(self.masks[0])
        self._energy = frobenius(V) ** 2
        self._of_last: tuple[Array, Array] | None = None

    def sweep(self) -> None:
        factors, rights = self.factors, self._rights()
        first, allowed = np.ascontiguousarray(factors[0].T), np.ascontiguousarray(self.masks[0].T)
        gram = rights[0] @ rights[0].T
        gradient = gram @ first
        gradient -= rights[0] @ self.V.T
        descend_columns(first, gradient, gram, allowed, _least(first))
        factors[0] = first.T
        left, seen = first @ first.T, first @ self.V  # AᵀA and AᵀV
        for j in range(1, len(factors) - 1):
            factor, right = factors[j], rights[j]
            gram = right @ right.T
            gradient = left @ factor @ gram - seen @ right.T
            descend_entries(factor, gradient, left, gram, self.masks[j], _least(factor))
            left, seen = factor.T @ left @ factor, factor.T @ seen
        last = factors[-1]
        descend_columns(last, left @ last - seen, left, self.masks[-1], _least(last))
        self._of_last = left, seen

    def objective(self) -> float:
        if self._of_last is not None:
            # After a sweep, AᵀA and AᵀV of the last factor are at hand.
            (left, seen), last = self._of_last, self.factors[-1]
            value = 0.5 * self._energy + float(np.vdot(last, 0.5 * (left @ last) - seen))
            if value > _INACCURATE * self._energy:
                return value
        return 0.5 * frobenius(self.V - self.product()) ** 2

    def relative(self, objective: float) -> float:
        return float(np.sqrt(2 * objective / self._energy)) if self._energy > 0 else 0.0


def _least(factor: Array) -> float:
    """The largest entry that counts as rounding."""
    return _ROUNDING * float(factor.max())


class Divergence(Loss):
    """Σ v log(v/v̂) − v + v̂, with `FLOOR` added to all v̂."""

    def __init__(self, V: Array, factors: Sequence[Array], masks: Sequence[Array] | None = None) -> None:
        super().__init__(V, factors, masks)
        for factor, mask in zip(self.factors, self.masks, strict=True):
            factor[~mask] = 0
        self.every = 1 if V.size <= _MANY_ENTRIES else _SWEEPS_PER_OBJECTIVE
        self._mass = float(V.sum())
        self._own = float(xlogy(V, V).sum()) - self._mass
        self._estimate, self._ratio = np.empty_like(V), np.empty_like(V)
        self._places = np.flatnonzero(V)
        self._values, self._logs = V.ravel()[self._places], np.empty(self._places.size)
        self._is_current = False

    def sweep(self) -> None:
        left: Array | None = None
        for j, (factor, right) in enumerate(zip(self.factors, [*self._rights(), None], strict=True)):
            if j > 0:
                before = self.factors[j - 1]
                left = before if left is None else left @ before
            if j > 0 or not self._is_current:
                self._multiply(left, factor, right)
            np.divide(self.V, self._estimate, out=self._ratio)
            factor *= self._step(left, right)
            factor[factor < _VANISHED] = 0
            self._is_current = False

    def _multiply(self, left: Array | None, factor: Array, right: Array | None) -> None:
        """AXB + floor, in the cheaper order."""
        if left is not None and right is not None:
            if left.shape[0] <= right.shape[1]:
                left, factor = None, left @ factor
            else:
                factor, right = factor @ right, None
        if right is not None:
            np.matmul(factor, right, out=self._estimate)
        elif left is not None:
            np.matmul(left, factor, out=self._estimate)
        self._estimate += FLOOR

    def _step(self, left: Array | None, right: Array | None) -> Array:
        """Aᵀ(V ⊘ AXB)Bᵀ ⊘ (Aᵀ1 1ᵀBᵀ); zero where the product does not depend on an entry."""
        raised = self._ratio
        is_left_first = left is not None and (right is None or left.shape[1] <= right.shape[0])
        if left is not None and is_left_first:
            raised = left.T @ raised
        if right is not None:
            raised = raised @ right.T
        if left is not None and not is_left_first:
            raised = left.T @ raised
        rows = np.ones(1) if left is None else left.sum(axis=0)
        columns = np.ones(1) if right is None else right.sum(axis=1)
        scale = np.broadcast_to(rows[:, None] * columns, raised.shape)
        return np.divide(raised, scale, out=np.zeros_like(raised), where=scale > 0)

    def objective(self) -> float:
        if not self._is_current:
            self._multiply(None, self.factors[0], self._rights()[0])
            self._is_current = True
        np.take(self._estimate, self._places, out=self._logs)
        np.log(self._logs, out=self._logs)
        value = self._own - float(np.vdot(self._values, self._logs)) + float(self._estimate.sum())
        return max(value, 0.0)

    def relative(self, objective: float) -> float:
        return objective / self._mass if self._mass > 0 else 0.0
