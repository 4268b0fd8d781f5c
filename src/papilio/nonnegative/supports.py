"""The search for the supports of sparse non-negative factors.

The product is cut at its lowest rank, where the product of the factors on either side is determined best, and both
sides are cut in the same way, until two factors are left; in the end all factors adapt together.

Two factors are found by annealing: from a dense start, more and more small entries are dropped while the others
adapt. Then columns exchange entries, each for its best support. That ends in a local minimum. So a few hidden
units are removed and restarted from what the others leave, again and again, as long as that lowers the error. Once
the product is exact, units that it does not need are removed.
"""

from collections.abc import Sequence

import numpy as np

from ..constraints import Constraint, SparseColumns
from ..linalg import frobenius
from ..runtime.session import Session
from ..typing import Array
from .exchange import exchanged, joint_steps
from .losses import LeastSquares, error_of, sweep_until

Shape = tuple[int, int]
Sets = Sequence[Constraint | None]

_EXACT = 1e-6  # relative error; the search ends below
_NEARLY_EXACT = 0.02  # relative error; below, joint steps may reach an exact product
_STAGES = 12  # Stages of annealing, from no limit to the given limits.
# Sweeps before annealing, after each choice of supports, and in the end.
_DENSE_SWEEPS, _STAGE_SWEEPS, _LAST_SWEEPS = 30, 4, 10
_ROUND_SWEEPS, _MOST_ROUNDS = 50, 20
_ROUND_FALL = 0.7  # Another round of sweeps follows if the error fell to this share.
_JOINT_STEPS, _JOINT_GOAL = 50, 1e-9

# Annealing after a restart of units: stages, and by how much limits are relaxed.
_TRIAL_STAGES, _TRIAL_SHARES = 5, (0.3, 0.65)
_PROMISING = 1.5  # relative to the lowest error so far; trials with larger errors are not pursued
_MOST_FAILURES, _MOST_FAILURES_WITHOUT_A_UNIT = 40, 12  # trials in succession without success
_TRIALS_PER_FAILURE = 5  # Largest number of trials relative to that of failures.
_TRIAL_WORK, _LEAST_TRIALS = 3e10 / 400, 5  # multiplications of V by the units, in all trials
_MOST_UNITS = 3  # Largest number of units that a trial restarts.
_CANDIDATES = 3  # For so many units, trials look for an exact product without that unit.
_REUSED = 3  # Number of further attempts that start from an exact cut.

_VANISHING = 1e-100  # Avoids divisions by zero.


def sparse_start(
    session: Session, V: Array, sets: Sets, shapes: Sequence[Shape], given: list[Array] | None, n_starts: int
) -> list[Array]:
    """The best factors of several starts, which end as soon as one is exact."""
    best: list[Array] = []
    lowest = np.inf
    cuts = _Cuts(session)
    for i in range(n_starts):
        if session.stopped and best:
            break
        with session.part(1 / n_starts, f"supports {i + 1}: "):
            if given is None:
                factors = cuts.factors(V, sets, shapes, i)
                again = _annealed(session, V, factors, sets, [0.2, 0.1, 0.0])
                factors = min(factors, again, key=lambda each: error_of(V, each))
            else:
                factors = _annealed(session, V, given, sets, _falling(1.0, _STAGES))
            factors = _settled(session, V, exchanged(session, V, factors, sets))
        error = error_of(V, factors)
        if error < lowest:
            best, lowest = factors, error
        if lowest < _EXACT:
            break
    return best


