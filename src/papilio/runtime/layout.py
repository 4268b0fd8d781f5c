"""What a state in a checkpoint must hold: names, shapes, dtypes and ranges.

A check takes a name, for its message, and a value as a checkpoint file has it: an array, or a mapping of names to
such values. It raises ``ValueError`` if the value is not as it must be.
"""

from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, TypeAlias

import numpy as np

Check: TypeAlias = Callable[[str, Any], None]


def anything(name: str, value: Any) -> None:
    """Accepts every value."""


def mapping(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """A mapping with these names, and no others."""
    checks = {**required, **(optional or {})}

    def check(name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} must hold {_listed(required)}, got an array")
        missing, unknown = required.keys() - value.keys(), value.keys() - checks.keys()
        if missing or unknown:
            raise ValueError(f"{name} must hold {_listed(required)}, got {_listed(value)}")
        for key, each in value.items():
            checks[key](f"{name}/{key}", each)

    return check


def either(*checks: Check) -> Check:
    """What one of the checks accepts."""

    def check(name: str, value: Any) -> None:
        for each in checks[:-1]:
            try:
                return each(name, value)
            except ValueError:
                continue
        return checks[-1](name, value)

    return check


def array(shape: tuple[int | None, ...], dtypes: Collection[Any]) -> Check:
    """An array of finite numbers, with one of the dtypes; None is any length."""

    def check(name: str, value: Any) -> None:
        _require_array(name, value)
        fits = len(shape) == value.ndim and all(
            wanted in (None, found) for wanted, found in zip(shape, value.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"{name} must have shape {shape}, got {value.shape}")
        if value.dtype not in dtypes:
            raise ValueError(f"{name} must be of {_listed(map(str, dtypes))}, got {value.dtype}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must hold finite numbers only, got NaN or infinity")

    return check


def integer(low: int, high: float = inf) -> Check:
    """An integer from ``low`` to ``high``."""
    return _number("iu", low, high)


def real(low: float, high: float = inf) -> Check:
    """A real number from ``low`` to ``high``; infinity counts as one, NaN does not."""
    return _number("f", low, high)


def text(*choices: str) -> Check:
    """A string: one of ``choices``, if there are any."""

    def check(name: str, value: Any) -> None:
        _require_array(name, value)
        if value.ndim or value.dtype.kind != "U" or (choices and str(value) not in choices):
            raise ValueError(f"{name} must be {_listed(choices) or 'a string'}, got {_short(value)}")

    return check


def _number(kinds: str, low: float, high: float) -> Check:
    def check(name: str, value: Any) -> None:
        _require_array(name, value)
        if value.ndim or value.dtype.kind not in kinds or not low <= value[()] <= high:
            kind = "an integer" if kinds == "iu" else "a number"
            raise ValueError(f"{name} must be {kind} from {low} to {high}, got {_short(value)}")

    return check


def _require_array(name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} must be an array, got {_listed(value) or 'nothing'}")


def _short(value: Any) -> str:
    return f"{value[()]!r:.60}" if value.size == 1 else f"an array of shape {value.shape}"


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
