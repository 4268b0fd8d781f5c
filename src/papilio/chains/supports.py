"""Supports of sparse non-negative chains: dense starts, from which small entries are dropped step by step."""

from collections.abc import Sequence

import numpy as np

from ..constraints import Constraint
from ..linalg import frobenius
from ..runtime.session import Session
from ..typing import Array
from .losses import LeastSquares

Sets = Sequence[Constraint | None]

_EXACT = 1e-6  # the relative error of a start after which no other one is tried
_DENSE = 30  # sweeps of a start without limits
_STAGES = 12  # from no limit to the limits that are asked for
_ROUNDS = 3  # of a stage: in each, dropped entries may return
_SWEEPS = 4  # of a round, on its supports
_LAST = 200


def random_start(V: Array, shapes: Sequence[tuple[int, int]], random: np.random.RandomState) -> list[Array]:
    """Random factors whose product has the mean of V."""
    factors = [np.abs(random.standard_normal(shape)) for shape in shapes]
    mean = np.ones(shapes[0][0]) / shapes[0][0]
    for factor in factors:
        mean = mean @ factor
    scale = (float(V.mean()) / float(mean.mean())) ** (1 / len(factors))
    return [scale * factor for factor in factors]


def sparse_start(
    session: Session,
    V: Array,
    sets: Sets,
    shapes: Sequence[tuple[int, int]],
    given: list[Array] | None,
    n_starts: int,
) -> list[Array]:
    """Factors in the sets: the best of some annealed starts, the first exact one the last."""
    size, best, lowest = frobenius(V) or 1.0, [], np.inf
    for _ in range(n_starts):
        if session.stopped and best:
            break
        with session.part(1 / n_starts):
            start = given or random_start(V, shapes, session.random)
            factors = annealed(session, V, start, sets)
        error = frobenius(V - _product(factors)) / size
        if error < lowest:
            best, lowest = factors, error
        if lowest < _EXACT:
            break
    return best


def annealed(session: Session, V: Array, start: Sequence[Array], sets: Sets) -> list[Array]:
    """Factors in the sets, from dense ones: limits tighten from stage to stage, and the rest adapts."""
    loss = LeastSquares(V, start)
    for _ in range(_DENSE):
        loss.sweep()
    for stage in range(_STAGES):
        limits = [None if each is None else each.relaxed(1 - (stage + 1) / _STAGES) for each in sets]
        for _ in range(_ROUNDS):
            loss.masks = [np.ones(factor.shape, np.bool_) for factor in loss.factors]
            loss.sweep()
            drop(loss, limits)
            for _ in range(_SWEEPS):
                loss.sweep()
        if session.tick("supports", stage + 1, _STAGES):
            break
    drop(loss, sets)
    for _ in range(_LAST):
        loss.sweep()
    return loss.factors


def drop(loss: LeastSquares, sets: Sets) -> None:
    """Keep the entries that the sets allow: those that contribute most to the product."""
    loss.masks = [
        np.ones(worth.shape, np.bool_) if each is None else each._project(worth, nonnegative=True) > 0
        for worth, each in zip(worths(loss.factors), sets, strict=True)
    ]
    for factor, mask in zip(loss.factors, loss.masks, strict=True):
        factor[~mask] = 0


def worths(factors: Sequence[Array]) -> list[Array]:
    """The norm of what each entry contributes to the product: x_pq·‖a_p‖·‖b_q‖, with a_p and b_q from A and B."""
    left, right = [np.ones(len(factors[0]))], [np.ones(factors[-1].shape[1])]
    A, B = factors[0], factors[-1]
    for before, after in zip(factors[1:], reversed(factors[:-1]), strict=True):
        left.append(np.sqrt(np.einsum("ij,ij->j", A, A)))
        right.append(np.sqrt(np.einsum("ij,ij->i", B, B)))
        A, B = A @ before, after @ B
    return [a[:, None] * x * b for a, x, b in zip(left, factors, reversed(right), strict=True)]


def _product(factors: Sequence[Array]) -> Array:
    product = factors[0]
    for factor in factors[1:]:
        product = product @ factor
    return product
