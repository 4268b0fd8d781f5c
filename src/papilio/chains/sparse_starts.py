"""Supports of sparse non-negative chains.

Two factors: from a dense start, small entries are dropped, more and more of them, while the others adapt. Then
columns exchange entries, each for its best support. That ends in a local minimum. So a few hidden units are taken
out and begun again from what the others leave, again and again, as long as that lowers the error.

More factors: the chain is cut at its lowest rank, where the product of the factors on either side is determined
best, and both sides are treated in the same way. In the end all factors adapt together.
"""

from collections.abc import Sequence

import numpy as np

from ..constraints import Constraint, SparseColumns
from ..linalg import frobenius
from ..runtime.session import Session
from ..typing import Array
from .exchange import exchanged
from .joint import joint_steps
from .losses import LeastSquares, error_of, sweep_until

Shape = tuple[int, int]
Sets = Sequence[Constraint | None]

_EXACT = 1e-6  # the relative error below which nothing is searched for any longer
_DENSE = 30  # sweeps of a start without limits
_STAGES = 12  # from no limit to the limits that are asked for
_STAGES_AGAIN = 5  # the same after units were begun again
_SWEEPS = 4  # on the supports, after each choice of them
_LAST = 10  # sweeps in the end
_FINE, _MOST_ROUNDS = 50, 20  # sweeps of a round, and rounds, once the error is nearly zero
_NEARLY, _CLOSE = 0.02, 1.5  # in trials, that is also times the lowest error
_LEAPS = 50  # joint steps of all entries after these
_ROUNDS = 15  # of exchanges
_MOST_TRIALS, _WORK = 200, 3e10  # to begin units again; multiplications of all trials
_PATIENCE = 40  # trials without success
_PATIENCE_TO_THIN = 20  # the same for a product that is already exact, with one unit less
_USES = 3  # more attempts that an exact first cut serves for
_MOST_UNITS = 3  # that are begun again in a trial
_SHARES = (0.3, 0.65)  # how far limits are loosened then


def random_start(V: Array, shapes: Sequence[Shape], random: np.random.RandomState) -> list[Array]:
    """Random factors whose product has the mean of V."""
    factors = [np.abs(random.standard_normal(shape)) for shape in shapes]
    mean = np.ones(shapes[0][0]) / shapes[0][0]
    for factor in factors:
        mean = mean @ factor
    scale = (float(V.mean()) / float(mean.mean())) ** (1 / len(factors))
    return [scale * factor for factor in factors]


def sparse_start(
    session: Session, V: Array, sets: Sets, shapes: Sequence[Shape], given: list[Array] | None, n_starts: int
) -> list[Array]:
    """Factors in the sets, the best of some starts; an exact one is the last."""
    best: list[Array] = []
    lowest = np.inf
    cuts = Cuts(session)
    for i in range(n_starts):
        if session.stopped and best:
            break
        with session.part(1 / n_starts, f"supports {i + 1}: "):
            if given is None:
                factors = cuts.factors(V, sets, shapes, i)
                factors = _best(V, factors, annealed(session, V, factors, sets, [0.2, 0.1, 0.0]))
            else:
                factors = annealed(session, V, given, sets, _shares(1.0, _STAGES))
            factors = settled(session, V, exchanged(session, V, factors, sets, _ROUNDS))
        error = error_of(V, factors)
        if error < lowest:
            best, lowest = factors, error
        if lowest < _EXACT:
            break
    return best


