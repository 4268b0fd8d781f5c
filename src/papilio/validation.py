"""Checks of arguments: each error names the argument, what was wrong and what is accepted."""

import operator
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

from .typing import Array, RandomState

_LARGEST = 2**63 - 1
_LONGEST = 2**31 - 1  # rows or columns: what a 32-bit index can name
_MOST_FACTORS = 1000
DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


def working_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """The dtype papilio works in for data of ``dtype``.

    float32, float64, complex64 and complex128 stay as they are; booleans, integers and other floats become
    float64, other complex types complex128.
    """
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype in DTYPES:
        return dtype
    if dtype.kind in "biuf":
        return np.dtype(np.float64)
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    raise TypeError(f"{name} must hold real or complex numbers, got dtype {dtype}")


def as_dtype(name: str, value: Any) -> np.dtype[Any]:
    """``value`` as a dtype."""
    try:
        return np.dtype(value)
    except (TypeError, ValueError, LookupError):  # Structured dtypes, for example.
        raise TypeError(f"{name} must be a NumPy dtype, got {value!r}") from None


def as_array(name: str, value: Any) -> Array:
    """``value`` as a dense array of its own dtype; the one gate for dense arrays."""
    if sp.issparse(value):
        return np.asarray(as_sparse(name, value).toarray())
    require_unmasked(name, value)
    try:
        return np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None


def as_numbers(name: str, value: Any) -> Array:
    """``value`` as a dense array in its working dtype, without a copy if it is one already."""
    array = as_array(name, value)
    with np.errstate(over="ignore"):  # Extended precision may overflow.
        return np.asarray(array, dtype=working_dtype(name, array.dtype))


def require_unmasked(name: str, value: Any) -> None:
    """Refuse masked arrays, also in a list, of which NumPy would take the values behind the mask."""
    members = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(member, np.ma.MaskedArray) for member in members):
        raise TypeError(
            f"{name} must not be a masked array: fill in numbers first, as with {name}.filled(0), or leave out "
            "what is masked"
        )


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
    """``value`` as an integer from ``minimum`` to ``maximum``, by default the largest of 64 bits."""
    accepted = f"an integer of at least {minimum}" + ("" if maximum is None else f" and at most {maximum}")
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {accepted}, got {value!r}") from None
    if maximum is None and number > _LARGEST:
        raise ValueError(f"{name} must be {accepted} and at most {_LARGEST}, got {number}")
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be {accepted}, got {number}")
    return number


def as_factor_count(name: str, value: Any, minimum: int = 2) -> int:
    """``value`` as a number of factors."""
    return as_integer(name, value, minimum, _MOST_FACTORS)


