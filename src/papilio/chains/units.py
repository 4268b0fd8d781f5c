"""Two sparse non-negative factors: a search over their hidden units.

After annealing, columns exchange entries, each for its best support. That ends in a local minimum. So a few hidden
units are taken out and begun again from what the others leave, again and again, as long as that lowers the error.
Once the product is exact, units are taken out that it does not need.
"""

from collections.abc import Sequence

import numpy as np

from ..linalg import frobenius
from ..runtime.session import Session
from ..typing import Array
from .annealing import EXACT, NEARLY, STAGES, Sets, Shape, annealed, random_start, settled, shares_from
from .exchange import exchanged
from .losses import error_of

_DENSE = 30  # sweeps of a start without limits
_STAGES_AGAIN = 5  # of annealing, after units were begun again
_SHARES = (0.3, 0.65)  # how far limits are loosened then
_CLOSE = 1.5  # times the lowest error so far: trials above are not pursued
_PATIENCE, _TRIALS = 40, 5  # trials without success; trials in all, times that
_PATIENCE_TO_THIN = 12  # the same for a product that is already exact, with one unit less
_CANDIDATES = 3  # units to take out then
_WORK = 3e10  # multiplications of all trials
_MOST_UNITS = 3  # that are begun again in a trial


def two_factors(session: Session, V: Array, sets: Sets, shapes: Sequence[Shape]) -> list[Array]:
    """V ≈ S₁S₂ with factors in the sets."""
    random = session.random
    start = random_start(V, shapes, random)
    rows = random.permutation(len(V))[np.arange(shapes[1][0]) % len(V)]
    start[1] = V[rows] + 1e-3 * start[1]  # rows that read one unit show it
    best = annealed(session, V, start, sets, shares_from(1.0, STAGES), _DENSE)
    best = exchanged(session, V, best, sets)
    if all(each is None for each in sets):
        return best
    best = _searched(session, V, best, sets, np.arange(shapes[1][0]), _PATIENCE)
    # With only one limit, an exact product says little: a square factor without a limit always gives one.
    is_exact = error_of(V, best) < EXACT and all(each is not None for each in sets)
    return thinned(session, V, best, sets) if is_exact else best


def _searched(
    session: Session, V: Array, best: list[Array], sets: Sets, units: Array, patience: int
) -> list[Array]:
    """Trials in which some of the given units begin again, until the product is exact or many in turn fail."""
    random = session.random
    error, failures = error_of(V, best), 0
    most = min(_TRIALS * patience, _affordable(V, len(best[1])))
    for trial in range(most):
        if error < EXACT or failures >= patience or session.tick("trials", trial, most):
            break
        shares = shares_from(random.uniform(*_SHARES), _STAGES_AGAIN)
        found = annealed(session, V, reseeded(V, best, units, random), sets, shares)
        found, lower = _finished(session, V, found, sets, error)
        failures = 0 if lower < error else failures + 1
        if lower < error:
            best, error = found, lower
    return best


def _finished(
    session: Session, V: Array, factors: list[Array], sets: Sets, error: float
) -> tuple[list[Array], float]:
    """Factors after exchanges, and their error; more steps where that is small, beside the error so far, too."""
    factors = exchanged(session, V, factors, sets)
    lower = error_of(V, factors)
    if lower < min(NEARLY, _CLOSE * error):
        factors = settled(session, V, factors)
        lower = error_of(V, factors)
    return factors, lower


def thinned(session: Session, V: Array, factors: list[Array], sets: Sets) -> list[Array]:
    """An exact product of fewer units, as long as one is found.

    A unit that is not needed would make a side of a cut a product of no sparse factors. Taken out are those that
    the others replace best.
    """
    ends = [np.asarray(np.linalg.qr(factor, "r")) for factor in (factors[0], factors[1].T)]
    rank = np.linalg.matrix_rank(ends[0] @ ends[1].T, tol=EXACT * frobenius(V))  # that of the product
    while (fewer := _with_a_unit_less(session, V, factors, sets, int(rank))) is not None:
        factors = fewer
    return factors


