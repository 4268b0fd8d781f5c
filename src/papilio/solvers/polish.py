"""Least-squares fits on given supports, where PALM's gradient steps would be slow."""

from collections.abc import Callable, Sequence

import numpy as np

from ..constraints import Constraint
from ..linalg import frobenius
from ..typing import Array
from .factor_chain import Chain, Matrix, adjoint, compact, dense, times
from .moments import Moments

_MAX_SWEEPS = 20
_MAX_STEPS = 50  # Largest number of steps of conjugate gradients.
_WORK = 1 << 26  # steps times the target's entries, over all sweeps: no limit for 128×128 and less


def polish(
    moments: Moments,
    sets: Sequence[Constraint],
    factors: Sequence[Array],
    scale: float,
    order: str,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[list[Array], float]:
    """Least squares for one factor after another, each on its support, until the error stops falling.

    Only factors whose set is `free_on_support` change. For such a factor with support Ω,

        min ‖X − L V R‖_F over V that vanish outside Ω

    is solved by conjugate gradients, and the norm of V becomes the scale. The error never rises. If X is a
    product with these supports whose splits have blocks of rank one, as in butterfly factorizations, one sweep
    is exact. Returns the factors and the scale, those so far once ``should_stop()``.
    """
    chain = Chain(moments, factors, order)
    # A power of two: division is exact, and squares of large and small data stay in range.
    unit = 2.0 ** int(np.frexp(moments.norm)[1])
    chain.rescale(unit)
    scale /= unit
    supports = [factor != 0 for factor in chain.factors]
    error, steps_left = np.inf, max(_WORK // chain.target.size, _MAX_STEPS)
    for _ in range(_MAX_SWEEPS):
        previous = error
        for j in chain.sweep():
            if sets[j].free_on_support:
                start = chain.factors[j] * chain.factors[j].real.dtype.type(scale)
                misfit = chain.target - chain.product() * start.real.dtype.type(scale)
                if chain.relative(frobenius(misfit)) <= chain.rounding:
                    return chain.factors, scale * unit
                if should_stop() or steps_left <= 0:
                    return chain.factors, scale * unit
                values, steps = _least_squares(misfit, chain.left, start, chain.right, supports[j], should_stop)
                steps_left -= steps
                size = frobenius(values)
                if size > 0:
                    chain.factors[j], scale = values / values.real.dtype.type(size), size
        error = chain.error_of(chain.product(), scale)
        if error > 0.999 * previous or error <= chain.rounding:
            break
    return chain.factors, scale * unit


def _least_squares(
    misfit: Array,
    left: Matrix | None,
    start: Array,
    right: Matrix | None,
    support: Array,
    should_stop: Callable[[], bool],
) -> tuple[Array, int]:
    """argmin ‖X − L V R‖ over V on ``support``, by conjugate gradients (CGLS), and the number of steps.

    ``misfit`` is X − L·start·R. The iteration ends when a step lowers the squared error by less than 1e-6 of it.
    """
    left_adjoint, right_adjoint = adjoint(left), adjoint(right)

    def gradient_of(misfit: Array) -> Array:
        return np.where(support, dense(times(times(left_adjoint, misfit), right_adjoint)), 0)

    values, gradient, steps = start, gradient_of(misfit), 0
    direction = gradient
    remaining, slope = frobenius(misfit) ** 2, frobenius(gradient) ** 2
    while steps < _MAX_STEPS:
        steps += 1
        image = dense(times(times(left, compact(direction)), right))
        curvature = frobenius(image) ** 2
        if slope == 0 or curvature == 0:
            break
        length = slope / curvature
        values = values + direction * values.real.dtype.type(length)
        misfit = misfit - image * misfit.real.dtype.type(length)
        if length * slope <= 1e-6 * remaining or should_stop():
            break
        remaining = frobenius(misfit) ** 2
        gradient = gradient_of(misfit)
        previous, slope = slope, frobenius(gradient) ** 2
        direction = gradient + direction * direction.real.dtype.type(slope / previous)
    return values, steps
