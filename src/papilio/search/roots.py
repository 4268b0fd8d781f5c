"""Roots of monotone functions on the integers, with few evaluations."""

from collections.abc import Callable
from math import inf


def crossing(
    excess: Callable[[int], float],
    start: int,
    stride: int,
    least: int,
    most: int,
    tries: int,
    is_near: Callable[[float], bool] = lambda value: value == 0,
) -> tuple[int | None, int | None]:
    """Neighbours between which a falling function changes its sign, as near as so many evaluations allow.

    From ``start``, strides that double find an interval; false position and bisection take turns in it. So the
    result does not depend on the start, unless the evaluations run out. The search ends at a value that
    ``is_near``. The first number of the result is the last place that is known to have a positive value, and the
    second one the first place with any other; None if there is no such place from ``least`` to ``most``.
    """
    low: int | None = None
    high: int | None = None
    low_value = high_value = inf
    place = min(max(start, least), most)
    for i in range(tries):
        value = excess(place)
        if value > 0:
            low, low_value = place, value
        else:
            high, high_value = place, value
        if is_near(value):
            break
        if low is None or high is None:
            moved = min(max(place + (stride if value > 0 else -stride), least), most)
            stride *= 2
            if moved == place:
                break
            place = moved
            continue
        if high - low < 2:
            break
        share = low_value / (low_value - high_value) if i % 2 and low_value < inf and high_value > -inf else 0.5
        place = min(max(round(low + min(max(share, 0.1), 0.9) * (high - low)), low + 1), high - 1)
    return low, high