def _with_a_unit_less(
    session: Session, V: Array, factors: list[Array], sets: Sets, rank: int
) -> list[Array] | None:
    """An exact product without one of the units, if it is found; the number of units is at least the rank."""
    sizes = _sizes(factors)
    units = np.flatnonzero(sizes)
    if units.size <= rank:
        return None
    candidates: list[tuple[float, int, list[Array]]] = []
    for j in units[np.argsort(sizes[units])][: _affordable(V, len(sizes))]:
        if session.stopped:
            return None
        left, right = (factor.copy() for factor in factors)
        left[:, j], right[j] = 0, 0
        found = exchanged(session, V, [left, right], sets)
        error = error_of(V, found)
        if error < EXACT:
            return found
        candidates.append((error, j, found))
    for _, j, found in sorted(candidates, key=lambda each: each[0])[:_CANDIDATES]:
        found = _searched(session, V, settled(session, V, found), sets, units[units != j], _PATIENCE_TO_THIN)
        if error_of(V, found) < EXACT:
            return found
    return None


def _affordable(V: Array, units: int) -> int:
    """A number of trials whose time is bounded."""
    return max(int(_WORK / (400 * V.size * units)), 5)


def _sizes(factors: Sequence[Array]) -> Array:
    """The norm of what each unit contributes to the product of two factors."""
    return np.asarray(np.linalg.norm(factors[0], axis=0) * np.linalg.norm(factors[1], axis=1))


def reseeded(V: Array, factors: Sequence[Array], units: Array, random: np.random.RandomState) -> list[Array]:
    """The same factors, in which a few of the given units begin again from parts of what the others leave.

    Taken out are units that contribute little, or those where the residual is large.
    """
    left, right = (factor.copy() for factor in factors)
    sizes = _sizes(factors)
    weights = 1 / (sizes + 0.1 * sizes.mean() + 1e-100)
    if random.random_sample() < 0.5:
        on_left, on_right = (left != 0).astype(float), (right != 0).astype(float)
        missed = np.einsum("ij,ij->j", on_left, np.abs(V - left @ right) @ on_right.T)
        weights = missed / np.maximum(on_left.sum(axis=0) * on_right.sum(axis=1), 1)
    for j in units[_drawn(weights[units], random.randint(1, _MOST_UNITS + 1), random)]:
        left[:, j], right[j] = 0, 0
        rest = V - left @ right
        surplus = np.maximum(rest, 0)
        if random.random_sample() < 0.5:
            left[:, j] = common_part(V.T, surplus.T, random)
            right[j] = np.maximum(left[:, j] @ rest, 0) / max(float(left[:, j] @ left[:, j]), 1e-12)
        else:
            right[j] = common_part(V, surplus, random)
            left[:, j] = np.maximum(rest @ right[j], 0) / max(float(right[j] @ right[j]), 1e-12)
    return [left, right]


def common_part(V: Array, surplus: Array, random: np.random.RandomState) -> Array:
    """What a row of the surplus shares with a row of V that resembles it there: their entrywise minimum.

    A row of V is a sum of several units, and what two rows have in common mostly one of them.
    """
    chosen = _drawn((surplus**2).sum(axis=1), 1, random)[0]
    own = V[chosen]
    likeness = (V @ own) ** 2 / np.maximum((V**2).sum(axis=1), 1e-100)
    likeness[chosen] = 0
    other = V[_drawn(likeness, 1, random)[0]]
    shared = (own > 1e-100) & (other > 1e-100)
    if not shared.any():
        return surplus[chosen]
    return np.minimum(surplus[chosen], other * np.median(own[shared] / other[shared]))


def _drawn(weights: Array, count: int, random: np.random.RandomState) -> Array:
    """Some indices, with probabilities in proportion to weights."""
    weights = weights + 1e-9 * weights.max(initial=0.0) + 1e-100
    return random.choice(weights.size, min(count, weights.size), replace=False, p=weights / weights.sum())
