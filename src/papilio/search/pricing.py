"""What a product costs where a speed-up is the target: its time, as a share of the dense matrix's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..constraints.sparsity import as_block
from ..operators import SparseProduct
from ..operators.speed import measured_share, modelled_share
from ..solvers.schedule import Schedule
from .roots import crossing
from .targets import least_entries

TOLERANCE = 1.06  # times the target: what measurements may vary by
_AIM = 0.98  # Relative to the target, so that most products that the model finds are within it.
_UNUSED = 0.92  # Relative to the target; a product that takes less time may have more entries.
_ROUNDS = 4  # Rounds of measurements; each corrects the model.
_TRIES = 12  # products that are built in each round, to find the largest one by the model


class Pricing:
    """Costs in seconds, in the unit of one entry of the dense matrix: that costs as much as it has entries.

    ``vectors`` are applied at a time. The model of the kernels finds the sizes of products; what is kept is
    measured, and corrects the model.
    """

    def __init__(self, shape: tuple[int, int], vectors: int) -> None:
        self._size, self._vectors = shape[0] * shape[1], vectors

    def modelled(self, operator: SparseProduct) -> float:
        """The cost by the model."""
        return self._size * modelled_share(operator, self._vectors)

    def measured(self, operator: SparseProduct) -> float:
        """The cost as it was measured."""
        return self._size * measured_share(operator, self._vectors)

    def fairly_measured(self, operator: SparseProduct, limit: float = 0.0) -> float:
        """The same; the middle of three if the first is above ``limit``, as other work may have disturbed it."""
        cost = self.measured(operator)
        return cost if cost <= limit else sorted([cost, self.measured(operator), self.measured(operator)])[1]

    def most_entries(
        self, build: Callable[[int], SparseProduct], least: int, most: int, budget: float
    ) -> int | None:
        """The largest number of entries, of those from ``least`` to ``most``, with a cost of at most ``budget``.

        ``build`` makes a product with at most so many entries; costs grow with them. None if already the smallest
        product costs more. The model finds a number, and is corrected by what its product really costs.
        """
        smallest = build(least)
        cost = self.fairly_measured(smallest, budget)
        if cost > budget:
            return None
        found, correction = least, cost / self.modelled(smallest)
        for _ in range(_ROUNDS):
            place, operator = self._largest(build, found, most, _AIM * budget / correction)
            if place == found:
                break
            cost = self.fairly_measured(operator, budget)
            correction = cost / self.modelled(operator)
            if cost <= budget:
                found = place
                if cost >= _UNUSED * budget:
                    break
            else:
                most = place - 1
        return found

    def _largest(
        self, build: Callable[[int], SparseProduct], least: int, most: int, budget: float
    ) -> tuple[int, SparseProduct]:
        """The same by the model, from ``least`` on, which fits."""
        built: dict[int, SparseProduct] = {}

        def spare(entries: int) -> float:
            built[entries] = build(entries)
            return budget - self.modelled(built[entries])

        stride = max((most - least) // 2, 1)
        near = (1 - _UNUSED) * budget
        place, _ = crossing(spare, most, stride, least, most, _TRIES, lambda left: 0 < left < near)
        return (least, build(least)) if place is None else (place, built[place])


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
    size, pricing = shape[0] * shape[1], Pricing(shape, vectors)
    sides = None if block is None else as_block(block, (min(shape),) * 2)
    least = least_entries(shape, n_factors or 2, sides)

    def schedule(entries: int) -> Schedule:
        return Schedule.with_complexity(shape, entries / size, n_factors, block)

    def build(entries: int) -> SparseProduct:
        return random_member(schedule(entries), dtype)

    entries = pricing.most_entries(build, least, max(size, least), size / speedup)
    if entries is None:
        raise ValueError(
            f"speedup must be lower: no product of {n_factors or 2} sparse factors with the shape {shape} is "
            f"{speedup:g} times faster than the dense matrix on this machine"
        )
    return schedule(entries)