class _Cuts:
    """Factors by cuts at the lowest rank. An exact first cut is used for a few more attempts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # The two sides of each exact cut, and how often they may still be used.
        self._exact: dict[int, tuple[list[Array], int]] = {}

    def factors(self, V: Array, sets: Sets, shapes: Sequence[Shape], attempt: int) -> list[Array]:
        """Factors in the sets; cuts at equal ranks take turns."""
        if len(sets) == 1:
            return [V]
        ranks = [shape[1] for shape in shapes[:-1]]
        lowest = [j for j, rank in enumerate(ranks, start=1) if rank == min(ranks)]
        cut = lowest[attempt % len(lowest)]
        pair, uses = self._exact.pop(cut, ([], 0))
        if not pair:
            limits = [_product_set(sets[part], shapes[part]) for part in (slice(cut), slice(cut, None))]
            rank = shapes[cut][0]
            pair = _two_factors(self._session, V, limits, [(len(V), rank), (rank, V.shape[1])])
            uses = _REUSED if error_of(V, pair) < _EXACT else 0
        if uses > 0:
            self._exact[cut] = pair, uses - 1
        # All units get the same size: errors in a small one would not count.
        norms = np.linalg.norm(pair[0], axis=0), np.linalg.norm(pair[1], axis=1)
        left = pair[0] / np.where(norms[0] > 0, norms[0], 1)
        right = pair[1] / np.where(norms[1] > 0, norms[1], 1)[:, None]
        *lefts, middle = _Cuts(self._session).factors(left, sets[:cut], shapes[:cut], attempt)
        rights = _Cuts(self._session).factors(right, sets[cut:], shapes[cut:], attempt)
        return [*lefts, middle * (norms[0] * norms[1]), *rights]


def _product_set(sets: Sets, shapes: Sequence[Shape]) -> Constraint | None:
    """A set that contains all products of members, if one is known."""
    if len(sets) == 1:
        return sets[0]
    rows, columns = shapes[0][0], shapes[-1][1]
    entries = 1
    for each, (height, _) in zip(sets, shapes, strict=True):
        entries *= each.k if isinstance(each, SparseColumns) else height
    return SparseColumns((rows, columns), entries) if entries < rows else None


# -- annealing -------------------------------------------------------------------------------------------


def random_start(V: Array, shapes: Sequence[Shape], random: np.random.RandomState) -> list[Array]:
    """Random factors whose product has the mean of V."""
    factors = [np.abs(random.standard_normal(shape)) for shape in shapes]
    mean = np.ones(shapes[0][0]) / shapes[0][0]
    for factor in factors:
        mean = mean @ factor
    scale = (float(V.mean()) / float(mean.mean())) ** (1 / len(factors))
    return [scale * factor for factor in factors]


def _annealed(
    session: Session, V: Array, start: Sequence[Array], sets: Sets, shares: Sequence[float], dense_sweeps: int = 0
) -> list[Array]:
    """Factors in the sets: limits, relaxed by each share in turn, tighten while the values adapt.

    Dropped entries may return in a sweep before each choice of the supports. After a stop, the given limits hold
    at once.
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
            sweep_until(session, loss, _STAGE_SWEEPS)
    if session.stopped:
        _drop(loss, sets)
        loss.sweep()  # Otherwise the values would be those of a dense product.
    sweep_until(session, loss, _LAST_SWEEPS)
    return [np.ascontiguousarray(factor) for factor in loss.factors]


def _falling(first: float, stages: int) -> list[float]:
    """Shares that fall linearly to zero."""
    return np.linspace(first, 0.0, stages).tolist()


def _settled(session: Session, V: Array, factors: Sequence[Array]) -> list[Array]:
    """Sweeps on the supports as long as they lower the error by much; joint steps if it is then small."""
    loss = LeastSquares(V, factors, [factor != 0 for factor in factors])
    error = error_of(V, factors)
    for _ in range(_MOST_ROUNDS):
        sweep_until(session, loss, _ROUND_SWEEPS)
        previous, error = error, error_of(V, loss.factors)
        if error > _ROUND_FALL * previous or error < _JOINT_GOAL:
            break
    return joint_steps(session, V, loss.factors, _JOINT_GOAL, _JOINT_STEPS if error < _NEARLY_EXACT else 0)


def contributions(factors: Sequence[Array]) -> list[Array]:
    """The norm of what each entry adds to the product: x_pq·‖a_p‖·‖b_q‖, with a_p and b_q from A and B."""
    left, right = [np.ones(len(factors[0]))], [np.ones(factors[-1].shape[1])]
    A, B = factors[0], factors[-1]
    for before, after in zip(factors[1:], reversed(factors[:-1]), strict=True):
        left.append(np.sqrt(np.einsum("ij,ij->j", A, A)))
        right.append(np.sqrt(np.einsum("ij,ij->i", B, B)))
        A, B = A @ before, after @ B
    return [a[:, None] * x * b for a, x, b in zip(left, factors, reversed(right), strict=True)]


def _drop(loss: LeastSquares, sets: Sets) -> None:
    """Keep the entries that contribute most to the product, as many as the sets allow."""
    loss.masks = [
        np.ones(sizes.shape, np.bool_) if each is None else each._project(sizes, nonnegative=True) > 0
        for sizes, each in zip(contributions(loss.factors), sets, strict=True)
    ]
    for factor, mask in zip(loss.factors, loss.masks, strict=True):
        factor[~mask] = 0


# -- two factors -----------------------------------------------------------------------------------------


