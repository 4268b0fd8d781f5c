"""Annealing: a way out of the local minima that PALM's supports settle in."""

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Factorization, History, Status
from ..solvers.moments import Moments
from ..solvers.palm import Callback, Run
from ..solvers.polish import polish
from ..solvers.schedule import Schedule
from ..typing import Array

_WARM, _COLD = 0.5, 0.02  # how far sets are relaxed in the first and in the last round
_NOISE = 0.5  # times the relaxation and the size of an entry
STEPS = 30  # of PALM in the relaxed sets, and again in the sets themselves
_EXACT = 1e-12


def annealed(
    target: Array,
    schedule: Schedule,
    start: Factorization,
    rounds: int,
    random: np.random.RandomState,
    callback: Callback | None = None,
) -> Factorization:
    """The best of several rounds that loosen and tighten the sets, starting from ``start``.

    Round by round, the sets of all factors are relaxed from n to n^(1 − t)·N^t of N entries, noise of t/2 of an
    entry's size is added, and PALM descends in the relaxed sets and then in the sets themselves. t falls from 0.5
    to 0.02 in equal ratios. Each round starts where the last one ended, better or worse; the best end is polished
    and returned, so that the error is never above that of ``start``.

    Of the ways that were tried on DCT, orthogonal and sparse-product matrices (2 and 3 factors, complexity 0.25
    and 0.5), this one gave the lowest error: on average 0.55 of that of plain hierarchical PALM. Noise alone gave
    0.60 to 0.68, relaxation alone 0.64, dropping entries at random about 0.9.
    """
    sets = schedule.constraints
    order = schedule.order
    moments, run = Moments(target), Run(callback)
    factors, scale = [factor.toarray() for factor in start.operator.factors], start.operator.scale
    best = start.error, factors, scale
    for r in range(rounds):
        share = _WARM * (_COLD / _WARM) ** (r / max(rounds - 1, 1))
        factors = [_disturbed(factor, _NOISE * share, random) for factor in factors]
        looser = [constraint.relaxed(share) for constraint in sets]
        for phase, members in ((f"loosen {r + 1}", looser), (f"tighten {r + 1}", sets)):
            factors = [constraint.project(factor) for constraint, factor in zip(members, factors, strict=True)]
            scale = best_scale(target, factors)
            factors, scale, error, _ = run.descend(
                phase, moments, members, factors, scale, order, STEPS, 0.0, True
            )
            if run.stopped:
                break
        else:
            if error < best[0]:
                best = error, factors, scale
        if run.stopped or best[0] <= _EXACT:
            break
    factors, scale = best[1:]
    if not run.stopped:
        factors, scale = polish(moments, sets, factors, scale, order)
    found = run.factorization(moments, factors, scale, Status.STOPPED if run.stopped else Status.CONVERGED)
    passed = start.history[-1].seconds if start.history else 0.0
    history = History([*start.history, *(step._replace(seconds=passed + step.seconds) for step in run.history)])
    # Polishing leaves a fit that is exact already as it is; rounding may still tell them apart.
    better = found if found.error < start.error else replace(start, status=found.status)
    return replace(better, n_iter=len(history), history=history)


def _disturbed(factor: Array, level: float, random: np.random.RandomState) -> Array:
    """``factor`` with noise in all places, of ``level`` times the size of its entries."""
    size = frobenius(factor) / sqrt(int(np.count_nonzero(factor)) or 1)
    noise: Any = random.standard_normal(factor.shape)
    if np.iscomplexobj(factor):
        noise = (noise + 1j * random.standard_normal(factor.shape)) / np.sqrt(2)
    return (factor + level * size * noise).astype(factor.dtype)


def best_scale(target: Array, factors: list[Array]) -> float:
    """Re⟨X, X̂⟩/‖X̂‖²."""
    product = SparseProduct(factors).toarray()
    energy = frobenius(product) ** 2
    return float(np.vdot(product, target).real) / energy if energy > 0 else 0.0
