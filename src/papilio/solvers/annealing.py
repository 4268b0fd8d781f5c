"""Annealing, which gets PALM's supports out of local minima."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from ..linalg import frobenius, inner
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..results import Factorization, History, Status
from ..runtime.session import Session
from ..typing import Array
from .factor_chain import multiplied
from .moments import Moments
from .palm import Fit, Limits, as_factorization, descend, is_rough
from .polish import polish
from .schedule import Schedule

_WARM, _COLD = 0.5, 0.02  # how far sets are relaxed in the first and in the last round
_NOISE = 0.5  # times the relaxation and the size of an entry
STEPS = 30  # Iterations of PALM in the relaxed sets, and again in the sets themselves.
_EXACT = 1e-12


def annealed(
    session: Session, target: Array | Moments, schedule: Schedule, start: Factorization, rounds: int
) -> Factorization:
    """The best of several rounds that loosen and tighten the sets, starting from ``start``.

    The target is a matrix, or the `Moments` of data, of which the product is then the dictionary.

    Round by round, the sets of all factors are relaxed from n to n^(1 − t)·N^t of N entries, noise of t/2 of an
    entry's size is added, and PALM descends in the relaxed sets and then in the sets themselves. t falls from 0.5
    to 0.02 in equal ratios. Each round starts where the last one ended, better or worse; the best end is polished
    and returned, so that the error is never above that of ``start``.

    On DCT, orthogonal and sparse-product matrices (2 and 3 factors, complexity 0.25 and 0.5), this gave on average
    0.55 of the error of plain hierarchical PALM. Noise alone gave 0.60 to 0.68, relaxation alone 0.64, dropping
    entries at random about 0.9.
    """
    begin = len(session.history)
    moments = exact = target if isinstance(target, Moments) else Moments(target)
    limits = Limits(schedule.order, STEPS, tol=0.0, inertia=True)
    factors = dense_factors(start.operator)
    if is_rough(exact, schedule.constraints, start.error):
        moments = moments.in_single_precision  # Steps of large factors then take half the time.
        factors = [factor.astype(moments.cross.dtype) for factor in factors]
    fit = best = Fit(factors, start.operator.scale, start.error, start.status)
    for r in range(rounds):
        relaxation = falling(_WARM, _COLD, r, rounds)
        with session.part(1 / rounds):
            random = session.random
            fit = annealing_round(session, random, f" {r + 1}", moments, schedule, fit.factors, relaxation, limits)
        if session.stopped:
            break
        best = fit if fit.error < best.error else best
        if best.error <= _EXACT:
            break
    if moments is not exact:
        moments = exact
        best = best._replace(factors=[factor.astype(exact.cross.dtype) for factor in best.factors])
        if not is_rough(exact, schedule.constraints, best.error) and not session.stopped:
            sets = schedule.sets_for(best.factors)
            best = descend(session, "double precision", exact, sets, best.factors, best.scale, limits)
    if not session.stopped:
        sets, order = schedule.constraints, limits.order
        factors, scale = polish(moments, sets, best.factors, best.scale, order, lambda: session.stopped)
        best = best._replace(factors=factors, scale=scale)
    status = Status.STOPPED if session.stopped else Status.CONVERGED
    history = History([*start.history, *session.history[begin:]])
    found = as_factorization(moments, best._replace(status=status), history)
    # Polishing leaves an exact fit as it is, but its error is computed anew and may differ by rounding.
    return found if found.error < start.error else replace(found, operator=start.operator, error=start.error)


def falling(warm: float, cold: float, number: int, rounds: int) -> float:
    """The relaxation of a round, which falls from ``warm`` to ``cold`` in equal ratios."""
    return warm * (cold / warm) ** (number / max(rounds - 1, 1))


def annealing_round(
    session: Session,
    random: np.random.RandomState,
    number: str,
    moments: Moments,
    schedule: Schedule,
    factors: Sequence[Array],
    relaxation: float,
    limits: Limits,
) -> Fit:
    """PALM in relaxed sets, from factors with noise of half the relaxation, and then in the sets themselves."""
    for phase, share in (("loosen", relaxation), ("tighten", 0.0)):
        # Before there is noise, which would hide what lines share blocks.
        members = schedule.sets_for(factors, share)
        factors = [_with_noise(factor, _NOISE * share, random) for factor in factors] if share else factors
        factors = [constraint.project(factor) for constraint, factor in zip(members, factors, strict=True)]
        scale = best_scale(moments, factors)
        with session.part(1 / 2):
            fit = descend(session, f"{phase}{number}", moments, members, factors, scale, limits)
        factors = fit.factors
        if session.stopped:
            break
    return fit


def _with_noise(factor: Array, level: float, random: np.random.RandomState) -> Array:
    """``factor`` with noise of ``level`` times the size of its entries."""
    size = frobenius(factor) / sqrt(int(np.count_nonzero(factor)) or 1)
    noise: Any = random.standard_normal(factor.shape)
    if np.iscomplexobj(factor):
        noise = (noise + 1j * random.standard_normal(factor.shape)) / np.sqrt(2)
    return (factor + level * size * noise).astype(factor.dtype)


def dense_factors(operator: SparseProduct) -> list[Array]:
    """The factors as dense matrices."""
    return [to_dense(factor) for factor in operator.factors]


def best_scale(moments: Moments, factors: Sequence[Array]) -> float:
    """Re⟨B, D⟩/Re⟨DA, D⟩ of the product D, which is Re⟨X, D⟩/‖D‖² for a plain matrix X."""
    product = multiplied(factors)
    energy = frobenius(product) ** 2 if moments.gram is None else inner(product @ moments.gram, product)
    return inner(product, moments.cross) / energy if energy > 0 else 0.0