def _two_factors(session: Session, V: Array, sets: Sets, shapes: Sequence[Shape]) -> list[Array]:
    """V ≈ S₁S₂ with factors in the sets."""
    random = session.random
    start = random_start(V, shapes, random)
    # Rows of V that read a single unit show it.
    rows = random.permutation(len(V))[np.arange(shapes[1][0]) % len(V)]
    start[1] = V[rows] + 1e-3 * start[1]
    best = _annealed(session, V, start, sets, _falling(1.0, _STAGES), _DENSE_SWEEPS)
    best = exchanged(session, V, best, sets)
    if all(each is None for each in sets):
        return best
    best = _improved(session, V, best, sets, np.arange(shapes[1][0]), _MOST_FAILURES)
    # With only one limit, an exact product says little: a square factor without a limit always gives one.
    is_exact = error_of(V, best) < _EXACT and all(each is not None for each in sets)
    return without_spare_units(session, V, best, sets) if is_exact else best


def _improved(
    session: Session, V: Array, best: list[Array], sets: Sets, units: Array, most_failures: int
) -> list[Array]:
    """Trials in which some of the units are restarted, until the product is exact, or many in succession fail."""
    random = session.random
    error, failures = error_of(V, best), 0
    most = min(_TRIALS_PER_FAILURE * most_failures, _affordable(V, len(best[1])))
    for trial in range(most):
        if error < _EXACT or failures >= most_failures or session.tick("trials", trial, most):
            break
        shares = _falling(random.uniform(*_TRIAL_SHARES), _TRIAL_STAGES)
        found = _annealed(session, V, _with_restarted_units(V, best, units, random), sets, shares)
        found = exchanged(session, V, found, sets)
        lower = error_of(V, found)
        if lower < min(_NEARLY_EXACT, _PROMISING * error):
            found = _settled(session, V, found)
            lower = error_of(V, found)
        failures = 0 if lower < error else failures + 1
        if lower < error:
            best, error = found, lower
    return best


def without_spare_units(session: Session, V: Array, factors: list[Array], sets: Sets) -> list[Array]:
    """Remove units from an exact product as long as it stays exact.

    With a unit that is not needed, a side of a cut would not be a product of sparse factors.
    """
    ends = [np.asarray(np.linalg.qr(factor, "r")) for factor in (factors[0], factors[1].T)]
    rank = np.linalg.matrix_rank(ends[0] @ ends[1].T, tol=_EXACT * frobenius(V))  # Rank of the product.
    while (fewer := _without_a_unit(session, V, factors, sets, int(rank))) is not None:
        factors = fewer
    return factors


def _without_a_unit(session: Session, V: Array, factors: list[Array], sets: Sets, rank: int) -> list[Array] | None:
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
        if error < _EXACT:
            return found
        candidates.append((error, j, found))
    # Restarts of the others are tried for the units that these replace best.
    for _, j, found in sorted(candidates, key=lambda each: each[0])[:_CANDIDATES]:
        others, found = units[units != j], _settled(session, V, found)
        found = _improved(session, V, found, sets, others, _MOST_FAILURES_WITHOUT_A_UNIT)
        if error_of(V, found) < _EXACT:
            return found
    return None


def _affordable(V: Array, n_units: int) -> int:
    """The number of trials that fit into the time limit."""
    return max(int(_TRIAL_WORK / (V.size * n_units)), _LEAST_TRIALS)


def _sizes(factors: Sequence[Array]) -> Array:
    """The norm of what each unit adds to the product of two factors."""
    return np.asarray(np.linalg.norm(factors[0], axis=0) * np.linalg.norm(factors[1], axis=1))


def _with_restarted_units(
    V: Array, factors: Sequence[Array], units: Array, random: np.random.RandomState
) -> list[Array]:
    """Restart a few units from the residual of the others.

    Chosen are units that contribute little, or units where the residual is large.
    """
    left, right = (factor.copy() for factor in factors)
    sizes = _sizes(factors)
    weights = 1 / (sizes + 0.1 * sizes.mean() + _VANISHING)
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
    """The entrywise minimum of a row of the surplus and a similar row of V.

    A row of V is a sum of several units, and what two rows have in common is mostly one of them.
    """
    chosen = _drawn((surplus**2).sum(axis=1), 1, random)[0]
    own = V[chosen]
    similarities = (V @ own) ** 2 / np.maximum((V**2).sum(axis=1), _VANISHING)
    similarities[chosen] = 0
    other = V[_drawn(similarities, 1, random)[0]]
    shared = (own > _VANISHING) & (other > _VANISHING)
    if not shared.any():
        return surplus[chosen]
    return np.minimum(surplus[chosen], other * np.median(own[shared] / other[shared]))


def _drawn(weights: Array, count: int, random: np.random.RandomState) -> Array:
    """Draw indices with probabilities proportional to ``weights``."""
    weights = weights + 1e-9 * weights.max(initial=0.0) + _VANISHING
    return random.choice(weights.size, min(count, weights.size), replace=False, p=weights / weights.sum())
