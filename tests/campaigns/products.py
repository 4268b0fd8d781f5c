"""Products of random chains with vectors and blocks, against dense arithmetic in long double."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import papilio as pp

from ..helpers import DTYPES, LAYOUTS
from ..twins import blocks, butterfly, ragged
from .case import Failed, noting

_COUNTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 255, 256, 300)
_FORMS = ("array", "csr", "csc", "coo", "list")


class Dense(NamedTuple):
    """A matrix in long double, and one of magnitudes, by which rounding is measured."""

    matrix: np.ndarray
    magnitudes: np.ndarray
    eps: float = 0.0  # rounding in the factors themselves

    def __matmul__(self, other: "Dense") -> "Dense":
        return Dense(self.matrix @ other.matrix, self.magnitudes @ other.magnitudes, self.eps)

    def adjoint(self) -> "Dense":
        return self._replace(matrix=self.matrix.conj().T, magnitudes=self.magnitudes.T)

    def transpose(self) -> "Dense":
        return self._replace(matrix=self.matrix.T, magnitudes=self.magnitudes.T)


def prepare() -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        op, _ = _operator(rng, dtype, 16)
        for x in (_gaussian(rng, (op.shape[1],), dtype), _gaussian(rng, (op.shape[1], 65), dtype)):
            op @ x


def run(rng: np.random.Generator, folder: str) -> None:
    dtype = DTYPES[rng.integers(len(DTYPES))]
    largest = int(rng.choice([4, 12, 40, 200]))
    op, dense = _operator(rng, dtype, largest)
    for _ in range(int(rng.integers(0, 3))):
        op, dense = _changed(rng, op, dense, dtype)
    count = int(rng.choice(_COUNTS))
    given = DTYPES[rng.integers(len(DTYPES))] if rng.integers(4) == 0 else dtype
    layout = list(LAYOUTS)[rng.integers(len(LAYOUTS))] if count else "row-major"
    with noting(lambda: f"{op!r} times {count} vectors of {np.dtype(given)}, {layout}"):
        _multiply(rng, op, dense, count, given, LAYOUTS[layout])


def _multiply(rng: np.random.Generator, op: Any, dense: Dense, count: int, dtype: Any, layout: Any) -> None:
    X, Z = (_gaussian(rng, (side, count), dtype) for side in reversed(op.shape))
    x, z = layout(X), layout(Z)
    _compare("op @ x", op @ x, op, dense, x)
    _compare("op.T @ x", op.T @ z, op, dense.transpose(), z)
    _compare("op.H @ x", op.H @ z, op, dense.adjoint(), z)
    _compare("x @ op", (z.T @ op).T, op, dense.transpose(), z)
    _compare("op @ sparse", (op @ sp.csc_array(x)).toarray(), op, dense, x)
    if count:
        j = int(rng.integers(count))
        _compare("op @ vector", op @ x[:, j], op, dense, x[:, j])
        _compare("op.H @ vector", op.H @ z[:, j], op, dense.adjoint(), z[:, j])
        batch = np.stack([x, -x])
        _compare("op @ batch", (op @ batch)[1], op, dense, -x)
    _compare("toarray", op.toarray(), op, dense, np.eye(op.shape[1], dtype=op.dtype))


def _compare(what: str, actual: Any, op: Any, dense: Dense, x: np.ndarray) -> None:
    x_wide = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    expected = dense.matrix @ x_wide
    wanted = np.result_type(op.dtype, x.dtype)
    if actual.shape != expected.shape or actual.dtype != wanted:
        raise Failed(f"{what} gives {actual.dtype}{actual.shape} instead of {wanted}{expected.shape}")
    eps = np.finfo(wanted).eps + dense.eps
    tiny = np.finfo(actual.dtype).tiny * sum(op.shape)
    bound = 60 * eps * (dense.magnitudes @ np.abs(x_wide)) + tiny
    error = np.abs(actual - expected)
    if not (error <= bound).all():
        worst = float(np.nanmax(error / bound)) if error.size else 0.0
        raise Failed(f"{what} is wrong by {worst:.3g} times the bound")


# -- chains ----------------------------------------------------------------------------------------------


def _operator(rng: np.random.Generator, dtype: Any, largest: int) -> tuple[pp.SparseProduct, Dense]:
    length = int(rng.integers(1, 6))
    sizes = [int(rng.integers(1, largest + 1)) for _ in range(length + 1)]
    factors: list[np.ndarray] = []
    rows = sizes[0]
    for size in sizes[1:]:
        factors.append(_factor(rng, rows, size, dtype))
        rows = factors[-1].shape[1]
    scale = float(rng.choice([1.0, -0.75, 1e-3, 1e3, 0.0]))
    if rng.integers(6) == 0:  # a power of two moves from a factor into the scale, or the other way
        power = int(rng.choice([-1, 1])) * (np.finfo(dtype).maxexp - 24)
        i = int(rng.integers(length))
        factors[i] = (factors[i] * 2.0**-power).astype(dtype)
        scale *= 2.0**power
    return pp.SparseProduct([_form(rng, factor) for factor in factors], scale), _dense(factors, scale)


def _factor(rng: np.random.Generator, rows: int, columns: int, dtype: Any) -> np.ndarray:
    """``rows`` is kept, ``columns`` only where the kind allows it."""
    return (
        _mask(rng, rows, columns) * _gaussian(rng, (1, 1), dtype)
        if rng.integers(8) == 0
        else ((mask := _mask(rng, rows, columns)) * _gaussian(rng, mask.shape, dtype))
    )


def _mask(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    match int(rng.integers(9)):
        case 0:
            return rng.random((rows, columns)) < rng.random()
        case 1:
            return rng.random((rows, columns)) < 2 / columns
        case 2:
            return blocks(rows, columns, int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 4)))
        case 3 if rows % 2 == 0:
            strides = [2**k for k in range(8) if rows % 2 ** (k + 1) == 0]
            return butterfly(rows, int(rng.choice(strides)))
        case 4:
            return np.eye(rows, dtype=bool)[rng.permutation(rows)]
        case 5:
            divisors = [d for d in range(1, rows + 1) if rows % d == 0]
            d = int(rng.choice(divisors))
            left, right = np.eye(rows // d, dtype=bool), np.ones((d, d), dtype=bool)
            return np.kron(left, right) if rng.integers(2) else np.kron(right, left)
        case 6:
            return ragged(rows, columns)
        case 7:
            mask = np.zeros((rows, columns), dtype=bool)
            if rng.integers(2):
                mask[rng.integers(rows), rng.integers(columns)] = True
            return mask
    return np.ones((rows, columns), dtype=bool)


def _form(rng: np.random.Generator, factor: np.ndarray) -> Any:
    match _FORMS[rng.integers(len(_FORMS))]:
        case "array":
            return factor
        case "list":
            return factor.tolist() if factor.dtype in (np.float64, np.complex128) else np.asfortranarray(factor)
        case form:
            return sp.coo_array(factor).asformat(form)


def _dense(factors: list[np.ndarray], scale: float) -> Dense:
    kind = np.clongdouble if factors[0].dtype.kind == "c" else np.longdouble
    wide = [factor.astype(kind) for factor in factors]
    magnitudes = reduce(np.matmul, [np.abs(factor) for factor in wide])
    return Dense(kind(scale) * reduce(np.matmul, wide), abs(scale) * magnitudes)


def _changed(
    rng: np.random.Generator, op: pp.SparseProduct, dense: Dense, dtype: Any
) -> tuple[pp.SparseProduct, Dense]:
    """Another operator that is made from one, and its matrix."""
    match int(rng.integers(7)):
        case 0:
            return op.T, dense.transpose()
        case 1:
            return op.H, dense.adjoint()
        case 2:
            rows, columns = (rng.integers(-side, side, int(rng.integers(1, side + 1))) for side in op.shape)
            return op[rows, columns], Dense(*(part[np.ix_(rows, columns)] for part in dense[:2]), dense.eps)
        case 3:
            right = _factor(rng, op.shape[1], int(rng.integers(1, 30)), dtype)
            return op @ pp.SparseProduct([right], 2.0), dense @ _dense([right], 2.0)
        case 4:
            return op.optimized(), dense._replace(eps=float(np.finfo(op.dtype).eps))
        case 5:
            op.save("op.npz")
            loaded = pp.load("op.npz")
            if loaded != op:
                raise Failed("what was loaded is not what was saved")
            return loaded, dense
    return -2 * op / 4, Dense(-dense.matrix / 2, dense.magnitudes / 2, dense.eps)


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    parts = rng.standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]).astype(dtype)