class Cuts:
    """Factors by cuts at the lowest rank. A first cut that is exact serves for a few more attempts, too."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._exact: dict[int, tuple[list[Array], int]] = {}  # by place: factors, and how often they may serve

    def factors(self, V: Array, sets: Sets, shapes: Sequence[Shape], attempt: int) -> list[Array]:
        """Factors in the sets; cuts at equal ranks take turns."""
        ranks = [shape[1] for shape in shapes[:-1]]
        lowest = [j for j, rank in enumerate(ranks, start=1) if rank == min(ranks)]
        cut = lowest[attempt % len(lowest)]
        pair, uses = self._exact.pop(cut, ([], 0))
        if not pair:
            pair = self._cut(V, sets, shapes, cut)
            uses = _USES if error_of(V, pair) < _EXACT else 0
        if uses > 0:
            self._exact[cut] = pair, uses - 1
        # Units of equal size: in whatever is small, errors would not count.
        norms = np.linalg.norm(pair[0], axis=0), np.linalg.norm(pair[1], axis=1)
        left = pair[0] / np.where(norms[0] > 0, norms[0], 1)
        right = pair[1] / np.where(norms[1] > 0, norms[1], 1)[:, None]
        lefts = self._side(left, sets[:cut], shapes[:cut], attempt)
        return [
            *lefts[:-1],
            lefts[-1] * (norms[0] * norms[1]),
            *self._side(right, sets[cut:], shapes[cut:], attempt),
        ]

    def _side(self, V: Array, sets: Sets, shapes: Sequence[Shape], attempt: int) -> list[Array]:
        return [V] if len(sets) == 1 else Cuts(self._session).factors(V, sets, shapes, attempt)

    def _cut(self, V: Array, sets: Sets, shapes: Sequence[Shape], cut: int) -> list[Array]:
        halves = (sets[:cut], shapes[:cut]), (sets[cut:], shapes[cut:])
        limits = [_product_set(*half) for half in halves]
        rank = shapes[cut][0]
        return two_factors(self._session, V, limits, [(len(V), rank), (rank, V.shape[1])])


def _product_set(sets: Sets, shapes: Sequence[Shape]) -> Constraint | None:
    """A set that contains all products of members, as far as one is known."""
    if len(sets) == 1:
        return sets[0]
    rows, columns = shapes[0][0], shapes[-1][1]
    entries = 1
    for each, (height, _) in zip(sets, shapes, strict=True):
        entries *= each.k if isinstance(each, SparseColumns) else height
    return SparseColumns((rows, columns), entries) if entries < rows else None


# -- two factors -----------------------------------------------------------------------------------------


def two_factors(session: Session, V: Array, sets: Sets, shapes: Sequence[Shape]) -> list[Array]:
    """V ≈ S₁S₂ with factors in the sets."""
    random = session.random
    start = random_start(V, shapes, random)
    rows = random.permutation(len(V))[np.arange(shapes[1][0]) % len(V)]
    start[1] = V[rows] + 1e-3 * start[1]  # rows that read one unit show it
    best = annealed(session, V, start, sets, _shares(1.0, _STAGES), _DENSE)
    best = exchanged(session, V, best, sets, _ROUNDS)
    if all(each is None for each in sets):
        return best
    best = _searched(session, V, best, sets, np.arange(shapes[1][0]), _PATIENCE)
    return _thinned(session, V, best, sets) if error_of(V, best) < _EXACT else best


def _searched(
    session: Session, V: Array, best: list[Array], sets: Sets, units: Array, patience: int
) -> list[Array]:
    """Trials in which some of the given units begin again, until the product is exact or many in turn fail."""
    random = session.random
    error, failures = error_of(V, best), 0
    most = int(np.clip(_WORK / (400 * V.size * len(best[1])), 5, _MOST_TRIALS))
    for trial in range(most):
        if error < _EXACT or failures >= patience or session.tick("trials", trial, most):
            break
        shares = _shares(random.uniform(*_SHARES), _STAGES_AGAIN)
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
    factors = exchanged(session, V, factors, sets, _ROUNDS)
    lower = error_of(V, factors)
    if lower < min(_NEARLY, _CLOSE * error):
        factors = settled(session, V, factors)
        lower = error_of(V, factors)
    return factors, lower


def _thinned(session: Session, V: Array, factors: list[Array], sets: Sets) -> list[Array]:
    """An exact product of fewer units, as long as one is found.

    Units that are not needed would make the sides of a cut products of no sparse factors. The unit that is taken
    out is the one that the others replace best.
    """
    rank = int(np.linalg.matrix_rank(V, tol=_EXACT * frobenius(V)))
    while True:
        units = np.flatnonzero(factors[0].any(axis=0) & factors[1].any(axis=1))
        best: list[Array] = []
        lowest, kept = np.inf, units
        for j in units if units.size > rank else ():
            if lowest < _EXACT or session.stopped:
                break
            left, right = (factor.copy() for factor in factors)
            left[:, j], right[j] = 0, 0
            found, error = _finished(session, V, [left, right], sets, np.inf)
            if error < lowest:
                best, lowest, kept = found, error, units[units != j]
        if not best:
            return factors
        best = _searched(session, V, best, sets, kept, _PATIENCE_TO_THIN)
        if error_of(V, best) >= _EXACT:
            return factors
        factors = best


def reseeded(V: Array, factors: Sequence[Array], units: Array, random: np.random.RandomState) -> list[Array]:
    """The same factors, in which a few of the given units begin again from parts of what the others leave.

    Taken out are units that contribute little, or those where the residual is large.
    """
    left, right = (factor.copy() for factor in factors)
    sizes = np.linalg.norm(left, axis=0) * np.linalg.norm(right, axis=1)
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
            left[:, j] = _common_part(V.T, surplus.T, random)
            right[j] = np.maximum(left[:, j] @ rest, 0) / max(float(left[:, j] @ left[:, j]), 1e-12)
        else:
            right[j] = _common_part(V, surplus, random)
            left[:, j] = np.maximum(rest @ right[j], 0) / max(float(right[j] @ right[j]), 1e-12)
    return [left, right]


def _common_part(V: Array, surplus: Array, random: np.random.RandomState) -> Array:
    """What a row of the surplus shares with a row of V that resembles it there: their entrywise minimum.

    A row of V is a sum of several units, and what two rows have in common mostly one of them.
    """
    chosen = _drawn((surplus**2).sum(axis=1), 1, random)[0]
    own = V[chosen]
    likeness = (V @ own) ** 2 / np.maximum((V**2).sum(axis=1), 1e-100)
    likeness[chosen] = 0
    other = V[_drawn(likeness, 1, random)[0]]
    shared = (own > 0) & (other > 0)
    if not shared.any():
        return surplus[chosen]
    return np.minimum(surplus[chosen], other * np.median(own[shared] / other[shared]))


def _drawn(weights: Array, count: int, random: np.random.RandomState) -> Array:
    """Some indices, with probabilities in proportion to weights."""
    weights = weights + 1e-9 * weights.max(initial=0.0) + 1e-100
    return random.choice(weights.size, min(count, weights.size), replace=False, p=weights / weights.sum())


# -- what all of them share ------------------------------------------------------------------------------


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
        if error > 0.7 * previous or error < 1e-3 * _EXACT:
            break
    return joint_steps(session, V, loss.factors, 1e-3 * _EXACT, _LEAPS if error < _NEARLY else 0)


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


def _shares(first: float, stages: int) -> list[float]:
    """Shares that fall from the first one to zero."""
    return [float(share) for share in np.linspace(first, 0.0, stages)]


def _best(V: Array, *options: list[Array]) -> list[Array]:
    return min(options, key=lambda factors: error_of(V, factors))
