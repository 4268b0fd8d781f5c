"""Supports of non-negative factors by annealing: from a dense start, small entries are dropped, more and more of
them, while the others adapt.
"""

from collections.abc import Sequence

import numpy as np

from ..constraints import Constraint
from ..runtime.session import Session
from ..typing import Array
from .joint import joint_steps
from .losses import LeastSquares, error_of, sweep_until

Shape = tuple[int, int]
Sets = Sequence[Constraint | None]

EXACT = 1e-6  # the relative error below which nothing is searched for any longer
NEARLY = 0.02  # the one below which an exact product may be near
STAGES = 12  # from no limit to the limits that are asked for
_SWEEPS = 4  # on the supports, after each choice of them
_LAST = 10  # sweeps in the end
_FINE, _MOST_ROUNDS = 50, 20  # sweeps of a round, and rounds, to settle
_LEAPS = 50  # joint steps of all entries after these


def random_start(V: Array, shapes: Sequence[Shape], random: np.random.RandomState) -> list[Array]:
    """Random factors whose product has the mean of V."""
    factors = [np.abs(random.standard_normal(shape)) for shape in shapes]
    mean = np.ones(shapes[0][0]) / shapes[0][0]
    for factor in factors:
        mean = mean @ factor
    scale = (float(V.mean()) / float(mean.mean())) ** (1 / len(factors))
    return [scale * factor for factor in factors]


def annealed(
    session: Session,
    V: Array,
    start: Sequence[Array],
    sets: Sets,
    shares: Sequence[float],
    dense_sweeps: int = 0,
) -> list[Array]:
    """Factors in the sets: limits, loosened by each share in turn, tighten, and the rest adapts.

    Dropped entries may return, in a sweep before each choice of the supports. After a stop, the limits that are
    asked for hold at once.
    """
    loss = LeastSquares(V, start)
    sweep_until(session, loss, dense_sweeps)
    for share in shares:
        limits = [None if each is None else each.relaxed(share) for each in sets]
        for _ in range(2):
            if session.stopped:
                break
            loss.masks = [np.ones_like(factor, np.bool_) for factor in loss.factors]
            loss.sweep()
            _drop(loss, limits)
            sweep_until(session, loss, _SWEEPS)
    if session.stopped:
        _drop(loss, sets)
        loss.sweep()  # or the values would be those of a dense product
    sweep_until(session, loss, _LAST)
    return [np.ascontiguousarray(factor) for factor in loss.factors]


def settled(session: Session, V: Array, factors: Sequence[Array]) -> list[Array]:
    """Sweeps on the supports, as long as they lower the error by much; then joint steps, near to zero."""
    loss = LeastSquares(V, factors, [factor != 0 for factor in factors])
    error = error_of(V, factors)
    for _ in range(_MOST_ROUNDS):
        sweep_until(session, loss, _FINE)
        previous, error = error, error_of(V, loss.factors)
        if error > 0.7 * previous or error < 1e-3 * EXACT:
            break
    return joint_steps(session, V, loss.factors, 1e-3 * EXACT, _LEAPS if error < NEARLY else 0)


def worths(factors: Sequence[Array]) -> list[Array]:
    """The norm of what each entry contributes to the product: x_pq·‖a_p‖·‖b_q‖, with a_p and b_q from A and B."""
    left, right = [np.ones(len(factors[0]))], [np.ones(factors[-1].shape[1])]
    A, B = factors[0], factors[-1]
    for before, after in zip(factors[1:], reversed(factors[:-1]), strict=True):
        left.append(np.sqrt(np.einsum("ij,ij->j", A, A)))
        right.append(np.sqrt(np.einsum("ij,ij->i", B, B)))
        A, B = A @ before, after @ B
    return [a[:, None] * x * b for a, x, b in zip(left, factors, reversed(right), strict=True)]


def _drop(loss: LeastSquares, sets: Sets) -> None:
    """Keep the entries that the sets allow: those that contribute most to the product."""
    loss.masks = [
        np.ones(worth.shape, np.bool_) if each is None else each._project(worth, nonnegative=True) > 0
        for worth, each in zip(worths(loss.factors), sets, strict=True)
    ]
    for factor, mask in zip(loss.factors, loss.masks, strict=True):
        factor[~mask] = 0


def shares_from(first: float, stages: int) -> list[float]:
    """Shares that fall from the first one to zero."""
    return [float(share) for share in np.linspace(first, 0.0, stages)]
