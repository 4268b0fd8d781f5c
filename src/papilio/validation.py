"""Checks of arguments: each error names the argument, what was wrong and what is accepted."""

import operator
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from .typing import Array, RandomState

DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


def working_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """The dtype papilio works in for data of ``dtype``.

    float32, float64, complex64 and complex128 stay as they are; booleans, integers and other floats become
    float64, other complex types complex128.
    """
    dtype = np.dtype(dtype)
    if dtype in DTYPES:
        return dtype
    if dtype.kind in "biuf":
        return np.dtype(np.float64)
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    raise TypeError(f"{name} must hold real or complex numbers, got dtype {dtype}")


def as_array(name: str, value: Any) -> Array:
    """``value`` as a dense array of its own dtype."""
    try:
        return np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None


def as_numbers(name: str, value: Any) -> Array:
    """``value`` as a dense array in its working dtype, without a copy if it is one already."""
    array = as_array(name, value)
    return np.asarray(array, dtype=working_dtype(name, array.dtype))


def as_matrix(name: str, value: Any, shape: tuple[int, int] | None = None) -> Array:
    """``value`` as a dense, finite, non-empty matrix, of ``shape`` if one is given."""
    array = as_numbers(name, value)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix (2 dimensions), got an array of {array.ndim}")
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    require_finite(name, array)
    return array


def require_finite(name: str, array: Array) -> None:
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only, got NaN or infinity")


def as_integer(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """``value`` as an integer from ``minimum`` to ``maximum``."""
    accepted = f"an integer of at least {minimum}" + ("" if maximum is None else f" and at most {maximum}")
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {accepted}, got {value!r}") from None
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be {accepted}, got {number}")
    return number


def as_power_of_two(name: str, value: Any) -> tuple[int, int]:
    """``value`` as an integer n = 2^J, and J."""
    number = as_integer(name, value, 1)
    if number & (number - 1):
        raise ValueError(f"{name} must be a power of two, got {number}")
    return number, number.bit_length() - 1


def as_real(name: str, value: Any, minimum: float = -np.inf, maximum: float = np.inf) -> float:
    """``value`` as a finite real number from ``minimum`` to ``maximum``."""
    limits = {
        (False, False): "a finite real number",
        (True, False): f"a finite real number of at least {minimum:g}",
        (False, True): f"a finite real number of at most {maximum:g}",
        (True, True): f"a real number from {minimum:g} to {maximum:g}",
    }
    accepted = limits[np.isfinite(minimum), np.isfinite(maximum)]
    array = np.asarray(value)
    if array.ndim != 0 or array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    number = float(array)
    if not np.isfinite(number) or not minimum <= number <= maximum:
        raise ValueError(f"{name} must be {accepted}, got {number}")
    return number


def is_scalar(value: Any) -> bool:
    """Whether ``value`` is a number of any kind."""
    return isinstance(value, Number | np.bool_) or (isinstance(value, np.ndarray) and value.ndim == 0)


def as_float(name: str, number: Any) -> float:
    """A real number of any kind, including large integers and fractions, as a finite float."""
    try:
        return as_real(name, float(number))
    except OverflowError:
        raise ValueError(f"{name} must be a finite real number, got {number!r}") from None


def as_shape(name: str, value: Any) -> tuple[int, int]:
    """``value`` as (rows, columns), both at least 1; one integer n stands for (n, n)."""
    if isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0):
        if len(value) != 2:
            raise ValueError(f"{name} must be (rows, columns) or one integer, got {value!r}")
        return as_integer(f"{name}[0]", value[0], 1), as_integer(f"{name}[1]", value[1], 1)
    side = as_integer(name, value, 1)
    return side, side


def as_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return str(value)


def as_random(value: RandomState) -> np.random.RandomState:
    """``random_state`` as a RandomState, by scikit-learn's rules; a Generator draws the seed of one."""
    if value is None:
        return np.random.mtrand._rand
    if isinstance(value, np.random.RandomState):
        return value
    if isinstance(value, np.random.Generator):
        return np.random.RandomState(value.integers(2**32, dtype=np.uint32))
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < 2**32:
        return np.random.RandomState(value)
    raise ValueError(
        "random_state must be None, an integer from 0 to 4294967295, a numpy.random.RandomState or a "
        f"numpy.random.Generator, got {value!r}"
    )
