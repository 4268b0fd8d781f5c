"""Shared linear algebra: norms that neither overflow nor underflow, and the largest eigenvalue."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .typing import Array

_TINY = 1e-300
_LONG = 8192
_DOUBLE = (np.dtype(np.float64), np.dtype(np.complex128))


def frobenius(array: Array) -> float:
    """The Frobenius norm, in float64, safe against overflow and underflow of the squares."""
    if array.dtype != np.float64:
        array = array.astype(wide(array.dtype), copy=False)
    values = array.ravel(order="K").view(np.float64)
    if values.size > _LONG:  # BLAS would use threads that mostly wait for each other.
        with np.errstate(over="ignore", under="ignore"):
            norm = math.sqrt(np.einsum("i,i", values, values))
    else:
        norm = math.sqrt(np.vdot(values, values))  # Unlike `dot`, it gives no warnings.
    if 1e-100 < norm < 1e100:
        return norm
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    exponent = int(np.frexp(largest)[1])
    with np.errstate(over="ignore"):
        return float(np.ldexp(np.linalg.norm(np.ldexp(values, -exponent)), exponent))


def exact_below(dtype: np.dtype[Any]) -> float:
    """The relative error below which a result is exact up to rounding: ε^¾, 2e-12 in float64, 6e-6 in float32."""
    return float(np.finfo(dtype).eps) ** 0.75


def error_in_words(error: float, dtype: np.dtype[Any] | None = None) -> str:
    """A relative error with three digits; "exact" if it is zero, or no more than rounding in ``dtype``."""
    is_exact = error == 0 if dtype is None else error < exact_below(dtype)
    return "exact" if is_exact else f"{error:.3g}"


def column_norms(array: Array) -> Array:
    """The Euclidean norms of the columns, in float64, safe against overflow and underflow of the squares."""
    with np.errstate(over="ignore", under="ignore"):
        adjoint = array.conj() if array.dtype.kind == "c" else array
        # Short sums lose little in their own precision, and are twice as fast there.
        kind = array.dtype if len(array) <= 1024 else wide(array.dtype)
        squares = np.einsum("ij,ij->j", array, adjoint, dtype=kind).real
    norms = np.sqrt(squares, dtype=np.float64)
    low, high = (1e-15, 1e15) if squares.dtype == np.float32 else (1e-100, 1e100)
    unsafe = ~((norms > low) & (norms < high))
    if unsafe.any():
        values = np.abs(array[:, unsafe]).astype(np.float64)
        largest = values.max(axis=0, initial=0.0)
        with np.errstate(over="ignore"):
            norms[unsafe] = largest * np.linalg.norm(values / np.where(largest > 0, largest, 1), axis=0)
    return norms


def rescaled(array: Array, axis: int | None = None) -> Array:
    """``array``, or its lines along ``axis``, times a power of two if the largest entry is far from one.

    The result is exact apart from underflow, even for complex subnormal numbers, where division would overflow.
    """
    parts = _parts(array)
    largest = np.abs(parts).max(axis=None if axis is None else (axis % array.ndim, -1), keepdims=True)
    if not largest.size or (largest.min() > 1e-15 and largest.max() < 1e15):
        return array
    return np.ldexp(parts, -np.frexp(largest)[1]).view(array.dtype)[..., 0]


# -- units ---------------------------------------------------------------------------------------------


def largest_part(array: Array) -> float:
    """The largest magnitude of a real or imaginary part; finite even where the modulus overflows."""
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    return max(max(float(part.max(initial=0.0)), -float(part.min(initial=0.0))) for part in parts)


def shifted(array: Array, exponent: int) -> Array:
    """``array`` times 2^exponent: exact, unless numbers overflow or underflow."""
    if exponent == 0:
        return array
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(_parts(array), exponent).view(array.dtype)[..., 0]


def in_units(array: Array) -> tuple[Array, int]:
    """``array`` divided by 2^e, with a root mean square near one, and e. Solvers work on such data.

    Solvers start at scale 1, and square what they are given. In units, their results do not depend on the unit of
    the data, and no square overflows.
    """
    largest = int(np.frexp(largest_part(array))[1])
    near = shifted(array, -largest)  # Its largest part is from 1/2 to 1.
    size = frobenius(near)
    if size == 0.0:
        return array, 0
    exponent = largest + round(np.log2(size / np.sqrt(array.size)))
    return shifted(array, -exponent), exponent


def writeable(array: Array) -> Array:
    """``array`` row by row and writeable, copied if need be: kernels are compiled for each layout."""
    return array if array.flags.carray else array.copy("C")


def _parts(array: Array) -> Array:
    """Real and imaginary parts along one more axis."""
    return np.ascontiguousarray(array)[..., None].view(array.real.dtype)


def inner(left: Array, right: Array) -> float:
    """Re⟨left, right⟩ = Re tr(leftᴴ right), summed in float64."""
    if left.dtype != right.dtype or left.dtype not in _DOUBLE:
        kind = wide(np.result_type(left, right))
        left, right = left.astype(kind, copy=False), right.astype(kind, copy=False)
    return float(np.vdot(left, right).real)


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The double precision dtype of the same kind."""
    return np.dtype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)


@lru_cache(maxsize=64)
def probe(size: int, dtype: Any = np.float64) -> Array:
    """A fixed random unit vector: without structure, so that no singular vector is orthogonal to it."""
    vector = np.random.default_rng(size).standard_normal(size)
    return (vector / np.linalg.norm(vector)).astype(dtype)


def largest_eigenvalue(
    apply: Callable[[Array], Array],
    size: int,
    dtype: np.dtype[Any],
    start: Array | None = None,
    tol: float = 1e-7,
    max_iter: int = 1000,
    push: float = 0.1,
) -> tuple[float, Array]:
    """The largest eigenvalue of a positive semidefinite Hermitian operator v ↦ Av, and its eigenvector.

    With vₖ the iterates of the power iteration, normalised, the Rayleigh quotients θₖ = vₖᴴAvₖ rise towards the
    eigenvalue, in the end geometrically: if q is the ratio of successive increments, about q/(1 − q) times the
    last increment is still missing. The iteration stops when both are below ``tol``·θ, but never while the
    increments grow (a better eigenvector is then emerging). The estimate of what is missing is added to θ, so that
    the result tends to be too large rather than too small.

    ``start`` is a guess, such as the eigenvector of a similar operator. ``push`` times a fixed random vector is
    added to it: an eigenvector of a smaller eigenvalue would otherwise be a fixed point.
    """
    vector = probe(size, dtype)
    if start is not None:
        vector = start + vector.real.dtype.type(push) * vector
    length = float(np.linalg.norm(vector))
    rounding = 4 * float(np.finfo(dtype).eps)
    tol = max(tol, rounding)
    estimate, increment, missing = 0.0, np.inf, 0.0
    for iteration in range(max_iter):
        vector = vector / length
        image = apply(vector)
        previous, estimate = estimate, float(np.vdot(vector, image).real)
        length = float(np.linalg.norm(image))
        if estimate <= _TINY:
            return 0.0, vector
        if iteration > 0:
            last, increment = increment, estimate - previous
            if increment <= rounding * estimate:
                return estimate, vector
            ratio = increment / last
            if 0.0 < ratio < 1.0:
                missing = increment * ratio / (1.0 - ratio)
                if max(increment, missing) <= tol * estimate:
                    break
        vector = image
    return estimate + min(missing, tol * estimate), vector
