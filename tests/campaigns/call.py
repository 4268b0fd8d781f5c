"""A public call as the campaigns know it, and what several promise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .case import Failed


def nothing(result: Any, **arguments: Any) -> None:
    """No promise but soundness."""


class Call(NamedTuple):
    """``do(**make(rng))`` works; ``promise(result, **arguments)`` raises `Failed` if a result breaks a promise."""

    make: Callable[[np.random.Generator], dict[str, Any]]
    do: Callable[..., Any]
    promise: Callable[..., None] = nothing
    finite: bool = True  # whether results are
    errors: tuple[type[BaseException], ...] = ()  # that may be raised beside TypeError and ValueError
    by_sklearn: bool = False  # whether scikit-learn checks arguments
    kept: tuple[str, ...] = ()  # arguments that are not replaced


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of something that was accepted as an array; None if it has none of its own."""
    if isinstance(value, np.ndarray) or sp.issparse(value) or hasattr(value, "to_numpy"):
        return tuple(value.shape)
    try:
        return np.shape(value)
    except (ValueError, TypeError):
        return None


def require_shape(actual: tuple[int, ...], expected: tuple[int | None, ...]) -> None:
    """``None`` stands for any length."""
    fits = len(actual) == len(expected) and all(e is None or a == e for a, e in zip(actual, expected, strict=True))
    if not fits:
        raise Failed(f"the shape of a result is {actual} instead of {expected}")


def stopping(after: int = 40) -> Callable[[Any], bool]:
    """A callback that stops a run: an odd ``tol`` and an odd ``max_iter`` would let it go on for ever."""
    calls = 0

    def callback(step: Any) -> bool:
        nonlocal calls
        calls += 1
        return calls > after

    return callback


def gaussian(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Real or complex, in single or double precision."""
    kind = [np.float64, np.float64, np.float32, np.complex128, np.complex64][rng.integers(5)]
    parts = rng.standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if np.dtype(kind).kind == "c" else parts[0]).astype(kind)


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """In single or double precision."""
    return rng.standard_normal(shape).astype([np.float64, np.float32][rng.integers(2)])