def as_power_of_two(name: str, value: Any) -> tuple[int, int]:
    """``value`` as an integer n = 2^J, and J."""
    number = as_integer(name, value, 1, _LONGEST)
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
    require_unmasked(name, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        raise TypeError(f"{name} must be {accepted}, got {value!r}") from None
    if array.ndim != 0 or array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    with np.errstate(over="ignore"):  # Extended precision may overflow.
        number = float(array)
    if not np.isfinite(number) or not minimum <= number <= maximum:
        raise ValueError(f"{name} must be {accepted}, got {number}")
    return number


def is_scalar(value: Any) -> bool:
    """Whether ``value`` is a number of any kind."""
    return isinstance(value, Number | np.bool_) or (isinstance(value, np.ndarray) and value.ndim == 0)


def is_series(value: Any) -> bool:
    """Whether ``value`` has members to go through, and is neither a text nor sparse: some formats have no rows."""
    is_whole = isinstance(value, str | bytes) or sp.issparse(value)
    return isinstance(value, Iterable) and not is_whole and getattr(value, "ndim", 1) > 0


def as_flag(name: str, value: Any) -> bool:
    """``value`` as True or False, for which 1 and 0 also stand."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def as_float(name: str, number: Any) -> float:
    """A real number of any kind, including large integers and fractions, as a finite float."""
    try:
        return as_real(name, float(number))
    except OverflowError:
        raise ValueError(f"{name} must be a finite real number, got {number!r}") from None


def as_shape(name: str, value: Any) -> tuple[int, int]:
    """``value`` as (rows, columns), both at least 1; one integer n stands for (n, n)."""
    is_sequence = isinstance(value, Sequence) and not isinstance(value, bytes)  # bytes would be integers
    if is_sequence or (isinstance(value, np.ndarray) and value.ndim > 0):
        if len(value) != 2:
            raise ValueError(f"{name} must be (rows, columns) or one integer, got {value!r}")
        rows, columns = (as_integer(f"{name}[{i}]", side, 1, _LONGEST) for i, side in enumerate(value))
        return rows, columns
    side = as_integer(name, value, 1, _LONGEST)
    return side, side


def as_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
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
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if is_integer and 0 <= value < 2**32:
        return np.random.RandomState(value)
    raise ValueError(
        "random_state must be None, an integer from 0 to 4294967295, a numpy.random.RandomState or a "
        f"numpy.random.Generator, got {value!r}"
    )


# -- sparse objects ------------------------------------------------------------------------------------


def as_sparse(name: str, value: Any) -> Any:
    """A SciPy sparse object as a sparse array in its working dtype, after checks of its structure.

    Compiled code, SciPy's and ours, trusts the indices of sparse objects: one out of range ends the process. So
    this is the one gate for them. It gives a csr, csc, bsr, dia or coo array, which may have duplicates, zeros
    and indices in any order, and shares the arrays of ``value`` where these need no conversion.
    """
    dtype = working_dtype(name, value.dtype)
    try:
        return _rebuilt(value, dtype)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{name} must be a valid sparse matrix, got a corrupt {value.format} one: {error}"
        ) from None


def _rebuilt(value: Any, dtype: np.dtype[Any]) -> Any:
    """A sparse object made again of its parts, which SciPy checks, except that indices are integers."""
    if value.format == "dok":
        value = value.tocoo()
    if value.format == "lil":
        counts = [len(columns) for columns in value.rows]
        if len(counts) != value.shape[0] or counts != [len(values) for values in value.data]:
            raise ValueError(f"lists that do not fit its {value.shape[0]} rows")
        columns = list(map(operator.index, chain.from_iterable(value.rows)))
        places = np.repeat(np.arange(len(counts)), counts), np.array(columns, dtype=np.int64)
        return sp.coo_array((np.array(list(chain.from_iterable(value.data)), dtype), places), shape=value.shape)
    data = np.asarray(value.data, dtype=dtype)
    if value.format == "coo":
        coordinates = tuple(map(_integers, value.coords))
        if len(coordinates) != value.ndim:
            raise ValueError(f"{len(coordinates)} coordinates in {value.ndim} dimensions")
        return sp.coo_array((data, coordinates), shape=value.shape)
    if value.format == "dia":
        return sp.dia_array((data, _integers(value.offsets)), shape=value.shape)
    kind = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[value.format]
    indices, pointers = _integers(value.indices), _integers(value.indptr)
    if pointers.size and not 0 <= pointers.min() <= pointers.max() <= indices.size:
        raise ValueError(f"index pointers must be from 0 to {indices.size}")  # SciPy's differences may overflow.
    matrix = kind((data, indices, pointers), shape=value.shape)
    matrix.check_format(full_check=True)
    return matrix


def _integers(values: Any) -> Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"indices of dtype {array.dtype} in {array.ndim} dimensions")
    return array


def memory() -> int:
    """The bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 1 << 34


def require_fits(name: str, n_bytes: int) -> None:
    """Refuse a size called ``name`` whose result, of ``n_bytes``, this machine cannot hold."""
    if n_bytes > memory():
        raise ValueError(
            f"{name} must leave a result that fits into memory, {memory():,} bytes, got one of {n_bytes:,} bytes"
        )
