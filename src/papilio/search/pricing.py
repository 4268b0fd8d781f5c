"""What a product costs where a speed-up is the target: its time, as a share of the dense matrix's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..operators import SparseProduct
from ..operators.calibration import reference_for
from ..solvers.schedule import Schedule

_TOLERANCE = 1.03  # times the target: what measurements may vary by
_UNUSED = 0.93  # of the target: a product that takes less may be larger
_ROUNDS = 3  # of measurements, each of which corrects the model
_TRIES = 6  # products that are built in each round, to find the largest one by the model


class Pricing:
    """Costs in seconds, in the unit of one entry of the dense matrix: that costs as much as it has entries.

    ``vectors`` are applied at a time. A model of the kernels, calibrated on this machine, finds the sizes of
    products; what is kept is measured.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], vectors: int) -> None:
        self._reference = reference_for(shape, dtype, vectors)
        self._size = shape[0] * shape[1]

    def modelled(self, operator: SparseProduct) -> float:
        """The cost by the model."""
        return self._size * self._reference.share_of(operator)

    def measured(self, operator: SparseProduct) -> float:
        """The cost as it was measured, less what measurements may vary by."""
        return self._size * self._reference.measured_share_of(operator) / _TOLERANCE

    def most_entries(
        self, build: Callable[[int], SparseProduct | None], least: int, most: int, budget: float
    ) -> int | None:
        """The largest number of entries, of those from ``least`` to ``most``, with a cost of at most ``budget``.

        ``build`` makes a product with at most so many entries, or returns None if there is none. Costs grow with
        entries, nearly in proportion. None if no product was found.
        """
        correction, found = 1.0, None
        for _ in range(_ROUNDS):
            place = self._largest(build, least, most, budget / correction)
            operator = None if place is None else build(place)
            if place is None or operator is None:
                break
            cost = self.measured(operator)
            if cost <= budget:
                found = place if found is None else max(found, place)
            if _UNUSED * budget <= cost <= budget or (cost < budget and place == most):
                break
            correction = cost / self.modelled(operator)
        return found

    def _largest(
        self, build: Callable[[int], SparseProduct | None], least: int, most: int, budget: float
    ) -> int | None:
        """The same by the model: by regula falsi, as costs are nearly proportional to entries."""
        low, high = least - 1, most  # the largest number that is known to fit, and that may still fit
        place = int(np.clip(budget, least, most))
        for _ in range(_TRIES):
            operator = build(place)
            cost = np.inf if operator is None else self.modelled(operator)
            if cost <= budget:
                low = place
            else:
                high = place - 1
            if low >= high or (low == place and cost >= _UNUSED * budget):
                break
            guess = place * budget / cost if np.isfinite(cost) and cost > 0 else 2 * place
            place = int(np.clip(guess, low + 1, high))
        return None if low < least else low


def random_member(schedule: Schedule, dtype: np.dtype[Any]) -> SparseProduct:
    """A product of factors from the last sets of a schedule, at random places."""
    random = np.random.default_rng(0)
    factors = [each.project(random.standard_normal(each.shape)) for each in schedule.constraints]
    return SparseProduct([factor.astype(dtype) for factor in factors])


def schedule_with_speedup(
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    speedup: float,
    vectors: int,
    n_factors: int | None,
    block: int | tuple[int, int] | None,
) -> Schedule:
    """`Schedule.with_complexity` with the most entries of a product that is ``speedup`` times as fast as dense."""
    size = shape[0] * shape[1]
    pricing = Pricing(shape, dtype, vectors)

    def schedule(entries: int) -> Schedule:
        return Schedule.with_complexity(shape, entries / size, n_factors, block)

    def build(entries: int) -> SparseProduct | None:
        try:
            return random_member(schedule(entries), dtype)
        except ValueError:  # fewer than the factors have lines
            return None

    entries = pricing.most_entries(build, 1, size, size / speedup)
    if entries is None:
        raise ValueError(
            f"speedup must be lower: no product of {n_factors or 2} sparse factors with the shape {shape} is "
            f"{speedup:g} times faster than the dense matrix on this machine"
        )
    return schedule(entries)
