"""Damped Gauss–Newton steps of all entries of a chain on their supports (Levenberg–Marquardt).

Where sweeps over the factors hardly move, because hidden units are nearly parallel, a joint step still does. The
derivative by the entry (p, q) of factor i is a_p b_qᵀ, with A_i and B_i the products left and right of it, so that

    JᵀJ[(i, p, q), (j, r, s)] = (A_iᵀA_j)[p, r] · (B_iB_jᵀ)[q, s],   Jᵀr[(i, p, q)] = (A_iᵀ(V − V̂)B_iᵀ)[p, q].
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from ..runtime.session import Session
from ..typing import Array
from .losses import error_of

_MOST_ENTRIES, _LONGEST = 1200, 2000  # of all factors; rows or columns of V
_LOOKBACK, _LEAST_FALL = 8, 0.9  # steps, and to what share the error must have fallen in these
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-14, 1e3


def joint_steps(session: Session, V: Array, factors: Sequence[Array], goal: float, steps: int) -> list[Array]:
    """Steps on the supports of the factors, until the relative error is below the goal; it never rises."""
    chain = [np.ascontiguousarray(factor) for factor in factors]
    places = [np.nonzero(factor) for factor in chain]
    if not 0 < sum(rows.size for rows, _ in places) <= _MOST_ENTRIES or max(V.shape) > _LONGEST:
        return chain
    ends = np.cumsum([rows.size for rows, _ in places])[:-1]
    error, damping = error_of(V, chain), _DAMPING
    past: list[float] = []
    for _ in range(steps):
        is_slow = len(past) >= _LOOKBACK and error > _LEAST_FALL * past[-_LOOKBACK]
        if error <= goal or is_slow or damping > _MOST_DAMPING or session.stopped:
            break
        past.append(error)
        gram, slope = _normal_equations(V, chain, places)
        values = np.concatenate([factor[at] for factor, at in zip(chain, places, strict=True)])
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
                _filled(factor.shape, at, part) for factor, at, part in zip(chain, places, parts, strict=True)
            ]
            new = error_of(V, trial)
            lower = new < error  # never for NaN
            damping = max(damping / 5, _LEAST_DAMPING) if lower else damping * 8
        if lower:
            chain, error = trial, new
    return chain


def _normal_equations(
    V: Array, chain: Sequence[Array], places: Sequence[tuple[Array, ...]]
) -> tuple[Array, Array]:
    """JᵀJ and Jᵀr on the supports."""
    lefts, rights = [np.eye(len(V))], [np.eye(V.shape[1])]
    for factor in chain[:-1]:
        lefts.append(lefts[-1] @ factor)
    for factor in reversed(chain[1:]):
        rights.append(factor @ rights[-1])
    rights.reverse()
    residual = V - lefts[-1] @ chain[-1]
    slopes = [
        (A.T @ residual @ B.T)[rows, columns] for A, B, (rows, columns) in zip(lefts, rights, places, strict=True)
    ]
    blocks = [
        [
            (A.T @ C)[np.ix_(rows, others)] * (B @ D.T)[np.ix_(columns, beside)]
            for C, D, (others, beside) in zip(lefts, rights, places, strict=True)
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
